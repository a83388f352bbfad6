import json
from typing import Any

import pytest
from adapter_files import RECORDINGS, exchanges, head_of, items, jsonl, skipped, told, traces

from harness_adapters.adapter import Skipped
from harness_adapters.anthropic_blocks import chat_messages, message_of
from harness_adapters.anthropic_messages import AnthropicMessages
from harness_adapters.exchange import Exchange, Status
from harness_adapters.trace import Author, Outcome

ADAPTER = AnthropicMessages()
FOLDER = RECORDINGS / "anthropic_messages"
needs_recordings = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the recordings are not at {FOLDER}")

ASK = {"role": "user", "content": "When does the ferry to Juist leave?"}
CALL: dict[str, Any] = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "timetable",
    "input": {"island": "Juist", "day": "today"},
}
TURN: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "I look it up."}, CALL]}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "10:30"}]}
TOOLS = [{"name": "timetable", "description": "Ferries.", "input_schema": {"type": "object"}}]


def request(*messages: Any, **members: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 100, "messages": list(messages), **members}


def message(*blocks: dict[str, Any], **members: Any) -> dict[str, Any]:
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "stop_reason": "end_turn"}
    return {**about, "content": list(blocks), "usage": {"input_tokens": 9, "output_tokens": 4}, **members}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def sse(*events: dict[str, Any]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


FIRST = {"request": request(ASK, tools=TOOLS), "response": message(*TURN["content"], stop_reason="tool_use")}
SECOND = {
    "request": request(ASK, TURN, {"role": "user", "content": [RESULT, text("And hurry.")]}, tools=TOOLS),
    "response": message(text("At half past ten."), id="msg_2"),
}
STREAM = sse(
    {"type": "message_start", "message": message(stop_reason=None, usage={"input_tokens": 9, "output_tokens": 1})},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Ferries."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "ping"},
    {"type": "content_block_start", "index": 1, "content_block": text("")},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I look "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "it up."}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {**CALL, "input": {}}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"island":"Ju'}},
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": 'ist","day":"today"}'},
    },
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30}},
    {"type": "message_stop"},
)
EXAMPLE = jsonl(FIRST, SECOND)
EXAMPLES = {"calls": EXAMPLE, "streams": jsonl({"request": FIRST["request"], "response_sse": STREAM}, SECOND)}


@pytest.mark.parametrize("body", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_session_is_found_and_its_results_stand_before_what_the_user_says_with_them(body: bytes) -> None:
    (trace,) = traces(ADAPTER, body)
    assert told(trace) == [
        ("human", "When does the ferry to Juist leave?"),
        ("agent", "I look it up."),
        ("tool", "10:30"),
        ("human", "And hurry."),
        ("agent", "At half past ten."),
    ]
    assert [turn.place for turn in trace.turns] == [0, 0, 1, 1, 1]
    assert [call.name for turn in trace.turns for call in turn.tool_calls] == ["timetable"]
    assert json.loads(trace.turns[1].tool_calls[0].arguments) == CALL["input"]
    assert trace.turns[2].tool_call_id == "toolu_1"
    assert [turn.exchange_id is not None for turn in trace.turns] == [False, True, False, False, True]
    assert trace.tools[0]["function"]["name"] == "timetable"


def test_system_text_and_other_members_of_a_request_are_kept() -> None:
    blocks = [{**text("Be brief."), "cache_control": {"type": "ephemeral"}}, text("Be kind.")]
    (exchange,) = exchanges(ADAPTER, jsonl(request(ASK, system=blocks, tool_choice={"type": "any"})))
    assert exchange.request["messages"][0] == {"role": "system", "content": [text("Be brief."), text("Be kind.")]}
    assert (exchange.request["max_tokens"], exchange.request["tool_choice"]) == (100, "required")
    assert exchange.status is Status.ABANDONED


def test_each_of_several_results_in_one_message_is_kept_with_its_flag() -> None:
    second = {**CALL, "id": "toolu_2"}
    results = [{**RESULT, "is_error": False}, {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True}]
    results[1]["content"] = "no such island"
    calls = {"role": "assistant", "content": [CALL, second]}
    (trace,) = traces(ADAPTER, jsonl(request(ASK, calls, {"role": "user", "content": results})))
    assert [(turn.tool_call_id, turn.outcome) for turn in trace.turns if turn.author is Author.TOOL] == [
        ("toolu_1", Outcome.OK),
        ("toolu_2", Outcome.ERROR_AGENT),
    ]


def test_thinking_is_not_content_and_signed_blocks_are_kept() -> None:
    thinking = {"type": "thinking", "thinking": "It is winter.", "signature": "c2ln"}
    hidden = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
    (said,) = chat_messages([{"role": "assistant", "content": [thinking, hidden, text("Closed.")]}])
    assert said == {
        "role": "assistant",
        "content": "Closed.",
        "reasoning_content": "It is winter.",
        "thinking_blocks": [thinking, hidden],
    }


def test_texts_that_citations_set_apart_go_on_and_texts_round_a_call_do_not() -> None:
    (cited,) = chat_messages([{"role": "assistant", "content": [text("It leaves "), text("at ten"), text(".")]}])
    assert cited["content"] == "It leaves at ten."
    (apart,) = chat_messages([{"role": "assistant", "content": [text("First."), CALL, text("Then.")]}])
    assert apart["content"] == "First.\n\nThen."


SERVER = [
    text("I search."),
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "ferry"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "title": "Ferries", "url": "https://f", "encrypted_content": "eHh4"}],
    },
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "tides", "server_name": "sea", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": True, "content": [text("unknown port")]},
    text("The ferry leaves at ten."),
]


