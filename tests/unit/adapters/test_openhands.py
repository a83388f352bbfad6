import json
from pathlib import Path
from typing import Any

import pytest
from adapter_files import head_of, source_of
from test_openhands_sdk import EXAMPLES as SDK_EXAMPLES
from test_openhands_sdk import only, read, told

from harness_adapters.adapter import Skipped
from harness_adapters.openhands import OpenHands
from harness_adapters.source import need, open_sources
from harness_adapters.trace import Author, Outcome, Trace

Event = dict[str, Any]


def call(call_id: str, name: str, **arguments: Any) -> Event:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def called(response: str, call_id: str, said: str, *calls: Event) -> Event:
    message = {"role": "assistant", "content": said, "tool_calls": list(calls), "function_call": None}
    answer = {"id": response, "choices": [{"index": 0, "message": message}]}
    return {
        "function_name": "x",
        "tool_call_id": call_id,
        "model_response": answer,
        "total_calls_in_response": len(calls),
    }


def action(number: int, kind: str, source: str = "agent", about: Event | None = None, **args: Any) -> Event:
    event = {
        "id": number,
        "timestamp": "2031-01-01",
        "source": source,
        "message": "As shown.",
        "action": kind,
        "args": args,
    }
    return {**event, "tool_call_metadata": about} if about else event


def observation(
    number: int, kind: str, cause: int | None, content: str, about: Event | None = None, **extras: Any
) -> Event:
    event = {"id": number, "timestamp": "2031-01-01", "source": "agent", "message": "I did it.", "observation": kind}
    event |= {"content": content, "extras": extras} | ({"cause": cause} if cause is not None else {})
    return {**event, "tool_call_metadata": about} if about else event


PARALLEL = (call("c1", "execute_bash", command="ls"), call("c2", "execute_bash", command="grep x a.py"))
FIRST, SECOND = called("r1", "c1", "I look.", *PARALLEL), called("r1", "c2", "I look.", *PARALLEL)
EDIT = called("r2", "c3", "I edit.", call("c3", "str_replace_editor", path="a.py"))
V0: list[Event] = [
    action(
        0, "system", content="You are an agent.", tools=[{"type": "function", "function": {"name": "execute_bash"}}]
    ),
    action(1, "message", "user", content="Fix a.py.", image_urls=None),
    action(2, "recall", "user", query="Fix a.py.", recall_type="workspace_context"),
    observation(3, "recall", 2, "Added workspace context", repo_instructions="Use tabs.", microagent_knowledge=[]),
    observation(4, "agent_state_changed", None, "", agent_state="running"),
    action(6, "run", about=FIRST, command="ls", thought="I look."),
    observation(7, "run", 6, "a.py", FIRST, metadata={"exit_code": 0, "prefix": "", "suffix": "\n[exit 0]"}),
    action(8, "run", about=SECOND, command="grep x a.py", thought=""),
    observation(9, "run", 8, "", SECOND, metadata={"exit_code": 1}),
    action(12, "edit", about=EDIT, path="a.py", thought="I edit."),
    observation(13, "edit", 12, "ERROR:\nNo replacement was performed.", EDIT, path="a.py"),
    observation(14, "error", None, "The call could not be read."),
    action(15, "message", content="What do you want?", wait_for_response=True),
    action(
        16, "message", "user", content="Please continue working on the task on whatever approach you think is suitable."
    ),
    action(17, "run", "user", command="pwd"),
    observation(18, "run", 17, "/work", metadata={"exit_code": 0}),
    action(
        19,
        "finish",
        about=called("r3", "c4", "Done.", call("c4", "finish", message="All is well.")),
        final_thought="Done.",
    ),
]


LINE: Event = {
    "instance_id": "issue-7",
    "instruction": "Fix a.py.",
    "metadata": {"agent_class": "CodeActAgent", "max_iterations": 9},
    "history": V0,
    "test_result": {},
}
EXAMPLES = {
    "v0": json.dumps(V0).encode(),
    "v0_output": json.dumps(LINE).encode(),
    **{f"sdk_{name}": body for name, body in SDK_EXAMPLES.items()},
}
EXAMPLE = EXAMPLES["v0"]


