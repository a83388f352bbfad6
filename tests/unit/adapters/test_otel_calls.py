import json

from adapter_files import exchanges, items, jsonl, told, traces
from test_otel_genai import ASKED, CALLED, FAILED, FIRST, ROOT, RUN, SAID, SECOND, TURNS, chat, request, span, tool

from harness_adapters.exchange import Status
from harness_adapters.otel_genai import OTelGenAI
from harness_adapters.trace import Outcome


def test_a_result_that_no_model_call_shows_is_the_tools() -> None:
    run = tool("02", 20, "c1", **{"gen_ai.tool.call.result": "Low water."})
    (trace,) = traces(OTelGenAI(), jsonl(request(FIRST, run, ROOT)))
    assert told(trace) == [*TURNS[:3], ("tool", "Low water.")]
    assert trace.turns[3].place == 1
    failed = tool("02", 20, "c1", **{"error.type": "LookupError"})
    (trace,) = traces(OTelGenAI(), jsonl(request(FIRST, failed, ROOT)))
    assert (trace.turns[3].text, trace.turns[3].outcome) == ("it failed", Outcome.ERROR_AGENT)


def test_a_tool_that_returned_its_error_is_judged_by_its_text() -> None:
    run = tool("02", 20, "c1", **{"gen_ai.tool.call.result": "Error: no such port"})
    (trace,) = traces(OTelGenAI(), jsonl(request(FIRST, run, ROOT)))
    assert trace.turns[3].outcome is Outcome.ERROR_AGENT


def test_the_spans_of_an_mcp_call_and_its_tool_are_one_call() -> None:
    client = span("04", 21, {"mcp.method.name": "tools/call", "gen_ai.tool.name": "tide", "error.type": "tool_error"})
    run = tool("02", 20, "c1", **{"gen_ai.tool.call.result": "there is no such port"})
    found = items(OTelGenAI(), jsonl(request(FIRST, run, {**client, "parentSpanId": "02"}, SECOND, ROOT)))
    assert len(found) == 2
    (trace,) = traces(OTelGenAI(), jsonl(request(FIRST, run, {**client, "parentSpanId": "02"}, SECOND, ROOT)))
    assert [turn.outcome for turn in trace.turns if turn.outcome] == [Outcome.ERROR_AGENT]


def test_a_tool_without_a_calls_id_is_found_by_its_name_and_arguments() -> None:
    twice = {
        "role": "assistant",
        "parts": [
            {"type": "tool_call", "id": "c1", "name": "tide", "arguments": {"port": "A"}},
            {"type": "tool_call", "id": "c2", "name": "tide", "arguments": {"port": "B"}},
        ],
    }
    runs = [
        tool("02", 20, None, **{"gen_ai.tool.call.arguments": '{"port":"B"}', "gen_ai.tool.call.result": "of B"}),
        tool("03", 21, None, **{"gen_ai.tool.call.arguments": '{"port":"A"}', "gen_ai.tool.call.result": "of A"}),
    ]
    (trace,) = traces(OTelGenAI(), jsonl(request(chat("01", 10, [ASKED], [twice]), *runs, ROOT)))
    assert [(turn.tool_call_id, turn.text) for turn in trace.turns[3:]] == [("c2", "of B"), ("c1", "of A")]


def test_a_call_recorded_by_the_framework_and_by_the_client_is_one() -> None:
    inner = chat("05", 11, json.dumps([ASKED]), json.dumps([CALLED]), parentSpanId="01")
    inner["attributes"] = [a for a in inner["attributes"] if "definitions" not in a["key"]]
    assert len(exchanges(OTelGenAI(), jsonl(request(inner, FIRST, ROOT)))) == 1


def test_an_agents_summary_is_told_only_without_its_model_calls() -> None:
    messages = {"gen_ai.input.messages": json.dumps([ASKED]), "gen_ai.output.messages": json.dumps([SAID])}
    agent = span("root", 1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "talk-1", **messages})
    (trace,) = traces(OTelGenAI(), jsonl(request(agent)))
    assert told(trace) == [TURNS[1], TURNS[4]]
    (trace,) = traces(OTelGenAI(), jsonl(request(FIRST, RUN, SECOND, agent)))
    assert told(trace) == TURNS


