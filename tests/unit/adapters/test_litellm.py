import json
from typing import Any

import pytest
from adapter_files import exchanges, head_of, items, jsonl, skipped, told, traces

from harness_adapters.adapter import Skipped
from harness_adapters.exchange import Exchange, Status
from harness_adapters.litellm import LiteLLM
from harness_adapters.trace import Author, Outcome

ADAPTER = LiteLLM()
TOOL = {"type": "function", "function": {"name": "stock", "parameters": {"type": "object"}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "stock", "arguments": '{"part": "valve"}'}}
ASK = {"role": "user", "content": "How many valves are left?"}
TURN = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "41"}


def chat(message: dict[str, Any], name: str = "chatcmpl-1") -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message, "function_call": None}}
    return {"id": name, "object": "chat.completion", "created": 5, "model": "m-1", "choices": [choice]}


def payload(messages: Any, response: Any, **members: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "litellm_call_id": "c-1",
        "trace_id": "t-1",
        "session_id": "",
        "call_type": "acompletion",
        "status": "success",
        "model": "openai/m",
        "model_parameters": {"temperature": 0, "tools": [TOOL]},
        "metadata": {"user_api_key_hash": "h", "requester_metadata": None},
        "startTime": 7.5,
        "messages": messages,
        "response": response,
        **members,
    }


FIRST = payload([ASK], chat(TURN), trace_id="t-1")
SECOND = payload([ASK, TURN, RESULT], chat({"content": "41 are left."}, "chatcmpl-2"), trace_id="t-2", id="chatcmpl-2")
EXAMPLE = jsonl(FIRST, SECOND)
EXAMPLES = {"lines": EXAMPLE, "list": json.dumps([FIRST, SECOND], indent=1).encode()}


@pytest.mark.parametrize("body", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_session_is_found(body: bytes) -> None:
    (trace,) = traces(ADAPTER, body)
    assert told(trace) == [
        ("human", "How many valves are left?"),
        ("agent", ""),
        ("tool", "41"),
        ("agent", "41 are left."),
    ]
    assert [turn.place for turn in trace.turns] == [0, 0, 1, 1]
    assert trace.tools == (TOOL,)
    first, *_ = exchanges(ADAPTER, body)
    assert (first.model, first.started_at, first.session) == ("openai/m", 7.5, None)


def test_a_session_that_was_named_has_its_name() -> None:
    named = [
        {"session_id": "s-1"},
        {"metadata": {"requester_custom_headers": {"X-LiteLLM-Session-Id": "s-1"}}},
        {"metadata": {"requester_metadata": {"session_id": "s-1"}}},
    ]
    for members in named:
        (exchange,) = exchanges(ADAPTER, jsonl({**FIRST, **members}))
        assert exchange.session == "s-1"


def test_a_trace_id_names_a_session_only_where_two_calls_of_it_succeeded() -> None:
    failed = payload([ASK], {}, status="failure", error_str="busy", trace_id="t-2", id="x")
    assert [e.session for e in exchanges(ADAPTER, jsonl(FIRST, failed, SECOND))] == [None, None, None]
    same = [{**record, "trace_id": "t-9"} for record in (FIRST, SECOND)]
    assert [e.session for e in exchanges(ADAPTER, jsonl(*same))] == ["t-9", "t-9"]
    (trace,) = traces(ADAPTER, jsonl(*same))
    assert trace.name == "t-9"


def test_a_failed_call_has_no_response() -> None:
    about = {"error_code": "429", "error_class": "RateLimitError", "error_message": "Too many valves"}
    (exchange,) = exchanges(
        ADAPTER, jsonl(payload([ASK], {}, status="failure", error_information=about, error_str="x"))
    )
    assert (exchange.status, exchange.error, exchange.http_status) == (Status.UPSTREAM_ERROR, "Too many valves", 429)
    (exchange,) = exchanges(
        ADAPTER, jsonl(payload([ASK], None, status="failure", error_information=None, error_str="busy"))
    )
    assert (exchange.error, exchange.response) == ("busy", None)


REDACTED = "redacted-by-litellm"
REDACTIONS = [
    payload(REDACTED, {"text": REDACTED}),
    payload([{"role": "user", "content": REDACTED}], chat({"content": REDACTED})),
]


def test_redacted_records_are_told_once() -> None:
    (one,) = skipped(ADAPTER, jsonl(*REDACTIONS))
    assert "not to log" in one.reason
    quoted = [{"role": "user", "content": f"Why do I see {REDACTED} everywhere?"}]
    assert len(exchanges(ADAPTER, jsonl(payload(quoted, chat({"content": "It is set so."}))))) == 1


@pytest.mark.parametrize(
    "kind", ["aembedding", "image_generation", "atranscription", "acreate_file", "arerank", "call_mcp_tool"]
)
def test_what_is_no_conversation_is_left_out(kind: str) -> None:
    assert items(ADAPTER, jsonl(payload(["a"], {"data": []}, call_type=kind))) == []


def test_a_call_of_a_shape_that_is_not_known_is_told_once_for_its_type() -> None:
    odd = payload([ASK], {"candidates": []}, call_type="agenerate_content")
    (one,) = skipped(ADAPTER, jsonl(odd, odd, FIRST))
    assert "agenerate_content" in one.reason


@pytest.mark.parametrize(
    "messages",
    ["How many?", {"messages": [{"role": "user", "content": "How many?"}]}, {"role": "user", "content": "How many?"}],
)
def test_messages_may_be_a_text_or_an_object(messages: Any) -> None:
    (trace,) = traces(ADAPTER, jsonl(payload(messages, chat({"content": "41."}))))
    assert told(trace) == [("human", "How many?"), ("agent", "41.")]


@pytest.mark.parametrize("response", ["41.", json.dumps(chat({"content": "41."}))])
def test_a_response_may_be_a_text(response: str) -> None:
    (trace,) = traces(ADAPTER, jsonl(payload([ASK], response)))
    assert told(trace)[-1] == ("agent", "41.")


def test_a_text_completion_is_no_conversation() -> None:
    response = {"object": "text_completion", "choices": [{"index": 0, "text": "41."}]}
    (exchange,) = exchanges(ADAPTER, jsonl(payload("How many?", response, call_type="atext_completion")))
    assert (exchange.endpoint, exchange.request["prompt"]) == ("/v1/completions", "How many?")
    assert "messages" not in exchange.request


def test_responses_calls_are_converted() -> None:
    items_ = [ASK, {"type": "function_call", "call_id": "c", "name": "stock", "arguments": "{}"}]
    items_ += [{"type": "function_call_output", "call_id": "c", "output": "41"}]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "41 are left."}]}
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": [said]}
    record = payload(items_, response, call_type="aresponses", model_parameters={"previous_response_id": "resp_0"})
    (trace,) = traces(ADAPTER, jsonl(record))
    assert [turn.author.value for turn in trace.turns] == ["human", "agent", "tool", "agent"]
    assert not trace.complete
    (trace,) = traces(ADAPTER, jsonl(payload("How many?", response, call_type="responses")))
    assert told(trace) == [("human", "How many?"), ("agent", "41 are left.")]


