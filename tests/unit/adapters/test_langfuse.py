import json
from typing import Any

import pytest
from adapter_files import exchanges, head_of, jsonl, skipped, told, traces

from harness_adapters.exchange import Status
from harness_adapters.langfuse import Langfuse
from harness_adapters.trace import Outcome

CALL = {"id": "c1", "type": "function", "function": {"name": "page", "arguments": '{"book": "Moby", "page": 999}'}}
TOOL = {"type": "function", "function": {"name": "page", "parameters": {"type": "object"}}}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "You read out of books."},
    {"role": "user", "content": "Read the last page."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "the book has 600 pages", "tool_call_id": "c1"},
]
ANSWER = {"role": "assistant", "content": "It ends at 600."}
TURNS = [
    ("system", "You read out of books."),
    ("human", "Read the last page."),
    ("agent", ""),
    ("tool", "the book has 600 pages"),
    ("agent", "It ends at 600."),
]
ARGUMENTS = {"book": "Moby", "page": 999}


def seen(own: str, kind: str, at: int, asked: Any, said: Any, **members: Any) -> dict[str, Any]:
    return {
        "id": own,
        "traceId": "t1",
        "parentObservationId": None,
        "type": kind,
        "name": "page" if kind in ("TOOL", "SPAN") else "answer",
        "startTime": f"2025-03-01T10:00:{at:02}.000Z",
        "level": "DEFAULT",
        "statusMessage": None,
        "input": asked,
        "output": said,
        **members,
    }


FIRST = seen("g1", "GENERATION", 1, {"messages": HISTORY[:2], "tools": [TOOL]}, HISTORY[2], model="m-4")
RUN = seen("x1", "TOOL", 2, ARGUMENTS, None, level="ERROR", statusMessage="the book has 600 pages")
LAST = seen("g2", "GENERATION", 3, {"messages": HISTORY, "tools": [TOOL]}, ANSWER, model="m-4")
TRACE = {
    "id": "t1",
    "timestamp": "2025-03-01T10:00:00.000Z",
    "name": "reader",
    "input": None,
    "output": None,
    "sessionId": "shelf-2",
    "userId": "u5",
    "metadata": {},
    "tags": [],
    "scores": [{"name": "user-feedback", "value": 0, "comment": "wrong"}],
}


def snake(value: dict[str, Any]) -> dict[str, Any]:
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): item for name, item in value.items()}


def as_text(value: dict[str, Any]) -> dict[str, Any]:
    return {k: json.dumps(v) if k in ("input", "output", "metadata") and v is not None else v for k, v in value.items()}


OBSERVATIONS = [FIRST, RUN, LAST]
OBSERVED = {"observations": OBSERVATIONS}
CALLBACK = seen(
    "g2", "GENERATION", 3, [*HISTORY, {"role": "tool", "content": TOOL}], ANSWER, sessionId="shelf-2", userId="u5"
)

EXAMPLES: dict[str, bytes] = {
    "traces": jsonl(TRACE | OBSERVED),
    "a document": json.dumps(TRACE | OBSERVED, indent=2).encode(),
    "a page": json.dumps({"data": [TRACE | OBSERVED], "meta": {"page": 1}}, indent=2).encode(),
    "trace and observations": json.dumps({"trace": TRACE, "observations": [LAST, RUN, FIRST]}).encode(),
    "apart": jsonl(LAST, FIRST, RUN, TRACE),
    "snake case": jsonl(snake(TRACE) | {"observations": [snake(o) for o in OBSERVATIONS]}),
    "text": jsonl(*(as_text(snake(o)) for o in OBSERVATIONS), as_text(snake(TRACE))),
    "spans": jsonl(TRACE | {"observations": [FIRST, {**RUN, "type": "SPAN"}, LAST]}),
    "tools among the messages": jsonl(CALLBACK),
}
EXAMPLE = EXAMPLES["traces"]


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_shape_gives_the_same_session(shape: str) -> None:
    assert Langfuse().recognises(head_of(EXAMPLES[shape]))
    (trace,) = traces(Langfuse(), EXAMPLES[shape])
    assert (trace.name, trace.user, told(trace)) == ("shelf-2", "u5", TURNS)
    (call,) = trace.turns[2].tool_calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "page", ARGUMENTS)
    if shape == "tools among the messages":
        assert trace.tools == (TOOL,)
    else:
        assert trace.turns[3].outcome is Outcome.ERROR_AGENT


