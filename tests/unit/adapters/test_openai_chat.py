import json
from pathlib import Path
from typing import Any

import pytest
from adapter_files import head_of, items, jsonl
from exchange_sessions import traces_of
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.adapter import Skipped
from harness_adapters.exchange import Exchange, Status, exchange_json
from harness_adapters.openai_chat import OpenAIChat
from harness_adapters.trace import Author, Outcome, Trace

RECORDINGS = Path(__file__).parents[4] / "shared" / "traces" / "openai_chat"
needs_recordings = pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"the recordings are not at {RECORDINGS}")

HI: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
HELLO: dict[str, Any] = {
    "id": "r1",
    "created": 5,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}}],
}

TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "time", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "noon"}
FIRST = {"request": HI, "response": {"id": "r1", "choices": [{"index": 0, "message": ASKED}]}, "status": 200}
SECOND = {
    "request": {**HI, "messages": [*HI["messages"], ASKED, TOLD]},
    "response": {"id": "r2", "choices": [{"index": 0, "message": {"role": "assistant", "content": "It is noon."}}]},
}
EXAMPLE = jsonl(FIRST, SECOND)
EXAMPLES = {
    "calls": EXAMPLE,
    "conversation": jsonl(
        {"messages": [*HI["messages"], ASKED, TOLD, {"role": "assistant", "content": "It is noon."}]}
    ),
    "list": json.dumps([FIRST, SECOND], indent=1).encode(),
}


def read(*lines: bytes | dict[str, Any]) -> list[Exchange | Skipped]:
    body = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    return [item for item in items(OpenAIChat(), body) if not isinstance(item, Trace)]


def only(*lines: bytes | dict[str, Any]) -> Exchange:
    (exchange,) = read(*lines)
    assert isinstance(exchange, Exchange)
    return exchange


def test_a_recorded_call() -> None:
    exchange = only({"request": HI, "response": HELLO, "status": 200, "url": "https://x/v1/chat/completions?a=1"})
    assert (exchange.status, exchange.http_status, exchange.endpoint) == (Status.OK, 200, "/v1/chat/completions")
    assert (exchange.tenant, exchange.sequence, exchange.place, exchange.model) == ("default", 0, 0, "m")
    assert exchange.response == HELLO


def test_a_streamed_call_is_assembled() -> None:
    events = [{"choices": [{"index": 0, "delta": {"content": part}}]} for part in ("he", "y")]
    sse = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    response = only({"request": HI, "response_sse": sse}).response
    assert response is not None
    assert response["choices"][0]["message"]["content"] == "hey"


def test_a_bare_request_has_no_answer() -> None:
    exchange = only(HI)
    assert (exchange.response, exchange.status) == (None, Status.ABANDONED)


def test_a_bare_response_has_no_history() -> None:
    exchange = only(HELLO)
    assert exchange.response == HELLO
    assert [turn.text for turn in traces_of([exchange])[0].turns] == ["hello"]


def test_a_conversation_ends_in_its_answer() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    exchange = only({"messages": [*HI["messages"], {"role": "assistant", "content": "yo"}], "tools": tools})
    assert exchange.request["messages"] == HI["messages"]
    (trace,) = traces_of([exchange])
    assert [turn.text for turn in trace.turns] == ["hi", "yo"]
    assert trace.tools == tuple(tools)


def test_a_failed_call() -> None:
    exchange = only({"request": HI, "status": 400, "response": {"error": {"message": "bad", "failed_generation": "x"}}})
    assert (exchange.status, exchange.error, exchange.sampled) == (Status.UPSTREAM_ERROR, "bad", None)


BAD_LINES = {
    "cut off": b'{"request": {"messages": [{"role": "us',
    "not UTF-8": b'{"messages": [{"role": "user", "content": "\xff"}]}',
    "a list": b"[1, 2]",
    "another shape": b'{"hello": 1}',
    "messages that are none": b'{"messages": ["hi"]}',
    "a request that is none": b'{"request": 3}',
    "a response that is none": b'{"request": {"messages": []}, "response": 4}',
    "nested without end": b'{"messages":' + b"[" * 100_000,
    "only a number": b"17",
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_skipped_with_its_reason_and_the_rest_is_read(line: bytes) -> None:
    before, skipped, after = read(HI, line, b"", {"request": HI, "response": HELLO})
    assert isinstance(skipped, Skipped)
    assert skipped.line == 2
    assert len(skipped.reason) > 10
    assert isinstance(before, Exchange)
    assert isinstance(after, Exchange)
    assert after.place == 3


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"request": {"model": "m", "messages": "oops"}}, "`messages` are not a list"),
        ({"request": {"model": "m", "messages": []}}, "`messages` are not a list of one or more"),
        ({"request": {"model": "m", "messages": [{"content": "hi"}]}}, "no role"),
        ({"messages": []}, "`messages` are not a list of one or more"),
        ({"request": HI, "response": "str"}, "`response` is a text that cannot be read"),
    ],
)
def test_a_call_that_is_none_says_which_part(value: Any, reason: str) -> None:
    (skipped,) = items(OpenAIChat(), jsonl(value))
    assert isinstance(skipped, Skipped)
    assert reason in skipped.reason