def test_anthropic_calls_are_converted() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "stock", "input": {"part": "valve"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such part", "is_error": True}
    messages = [
        {"role": "system", "content": "Be exact."},
        ASK,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": "Try V-2."}]},
    ]
    response = {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    parameters = {"system": "Be exact.", "tools": [{"name": "stock", "input_schema": {"type": "object"}}]}
    record = payload(messages, response, call_type="anthropic_messages", model_parameters=parameters)
    (trace,) = traces(ADAPTER, jsonl(record))
    assert [turn.author.value for turn in trace.turns] == ["system", "human", "agent", "tool", "human", "agent"]
    assert [turn.outcome for turn in trace.turns if turn.author is Author.TOOL] == [Outcome.ERROR_AGENT]
    assert trace.tools[0]["function"]["name"] == "stock"


def test_sampled_ids_are_kept() -> None:
    answer: dict[str, Any] = {**chat({"content": "41."}), "prompt_token_ids": [1, 2]}
    answer["choices"][0]["token_ids"] = [3]
    (exchange,) = exchanges(ADAPTER, jsonl(payload([ASK], answer)))
    assert exchange.sampled is not None
    assert exchange.sampled.completion_ids == (3,)


def test_users_are_the_end_user_or_the_keys() -> None:
    for members in (
        {"end_user": "Ada"},
        {"metadata": {"user_api_key_user_id": "Ada", "user_api_key_end_user_id": None}},
    ):
        (exchange,) = exchanges(ADAPTER, jsonl({**FIRST, **members}))
        assert exchange.user == "Ada"
    (exchange,) = exchanges(ADAPTER, jsonl({**FIRST, "metadata": {"user_api_key_user_id": "default_user_id"}}))
    assert exchange.user is None


def test_a_payload_among_the_arguments_of_the_call_is_found() -> None:
    body = jsonl({"model": "m", "standard_logging_object": FIRST})
    assert ADAPTER.recognises(head_of(body))
    assert len(exchanges(ADAPTER, body)) == 1


@pytest.mark.parametrize("body", [*EXAMPLES.values(), EXAMPLES["list"][:900]])
def test_its_files_are_recognised(body: bytes) -> None:
    assert ADAPTER.recognises(head_of(body))


@pytest.mark.parametrize(
    "record",
    [
        {"messages": [ASK]},
        {"request": {"messages": [ASK]}, "response": chat({"content": "x"})},
        {"id": "r", "trace_id": "t", "run_type": "llm", "inputs": {}},
        {"call_type": 3, "trace_id": "t"},
        {},
    ],
)
def test_other_files_are_not_recognised(record: Any) -> None:
    assert not ADAPTER.recognises(head_of(jsonl(record)))


def test_what_is_odd_is_told_and_the_rest_is_read() -> None:
    odd = [
        payload(None, None),
        payload([3, None], {"choices": [4]}, call_type="other", metadata=5, model_parameters=6, error_information=7),
        payload([ASK], chat({"content": {"a": 1}}), startTime="x", end_user=8, session_id=9, trace_id=10),
        payload({"a": 1}, {"output": [5]}, call_type="aresponses"),
        {"call_type": "acompletion"},
        SECOND,
    ]
    found = items(ADAPTER, jsonl(*odd))
    assert sum(isinstance(item, Skipped) for item in found) >= 2
    assert [item.place for item in found if isinstance(item, Exchange)][-1] == 5