def test_tools_that_the_server_ran_make_calls_and_results_of_their_own() -> None:
    first = {"request": request(ASK), "response": message(*SERVER)}
    echo = {"role": "assistant", "content": SERVER}
    second = {
        "request": request(ASK, echo, {"role": "user", "content": "Thanks"}),
        "response": message(text("Welcome.")),
    }
    found = exchanges(ADAPTER, jsonl(first, second))
    assert len({exchange.id for exchange in found}) == 4
    (trace,) = traces(ADAPTER, jsonl(first, second))
    assert [(turn.author, turn.place) for turn in trace.turns] == [
        (Author.HUMAN, 0),
        (Author.AGENT, 0),
        (Author.TOOL, 0),
        (Author.AGENT, 0),
        (Author.TOOL, 0),
        (Author.AGENT, 0),
        (Author.HUMAN, 1),
        (Author.AGENT, 1),
    ]
    search, tides = (turn for turn in trace.turns if turn.author is Author.TOOL)
    assert "Ferries" in search.text
    assert "eHh4" not in search.text
    assert (tides.text, tides.outcome) == ("unknown port", Outcome.ERROR_AGENT)
    assert all(turn.exchange_id for turn in trace.turns if turn.author is Author.AGENT)


def test_a_server_tool_that_failed_is_flagged_and_one_that_pauses_is_not_lost() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    paused = [SERVER[1], {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": error}]
    call = {"request": request(ASK), "response": message(*paused, stop_reason="pause_turn")}
    (trace,) = traces(ADAPTER, jsonl(call))
    assert [turn.author for turn in trace.turns] == [Author.HUMAN, Author.AGENT, Author.TOOL]
    assert trace.turns[2].outcome is Outcome.ERROR_AGENT
    assert "max_uses_exceeded" in trace.turns[2].text


def test_a_result_without_text_is_not_empty() -> None:
    block = {**RESULT, "content": [{"type": "tool_reference", "tool_name": "tides"}]}
    (result,) = chat_messages([{"role": "user", "content": [block]}])
    assert "tides" in result["content"]


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("something_new", None),
    ],
)
def test_stop_reasons_and_usage(stop: str, finish: str | None) -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": None, "output_tokens": 7}
    answer = message(text("x"), stop_reason=stop, usage=usage)
    (exchange,) = exchanges(ADAPTER, jsonl({"request": request(ASK), "response": answer}))
    assert exchange.response is not None
    assert exchange.response["choices"][0]["finish_reason"] == finish
    assert exchange.response["usage"] == {"prompt_tokens": 25, "completion_tokens": 7, "total_tokens": 32}


def test_a_stream_whose_parallel_calls_share_an_index_keeps_all() -> None:
    starts = [
        {"type": "content_block_start", "index": 0, "content_block": {**CALL, "id": f"toolu_{n}"}} for n in (1, 2)
    ]
    piece = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'},
    }
    whole = message_of([{"type": "message_start", "message": message()}, starts[0], piece, starts[1], piece])
    assert [(block["id"], block["input"]) for block in whole["content"]] == [
        ("toolu_1", {"a": 1}),
        ("toolu_2", {"a": 1}),
    ]


def test_a_stream_that_was_cut_off_keeps_what_had_come() -> None:
    cut = STREAM[: STREAM.index('ist\\",\\"day')] if 'ist\\",\\"day' in STREAM else STREAM[:1500]
    (exchange,) = exchanges(ADAPTER, jsonl({"request": request(ASK), "response_sse": cut}))
    assert exchange.response is not None
    said = exchange.response["choices"][0]["message"]
    assert said["content"] == "I look it up."
    assert exchange.response["choices"][0]["finish_reason"] is None


