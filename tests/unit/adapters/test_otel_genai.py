import json
from typing import Any

import pytest
from adapter_files import head_of, items, jsonl, skipped, told, traces

from harness_adapters.exchange import Exchange
from harness_adapters.otel_genai import OTelGenAI
from harness_adapters.trace import Author, Outcome, Trace

ASKED = {"role": "user", "parts": [{"type": "text", "content": "Which tide comes first in Vardo?"}]}
CALLED = {
    "role": "assistant",
    "parts": [
        {"type": "reasoning", "content": "Look it up."},
        {"type": "tool_call", "id": "c1", "name": "tide", "arguments": {"port": "Vard"}},
    ],
    "finish_reason": "tool_call",
}
FAILED = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "there is no such port"}]}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "High water, at six."}], "finish_reason": "stop"}
SYSTEM = [{"type": "text", "content": "You know tides."}]
TOOLS = [{"type": "function", "name": "tide", "description": "Tells tides.", "parameters": {"type": "object"}}]


def values(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    def value(item: Any) -> dict[str, Any]:
        if isinstance(item, bool):
            return {"boolValue": item}
        if isinstance(item, int):
            return {"intValue": str(item)}
        if isinstance(item, list):
            return {"arrayValue": {"values": [value(i) for i in item]}}
        if isinstance(item, dict):
            return {"kvlistValue": {"values": values(item)}}
        return {"stringValue": item}

    return [{"key": key, "value": value(item)} for key, item in attributes.items()]


def span(span_id: str, at: int | None, attributes: dict[str, Any], **members: Any) -> dict[str, Any]:
    times = (
        {}
        if at is None
        else {"startTimeUnixNano": f"17000000{at:02}000000000", "endTimeUnixNano": "1700000099000000000"}
    )
    return {"traceId": "t1", "spanId": span_id, "name": "a span", **times, "attributes": values(attributes), **members}


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    scopes = [{"scope": {"name": "tests"}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": values({"service.name": "tides"})}, "scopeSpans": scopes}]}


def chat(span_id: str, at: int | None, asked: Any, said: Any, **members: Any) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": f"r-{span_id}",
        "gen_ai.system_instructions": json.dumps(SYSTEM),
        "gen_ai.tool.definitions": json.dumps(TOOLS),
        "gen_ai.input.messages": asked,
        "gen_ai.output.messages": said,
    }
    return span(span_id, at, attributes, **{"name": "chat m-1", "parentSpanId": "root", **members})


def tool(span_id: str, at: int | None, call_id: str | None, **attributes: Any) -> dict[str, Any]:
    known = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "tide"}
    ids = {"gen_ai.tool.call.id": call_id} if call_id else {}
    status = {"status": {"code": 2, "message": "it failed"}} if "error.type" in attributes else {}
    return span(span_id, at, known | ids | attributes, name="execute_tool tide", parentSpanId="root", **status)


ROOT = span("root", 1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "talk-1", "user.id": "u7"})
FIRST = chat("01", 10, json.dumps([ASKED]), json.dumps([CALLED]))
RUN = tool("02", 20, "c1", **{"error.type": "LookupError", "gen_ai.tool.call.result": "there is no such port"})
SECOND = chat("03", 30, json.dumps([ASKED, CALLED, FAILED]), json.dumps([SAID]))
TURNS = [
    ("system", "You know tides."),
    ("human", "Which tide comes first in Vardo?"),
    ("agent", ""),
    ("tool", "there is no such port"),
    ("agent", "High water, at six."),
]
EVENT_NAME = "gen_ai.client.inference.operation.details"


def log(span_id: str | None, name: str, attributes: dict[str, Any], body: Any = None) -> dict[str, Any]:
    ids = {"traceId": "t1", "spanId": span_id} if span_id else {}
    record = {"timeUnixNano": "1700000010000000000", "eventName": name, "attributes": values(attributes), **ids}
    return record | ({} if body is None else {"body": {"kvlistValue": {"values": values(body)}}})


