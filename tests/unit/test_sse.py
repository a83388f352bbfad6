import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.sse import EventFramer, holders, without_ids, without_ids_in_events

ids = st.none() | st.lists(st.integers(0, 200_000), max_size=4)
texts = st.text(max_size=20) | st.sampled_from(
    ['"token_ids":[1]', ',"prompt_token_ids":null', "token_ids", '\\"token_ids\\":[2],', "a\n\ndata: b"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def completions(draw: st.DrawFn) -> dict[str, Any]:
    """A completion or a chunk of one, with ids in any place among its members."""

    def with_ids(members: list[tuple[str, Any]]) -> dict[str, Any]:
        for name in ("token_ids", "prompt_token_ids"):
            if draw(st.booleans()):
                members.insert(draw(st.integers(0, len(members))), (name, draw(ids)))
        return dict(members)

    choices = [with_ids([("index", 0), ("delta", draw(values))]) for _ in range(draw(st.integers(0, 2)))]
    return with_ids([("id", draw(texts)), ("choices", choices), ("usage", draw(values))])


def expected(body: dict[str, Any]) -> dict[str, Any]:
    bare = json.loads(json.dumps(body))
    for holder in holders(bare):
        for name in ("token_ids", "prompt_token_ids"):
            holder.pop(name, None)
    return bare


@given(completions(), st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]), st.booleans())
def test_ids_go_and_everything_else_stays(body: dict[str, Any], separators: tuple[str, str], ascii_only: bool):
    text = json.dumps(body, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert json.loads(without_ids(text)) == expected(body)
    events = b"event: x\ndata: " + text + b"\n\n: ping\n\n"
    got = without_ids_in_events(events)
    assert got.startswith(b"event: x\ndata: ")
    assert got.endswith(b"\n\n: ping\n\n")
    assert json.loads(got[len(b"event: x\ndata: ") : -len(b"\n\n: ping\n\n")]) == expected(body)


def test_the_bytes_around_a_removed_member_are_kept():
    body = b'{ "a" : 1.50,  "token_ids" : [ 1, 2 ] , "b":"\\u00e9", "prompt_token_ids":null }'
    assert without_ids(body) == b'{ "a" : 1.50 , "b":"\\u00e9" }'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"text": "a#b", "token_ids": [1]}', b'{"text": "a#b"}'),
        (b'{"token_ids": [1], "text": ",#,#b"}', b'{"text": ",#,#b"}'),
        (b'{"a": 1#,#"token_ids"#:#[1,#2]#, "b": 2#}', b'{"a": 1##, "b": 2#}'),
        (b'{"a": 1,#"b": 2, "token_ids": null#}', b'{"a": 1,#"b": 2#}'),
    ],
)
def test_a_megabyte_of_blanks_is_cut_around_as_one_is(body: bytes, expected: bytes):
    # In a process of its own: quadratic work in a regular expression would hold up the whole test run for an hour.
    code = (
        "from daemon.sse import without_ids\n"
        f"body, expected = (text.replace(b'#', b' ' * 2**20) for text in ({body!r}, {expected!r}))\n"
        "assert without_ids(body) == expected\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("body", [b"", b"{", b'["token_ids"]', b'{"choices": 3}', b'{"x": {"token_ids": [1]}}'])
def test_what_holds_no_ids_is_returned_as_it_is(body: bytes):
    assert without_ids(body) == body


@given(
    st.lists(st.sampled_from([b"data: a", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r", b"x"]), max_size=30),
    st.lists(st.integers(1, 9), min_size=1),
)
def test_framing_changes_no_byte_and_cuts_after_whole_events(pieces: list[bytes], sizes: list[int]):
    stream = b"".join(pieces)
    framer, got, at = EventFramer(), list[bytes](), 0
    for turn in range(len(stream)):
        size = sizes[turn % len(sizes)]
        got.append(framer.feed(stream[at : at + size]))
        at += size
    assert b"".join(got) + framer.rest() == stream
    assert all(piece.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")) for piece in got if piece)
    assert b"\n\n" not in framer.rest()