V0_TOLD = [
    (0, Author.SYSTEM, "You are an agent."),
    (1, Author.HUMAN, "Fix a.py."),
    (3, Author.CLIENT, "Added workspace context\nUse tabs."),
    (5, Author.AGENT, "I look."),
    (6, Author.TOOL, "a.py"),
    (8, Author.TOOL, ""),
    (9, Author.AGENT, "I edit."),
    (10, Author.TOOL, "ERROR:\nNo replacement was performed."),
    (11, Author.FRAMEWORK, "The call could not be read."),
    (12, Author.AGENT, "What do you want?"),
    (13, Author.FRAMEWORK, "Please continue working on the task on whatever approach you think is suitable."),
    (14, Author.CLIENT, "pwd"),
    (15, Author.CLIENT, "/work"),
    (16, Author.AGENT, "Done."),
]


@pytest.mark.parametrize("body", EXAMPLES.values(), ids=list(EXAMPLES))
def test_every_shape_is_recognised(body: bytes) -> None:
    assert OpenHands().recognises(head_of(body))


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {"action": "run", "observation": "x", "response": "y"},
        {
            "trajectory": [{"action": "ls", "observation": "x", "thought": "y"}],
            "history": [{"role": "user", "content": "x"}],
        },
        {"action": "opened", "args": {}},
        {"kind": "ActionEvent"},
        {"kind": "pod", "metadata": {}},
        {"messages": [], "history": []},
    ],
)
def test_other_json_is_not_recognised(odd: object) -> None:
    assert not OpenHands().recognises(head_of(json.dumps(odd).encode()))


def test_events_of_version_0() -> None:
    trace = only(V0)
    assert told(trace) == V0_TOLD
    outcomes = [turn.outcome for turn in trace.turns if turn.author is Author.TOOL]
    assert outcomes == [Outcome.OK, Outcome.OK_EMPTY, Outcome.ERROR_AGENT]
    assert trace.turns[4].message["content"] == "a.py\n[exit 0]"
    assert len(trace.tools) == 1


def test_a_response_with_several_calls_is_one_turn() -> None:
    agent = only(V0).turns[3]
    assert [(c.id, c.place) for c in agent.tool_calls] == [("c1", 5), ("c2", 7)]
    assert agent.response_id == "r1"
    assert [turn.tool_call_id for turn in only(V0).turns[4:6]] == ["c1", "c2"]


def test_an_evaluations_output_has_a_session_a_line() -> None:
    body = b"\n".join(json.dumps({**LINE, "instance_id": name}).encode() for name in ("one", "two"))
    first, second = read(body, "output.jsonl")
    assert isinstance(first, Trace)
    assert isinstance(second, Trace)
    assert (first.name, second.name) == ("one", "two")
    assert told(first) == told(second) == V0_TOLD


def test_pairs_without_ids_or_sources() -> None:
    bare = ("action", "args", "observation", "content", "extras", "message")
    run, result = V0[5], observation(0, "run", None, "a.py", metadata={"exit_code": 2})
    nothing = {"observation": "null", "content": "", "extras": {}}
    events = [[V0[1], nothing], [run, result], [V0[12], nothing], [V0[13], nothing]]
    pairs = [[{name: event[name] for name in bare if name in event} for event in pair] for pair in events]
    trace = only({**LINE, "history": pairs})
    assert told(trace) == [
        (0, Author.HUMAN, "Fix a.py."),
        (1, Author.AGENT, "I look."),
        (1, Author.TOOL, "a.py"),
        (2, Author.AGENT, "What do you want?"),
        (3, Author.FRAMEWORK, V0_TOLD[10][2]),
    ]
    made = trace.turns[1].tool_calls[0]
    assert (made.name, json.loads(made.arguments)) == ("run", {"command": "ls"})
    assert (trace.turns[2].tool_call_id, trace.turns[2].outcome) == (made.id, Outcome.ERROR_AGENT)


def test_a_history_of_messages() -> None:
    history = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    assert told(only({**LINE, "history": history})) == [(0, Author.HUMAN, "Hi."), (1, Author.AGENT, "Hello.")]


def test_what_a_person_refused() -> None:
    events = [*V0[:6], observation(7, "user_rejected", 6, "Not now.", FIRST)]
    assert only(events).turns[-1].outcome is Outcome.REJECTED_BY_HUMAN


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (observation(7, "run", 6, "...", metadata={"exit_code": -1}), Outcome.STILL_RUNNING),
        (observation(7, "run", 6, "", exit_code=2), Outcome.ERROR_AGENT),
        (observation(7, "error", 6, "Timed out."), Outcome.ERROR_ENV),
        (observation(7, "browse", 6, "a page", error=True), Outcome.ERROR_AGENT),
        (observation(7, "read", 6, "no errors"), Outcome.UNKNOWN),
        ({**observation(7, "mcp", 6, "x"), "success": False}, Outcome.ERROR_AGENT),
    ],
)
def test_a_result_is_judged(result: Event, outcome: Outcome) -> None:
    turn = only([*V0[:6], result]).turns[-1]
    assert (turn.outcome, turn.tool_call_id) == (outcome, "c1")


