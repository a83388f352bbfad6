"""What is made of input that is broken, odd or meant to take long."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from adapter_files import exchanges, jsonl, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_adapters import scan as scanning
from harness_adapters.anthropic_blocks import message_of
from harness_adapters.authors import author_of
from harness_adapters.claude_queue import Queue
from harness_adapters.codex_texts import typed
from harness_adapters.jsontext import MAX_DEPTH, closed, mended, value_in
from harness_adapters.openai_chat import OpenAIChat
from harness_adapters.records import Record, Unread, read_records
from harness_adapters.response_items import response_of
from harness_adapters.streams import assemble, chunks_of
from harness_adapters.tau import TauBench
from harness_adapters.trace import Author

MANY = 100_000


def chunk(delta: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}], **members}


def sse(*events: str) -> bytes:
    return "".join(f"data: {event}\n\n" for event in events).encode()


# Texts that hold JSON


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a \ud83d"', "a \ufffd"),
        (r'{"\udc00": "\ud83d\ude00"}', {"\ufffd": "\U0001f600"}),
        ('"half \udc80"', "half \ufffd"),
        ("[NaN, 1e999]", [None, None]),
        ("{", None),
        ("[" * 2000 + "]" * 2000, None),
    ],
    ids=["half", "half and whole", "escaped byte", "numbers", "cut", "deep"],
)
def test_a_text_is_read_as_json_that_can_be_written_again(text: str, value: Any) -> None:
    assert value_in(text) == value
    orjson.dumps(value_in(text))


@given(st.text(st.characters(), max_size=30))
def test_any_text_can_be_mended(text: str) -> None:
    mended(text).encode()
    orjson.dumps(value_in(json.dumps([text])))


def test_a_character_cut_in_two_between_chunks_is_joined() -> None:
    body = sse(
        json.dumps(chunk({"content": "a \ud83d"})),
        json.dumps(chunk({"content": "\ude00!"})),
        json.dumps(chunk({"content": "\ud83d"})),
    )
    whole = assemble(chunks_of(body))
    assert whole["choices"][0]["message"]["content"] == "a \U0001f600!\ufffd"
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    halves = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}} for t in "\ud83d\ude00"
    ]
    assert message_of([block, *halves])["content"][0]["text"] == "\U0001f600"
    item = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "content": []}}
    pieces = [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": t}
        for t in "\ud83d\ude00"
    ]
    assert response_of([item, *pieces])["output"][0]["content"][0]["text"] == "\U0001f600"


def test_an_error_in_a_stream_can_be_written_again() -> None:
    (told_error,) = chunks_of(sse(json.dumps({"error": {"message": "no \ud83d"}})))
    orjson.dumps(told_error)


# Streamed answers of odd types

ODD = st.sampled_from([None, 7, "q", True, 1.5, [], [1], [[]], {}, {"a": 1}, [{}], "", {"content": [1]}, -1])


@settings(deadline=None)
@given(st.data())
def test_no_chunk_makes_assembling_fail(data: st.DataObject) -> None:
    def mostly(usual: Any) -> Any:
        return data.draw(ODD) if data.draw(st.integers(0, 3)) == 0 else usual

    chunks: list[dict[str, Any]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        function = {"name": mostly("f"), "arguments": mostly("{}")}
        calls = [{"index": mostly(0), "id": mostly("a"), "type": mostly("function"), "function": mostly(function)}]
        delta = {"content": mostly("x"), "tool_calls": mostly(calls), "function_call": mostly(function)}
        choice = {"index": mostly(0), "delta": mostly(delta), "logprobs": mostly({"content": mostly([])})}
        choice |= {"token_ids": mostly([1]), "text": mostly("t"), "finish_reason": mostly(None)}
        chunks.append(
            {"id": mostly("c"), "object": mostly("x"), "usage": mostly({}), "choices": mostly([mostly(choice)])}
        )
    whole = assemble(chunks)
    assert isinstance(whole["choices"], list)
    orjson.dumps(whole)


@pytest.mark.parametrize(
    "choices", [7, [{"index": [1]}], [{"index": 0, "delta": {"tool_calls": 5}}], [{"index": "a"}, {"index": 1}]]
)
def test_choices_of_odd_types_are_left_out(choices: Any) -> None:
    first = chunk({"content": "Moin"})
    assert assemble([first, {**first, "choices": choices}])["choices"][0]["message"]["content"] == "Moin"


def test_chunks_of_answers_that_come_at_once_or_have_no_id_are_told_apart() -> None:
    mixed = [chunk({"content": text}, id=name) for name, text in [("a", "A"), ("b", "B"), ("a", "a"), ("b", "b")]]
    ends = {"index": 0, "delta": {"content": "."}, "finish_reason": "stop"}
    usage = {**chunk({}), "choices": [], "usage": {"completion_tokens": 2}}
    nameless = [chunk({"content": "C"}), {**chunk({}), "choices": [ends]}, usage, chunk({"content": "D"})]
    for record in nameless:
        del record["id"]
    found = [exchange.response or {} for exchange in exchanges(OpenAIChat(), jsonl(*mixed, *nameless))]
    said = [answer["choices"][0]["message"]["content"] for answer in found]
    assert sorted(said) == ["Aa", "Bb", "C.", "D"]


# Texts that are meant to take long


@pytest.mark.parametrize("piece", ["<context>", "<context ", "<skill><name>", "<context><skill ", "<system-reminder>x"])
def test_blocks_without_an_end_are_what_was_typed(piece: str) -> None:
    text = piece * MANY
    assert author_of({"role": "user", "content": text}).text == text.strip()


@pytest.mark.parametrize(
    "words",
    ["<" + "a_" * MANY, "<a" + "_a" * MANY + " ", "<" + "a" * MANY + "_"],
    ids=["many", "many more", "one long"],
)
def test_a_tag_without_an_end_is_what_was_typed(words: str) -> None:
    assert typed([{"type": "text", "text": words}]) == words


@pytest.mark.parametrize(
    "said",
    [" " * MANY, "Action: {" * MANY, "Action: " + " " * MANY, "###STOP### " * MANY],
    ids=["white space", "calls", "a call of white space", "ends"],
)
def test_benchmarks_say_what_they_like(said: str) -> None:
    messages = [{"role": "user", "content": said}, {"role": "assistant", "content": said}]
    (trace,) = traces(TauBench(), jsonl({"task_id": 1, "trial": 0, "traj": messages}))
    assert not trace.turns[1].tool_calls


def test_commands_without_an_end_are_passed_on() -> None:
    queue = Queue([], [])
    value = {"operation": "enqueue", "content": "<command-name>" * MANY}
    assert not queue.take(0, 0, value)
    assert len(queue.left()) == 1


@pytest.mark.parametrize(
    ("text", "author", "words"),
    [
        ("<context>Ports open at six.</context>", Author.HUMAN, "<context>Ports open at six.</context>"),
        ("<skill>rowing</skill>", Author.HUMAN, "<skill>rowing</skill>"),
        ("<context>x</context>\nRead it.", Author.HUMAN, "Read it."),
        ("<context>x</context><system-reminder>y</system-reminder>", Author.HUMAN, "<context>x</context>"),
        ("<skill>\n<name>row</name>\n</skill>", Author.CLIENT, "<skill>\n<name>row</name>\n</skill>"),
        ("What does ###STOP### mean?", Author.HUMAN, "What does ###STOP### mean?"),
        ("Thanks.\n###STOP###\nBye.", Author.SIMULATED_USER, "Thanks.\n\nBye."),
        ("Thanks. ###STOP###\n", Author.SIMULATED_USER, "Thanks."),
    ],
)
def test_who_is_held_to_have_written_what_a_person_may_type(text: str, author: Author, words: str) -> None:
    found = author_of({"role": "user", "content": text})
    assert (found.author, found.text) == (author, words)


# Documents that do not end


class Counting:
    """Counts the bytes of the tokens that are looked at, and fails where they are too many."""

    def __init__(self, pattern: re.Pattern[bytes], most: int) -> None:
        self.pattern = pattern
        self.most = most

    def finditer(self, *where: Any) -> Iterator[re.Match[bytes]]:
        for token in self.pattern.finditer(*where):
            self.most -= len(token[0])
            assert self.most > 0, "the stream is looked through too often"
            yield token


@pytest.mark.parametrize(
    "body",
    [
        b"{\n" * 20000,
        b'{"\n' * 20000,
        b'{\n"a": [1, {"b": 2}], "c":\n' * 5000,
        b"{\n" * 99 + b'{"b": 2},\n' * 5000,
        (b"{\n" * 50 + b"x" + b"}\n" * 50) * 200,
        b'{\n"a": "' + b'b,\n{"c": "d"}\n' * 5000,
        b'"' + b"a" * 3_000_000,
        b"[\n" + b"1,\n" * 500_000,
    ],
    ids=[
        "open",
        "open names",
        "open lists",
        "a hundred levels",
        "closed and wrong",
        "a quote too many",
        "a text",
        "numbers",
    ],
)
def test_a_stream_is_looked_through_a_few_times_at_most(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(scanning._TOKEN, most=12 * len(body))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(scanning, "_TOKEN", counting)
    found = list(read_records(io.BytesIO(body)))
    assert any(isinstance(item, Unread) for item in found)


def test_what_is_nested_too_deeply_costs_no_other() -> None:
    deep = b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)
    found = list(read_records(io.BytesIO(b'{\n"a":' + deep + b'\n}\n{\n"b": 1\n}')))
    assert [item.value for item in found if isinstance(item, Record)] == [{"b": 1}]
    found = list(read_records(io.BytesIO(b"[\n" + deep + b',\n{"b": 1}\n]')))
    assert [(item.index, item.value) for item in found if isinstance(item, Record)] == [(1, {"b": 1})]
    assert [(item.line, item.raw) for item in found if isinstance(item, Unread)] == [(2, deep)]


def test_a_document_too_deep_to_be_closed_is_closed_before_that() -> None:
    assert closed(b'{"a": 1, "b": ' + b"[" * MANY) == b'{"a": 1}'