def test_places_count_observations() -> None:
    (trace,) = traces(Langfuse(), jsonl(TRACE | {"observations": [LAST, RUN, FIRST]}))
    assert [turn.place for turn in trace.turns] == [2, 2, 2, 0, 0]
    first, last = exchanges(Langfuse(), EXAMPLE)
    assert (first.model, first.place, last.place) == ("m-4", 0, 2)
    assert last.response is not None
    assert last.response["id"] == "g2"


def test_a_result_that_no_generation_shows_is_the_tools() -> None:
    for result in (None, "", {}):
        run = {**RUN, "output": result}
        (trace,) = traces(Langfuse(), jsonl(TRACE | {"observations": [FIRST, run]}))
        assert told(trace) == TURNS[:4]
        assert (trace.turns[3].outcome, trace.turns[3].place) == (Outcome.ERROR_AGENT, 1)
    done = seen("x1", "SPAN", 2, ARGUMENTS, {"text": "The end."})
    (trace,) = traces(Langfuse(), jsonl(TRACE | {"observations": [FIRST, done]}))
    assert (trace.turns[3].text, trace.turns[3].outcome) == ('{"text": "The end."}', Outcome.OK)


def test_a_traces_own_input_is_told_only_without_generations() -> None:
    asked = TRACE | {"input": {"messages": HISTORY[:2]}, "output": "It ends at 600."}
    (trace,) = traces(Langfuse(), jsonl(asked))
    assert told(trace) == [TURNS[0], TURNS[1], TURNS[4]]
    (trace,) = traces(Langfuse(), jsonl(asked | OBSERVED))
    assert told(trace) == TURNS


def test_a_session_of_several_traces() -> None:
    more = [*HISTORY, ANSWER, {"role": "user", "content": "Then read that."}]
    asked = {"messages": more, "tools": [TOOL]}
    later = seen("g3", "GENERATION", 20, asked, {"role": "assistant", "content": "No."}, traceId="t2")
    (trace,) = traces(Langfuse(), jsonl(TRACE | OBSERVED, {**TRACE, "id": "t2", "observations": [later]}))
    assert told(trace) == [*TURNS, ("human", "Then read that."), ("agent", "No.")]
    assert trace.turns[3].outcome is Outcome.ERROR_AGENT


def test_an_observation_told_again_with_its_end_is_one() -> None:
    begun = {**LAST, "output": None, "endTime": None}
    (exchange,) = exchanges(Langfuse(), jsonl(begun, LAST))
    assert (exchange.place, exchange.status, exchange.session) == (0, Status.OK, "t1")


def test_a_generation_that_failed() -> None:
    failed = {**FIRST, "output": None, "level": "ERROR", "statusMessage": "over capacity"}
    (exchange,) = exchanges(Langfuse(), jsonl(failed))
    assert (exchange.status, exchange.error) == (Status.UPSTREAM_ERROR, "over capacity")


def test_an_input_that_was_cut_off_is_marked() -> None:
    cut = {**LAST, "input": json.dumps(HISTORY)[:-30]}
    (exchange,) = exchanges(Langfuse(), jsonl(cut))
    assert exchange.request["cut"] is True
    assert exchange.request["messages"][:3] == HISTORY[:3]


def test_what_is_left_out_is_said_once() -> None:
    odd = [seen(f"o{n}", "DANCE", n, 1, 2) for n in range(2)]
    known = [seen("e", "EVENT", 4, 1, 2), seen("s", "SPAN", 4, {"a": 1}, "b", name="prepare")]
    empty = seen("g", "GENERATION", 5, None, None)
    assert [item.reason for item in skipped(Langfuse(), jsonl(*odd, *known, empty, {"x": 1}))] == [
        "it is neither a trace nor an observation",
        "observations of type 'DANCE' are not known to this version (2 in this file)",
        "generations are recorded without their messages (1 in this file)",
    ]


def test_other_files_are_not_recognised() -> None:
    for odd in (
        b"",
        b"[1]",
        b'{"type": "SPAN"}\n',
        b'{"id": "t", "name": "n", "input": 1}\n',
        b'{"data": [3], "meta": {}}\n',
    ):
        assert not Langfuse().recognises(head_of(odd))