def test_a_delegates_events_are_a_session_of_their_own() -> None:
    events = [
        V0[1],
        action(2, "delegate", agent="BrowsingAgent", inputs={"task": "Look it up."}),
        action(3, "message", "user", content="TASK: Look it up."),
        action(4, "browse_interactive", browser_actions="goto('x')"),
        observation(5, "browse", 4, "a page"),
        action(6, "finish", outputs={"content": "It is so."}),
        observation(7, "delegate", 2, "It is so."),
        V0[12],
    ]
    main, delegate = read(events)
    assert isinstance(main, Trace)
    assert isinstance(delegate, Trace)
    assert [turn.place for turn in main.turns] == [0, 1, 6, 7]
    assert [turn.place for turn in delegate.turns] == [2, 3, 4, 5]
    assert (delegate.name, delegate.root, main.root) == ("run/delegate-1", main.id, main.id)
    assert main.turns[2].tool_call_id == main.turns[1].tool_calls[0].id


def test_condensation_leaves_a_session_incomplete() -> None:
    trace = only([*V0[:2], action(5, "condensation", "agent", forgotten_event_ids=[1], summary="So far: nothing.")])
    assert not trace.complete
    assert told(trace)[-1] == (2, Author.CLIENT, "So far: nothing.")


def test_an_event_that_is_there_twice_is_told_once() -> None:
    assert told(only([event for event in V0 for _ in range(2)]))[1][2] == "Fix a.py."
    assert [said for _, _, said in told(only([event for event in V0 for _ in range(2)]))] == [
        said for _, _, said in V0_TOLD
    ]


def test_an_event_a_file(tmp_path: Path) -> None:
    for event in V0[:5]:
        (tmp_path / f"{event['id']}.json").write_text(json.dumps(event))
    items: list[Trace | Skipped] = []
    for source in map(need, open_sources([str(tmp_path)])):
        assert OpenHands().recognises(source.head)
        items += OpenHands().read(source)
    assert [told(item)[0][2] for item in items if isinstance(item, Trace)] == [
        V0_TOLD[0][2],
        V0_TOLD[1][2],
        V0_TOLD[2][2],
    ]
    assert len(items) == 3


def test_an_object_that_holds_a_trajectory() -> None:
    assert told(only({"trajectory": V0})) == V0_TOLD


def test_what_is_no_event_is_skipped() -> None:
    items = read([V0[1], {"x": 1}, 3, V0[12]])
    assert [isinstance(item, Skipped) for item in items] == [True, True, False]
    items = read({**LINE, "history": [V0[1], None, {"x": 1}]})
    assert [isinstance(item, Skipped) for item in items] == [True, True, False]


def test_an_output_without_history_holds_no_session() -> None:
    for history in (None, [], "x"):
        line = {**LINE, "history": history}
        assert OpenHands().recognises(head_of(json.dumps(line).encode()))
        assert read(line) == []


def test_events_cut_off_keep_what_was_written() -> None:
    body = EXAMPLE[: EXAMPLE.index(b"No replacement")]
    skipped, trace = read(body)
    assert isinstance(skipped, Skipped)
    assert isinstance(trace, Trace)
    assert not trace.complete
    assert trace.turns[-1].place == 9


def test_a_broken_line_leaves_a_session_incomplete() -> None:
    body = b"\n".join([json.dumps(V0[1]).encode(), b'{"id": 2, "act', json.dumps(V0[13]).encode()])
    skipped, trace = OpenHands().read(source_of(body))
    assert isinstance(skipped, Skipped)
    assert isinstance(trace, Trace)
    assert not trace.complete


def test_an_event_of_no_known_kind_is_kept_as_it_stands() -> None:
    (skipped, _) = read({**LINE, "history": [V0[1], {"hologram": 1}]})
    assert isinstance(skipped, Skipped)
    assert json.loads(skipped.raw) == {"hologram": 1}
