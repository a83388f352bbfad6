import json
from typing import Any

import pytest
from adapter_files import RECORDINGS, exchanges, head_of, items, jsonl, skipped, told, traces

from harness_adapters.adapter import Skipped
from harness_adapters.exchange import Exchange, Status
from harness_adapters.openai_responses import OpenAIResponses
from harness_adapters.response_items import chat_messages, response_of
from harness_adapters.trace import Author, Outcome

ADAPTER = OpenAIResponses()
FOLDER = RECORDINGS / "openai_responses"
needs_recordings = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the recordings are not at {FOLDER}")

TOOL = {
    "type": "function",
    "name": "tides",
    "description": "High tide.",
    "parameters": {"type": "object"},
    "strict": True,
}
FUNCTION = {"name": "tides", "arguments": '{"port":"Norddeich"}'}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed", **FUNCTION}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "11:40"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I need the tide."}]}


def user(said: str) -> dict[str, Any]:
    return {"role": "user", "content": said}


def said(*texts: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def response(name: str, *output: dict[str, Any], **members: Any) -> dict[str, Any]:
    about = {"id": name, "object": "response", "created_at": 5, "status": "completed", "model": "m-1", "error": None}
    return {**about, "output": list(output), **members}


def call(request: dict[str, Any], answer: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {"request": {"model": "m", **request}, "response": answer, **members}


CHAIN = [
    call({"input": "When is high tide?", "tools": [TOOL]}, response("resp_1", REASONING, CALL)),
    call({"input": [OUTPUT], "previous_response_id": "resp_1", "tools": [TOOL]}, response("resp_2", said("At 11:40."))),
    call(
        {"input": [user("And tomorrow?")], "previous_response_id": "resp_2", "tools": [TOOL]},
        response("resp_3", said("At 12:20.")),
    ),
]
WHOLE = [
    call({"input": [user("When is high tide?")], "instructions": "Be brief."}, response("resp_1", REASONING, CALL)),
    call(
        {"input": [user("When is high tide?"), REASONING, CALL, OUTPUT], "instructions": "Be brief."},
        response("resp_2", said("At 11:40.")),
    ),
]
EVENTS = [
    {"type": "response.created", "sequence_number": 0, "response": response("resp_1", status="in_progress")},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**CALL, "arguments": "", "status": "in_progress"},
    },
    {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": '{"port":'},
    {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": '"Norddeich"}'},
    {"type": "response.output_item.done", "output_index": 0, "item": CALL},
    {"type": "response.completed", "sequence_number": 5, "response": response("resp_1", CALL)},
]
STREAM = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
EXAMPLE = jsonl(*CHAIN)
EXAMPLES = {
    "chain": EXAMPLE,
    "whole history": jsonl(*WHOLE),
    "stream": jsonl({"request": CHAIN[0]["request"], "response_sse": STREAM}, *CHAIN[1:]),
    "responses": jsonl(response("resp_1", CALL), response("resp_2", said("Later."))),
    "events": jsonl(*EVENTS),
}


def test_a_chain_is_one_session_with_its_whole_history() -> None:
    (trace,) = traces(ADAPTER, EXAMPLE)
    assert (trace.name, trace.complete) == ("resp_1", True)
    assert told(trace) == [
        ("human", "When is high tide?"),
        ("agent", ""),
        ("tool", "11:40"),
        ("agent", "At 11:40."),
        ("human", "And tomorrow?"),
        ("agent", "At 12:20."),
    ]
    assert [turn.place for turn in trace.turns] == [0, 0, 1, 1, 2, 2]
    assert trace.turns[1].message["reasoning_content"] == "I need the tide."
    assert [turn.response_id for turn in trace.turns] == [None, "resp_1", None, "resp_2", None, "resp_3"]
    assert (trace.turns[1].tool_calls[0].id, trace.turns[2].tool_call_id) == ("call_1", "call_1")
    assert trace.tools[0]["function"] == {name: TOOL[name] for name in TOOL if name != "type"}


def test_a_chain_is_joined_whatever_the_order_of_the_file() -> None:
    (trace,) = traces(ADAPTER, jsonl(CHAIN[2], CHAIN[0], CHAIN[1]))
    assert [turn.text for turn in trace.turns][-1] == "At 12:20."
    assert (len(trace.turns), trace.complete) == (6, True)


def test_both_ways_of_a_chain_that_forks_are_kept() -> None:
    other = call({**CHAIN[2]["request"], "input": [user("And on Sunday?")]}, response("resp_4", said("At 13:05.")))
    found = traces(ADAPTER, jsonl(*CHAIN, other))
    assert [trace.turns[-1].text for trace in found] == ["At 12:20.", "At 13:05."]
    assert {trace.root for trace in found} == {found[0].id}
    assert len({trace.id for trace in found}) == 2
    assert [(len(trace.turns), trace.inherited, trace.name) for trace in found] == [(6, 0, "resp_1"), (6, 4, "resp_1")]


FAILED = response("resp_4", status="failed", error={"message": "no"})


@pytest.mark.parametrize("first", [response("resp_4", said("At noon.")), FAILED, None])
def test_of_what_was_asked_twice_the_answer_that_went_on_or_came_last_is_kept(first: dict[str, Any] | None) -> None:
    (trace,) = traces(ADAPTER, jsonl(*CHAIN[:2], call(CHAIN[2]["request"], first), CHAIN[2]))
    assert [turn.text for turn in trace.turns][-2:] == ["And tomorrow?", "At 12:20."]
    further = call({"input": "Thanks.", "previous_response_id": "resp_3"}, response("resp_5", said("Moin.")))
    (trace,) = traces(ADAPTER, jsonl(*CHAIN, call(CHAIN[2]["request"], first), further))
    assert [turn.text for turn in trace.turns][-3:] == ["At 12:20.", "Thanks.", "Moin."]


def test_a_call_that_failed_at_the_end_of_a_chain_is_only_what_was_asked() -> None:
    (trace,) = traces(ADAPTER, jsonl(*CHAIN[:2], call(CHAIN[2]["request"], FAILED)))
    assert [turn.text for turn in trace.turns][-2:] == ["At 11:40.", "And tomorrow?"]


def test_a_chain_whose_beginning_is_unknown_is_incomplete() -> None:
    (alone,) = exchanges(ADAPTER, jsonl(CHAIN[1]))
    assert (alone.session, alone.request["previous_response_id"]) == ("resp_1", "resp_1")
    (trace,) = traces(ADAPTER, jsonl(*CHAIN[1:]))
    assert (trace.name, trace.complete) == ("resp_1", False)
    assert [turn.text for turn in trace.turns] == ["11:40", "At 11:40.", "And tomorrow?", "At 12:20."]


def test_a_chain_in_a_circle_ends() -> None:
    first = call({"input": "a", "previous_response_id": "resp_2"}, response("resp_1", said("b")))
    second = call({"input": "c", "previous_response_id": "resp_1"}, response("resp_2", said("d")))
    assert not any(trace.complete for trace in traces(ADAPTER, jsonl(first, second)))


def test_a_conversation_kept_by_the_server_is_one_session_and_incomplete() -> None:
    first = call({"input": "Moin", "conversation": {"id": "conv_1"}}, response("resp_1", said("Moin.")))
    second = call({"input": "Tide?", "conversation": "conv_1"}, response("resp_2", said("11:40.")))
    (trace,) = traces(ADAPTER, jsonl(first, second))
    assert (trace.name, trace.complete) == ("conv_1", False)
    assert [turn.text for turn in trace.turns] == ["Moin", "Moin.", "Tide?", "11:40."]


def test_a_client_that_sends_everything_makes_one_session_without_a_name() -> None:
    found = exchanges(ADAPTER, EXAMPLES["whole history"])
    assert [exchange.session for exchange in found] == [None, None]
    (trace,) = traces(ADAPTER, EXAMPLES["whole history"])
    assert (trace.name, trace.complete) == ("exchanges-0-1", True)
    assert [turn.author.value for turn in trace.turns] == ["system", "human", "agent", "tool", "agent"]


@pytest.mark.parametrize(
    "hidden", [{"type": "compaction", "encrypted_content": "eA=="}, {"type": "item_reference", "id": "x"}]
)
def test_history_that_is_hidden_makes_a_trace_incomplete(hidden: dict[str, Any]) -> None:
    (trace,) = traces(ADAPTER, jsonl(call({"input": [hidden, user("On")]}, response("resp_1", said("Yes.")))))
    assert not trace.complete


@pytest.mark.parametrize(
    ("members", "status", "finish"),
    [
        ({}, Status.OK, "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, Status.OK, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, Status.OK, "content_filter"),
        ({"status": "failed", "error": {"code": "server_error", "message": "oh"}}, Status.UPSTREAM_ERROR, None),
        ({"status": "cancelled"}, Status.UPSTREAM_ERROR, None),
    ],
)
def test_how_a_response_ended(members: dict[str, Any], status: Status, finish: str | None) -> None:
    (exchange,) = exchanges(ADAPTER, jsonl(call({"input": "x"}, response("resp_1", said("y"), **members))))
    assert exchange.response is not None
    assert (exchange.status, exchange.response["choices"][0]["finish_reason"]) == (status, finish)


def test_a_response_that_is_not_there_yet_is_no_answer() -> None:
    (exchange,) = exchanges(ADAPTER, jsonl(call({"input": "x"}, response("resp_1", status="queued"))))
    assert (exchange.status, exchange.response) == (Status.ABANDONED, None)


def test_logprobs_and_usage_are_kept() -> None:
    part = {"type": "output_text", "text": "y", "logprobs": [{"token": "y", "logprob": -0.5}]}
    usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    answer = response("resp_1", {**said(), "content": [part]}, usage=usage)
    (exchange,) = exchanges(ADAPTER, jsonl(call({"input": "x"}, answer)))
    assert exchange.response is not None
    assert exchange.response["choices"][0]["logprobs"] == {"content": part["logprobs"]}
    assert exchange.response["usage"] == {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}


def test_a_stream_that_was_cut_off_keeps_what_had_come() -> None:
    added = {"type": "response.output_item.added", "output_index": 1, "item": said()}
    pieces = [
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": piece}
        for piece in ("At ", "11")
    ]
    whole = response_of([*EVENTS[:3], added, *pieces])
    (message,) = chat_messages(whole["output"])
    assert message["content"] == "At 11"
    assert message["tool_calls"][0]["function"]["arguments"] == '{"port":'
    assert whole["status"] == "in_progress"


def test_an_error_in_a_stream_is_a_failed_call() -> None:
    error = {"type": "error", "sequence_number": 2, "code": "server_error", "message": "gone"}
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in [EVENTS[0], error])
    (exchange,) = exchanges(ADAPTER, jsonl({"request": CHAIN[0]["request"], "response_sse": stream}))
    assert (exchange.status, exchange.error) == (Status.UPSTREAM_ERROR, "gone")


def test_events_are_put_together_where_the_next_response_begins() -> None:
    second = [
        {"type": "response.created", "response": response("resp_2", status="in_progress")},
        {"type": "response.completed", "response": response("resp_2", said("y"))},
    ]
    found = exchanges(ADAPTER, jsonl(*EVENTS, *second))
    assert [exchange.response["id"] for exchange in found if exchange.response] == ["resp_1", "resp_2"]
    assert [exchange.place for exchange in found] == [0, 6]


def test_a_response_alone_has_no_whole_history() -> None:
    alone = [
        response("resp_1", said("a"), instructions="Be brief."),
        response("resp_2", said("b"), previous_response_id="resp_1"),
    ]
    found = traces(ADAPTER, jsonl(*alone))
    assert not any(trace.complete for trace in found)
    assert [turn.text for trace in found for turn in trace.turns if turn.author is Author.AGENT][-1] == "b"


def test_items_of_an_unknown_type_are_told_once() -> None:
    odd = {"type": "hologram", "id": "h_1"}
    records = [call({"input": [user("x"), odd]}, response("resp_1", odd, said("y"))), call({"input": [user("z"), odd]})]
    (one,) = skipped(ADAPTER, jsonl(*records))
    assert "hologram" in one.reason


@pytest.mark.parametrize("body", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_its_files_are_recognised(body: bytes) -> None:
    assert ADAPTER.recognises(head_of(body))


@pytest.mark.parametrize(
    "record",
    [
        {"messages": [user("x")]},
        {
            "request": {"model": "m", "input": "some text"},
            "url": "https://x/v1/embeddings",
            "response": {"object": "list"},
        },
        {"request": {"model": "m", "input": ["a", "b"]}, "response": {"data": []}},
        {"request": {"messages": [user("x")]}, "response": {"choices": []}},
        {"id": "o", "traceId": "t", "type": "GENERATION", "model": "m", "input": [user("x")], "output": said("y")},
        {"type": "response_item", "payload": said("y")},
        {"type": "response.mode", "value": 1},
        {},
    ],
)
def test_other_files_are_not_recognised(record: dict[str, Any]) -> None:
    assert not ADAPTER.recognises(head_of(jsonl(record)))


def test_what_is_odd_is_told_and_the_rest_is_read() -> None:
    odd = [
        b'{"request": {"input": [{"role": "us',
        call(
            {"input": [None, 3, {"role": 4}, {"type": 5}, {"type": "reasoning", "summary": 1}], "instructions": [1, {}]}
        ),
        call(
            {"input": [user("x")], "previous_response_id": 7, "conversation": 8},
            response("r", {"content": 3}, usage=[], error=0),
        ),
        {
            "request": {"model": "m", "input": [user("x")]},
            "response_sse": 'data: [1]\n\ndata: {"type": "response.x.delta"}\n\n',
        },
        {"request": 3},
        CHAIN[0],
    ]
    found = items(ADAPTER, jsonl(*odd))
    assert [item.line for item in found if isinstance(item, Skipped)] == [1, 2, 3, 5]
    assert [item.place for item in found if isinstance(item, Exchange)] == [2, 3, 5]


@needs_recordings
def test_the_recordings() -> None:
    (chain,) = traces(ADAPTER, (FOLDER / "previous_response_id_retry.jsonl").read_bytes())
    labels = [json.loads(line) for line in (FOLDER / "labels.jsonl").read_text().splitlines()]
    assert {label["session"] for label in labels} == {chain.name, "logprobs"}
    assert chain.complete
    assert [turn.place for turn in chain.turns] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sum(len(turn.tool_calls) for turn in chain.turns) == 2
    assert [turn.place for turn in chain.turns if turn.outcome is Outcome.ERROR_AGENT] == [2]
    (single,) = traces(ADAPTER, (FOLDER / "logprobs.jsonl").read_bytes())
    assert [turn.author.value for turn in single.turns] == ["system", "human", "agent"]