def test_messages_that_were_cut_off_are_read_and_marked() -> None:
    whole = json.dumps([ASKED, CALLED, FAILED])
    for length in (len(whole) - 2, len(whole) - 40, 140):
        (exchange,) = exchanges(OTelGenAI(), jsonl(request(chat("03", 30, whole[:length], json.dumps([SAID])))))
        assert exchange.request["cut"] is True
        assert exchange.request["messages"][1] == {"role": "user", "content": "Which tide comes first in Vardo?"}
    (exchange,) = exchanges(OTelGenAI(), jsonl(request(SECOND)))
    assert "cut" not in exchange.request


def test_a_call_that_failed() -> None:
    failed = chat("01", 10, json.dumps([ASKED]), "", status={"code": "STATUS_CODE_ERROR", "message": "over capacity"})
    (exchange,) = exchanges(OTelGenAI(), jsonl(request(failed)))
    assert (exchange.status, exchange.error, exchange.response) == (Status.UPSTREAM_ERROR, "over capacity", None)


def test_sessions_are_named_by_the_nearest_span_that_names_one() -> None:
    other = span("r2", 1, {"gen_ai.operation.name": "invoke_agent", "session.id": "talk-2"}, traceId="t2")
    second = chat("21", 5, json.dumps([ASKED]), json.dumps([SAID]), traceId="t2", parentSpanId="r2")
    nameless = chat("31", 5, json.dumps([ASKED]), json.dumps([SAID]), traceId="t3")
    found = exchanges(OTelGenAI(), jsonl(request(FIRST, second, ROOT, other, nameless)))
    assert [(e.session, e.user) for e in found] == [("talk-1", "u7"), ("talk-2", None), ("t3", None)]


def test_turns_of_one_conversation_in_several_traces() -> None:
    more = {"role": "user", "parts": [{"type": "text", "content": "And then?"}]}
    later = chat(
        "41", 50, json.dumps([ASKED, CALLED, FAILED, SAID, more]), json.dumps([SAID]), traceId="t9", parentSpanId="r9"
    )
    root = span("r9", 49, {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "talk-1"}, traceId="t9")
    (trace,) = traces(OTelGenAI(), jsonl(request(FIRST, RUN, SECOND, ROOT), request(later, root)))
    assert told(trace) == [*TURNS, ("human", "And then?"), TURNS[4]]
    assert trace.turns[3].outcome is Outcome.ERROR_AGENT


def test_a_trace_goes_on_from_another_where_no_session_is_named() -> None:
    more = {"role": "user", "parts": [{"type": "text", "content": "And then?"}]}
    later = chat("41", 50, json.dumps([ASKED, CALLED, FAILED, SAID, more]), json.dumps([SAID]), traceId="t9")
    other = chat("51", 60, json.dumps([ASKED]), json.dumps([CALLED]), traceId="t10")
    trace, apart = traces(OTelGenAI(), jsonl(request(FIRST, RUN, SECOND), request(later), request(other)))
    assert (trace.name, told(trace)) == ("t1", [*TURNS, ("human", "And then?"), TURNS[4]])
    assert trace.turns[3].outcome is Outcome.ERROR_AGENT
    assert (apart.name, told(apart)) == ("t10", TURNS[:3])


def test_spans_in_any_order_make_the_same_session() -> None:
    orders = ([SECOND, RUN, FIRST, ROOT], [ROOT, RUN, SECOND, FIRST], [SECOND, ROOT, FIRST, RUN])
    for order in orders:
        (trace,) = traces(OTelGenAI(), jsonl(*map(request, order)))
        assert told(trace) == TURNS
        assert trace.turns[3].outcome is Outcome.ERROR_AGENT


def test_times_that_are_missing_or_wrong_lose_nothing() -> None:
    for at in (None, 1, 99):
        late = chat("03", at, json.dumps([ASKED, CALLED, FAILED]), json.dumps([SAID]))
        (trace,) = traces(OTelGenAI(), jsonl(*map(request, [late, RUN, FIRST, ROOT])))
        assert told(trace) == TURNS


def test_a_span_exported_twice_is_told_once() -> None:
    found = exchanges(OTelGenAI(), jsonl(request(FIRST), request(FIRST, SECOND), request(SECOND, ROOT)))
    assert [exchange.place for exchange in found] == [0, 2]
    assert len({exchange.id for exchange in found}) == 2
