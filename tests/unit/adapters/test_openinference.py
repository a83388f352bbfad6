import json
from typing import Any

import pytest
from adapter_files import exchanges, head_of, jsonl, skipped, told, traces
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.attributes import unflattened
from harness_adapters.exchange import Status
from harness_adapters.openinference import OpenInference
from harness_adapters.otel_genai import OTelGenAI
from harness_adapters.trace import Outcome

SCHEMA = json.dumps({"type": "function", "function": {"name": "weigh", "parameters": {"type": "object"}}})
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "You weigh parcels."},
    {"role": "user", "content": "How heavy is parcel 12?"},
    {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "weigh", "arguments": '{"parcel": "21"}'}}]},
    {"role": "tool", "content": "no parcel 21", "tool_call_id": "c1"},
]
ANSWER = {"role": "assistant", "content": "It is not here."}
TURNS = [
    ("system", "You weigh parcels."),
    ("human", "How heavy is parcel 12?"),
    ("agent", ""),
    ("tool", "no parcel 21"),
    ("agent", "It is not here."),
]


def flat(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for i, message in enumerate(messages):
        for name, value in message.items():
            if name != "tool_calls":
                found[f"{prefix}.{i}.message.{name}"] = value
        for j, call in enumerate(message.get("tool_calls", [])):
            start = f"{prefix}.{i}.message.tool_calls.{j}.tool_call"
            found |= {f"{start}.id": call["id"]}
            found |= {f"{start}.function.{name}": value for name, value in call["function"].items()}
    return found


def nested(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"message": {**m, **({"tool_calls": [{"tool_call": c} for c in m["tool_calls"]]} if "tool_calls" in m else {})}}
        for m in messages
    ]


def dotted(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in messages:
        item = {f"message.{k}": v for k, v in message.items() if k != "tool_calls"}
        if "tool_calls" in message:
            item["message.tool_calls"] = [
                {"tool_call.id": c["id"], **{f"tool_call.function.{k}": v for k, v in c["function"].items()}}
                for c in message["tool_calls"]
            ]
        found.append(item)
    return found


def row(span_id: str, at: int, kind: str, attributes: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        "name": kind.lower(),
        "span_kind": kind,
        "parent_id": "s0",
        "start_time": f"2025-03-01T10:00:{at:02}Z",
        "status_code": "OK",
        "context": {"trace_id": "t1", "span_id": span_id},
        "attributes": {"openinference.span.kind": kind, **attributes},
        **members,
    }


ROOT = row("s0", 1, "AGENT", {"session.id": "desk-4", "user.id": "u9"}, parent_id=None)
LLM = {"llm.model_name": "m-2", "llm.tools.0.tool.json_schema": SCHEMA}
CALL = row("s1", 2, "LLM", LLM | flat("llm.input_messages", HISTORY[:2]) | flat("llm.output_messages", [HISTORY[2]]))
WHOLE = LLM | flat("llm.input_messages", HISTORY) | flat("llm.output_messages", [ANSWER])
LAST = row("s3", 4, "LLM", WHOLE)
RUN = row("s2", 3, "TOOL", {"tool.name": "weigh", "input.value": '{"parcel": "21"}', "output.value": "no parcel 21"})
RAISED = [{"name": "exception", "attributes": {"exception.type": "KeyError", "exception.message": "21"}}]
FAILED = {**RUN, "status_code": "ERROR", "events": RAISED}


def otlp(found: dict[str, Any]) -> dict[str, Any]:
    ids = {"traceId": "t1", "spanId": found["context"]["span_id"], "parentSpanId": found["parent_id"]}
    attributes = [{"key": k, "value": {"stringValue": v}} for k, v in found["attributes"].items()]
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{**ids, "name": found["name"], "attributes": attributes}]}]}]}