def test_an_error_after_a_stream_began_is_a_failed_call() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    stream = sse({"type": "message_start", "message": message(stop_reason=None)}, error)
    (exchange,) = exchanges(ADAPTER, jsonl({"request": request(ASK), "response_sse": stream, "status": 200}))
    assert (exchange.status, exchange.error) == (Status.UPSTREAM_ERROR, "Overloaded")


def test_an_error_body_is_a_failed_call() -> None:
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "Too fast"}}
    (exchange,) = exchanges(ADAPTER, jsonl({"request": request(ASK), "response": error, "status": 429}))
    assert (exchange.status, exchange.error, exchange.http_status) == (Status.UPSTREAM_ERROR, "Too fast", 429)


def test_sessions_that_clients_name() -> None:
    user = "user_ab12_account_9_session_0b1c2d3e-0000-4000-8000-000000000001"
    (exchange,) = exchanges(ADAPTER, jsonl({"request": request(ASK, metadata={"user_id": user})}))
    assert exchange.session == "0b1c2d3e-0000-4000-8000-000000000001"
    headers = {"x-claude-code-session-id": "session-77"}
    (exchange,) = exchanges(ADAPTER, jsonl({"request": request(ASK), "headers": headers}))
    assert exchange.session == "session-77"


def test_pictures_and_documents_stay_parts() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWk="}}
    paper = {"type": "document", "source": {"type": "text", "data": "terms"}, "cache_control": {"type": "ephemeral"}}
    (said,) = chat_messages([{"role": "user", "content": [picture, paper, text("Read it.")]}])
    assert said["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWk="}},
        {"type": "document", "source": {"type": "text", "data": "terms"}},
        text("Read it."),
    ]


def test_counting_tokens_is_left_out_and_other_calls_are_told() -> None:
    url = "https://api.anthropic.com/v1/messages/count_tokens"
    assert items(ADAPTER, jsonl({"url": url, "request": request(ASK), "response": {"input_tokens": 3}})) == []
    (other,) = skipped(ADAPTER, jsonl({"url": "https://x/v1/models", "request": {"limit": 3}}))
    assert "messages" in other.reason


@pytest.mark.parametrize("body", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_its_files_are_recognised(body: bytes) -> None:
    assert ADAPTER.recognises(head_of(body))


@pytest.mark.parametrize(
    "record",
    [
        {"messages": [ASK]},
        {"model": "m", "max_tokens": 5, "messages": [ASK]},
        {"request": {"messages": [ASK]}, "response": {"choices": []}},
        {"request": {"model": "m", "input": [ASK]}},
        {"type": "user", "message": {"role": "user", "content": [RESULT]}, "sessionId": "s"},
        {"messages": 3},
        {},
    ],
)
def test_other_files_are_not_recognised(record: dict[str, Any]) -> None:
    assert not ADAPTER.recognises(head_of(jsonl(record)))


def test_what_is_odd_is_told_and_the_rest_is_read() -> None:
    odd = [
        b'{"request": {"messages": [{"role": "us',
        {"request": {"messages": [None, 3, {"role": 4, "content": {"a": 1}}, {"content": [None, "x", {"type": 5}]}]}},
        {
            "request": request(ASK),
            "response": message(text("x"), usage=5, stop_reason={}, content=[3, {"type": "tool_use"}]),
        },
        {
            "request": request(ASK),
            "response_sse": 'data: [1]\n\ndata: {"type": "content_block_delta", "index": {}}\n\n',
        },
        {"request": 3},
        SECOND,
    ]
    found = items(ADAPTER, jsonl(*odd))
    assert [type(item) for item in found] == [Skipped, Exchange, Exchange, Exchange, Skipped, Exchange]


@needs_recordings
def test_the_recordings() -> None:
    found = traces(ADAPTER, (FOLDER / "tool_search_eval.jsonl").read_bytes())
    assert [trace.name for trace in found] == ["exchanges-0-2", "exchanges-3-6", "exchanges-7-8", "exchanges-9-10"]
    turns = [turn for trace in found for turn in trace.turns]
    assert sum(len(turn.tool_calls) for turn in turns) == 7
    assert [turn.place for turn in turns if turn.outcome is Outcome.ERROR_AGENT] == [5]
    for line in (FOLDER / "labels.jsonl").read_text().splitlines():
        label = json.loads(line)
        trace = next(trace for trace in found if trace.name == label["session"])
        assert any(turn.place == label["turn"] and turn.author is Author.TOOL for turn in trace.turns)
