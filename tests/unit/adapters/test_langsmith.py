import json
from typing import Any

import pytest
from adapter_files import exchanges, head_of, jsonl, skipped, told, traces

from harness_adapters.exchange import Status
from harness_adapters.langsmith import LangSmith
from harness_adapters.trace import Outcome

CALL = {"name": "book", "args": {"room": "B"}, "id": "c1", "type": "tool_call"}
RAW_CALL = {"id": "c1", "type": "function", "function": {"name": "book", "arguments": '{"room": "B"}'}}
TOOL = {"type": "function", "function": {"name": "book", "parameters": {"type": "object"}}}
TURNS = [
    ("system", "You book rooms."),
    ("human", "Room A at nine."),
    ("agent", ""),
    ("tool", "room B is taken"),
    ("agent", "It is taken."),
]


def run(run_id: str, kind: str, at: int, inputs: Any, outputs: Any, **members: Any) -> dict[str, Any]:
    is_root = run_id == "root"
    times = {"start_time": f"2025-03-01T09:00:{at:02}.000000", "end_time": f"2025-03-01T09:00:{at + 1:02}.000000"}
    ids = {"id": run_id, "trace_id": "root", "parent_run_id": None if is_root else "root", "session_id": "project-1"}
    return {
        **ids,
        "run_type": kind,
        "name": "ChatModel" if kind == "llm" else "book",
        **times,
        "inputs": inputs,
        "outputs": outputs,
        "error": None,
        "child_runs": None,
        "feedback_stats": {"helpful": {"n": 1, "avg": 0.0}},
        **members,
    }


def lc(name: str, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": kwargs}


SERIALISED = [
    lc("SystemMessage", content="You book rooms.", type="system"),
    lc("HumanMessage", content="Room A at nine.", type="human"),
    lc("AIMessage", content="", tool_calls=[CALL], additional_kwargs={"tool_calls": [RAW_CALL]}, type="ai"),
    lc("ToolMessage", content="room B is taken", tool_call_id="c1", status="error", type="tool"),
]
ANSWER = lc("AIMessageChunk", content="It is taken.", type="AIMessageChunk")
TYPED = [
    {"type": "system", "content": "You book rooms."},
    {"type": "human", "content": "Room A at nine."},
    {"type": "ai", "content": [{"type": "tool_use", "id": "c1", "name": "book", "input": {}}], "tool_calls": [CALL]},
    {"type": "tool", "content": "room B is taken", "tool_call_id": "c1", "status": "error"},
]
PLAIN = [
    {"role": "system", "content": "You book rooms."},
    {"role": "user", "content": "Room A at nine."},
    {"role": "assistant", "content": None, "tool_calls": [RAW_CALL]},
    {"role": "tool", "content": "room B is taken", "tool_call_id": "c1"},
]
DATA = [{"type": m["type"], "data": {k: v for k, v in m.items() if k != "type"}} for m in TYPED]

THREAD = {"extra": {"metadata": {"thread_id": "thread-5", "user_id": "u3"}}}
ROOT = run(
    "root",
    "chain",
    1,
    {"messages": TYPED[1:2]},
    {"messages": [*TYPED[1:], {"type": "ai", "content": "It is taken."}]},
    **THREAD,
)
FIRST = run("r1", "llm", 2, {"messages": [SERIALISED[:2]]}, {"generations": [[{"text": "", "message": SERIALISED[2]}]]})
ASKED_WITH = {"invocation_params": {"tools": [TOOL], "model": "m-3"}, "metadata": {"thread_id": "elsewhere"}}
FIRST["extra"] = ASKED_WITH
RUN = run("r2", "tool", 3, {"input": "{'room': 'B'}"}, None, error="RoomError('room B is taken')")
LAST = run("r3", "llm", 4, {"messages": [SERIALISED]}, {"generations": [[{"text": "It is taken.", "message": ANSWER}]]})
LAST["extra"] = ASKED_WITH


def only(messages: Any, answer: Any) -> bytes:
    return jsonl(run("root", "llm", 1, {"messages": messages}, answer, **THREAD))


EXAMPLES: dict[str, bytes] = {
    "runs": jsonl(FIRST, RUN, LAST, ROOT),
    "a list": json.dumps([ROOT, FIRST, RUN, LAST]).encode(),
    "a page": json.dumps({"runs": [LAST, RUN, FIRST, ROOT], "cursors": {}}, indent=1).encode(),
    "one in another": jsonl({**ROOT, "child_runs": [FIRST, RUN, LAST]}),
    "dotted order": jsonl(
        *(
            {k: v for k, v in r.items() if k not in ("trace_id", "parent_run_id", "start_time")}
            | {
                "dotted_order": "20250301T090000000000Zroot"
                + ("" if r is ROOT else f".20250301T09000{n}000000Z{r['id']}")
            }
            for n, r in enumerate((ROOT, FIRST, RUN, LAST))
        )
    ),
    "typed": only([TYPED], {"generations": [[{"message": {"type": "ai", "content": "It is taken."}}]]}),
    "data": only(DATA, {"messages": [{"type": "ai", "data": {"content": "It is taken."}}]}),
    "plain": only(PLAIN, {"choices": [{"index": 0, "message": {"role": "assistant", "content": "It is taken."}}]}),
    "plain answer": only(PLAIN, {"role": "assistant", "content": "It is taken."}),
    "as text": only(PLAIN, None).replace(b'"outputs": null', b'"outputs": "{\\"output\\": \\"It is taken.\\"}"'),
    "told twice": jsonl(
        {**LAST, "outputs": None, "end_time": None, "id": "root", "parent_run_id": None, **THREAD},
        {"id": "root", "trace_id": "root", "outputs": LAST["outputs"], "end_time": "2025-03-01T09:00:05"},
    ),
}
EXAMPLE = EXAMPLES["runs"]


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_shape_gives_the_same_session(shape: str) -> None:
    assert LangSmith().recognises(head_of(EXAMPLES[shape]))
    (trace,) = traces(LangSmith(), EXAMPLES[shape])
    assert (trace.name, trace.user, told(trace)) == ("thread-5", "u3", TURNS)
    ((call,), result) = trace.turns[2].tool_calls, trace.turns[3]
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "book", {"room": "B"})
    assert result.tool_call_id == "c1"
    if shape not in ("plain", "plain answer", "as text"):  # these have no flag
        assert result.outcome is Outcome.ERROR_AGENT


