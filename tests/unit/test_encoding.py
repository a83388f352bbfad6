import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.encoding import MAX_DEPTH, TooDeepError, encode, is_too_deep
from daemon.log import Position, StoredRecord
from daemon.tail import parse
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange, Feedback, Sampled, Status, exchange_json

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
text_with_halves = st.text(st.characters(categories=["L", "Cs", "Cc", "So"]), max_size=20)


def exchange(request: dict[str, object], **given: Any) -> Exchange:
    return Exchange(
        id="e",
        endpoint="/v1/chat/completions",
        model="m",
        tenant="t",
        route_key="r",
        sequence=1,
        status=Status.OK,
        started_at=1.5,
        request=request,
        **given,
    )


@given(st.dictionaries(st.text(), plain, max_size=4))
def test_whatever_json_a_request_holds_comes_back(request: dict[str, object]) -> None:
    sent = exchange(request, response={"id": "x", "choices": [request]})
    assert exchange_json.validate_json(encode(sent)) == sent


@given(text_with_halves)
def test_half_a_surrogate_pair_costs_one_character_and_no_record(text: str) -> None:
    whole = "".join("?" if "\ud800" <= c <= "\udfff" else c for c in text)
    got = exchange_json.validate_json(encode(exchange({"messages": [{"role": "user", "content": text}]})))
    assert got.request == {"messages": [{"role": "user", "content": whole}]}


def test_sampled_ids_come_back_exactly() -> None:
    sampled = Sampled(prompt_ids=(1, 2, 151_643), completion_ids=(7,), logprobs=(-0.1 + 1e-17,))
    assert exchange_json.validate_json(encode(exchange({}, sampled=sampled))).sampled == sampled
    assert math.isclose(json.loads(encode({"a": -0.1}))["a"], -0.1)


def nested(depth: int, inner: Any = 1) -> Any:
    for level in range(depth):
        inner = {"a": inner, "b": level} if level % 2 else [level, inner]
    return inner


@given(st.integers(0, 300))
def test_depth_is_that_of_the_deepest_container(depth: int) -> None:
    assert is_too_deep(nested(depth)) == (depth > MAX_DEPTH)


def test_what_is_written_at_the_greatest_depth_is_read_again_and_deeper_is_refused() -> None:
    deepest: dict[str, object] = {"a": nested(MAX_DEPTH - 1)}
    sent = exchange(deepest, response=deepest)
    assert exchange_json.validate_json(encode(sent)) == sent
    for deeper in (exchange({"a": deepest}), exchange({}, response={"a": deepest})):
        with pytest.raises(TooDeepError, match="exchange e nests"):
            encode(deeper)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("exchange", "started_at"),
        ("exchange", "first_byte_s"),
        ("exchange", "duration_s"),
        ("exchange", "logprobs"),
        ("feedback", "created_at"),
        ("feedback", "rating"),
    ],
)
def test_a_record_whose_numbers_are_not_finite_cannot_be_read(kind: str, field: str, number: str) -> None:
    sampled = Sampled(prompt_ids=(1,), completion_ids=(2,), logprobs=(-7.5,))
    whole = {
        "exchange": encode(exchange({}, sampled=sampled, first_byte_s=0.5, duration_s=0.5)),
        "feedback": encode(Feedback(id="f", response_id="r", tenant="t", created_at=1.5, rating=0.5)),
    }[kind].decode()
    value = {"logprobs": "[-7.5]", "started_at": "1.5", "created_at": "1.5"}.get(field, "0.5")
    wrong = f"[{number}]" if field == "logprobs" else number
    broken = whole.replace(f'"{field}":{value}', f'"{field}":{wrong}')
    parse(StoredRecord(Position(0, 1), "k", "i", kind, whole.encode()))
    with pytest.raises(RecordError, match="finite number"):
        parse(StoredRecord(Position(0, 2), "k", "i", kind, broken.encode()))
