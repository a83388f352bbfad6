import orjson
import pytest

from harness_adapters.jsontext import parse


@pytest.mark.parametrize("number", [b"123456789012345678901234567890", b"-9223372036854775809", b"1" + b"0" * 400])
def test_a_number_too_long_to_be_written_again_is_read_as_a_float_or_null(number: bytes) -> None:
    value = parse(b'{"temperature": NaN, "seed": ' + number + b"}")
    assert value["temperature"] is None
    assert isinstance(value["seed"], float | None)
    assert orjson.loads(orjson.dumps(value)) == value


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 0])
def test_other_numbers_beside_a_nan_stay_as_they_are(number: int) -> None:
    assert parse(f"[NaN, {number}]".encode()) == [None, number]