FRAME = {
    "context.trace_id": "t1",
    "context.span_id": "s3",
    "parent_id": None,
    "span_kind": "LLM",
    "attributes.openinference.span.kind": "LLM",
    "attributes.session.id": "desk-4",
    "attributes.llm.input_messages": dotted(HISTORY),
    "attributes.llm.output_messages": dotted([ANSWER]),
    "attributes.llm.tools": [{"tool.json_schema": SCHEMA}],
    "attributes.output.value": None,
}
NESTED = {
    "openinference": {"span": {"kind": "LLM"}},
    "session": {"id": "desk-4"},
    "llm": {
        "input_messages": nested(HISTORY),
        "output_messages": nested([ANSWER]),
        "tools": [{"tool": {"json_schema": SCHEMA}}],
    },
}
VALUES = {
    "session.id": "desk-4",
    "input.value": json.dumps({"messages": HISTORY, "tools": [json.loads(SCHEMA)], "model": "m-2"}),
    "input.mime_type": "application/json",
    "output.value": json.dumps({"choices": [{"index": 0, "message": ANSWER}]}),
    "output.mime_type": "application/json",
}

EXAMPLES: dict[str, bytes] = {
    "flat": jsonl(CALL, FAILED, LAST, ROOT),
    "otlp": jsonl(*map(otlp, (CALL, RUN, LAST, ROOT))),
    "a page": json.dumps({"data": [CALL, RUN, LAST, ROOT], "next_cursor": None}, indent=2).encode(),
    "nested": jsonl({**LAST, "attributes": NESTED}),
    "data frame": jsonl(FRAME),
    "values only": jsonl(row("s3", 4, "LLM", VALUES)),
}
EXAMPLE = EXAMPLES["flat"]


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_shape_gives_the_same_session(shape: str) -> None:
    assert OpenInference().recognises(head_of(EXAMPLES[shape]))
    assert not OTelGenAI().recognises(head_of(EXAMPLES[shape]))
    (trace,) = traces(OpenInference(), EXAMPLES[shape])
    assert (trace.name, told(trace), len(trace.tools)) == ("desk-4", TURNS, 1)
    ((call,), result) = trace.turns[2].tool_calls, trace.turns[3]
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "weigh", {"parcel": "21"})
    assert result.tool_call_id == "c1"


def test_an_agents_run() -> None:
    (trace,) = traces(OpenInference(), EXAMPLE)
    assert [turn.place for turn in trace.turns] == [0, 0, 0, 2, 2]
    assert (trace.user, trace.turns[3].outcome) == ("u9", Outcome.ERROR_AGENT)
    (trace,) = traces(OpenInference(), jsonl(CALL, RUN, LAST, ROOT))
    assert trace.turns[3].outcome is Outcome.UNKNOWN


def test_more_than_ten_messages_keep_their_order() -> None:
    said = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"line {n}"} for n in range(25)]
    attributes = dict(sorted((flat("llm.input_messages", said) | flat("llm.output_messages", [ANSWER])).items()))
    (trace,) = traces(OpenInference(), jsonl(row("s1", 1, "LLM", attributes, parent_id=None)))
    assert [turn.text for turn in trace.turns] == [*(m["content"] for m in said), ANSWER["content"]]


def test_parts_of_a_message() -> None:
    parts = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "What is this?",
        "llm.input_messages.0.message.contents.1.message_content.type": "image",
        "llm.input_messages.0.message.contents.1.message_content.image.image.url": "data:,x",
    }
    (exchange,) = exchanges(OpenInference(), jsonl(row("s1", 1, "LLM", parts | flat("llm.output_messages", [ANSWER]))))
    image = {"type": "image", "image": {"image": {"url": "data:,x"}}}
    assert exchange.request["messages"][0]["content"] == [{"type": "text", "text": "What is this?"}, image]


def test_a_result_that_no_model_call_shows_is_the_tools() -> None:
    (trace,) = traces(OpenInference(), jsonl(CALL, FAILED, ROOT))
    assert told(trace) == TURNS[:4]
    assert (trace.turns[3].place, trace.turns[3].outcome) == (1, Outcome.ERROR_AGENT)
    silent = {**FAILED, "attributes": {"openinference.span.kind": "TOOL", "tool.name": "weigh"}}
    (trace,) = traces(OpenInference(), jsonl(CALL, silent, ROOT))
    assert trace.turns[3].text == "21"


