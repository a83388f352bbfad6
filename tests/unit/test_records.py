import io
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters import scan as scanning
from harness_adapters.jsontext import closed, parse
from harness_adapters.records import Record, Unread, first_values, read_records

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(max_size=12)
    | st.sampled_from(['"', "\\", "]}", "{[", "\n"])
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


def read(body: bytes, lists: tuple[str, ...] = ()) -> list[Record | Unread]:
    return list(read_records(io.BytesIO(body), lists))


def values(body: bytes, lists: tuple[str, ...] = ()) -> list[Any]:
    found = read(body, lists)
    assert all(isinstance(item, Record) for item in found), found
    return [item.value for item in found if isinstance(item, Record)]


@pytest.fixture(params=[1, 7, 1 << 18])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are read in pieces of any size."""
    monkeypatch.setattr(scanning, "FIRST_PIECE", request.param)
    monkeypatch.setattr(scanning, "LARGEST_PIECE", max(request.param, 64))


@given(st.lists(OBJECTS, max_size=4), st.sampled_from([None, 1, 2]), st.integers(1, 40), st.booleans())
def test_any_layout_gives_the_same_values(objects: list[Any], indent: int | None, size: int, ascii_only: bool) -> None:
    def write(value: Any) -> bytes:
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "FIRST_PIECE", size)
        patch.setattr(scanning, "LARGEST_PIECE", size * 4)
        assert values(b"\n".join(map(write, objects))) == objects
        assert values(write(objects)) == objects
        assert values(write({"before": 1, "runs": objects, "after": {"runs": [7]}}), ("runs",)) == objects
        twice = write({"runs": objects}) + b"\n" + write({"runs": objects})
        assert values(twice, ("runs",)) == objects * 2


@given(st.lists(OBJECTS.filter(lambda o: len(json.dumps(o)) > 2), min_size=1, max_size=5), st.randoms())
def test_a_broken_line_costs_no_other(objects: list[Any], rng: random.Random) -> None:
    lines = [json.dumps(value).encode() for value in objects]
    at = rng.randrange(len(lines) + 1)
    lines.insert(at, b'{"cut": [1, {"x": "y')
    found = read(b"\n".join([b'{"first": 1, "line": 2}', *lines, b'{"last": 1, "line": 2}']))
    assert [item.value for item in found if isinstance(item, Record)][1:-1] == objects
    assert [item.line for item in found if isinstance(item, Unread)] == [at + 2]


@pytest.mark.usefixtures("piece")
def test_what_cannot_be_read_is_said_by_line_and_the_rest_is_read() -> None:
    found = read(b'[\n{"a": 1},\n{"b": tru},\n5,\n{"c": "\xff"},\n{"d": NaN},\n{"e": [1, 2')
    assert [item.value for item in found if isinstance(item, Record)] == [{"a": 1}, {"d": None}, {"e": [1]}]
    assert [item.line for item in found if isinstance(item, Unread)] == [3, 4, 5, 7]


@pytest.mark.usefixtures("piece")
def test_a_quote_too_many_does_not_swallow_the_documents_behind_it() -> None:
    found = read(b'{\n "a": "open,\n "b": 2}\n{\n "c": 3\n}\n')
    assert [item.value for item in found if isinstance(item, Record)] == [{"c": 3}]
    assert len([item for item in found if isinstance(item, Unread)]) == 1


@pytest.mark.usefixtures("piece")
def test_what_stands_before_a_list_is_its_items_head() -> None:
    (record,) = read(b'{"info": {"k": [1]}, "runs": [{"a": 1}], "later": 2}', ("runs",))
    assert isinstance(record, Record)
    assert record.head in ({"info": {"k": [1]}}, {"info": {"k": [1]}, "later": 2})


def test_a_value_that_is_too_long_is_dropped_without_being_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness_adapters.records.MAX_BYTES", 1000)
    monkeypatch.setattr(scanning, "FIRST_PIECE", 128)
    long = json.dumps({"x": 'y\\"{' * 400, "z": [[1]]}, indent=1).encode()
    found = read(b"[" + long + b',\n{"a": 1}]')
    assert [item.value for item in found if isinstance(item, Record)] == [{"a": 1}]
    assert ["longer" in item.reason for item in found if isinstance(item, Unread)] == [True]


def test_a_file_cut_between_two_items_says_so() -> None:
    found = read(b'{"runs": [{"a": 1},', ("runs",))
    assert [type(item) for item in found] == [Record, Unread]


def test_a_byte_order_mark_is_no_content() -> None:
    assert values(b'\xef\xbb\xbf{"a": 1}\n{"b": 2}\n') == [{"a": 1}, {"b": 2}]
    assert values(b'\xef\xbb\xbf{\n"a": 1}') == [{"a": 1}]


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(body: bytes) -> None:
    read(body)
    read(body, ("a",))
    first_values(body)


@given(OBJECTS, st.integers(0, 400))
def test_a_cut_document_is_closed_into_one_that_parses(value: dict[str, Any], at: int) -> None:
    raw = json.dumps(value).encode()[:at]
    whole = closed(raw)
    if whole is not None and raw.startswith(b"{"):
        assert isinstance(parse(whole), dict)
