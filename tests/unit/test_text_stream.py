"""Streamed text: never half a character, never a piece of a stop string, never a special token."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.embedded_batch import load_tokenizer
from daemon.embedded_worker import TextStream

HALF = "\ufffd"


@pytest.fixture(scope="module")
def tokenizer(tiny_base: Path) -> Any:
    return load_tokenizer(tiny_base)


def streamed(tokenizer: Any, ids: list[int], stop: tuple[str, ...] = ()) -> tuple[list[str], str | None]:
    """Return the pieces of text that the ids give and the stop string that ended them."""
    stream, pieces = TextStream(tokenizer, stop), list[str]()
    for token in ids:
        pieces.append(stream.push(token))
        if stream.stopped_by is not None:
            return pieces, stream.stopped_by
    return [*pieces, stream.finish()], None


@given(text=st.text(max_size=60))
def test_pieces_add_up_to_the_text(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces, _ = streamed(tokenizer, ids)
    assert "".join(pieces) == text


@given(text=st.text(alphabet="aé北🙂 ", max_size=30))
def test_no_piece_ends_inside_a_character(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces, _ = streamed(tokenizer, ids)
    assert all(HALF not in piece for piece in pieces)


@given(ids=st.lists(st.integers(3, 477), max_size=40))
def test_any_ids_stream_as_they_decode(tokenizer: Any, ids: list[int]) -> None:
    whole = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    text = "".join(streamed(tokenizer, ids)[0])
    assert whole.startswith(text)
    assert text == whole or whole.endswith(HALF), "only bytes after the last whole character may be missing"


@given(text=st.text(alphabet="abc é", max_size=40), stops=st.lists(st.text(alphabet="abc é", min_size=1, max_size=4)))
def test_text_ends_before_the_first_stop_string(tokenizer: Any, text: str, stops: list[str]) -> None:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces, stopped_by = streamed(tokenizer, ids, tuple(stops))
    found = "".join(pieces)
    assert text.startswith(found)
    if stopped_by is None:
        assert found == text
        assert not any(stop in text for stop in stops)
    else:
        assert text.startswith(stopped_by, len(found))
        assert not any(stop in found for stop in stops)


def test_special_tokens_are_left_out(tokenizer: Any) -> None:
    ids = tokenizer("<|im_start|>hello<|im_end|>", add_special_tokens=False)["input_ids"]
    assert "".join(streamed(tokenizer, ids)[0]) == "hello"
