import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinting.reply import read_reply


def test_calls_and_thinking_are_taken_out_of_the_text() -> None:
    raw = (
        "<think>which one?</think>\nLet me look.\n"
        '<tool_call>\n{"name": "find", "arguments": {"city": "Zürich"}}\n</tool_call>'
        '<tool_call>{"name": "ping", "arguments": "{\\"n\\": 1}"}</tool_call>'
    )
    text, calls = read_reply(raw)
    assert text == "Let me look."
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("find", {"city": "Zürich"}),
        ("ping", {"n": 1}),
    ]


@pytest.mark.parametrize(
    "raw", ['<tool_call>{"name": "find", "argu', "<tool_call>[1]</tool_call>", "<tool_call></tool_call>"]
)
def test_a_call_that_cannot_be_read_is_a_broken_call_not_none(raw: str) -> None:
    text, (call,) = read_reply(raw)
    assert (text, call.name) == ("", "")


def test_thinking_without_an_end_shows_nothing() -> None:
    assert read_reply("<think>hm, let me") == ("", ())


def test_a_template_that_opens_the_thinking_itself() -> None:
    assert read_reply("short thought</think>Yes.") == ("Yes.", ())


@given(st.text())
def test_any_text_reads(raw: str) -> None:
    read_reply(raw)