def test_nan_is_read_as_null() -> None:
    exchange = only(
        b'{"request": {"messages": [{"role": "user", "content": "hi"}], "temperature": NaN},'
        b' "response": {"choices": [], "score": -Infinity}}'
    )
    assert exchange.request["temperature"] is None


def test_a_line_without_end_is_skipped_without_being_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness_adapters.records.MAX_BYTES", 100)
    skipped, after = read(b"x" * 1000, HI)
    assert isinstance(skipped, Skipped)
    assert isinstance(after, Exchange)
    assert after.sequence == 1


MEMBERS = """messages role content request response choices message tool_calls function usage token_ids prompt_token_ids
logprobs tools metadata error id user status arguments name headers index created"""
ODD_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS.split()), inner, max_size=5),
    max_leaves=20,
)


@given(ODD_JSON)
def test_no_json_makes_reader_or_trace_fail(value: Any) -> None:
    body = json.dumps({"request": {"messages": [value]}, "response": value, "messages": value}).encode()
    message = {"role": "assistant", **value} if isinstance(value, dict) else value
    lines = body + b"\n" + json.dumps({"messages": [message], "user": value, "metadata": value}).encode()
    read_back = [item for item in items(OpenAIChat(), lines) if isinstance(item, Exchange)]
    for exchange in read_back:
        assert exchange_json.validate_json(exchange_json.dump_json(exchange)).id == exchange.id
    traces_of(read_back)


def test_reading_a_file_again_gives_the_same_ids() -> None:
    lines = [HI, {"request": HI, "response": HELLO}, HI]
    assert read(*lines) == read(*lines)
    assert len({item.id for item in read(*lines) if isinstance(item, Exchange)}) == 3


def test_the_same_response_is_the_same_exchange_wherever_it_stands() -> None:
    call = {"request": HI, "response": HELLO}
    first, again = read(call, HI, call)[::2]
    assert isinstance(first, Exchange)
    assert isinstance(again, Exchange)
    assert first.id == again.id


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert (
        only(b'{"messages": [{"role": "user", "content": "a\\ud83d"}]}').request["messages"][0]["content"] == "a\ufffd"
    )


def test_chunks_a_line_each_are_one_answer() -> None:
    chunks = [
        {"id": name, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": part}}]}
        for name, part in (("a", "he"), ("a", "y"), ("b", "ho"))
    ]
    answers = [item.response for item in read(*chunks) if isinstance(item, Exchange)]
    assert [answer["choices"][0]["message"]["content"] for answer in answers if answer] == ["hey", "ho"]


def test_the_format_is_recognised_behind_a_bad_first_line() -> None:
    assert OpenAIChat().recognises(head_of(b"{bad\n" + json.dumps(HI).encode() + b"\n"))
    assert not OpenAIChat().recognises(head_of(b'{"type": "session_meta"}\n'))


def recorded(name: str) -> list[Trace]:
    found = items(OpenAIChat(), (RECORDINGS / name).read_bytes())
    assert found
    return traces_of([item for item in found if isinstance(item, Exchange)])


@needs_recordings
def test_recorded_parallel_calls_in_a_stream() -> None:
    (trace,) = recorded("streaming_parallel_tools.jsonl")
    assert [[call.name for call in turn.tool_calls] for turn in trace.turns if turn.author is Author.AGENT] == [
        ["get_country", "get_product_name"],
        ["get_weather"],
        ["final_result"],
    ]
    assert all(turn.response_id for turn in trace.turns if turn.author is Author.AGENT)
    assert all(json.loads(call.arguments) is not None for turn in trace.turns for call in turn.tool_calls)


@needs_recordings
def test_recorded_tool_error() -> None:
    (trace,) = recorded("model_retry.jsonl")
    assert [turn.outcome for turn in trace.turns if turn.author is Author.TOOL] == [
        Outcome.ERROR_AGENT,
        Outcome.UNKNOWN,
    ]


@needs_recordings
def test_recorded_framework_text_is_no_human_turn() -> None:
    (trace,) = recorded("qwen3_coder_output_retry.jsonl")
    assert [turn.author for turn in trace.turns] == [Author.HUMAN, Author.AGENT, Author.FRAMEWORK, Author.AGENT]


@needs_recordings
def test_recorded_reasoning_moved_into_the_text_stays_one_session() -> None:
    (trace,) = recorded("groq_tool_use_failed.jsonl")  # the refused first request goes on in the second
    assert len(trace.turns) == 7
    assert [turn.place for turn in trace.turns] == [0, 0, 0, 1, 1, 2, 2]


def test_what_the_server_refused_and_the_client_dropped_is_a_turn_the_model_never_saw() -> None:
    error = {"error": {"message": "no tool `x`", "failed_generation": '{"name": "x", "arguments": {"a": 1}}'}}
    (trace,) = traces_of(
        [e for e in read({"request": HI, "status": 400, "response": error}) if isinstance(e, Exchange)]
    )
    assert [(turn.author, turn.shown) for turn in trace.turns] == [
        (Author.HUMAN, True),
        (Author.AGENT, False),
        (Author.FRAMEWORK, False),
    ]
    assert trace.turns[1].tool_calls[0].name == "x"
    assert len(trace.prefix(3)) == 1
