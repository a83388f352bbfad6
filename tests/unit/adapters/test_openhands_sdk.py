import json
from typing import Any

from adapter_files import source_of

from harness_adapters.adapter import Skipped
from harness_adapters.openhands import OpenHands
from harness_adapters.trace import Author, Outcome, Trace

Event = dict[str, Any]


def sdk(kind: str, event_id: str, source: str = "agent", **more: Any) -> Event:
    return {"kind": kind, "id": event_id, "timestamp": "2031-01-01", "source": source, **more}


def acted(event_id: str, response: str, call_id: str, thought: str = "", **arguments: Any) -> Event:
    return sdk(
        "ActionEvent",
        event_id,
        thought=[{"type": "text", "text": thought}] if thought else [],
        reasoning_content="I think." if thought else None,
        action={"kind": "TerminalAction", **arguments},
        tool_name="terminal",
        tool_call_id=call_id,
        tool_call={"id": call_id, "name": "terminal", "arguments": json.dumps(arguments), "origin": "completion"},
        llm_response_id=response,
    )


def observed(event_id: str, call_id: str, said: str, **more: Any) -> Event:
    content = [{"type": "text", "text": said}]
    return sdk(
        "ObservationEvent",
        event_id,
        "environment",
        tool_name="terminal",
        tool_call_id=call_id,
        observation={"kind": "TerminalObservation", "content": content, "is_error": False, **more},
    )


def spoken(event_id: str, source: str, said: str, **more: Any) -> Event:
    role = "assistant" if source == "agent" else "user"
    return sdk(
        "MessageEvent",
        event_id,
        source,
        llm_message={"role": role, "content": [{"type": "text", "text": said}]},
        **more,
    )


RESULT = observed("e7", "c2", "no match", exit_code=1)
V1: list[Event] = [
    sdk(
        "SystemPromptEvent",
        "e1",
        system_prompt={"type": "text", "text": "You are an agent."},
        tools=[{"kind": "TerminalTool", "name": "terminal", "description": "Runs."}],
    ),
    spoken("e2", "user", "Fix a.py.", extended_content=[{"type": "text", "text": "Use tabs."}]),
    sdk("ConversationStateUpdateEvent", "e3", "environment", key="x", value=1),
    acted("e4", "r1", "c1", "I look.", command="ls"),
    acted("e5", "r1", "c2", command="grep x a.py"),
    observed("e6", "c1", "a.py", exit_code=0),
    RESULT,
    {**RESULT, "id": "e8"},
    acted("e9", "r2", "c3", "I wipe.", command="rm -r x"),
    sdk("UserRejectObservation", "e10", "environment", tool_name="t", tool_call_id="c3", rejection_reason="Not x."),
    acted("e11", "r3", "c4", "I err.", command=3),
    sdk("AgentErrorEvent", "e12", tool_name="terminal", tool_call_id="c4", error="`command` is not a text"),
    spoken("e13", "agent", "Done."),
]
EXAMPLES = {
    "list": json.dumps(V1).encode(),
    "lines": b"\n".join(json.dumps(event).encode() for event in V1),
    "output": json.dumps({"instance_id": "issue-7", "history": V1}).encode(),
}
EXAMPLE = EXAMPLES["list"]


def read(value: object, name: str = "run.json") -> list[Trace | Skipped]:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return list(OpenHands().read(source_of(body, name)))


def only(value: object) -> Trace:
    (trace,) = read(value)
    assert isinstance(trace, Trace)
    return trace


def told(trace: Trace) -> list[tuple[int | None, Author, str]]:
    return [(turn.place, turn.author, turn.text) for turn in trace.turns]


def test_events_of_the_sdk() -> None:
    for body in EXAMPLES.values():
        trace = only(body)
        assert told(trace) == [
            (0, Author.SYSTEM, "You are an agent."),
            (1, Author.HUMAN, "Fix a.py."),
            (1, Author.CLIENT, "Use tabs."),
            (3, Author.AGENT, "I look."),
            (5, Author.TOOL, "a.py"),
            (6, Author.TOOL, "no match"),
            (8, Author.AGENT, "I wipe."),
            (9, Author.TOOL, "Not x."),
            (10, Author.AGENT, "I err."),
            (11, Author.TOOL, "`command` is not a text"),
            (12, Author.AGENT, "Done."),
        ]
        assert [turn.outcome for turn in trace.turns if turn.author is Author.TOOL] == [
            Outcome.OK,
            Outcome.OK_EMPTY,
            Outcome.REJECTED_BY_HUMAN,
            Outcome.ERROR_AGENT,
        ]
        assert trace.complete


def test_actions_of_one_answer_are_one_turn() -> None:
    trace = only(V1)
    agent = trace.turns[3]
    assert [(c.id, c.name, c.place) for c in agent.tool_calls] == [("c1", "terminal", 3), ("c2", "terminal", 4)]
    assert agent.message["reasoning_content"] == "I think."
    assert trace.turns[7].message["content"] == "Action rejected: Not x."


def test_what_a_hook_refused_no_person_did() -> None:
    hook = {**V1[9], "rejection_source": "hook"}
    assert only([V1[8], hook]).turns[-1].outcome is Outcome.ERROR_AGENT


def test_unknown_kinds_are_told_once() -> None:
    strange = [sdk("MindReadingEvent", f"m{i}") for i in range(3)]
    skipped, trace = read([*V1[:2], *strange, *V1[2:]])
    assert isinstance(skipped, Skipped)
    assert "MindReadingEvent" in skipped.reason
    assert isinstance(trace, Trace)
    assert len(trace.turns) == 11


def test_condensations_of_the_sdk() -> None:
    trace = only([*V1[:2], sdk("Condensation", "e20", "environment", forgotten_event_ids=["e2"], summary="So far.")])
    assert not trace.complete
    assert told(trace)[-1] == (2, Author.CLIENT, "So far.")


def test_a_conversations_error_is_no_tools() -> None:
    turn = only([V1[1], sdk("ConversationErrorEvent", "e20", "environment", code="LLMError", detail="no key")]).turns[
        -1
    ]
    assert (turn.author, turn.text, turn.shown) == (Author.CLIENT, "LLMError: no key", False)