def logs(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


def old_events() -> list[tuple[str, dict[str, Any]]]:
    call = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": '{"port": "Vard"}'}}
    return [
        ("gen_ai.system.message", {"content": "You know tides."}),
        ("gen_ai.user.message", {"content": "Which tide comes first in Vardo?"}),
        ("gen_ai.assistant.message", {"tool_calls": [call]}),
        ("gen_ai.tool.message", {"id": "c1", "content": "there is no such port"}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"content": "High water, at six."}}),
    ]


def flat_events() -> list[dict[str, Any]]:
    """Old events of a span, in whose attributes what is nested stands as JSON."""
    told = [
        (name, {k: v if isinstance(v, str) else json.dumps(v) for k, v in body.items()}) for name, body in old_events()
    ]
    return [{"name": name, "timeUnixNano": "1700000010000000000", "attributes": values(a)} for name, a in told]


TALK = {"gen_ai.conversation.id": "talk-1"}
DETAILS = {
    **TALK,
    "gen_ai.operation.name": "chat",
    "gen_ai.system_instructions": SYSTEM,
    "gen_ai.input.messages": [ASKED, CALLED, FAILED],
    "gen_ai.output.messages": [SAID],
}
TRACELOOP = {
    "llm.request.type": "chat",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "You know tides.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": "Which tide comes first in Vardo?",
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "c1",
    "gen_ai.prompt.2.tool_calls.0.name": "tide",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"port": "Vard"}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.content": "there is no such port",
    "gen_ai.prompt.3.tool_call_id": "c1",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "High water, at six.",
    "gen_ai.completion.0.finish_reason": "stop",
    "llm.request.functions.0.name": "tide",
    "llm.request.functions.0.parameters": '{"type": "object"}',
    "traceloop.association.properties.thread_id": "talk-1",
}
GOOGLE = {
    "gen_ai.system": "gcp.vertex.agent",
    "gcp.vertex.agent.session_id": "talk-1",
    "gcp.vertex.agent.llm_request": json.dumps(
        {
            "model": "m-1",
            "config": {"system_instruction": "You know tides.", "tools": [{"function_declarations": [TOOLS[0]]}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Which tide comes first in Vardo?"}]},
                {"role": "model", "parts": [{"function_call": {"name": "tide", "args": {"port": "Vard"}}}]},
                {
                    "role": "user",
                    "parts": [{"function_response": {"name": "tide", "response": "there is no such port"}}],
                },
            ],
        }
    ),
    "gcp.vertex.agent.llm_response": json.dumps(
        {"content": {"role": "model", "parts": [{"text": "High water, at six."}]}, "finish_reason": "STOP"}
    ),
}
VERCEL = {
    "ai.operationId": "ai.generateText.doGenerate",
    "gen_ai.request.model": "m-1",
    "ai.prompt.messages": json.dumps(
        [
            {"role": "system", "content": "You know tides."},
            {"role": "user", "content": [{"type": "text", "text": "Which tide comes first in Vardo?"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "tide", "input": {"port": "Vard"}}],
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "c1",
                        "toolName": "tide",
                        "output": {"type": "error-text", "value": "there is no such port"},
                    }
                ],
            },
        ]
    ),
    "ai.response.text": "High water, at six.",
    "session.id": "talk-1",
}
STRANDS = [
    ("gen_ai.system.message", {"content": "You know tides."}),
    ("gen_ai.user.message", {"content": '[{"text": "Which tide comes first in Vardo?"}]'}),
    (
        "gen_ai.assistant.message",
        {"content": '[{"toolUse": {"toolUseId": "c1", "name": "tide", "input": {"port": "Vard"}}}]'},
    ),
    (
        "gen_ai.tool.message",
        {
            "content": json.dumps(
                [{"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "there is no such port"}]}}]
            )
        },
    ),
    ("gen_ai.choice", {"message": '[{"text": "High water, at six."}]', "finish_reason": "end_turn"}),
]
STRANDS_EVENTS = [{"name": name, "attributes": values(attributes)} for name, attributes in STRANDS]
SDK = {
    "name": "chat m-1",
    "context": {"trace_id": "0x0a", "span_id": "0x0b", "trace_state": "[]"},
    "kind": "SpanKind.CLIENT",
    "parent_id": None,
    "start_time": "2025-03-01T10:00:00.123456Z",
    "end_time": "2025-03-01T10:00:01.123456Z",
    "status": {"status_code": "UNSET"},
    "attributes": DETAILS | {k: json.dumps(v) for k, v in DETAILS.items() if "messages" in k},
    "events": [],
    "links": [],
    "resource": {"attributes": {"service.name": "tides"}, "schema_url": ""},
}

EXAMPLES: dict[str, bytes] = {
    "agent": jsonl(request(FIRST), request(RUN, SECOND), request(ROOT)),
    "one document": json.dumps(request(FIRST, RUN, SECOND, ROOT), indent=1).encode(),
    "structured": jsonl(request(chat("03", 30, [ASKED, CALLED, FAILED], [SAID]), ROOT)),
    "details event": jsonl(logs(log("03", EVENT_NAME, DETAILS))),
    "details event with its span": jsonl(
        request(span("03", 9, {"gen_ai.operation.name": "chat"})), logs(log("03", EVENT_NAME, TALK, DETAILS))
    ),
    "old logged events": jsonl(logs(*(log("03", name, {"session.id": "talk-1"}, body) for name, body in old_events()))),
    "old span events": jsonl(request(span("03", 9, {"session.id": "talk-1"}, events=flat_events()))),
    "events with parts as text": jsonl(
        request(span("03", 9, {"gen_ai.operation.name": "chat", "session.id": "talk-1"}, events=STRANDS_EVENTS))
    ),
    "numbered attributes": jsonl(request(span("03", 9, TRACELOOP))),
    "google": jsonl(request(span("03", 9, GOOGLE))),
    "vercel": jsonl(request(span("03", 9, VERCEL))),
    "sdk": json.dumps(SDK, indent=4).encode() + b"\n",
    "snake case": jsonl({"resource_spans": [{"scope_spans": [{"spans": [{**SDK, "trace_id": "t1"}]}]}]}),
    "rows": jsonl(
        {
            "context.trace_id": "t1",
            "context.span_id": "3",
            "parent_id": None,
            "start_time": 1700000000123,
            "status_code": "OK",
            **{f"attributes.{name}": value for name, value in DETAILS.items()},
        }
    ),
}
EXAMPLE = EXAMPLES["agent"]


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_shape_gives_the_same_session(shape: str) -> None:
    assert OTelGenAI().recognises(head_of(EXAMPLES[shape]))
    (trace,) = traces(OTelGenAI(), EXAMPLES[shape])
    assert (trace.name, told(trace)) == ("talk-1", TURNS)
    ((call,), result) = trace.turns[2].tool_calls, trace.turns[3]
    assert (call.name, json.loads(call.arguments)) == ("tide", {"port": "Vard"})
    assert result.tool_call_id == call.id != ""


def test_an_agents_run() -> None:
    (trace,) = traces(OTelGenAI(), EXAMPLE)
    assert (trace.user, trace.complete, len(trace.tools)) == ("u7", True, 1)
    assert [turn.place for turn in trace.turns] == [0, 0, 0, 2, 2]
    assert trace.turns[2].message["reasoning_content"] == "Look it up."
    assert (trace.turns[3].outcome, trace.turns[4].response_id) == (Outcome.ERROR_AGENT, "r-03")


def test_what_is_left_out_is_said_once() -> None:
    bare = [span(str(n), n, {"gen_ai.operation.name": "chat"}) for n in range(3)]
    odd = [span(str(n + 5), n, {"gen_ai.operation.name": "dream"}) for n in range(2)]
    known = [span("8", 1, {"gen_ai.operation.name": "embeddings"}), span("9", 1, {"http.method": "GET"})]
    loose_run = tool("10", 4, "c9", **{"gen_ai.tool.call.result": "1"})
    found = skipped(OTelGenAI(), jsonl(request(*bare, *odd, *known, loose_run), {"resourceMetrics": []}, {"x": 1}))
    assert [(item.line, item.reason) for item in found] == [
        (3, "it holds neither spans nor log records"),
        (1, "model calls are recorded without their messages; have them captured to learn from them (3 in this file)"),
        (1, "operations of type 'dream' are not known to this version (2 in this file)"),
        (1, "tools ran for calls that no model call in their session shows (1 in this file)"),
    ]


def test_events_without_spans_are_split_at_their_choices() -> None:
    first = [("gen_ai.user.message", {"content": "hi"}), ("gen_ai.choice", {"message": {"content": "ho"}})]
    second = [first[0], ("gen_ai.assistant.message", {"content": "ho"}), ("gen_ai.user.message", {"content": "hm"})]
    records = [log(None, name, {}, body) for name, body in [*first, *second, first[1]]]
    body = jsonl(logs(*({**r, "timeUnixNano": f"17000000{n:02}000000000"} for n, r in enumerate(records))))
    (trace,) = traces(OTelGenAI(), body)
    assert told(trace) == [("human", "hi"), ("agent", "ho"), ("human", "hm"), ("agent", "ho")]


CODE = [
    {"event.name": "user_prompt", "prompt": "Tidy the lockers."},
    {"event.name": "tool_decision", "tool_name": "Bash", "tool_use_id": "k1", "decision": "accept", "source": "config"},
    {"event.name": "tool_result", "tool_name": "Bash", "tool_use_id": "k1", "success": "false", "error": "exit 2"},
    {
        "event.name": "tool_decision",
        "tool_name": "Edit",
        "tool_use_id": "k2",
        "decision": "reject",
        "source": "user_reject",
    },
    {"event.name": "tool_result", "tool_name": "Edit", "tool_use_id": "k2", "success": "false"},
    {"event.name": "api_error", "error": "overloaded"},
    {"event.name": "user_prompt", "prompt": "<REDACTED>", "prompt_length": "4"},
]


def test_claude_codes_events() -> None:
    records = [
        {
            "timeUnixNano": f"170000000{n}000000000",
            "body": {"stringValue": f"claude_code.{event['event.name']}"},
            "attributes": values({"session.id": "code-1", "event.sequence": n, **event}),
        }
        for n, event in enumerate(CODE)
    ]
    body = jsonl(logs(*records[:3]), logs(*records[3:]))
    assert OTelGenAI().recognises(head_of(body))
    trace, note = items(OTelGenAI(), body)
    assert isinstance(trace, Trace)
    assert (trace.name, trace.complete) == ("code-1", False)
    assert [(t.author, t.place, t.outcome) for t in trace.turns] == [
        (Author.HUMAN, 0, None),
        (Author.AGENT, 2, None),
        (Author.TOOL, 2, Outcome.ERROR_AGENT),
        (Author.AGENT, 3, None),
        (Author.TOOL, 3, Outcome.REJECTED_BY_HUMAN),
    ]
    assert not isinstance(note, Trace | Exchange)
    assert note.reason.startswith("prompts are not told")


def test_other_spans_are_not_recognised() -> None:
    for attributes in ({"http.method": "GET"}, {"openinference.span.kind": "LLM", "gen_ai.system": "x"}):
        assert not OTelGenAI().recognises(head_of(jsonl(request(span("1", 1, attributes)))))
    for odd in (
        b"",
        b"[]",
        b"3\n",
        b'{"resourceSpans": 4}\n',
        b'{"attributes": {"gen_ai.x": 1}}\n',
        b'{"messages": []}\n',
    ):
        assert not OTelGenAI().recognises(head_of(odd))
