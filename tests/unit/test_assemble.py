from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.assemble import exchange_of
from daemon.exchange_raw import RawExchange
from harness_adapters.exchange import Status, exchange_json


def raw(**given: Any) -> RawExchange:
    fields: dict[str, Any] = {
        "id": "e",
        "endpoint": "/v1/chat/completions",
        "model": "helpdesk",
        "tenant": "t",
        "route_key": "r",
        "sequence": 1,
        "status": Status.OK,
        "started_at": 1.0,
        "request": {"model": "helpdesk"},
        "request_bytes": 10,
    }
    return RawExchange(**(fields | given))


@given(st.binary(max_size=200), st.booleans(), st.sampled_from(Status))
def test_no_answer_of_an_upstream_is_too_odd_to_record(body: bytes, streamed: bool, status: Status):
    exchange = exchange_of(raw(body=body, streamed=streamed, status=status))
    assert exchange.status is status or exchange.status is Status.UPSTREAM_ERROR
    assert exchange_json.validate_json(exchange_json.dump_json(exchange)).id == "e"


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"choices":[{"index":[],"delta":{}}]}\n\ndata: [DONE]\n\n',
        b'data: {"choices":7}\n\ndata: [DONE]\n\n',
        b'data: {"choices":[{"index":0,"delta":7,"logprobs":[1]}]}\n\ndata: [DONE]\n\n',
    ],
)
def test_chunks_of_an_odd_shape(body: bytes):
    exchange = exchange_of(raw(body=body, streamed=True))
    assert exchange.sampled is None


def test_logprobs_a_client_asked_for_are_not_taken_for_the_sampled_ones():
    body = (
        b'{"prompt_token_ids":[1],"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"token_ids":[2],'
        b'"logprobs":{"content":[{"token":"a","logprob":-0.5}]}}]}'
    )
    exchange = exchange_of(raw(body=body))
    assert exchange.sampled is not None
    assert exchange.sampled.logprobs is None
    assert exchange.response is not None
    assert "token_ids" not in exchange.response["choices"][0]


def test_an_interrupted_answer_gives_no_ids():
    body = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"token_ids":[2]}],"prompt_token_ids":[1]}\n\n'
    exchange = exchange_of(raw(body=body, streamed=True, status=Status.CLIENT_CANCELLED, error="left"))
    assert exchange.sampled is None
    assert exchange.response is not None
    assert exchange.response["choices"][0]["message"]["content"] == "a"
    assert exchange.error == "left"
