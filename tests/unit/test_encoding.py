import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daemon.encoding import encode
from harness_adapters.exchange import Exchange, Sampled, Status, exchange_json

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