def test_places_count_runs() -> None:
    (trace,) = traces(LangSmith(), EXAMPLES["one in another"])
    assert [turn.place for turn in trace.turns] == [1, 1, 1, 3, 3]
    (trace,) = traces(LangSmith(), EXAMPLES["a page"])
    assert [turn.place for turn in trace.turns] == [2, 2, 2, 0, 0]


def test_the_model_and_its_tools() -> None:
    first, last = exchanges(LangSmith(), EXAMPLE)
    assert (first.model, first.request["tools"]) == ("m-3", [TOOL])
    assert first.response is not None
    assert (first.response["id"], last.session) == ("r1", "thread-5")


def test_without_a_thread_a_trace_is_a_session_and_a_project_is_none() -> None:
    one = run("root", "llm", 1, {"messages": PLAIN[:2]}, {"role": "assistant", "content": "Yes."})
    other = {**one, "id": "b", "trace_id": "b"}
    assert [e.session for e in exchanges(LangSmith(), jsonl(one, other))] == ["root", "b"]


def test_a_failed_tool_whose_result_no_model_call_shows() -> None:
    (trace,) = traces(LangSmith(), jsonl(ROOT, FIRST, RUN))
    assert told(trace) == [*TURNS[:3], ("tool", "RoomError('room B is taken')")]
    assert (trace.turns[3].outcome, trace.turns[3].place) == (Outcome.ERROR_AGENT, 2)
    done = run("r2", "tool", 3, CALL, {"output": lc("ToolMessage", content="booked", tool_call_id="c1", type="tool")})
    (trace,) = traces(LangSmith(), jsonl(ROOT, FIRST, done))
    assert trace.turns[3].text == "booked"


def test_a_graphs_state_is_told_where_there_are_no_model_calls() -> None:
    (trace,) = traces(LangSmith(), jsonl(ROOT))
    assert told(trace) == TURNS[1:]
    assert trace.turns[2].outcome is Outcome.ERROR_AGENT


def test_a_completion_of_a_text() -> None:
    body = jsonl(
        run("root", "llm", 1, {"prompts": ["Say ho."]}, {"generations": [[{"text": "ho", "type": "Generation"}]]})
    )
    (trace,) = traces(LangSmith(), body)
    assert told(trace) == [("human", "Say ho."), ("agent", "ho")]


def test_a_call_that_failed() -> None:
    (exchange,) = exchanges(
        LangSmith(), jsonl(run("root", "llm", 1, {"messages": PLAIN[:2]}, None, error="over capacity"))
    )
    assert (exchange.status, exchange.error) == (Status.UPSTREAM_ERROR, "over capacity")


def test_what_is_left_out_is_said_once() -> None:
    odd = [run(f"o{n}", "dance", n, {}, {}) for n in range(2)]
    known = [run("p", "parser", 1, {}, {}), run("q", "retriever", 1, {"query": "x"}, {"documents": []})]
    lost = [{**RUN, "id": "r9", "name": "other"}, run("e", "llm", 3, {}, None)]
    assert [item.reason for item in skipped(LangSmith(), jsonl(*odd, *known, *lost, {"x": 1}, b"{"))] == [
        "it is not a run",
        "it is not JSON, or was cut off: Expecting property name enclosed in double quotes at character 1",
        "runs of type 'dance' are not known to this version (2 in this file)",
        "model calls are recorded without their messages (1 in this file)",
        "tools ran for calls that no model call in their session shows (1 in this file)",
    ]


def test_other_files_are_not_recognised() -> None:
    for odd in (b"", b"[1]", b'{"run_type": "llm"}\n', b'{"run_type": "dance", "trace_id": "x"}\n', b'{"runs": [3]}\n'):
        assert not LangSmith().recognises(head_of(odd))