def test_results_that_a_recorder_left_out_of_the_history_are_put_there() -> None:
    calls = [
        {"id": name, "function": {"name": "weigh", "arguments": json.dumps({"parcel": name})}}
        for name in ("c1", "c2", "c3")
    ]
    asked = [*HISTORY[:2], {"role": "assistant", "tool_calls": calls}]
    shown = {"role": "tool", "content": "of c3", "tool_call_id": "c3"}
    runs = [
        row(
            f"r{name}",
            3,
            "TOOL",
            {"tool.name": "weigh", "input.value": json.dumps({"parcel": name}), "output.value": f"of {name}"},
        )
        for name in ("c1", "c2", "c3")
    ]
    first = row("s1", 2, "LLM", LLM | flat("llm.input_messages", HISTORY[:2]) | flat("llm.output_messages", asked[2:]))
    last = row(
        "s3", 4, "LLM", LLM | flat("llm.input_messages", [*asked, shown]) | flat("llm.output_messages", [ANSWER])
    )
    more = {"role": "user", "content": "Look again."}
    again = flat("llm.input_messages", [*asked, shown, ANSWER, more]) | flat("llm.output_messages", [ANSWER])
    (trace,) = traces(OpenInference(), jsonl(first, *runs, last, row("s4", 5, "LLM", LLM | again), ROOT))
    results = [("tool", "of c3"), ("tool", "of c1"), ("tool", "of c2")]
    assert told(trace) == [*TURNS[:3], *results, TURNS[4], ("human", "Look again."), TURNS[4]]


def test_an_agents_own_input_is_told_only_without_model_calls() -> None:
    summary = {"session.id": "desk-4", "input.value": "How heavy is parcel 12?", "output.value": "It is not here."}
    agent = row("s0", 1, "CHAIN", summary, parent_id=None)
    (trace,) = traces(OpenInference(), jsonl(agent))
    assert told(trace) == [TURNS[1], TURNS[4]]
    (trace,) = traces(OpenInference(), jsonl(CALL, RUN, LAST, agent))
    assert told(trace) == TURNS


def test_a_session_named_in_the_metadata() -> None:
    (exchange,) = exchanges(OpenInference(), jsonl(row("s3", 4, "LLM", WHOLE | {"metadata": '{"thread_id": "th-1"}'})))
    assert exchange.session == "th-1"


def test_a_call_that_failed() -> None:
    asked = LLM | flat("llm.input_messages", HISTORY[:2])
    (exchange,) = exchanges(OpenInference(), jsonl(row("s1", 2, "LLM", asked, status_code="ERROR", events=RAISED)))
    assert (exchange.status, exchange.error) == (Status.UPSTREAM_ERROR, "21")


def test_a_span_with_too_many_attributes_is_marked() -> None:
    (exchange,) = exchanges(OpenInference(), jsonl({**LAST, "droppedAttributesCount": 3}))
    assert exchange.request["cut"] is True


def test_what_is_left_out_is_said_once() -> None:
    rows = [
        row("s5", 1, "LLM", {}),
        row("s6", 2, "DANCER", {}),
        row("s7", 2, "DANCER", {}),
        row("s8", 3, "EMBEDDING", {}),
    ]
    assert [item.reason for item in skipped(OpenInference(), jsonl(*rows, {"x": 1}))] == [
        "it holds neither spans nor log records",
        "model calls are recorded without their messages; have them captured to learn from them (1 in this file)",
        "spans of kind 'DANCER' are not known to this version (2 in this file)",
    ]


_leaves = st.text(max_size=3) | st.integers() | st.booleans()
_keys = st.text("abc_", min_size=1, max_size=4)
_trees = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, min_size=1, max_size=12) | st.dictionaries(_keys, inner, min_size=1),
    max_leaves=30,
)


def _flattened(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict | list):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {k: v for key, item in items for k, v in _flattened(item, f"{path}.{key}" if path else str(key)).items()}


@given(st.dictionaries(_keys, _trees, min_size=1), st.randoms())
def test_what_was_flattened_is_rebuilt(tree: dict[str, Any], random: Any) -> None:
    pairs = list(_flattened(tree).items())
    random.shuffle(pairs)
    assert unflattened(dict(pairs)) == tree
