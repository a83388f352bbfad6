import json
from dataclasses import replace
from typing import Any

import pytest
from adapter_files import head_of, jsonl, traces
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.atif import Atif
from harness_adapters.conversation import Conversation
from harness_adapters.export import to_atif, to_openai_chat
from harness_adapters.openai_chat import OpenAIChat
from harness_adapters.trace import Author, Outcome, Trace

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.sampled_from(["c-1", "c-2", "c-3", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT, lambda inner: st.lists(inner, max_size=2), max_leaves=4
)
PART = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}),
    st.sampled_from(["data:image/png;base64,aWk=", "https://x/a.JPG?b=1", "a.tiff", ""]).map(
        lambda url: {"type": "image_url", "image_url": {"url": url}}
    ),
    st.fixed_dictionaries({"type": st.just("file"), "file": st.fixed_dictionaries({"file_id": TEXT})}),
)
CONTENT = st.none() | TEXT | st.lists(PART, max_size=3)
ARGUMENTS = st.sampled_from(["{}", '{"bed":"roses"}', '{"bed": "roses"}', "not JSON", "[1]", '{"é": "\\u00e9"}'])
CALL = st.one_of(
    st.fixed_dictionaries(
        {
            "id": NAMES,
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": TEXT, "arguments": ARGUMENTS}),
        }
    ),
    st.fixed_dictionaries(
        {"id": NAMES, "type": st.just("custom"), "custom": st.fixed_dictionaries({"name": TEXT, "input": ARGUMENTS})}
    ),
)
MORE = st.fixed_dictionaries(
    {}, optional={"name": JSON, "is_error": st.booleans(), "refusal": TEXT, "reasoning_content": TEXT}
)
MESSAGE = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "developer", "critic"]), "content": CONTENT}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": CONTENT}, optional={"tool_calls": st.lists(CALL, max_size=3)}
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": CONTENT}, optional={"tool_call_id": NAMES}),
)
HINTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "author": st.none() | st.sampled_from(Author),
        "outcome": st.none() | st.sampled_from(Outcome),
        "text": TEXT,
        "answers": NAMES,
        "shown": st.booleans(),
        "exchange_id": st.none() | st.just("exchange-1"),
        "response_id": st.none() | st.just("resp-1"),
        "version": st.none() | st.just("garden@v2"),
    },
)


@st.composite
def some_traces(draw: st.DrawFn) -> Trace:
    conversation = Conversation()
    for message, more, hints in draw(st.lists(st.tuples(MESSAGE, MORE, HINTS), max_size=6)):
        conversation.add({**message, **more}, place=draw(st.none() | st.integers(0, 9)), **hints)
    return conversation.trace(
        draw(st.sampled_from(["claude_code", "openai_chat"])),
        draw(st.none() | TEXT),
        tenant=draw(st.sampled_from(["default", "north"])),
        parent=draw(st.none() | st.just("main")),
        user=draw(st.none() | st.just("Ada")),
        tools=draw(st.lists(st.just({"type": "function", "function": {"name": "water"}}), max_size=2)),
        complete=draw(st.booleans()),
        inherited=draw(st.integers(0, 3)),
        is_named=draw(st.booleans()),
    )


def without_places(trace: Trace) -> Trace:
    turns = (
        replace(turn, place=None, tool_calls=tuple(replace(call, place=None) for call in turn.tool_calls))
        for turn in trace.turns
    )
    return replace(trace, turns=tuple(turns))


@given(some_traces())
def test_a_chat_line_read_again_is_the_same_trace(trace: Trace) -> None:
    body = jsonl(to_openai_chat(trace))
    assert OpenAIChat().recognises(head_of(body))
    (again,) = traces(OpenAIChat(), body)
    assert without_places(again) == without_places(trace)


@given(some_traces())
def test_an_atif_document_read_again_is_the_same_trace(trace: Trace) -> None:
    body = json.dumps(to_atif(trace), indent=1).encode()
    assert Atif().recognises(head_of(body))
    (again,) = traces(Atif(), body)
    assert without_places(again) == without_places(trace)


@given(some_traces())
def test_an_atif_document_keeps_the_rules_of_the_format(trace: Trace) -> None:
    told = to_atif(trace)
    known = {"step_id", "source", "message", "reasoning_content", "tool_calls", "observation", "extra"}
    for number, step in enumerate(told["steps"], 1):
        assert step["step_id"] == number
        assert set(step) <= known
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        assert all(isinstance(call["arguments"], dict) for call in step.get("tool_calls", ()))
        assert step["source"] == "agent" or not calls | {step.get("reasoning_content")} - {None}
        for result in step.get("observation", {"results": ()})["results"]:
            assert result["source_call_id"] is None or result["source_call_id"] in calls


def small() -> Trace:
    conversation = Conversation()
    conversation.add({"role": "user", "content": "<task>Water the roses.</task>"})
    call = {"id": "c-1", "type": "function", "function": {"name": "water", "arguments": '{"bed": "roses"}'}}
    conversation.add({"role": "assistant", "content": "I do.", "tool_calls": [call]})
    conversation.add({"role": "tool", "tool_call_id": "c-1", "content": "no hose"}, flag=True)
    conversation.add({"role": "assistant", "content": "Which hose?"}, shown=False)
    conversation.add({"role": "user", "content": "The green one."})
    return conversation.trace("codex", "run-1")


def test_other_tools_find_a_plain_conversation() -> None:
    line = to_openai_chat(small())
    assert [message["role"] for message in line["messages"]] == ["user", "assistant", "tool", "user"]
    del line["secondnature"]
    (again,) = traces(OpenAIChat(), jsonl(line))
    assert [turn.text for turn in again.turns] == ["Water the roses.", "I do.", "no hose", "The green one."]


def test_other_tools_find_a_plain_trajectory() -> None:
    told = to_atif(small())
    assert [step["source"] for step in told["steps"]] == ["user", "agent", "user"]
    assert told["steps"][1]["observation"]["results"][0]["source_call_id"] == "c-1"
    assert told["agent"]["name"] == "codex"
    for holder in (told, *told["steps"]):
        holder.pop("extra")
    (again,) = traces(Atif(), json.dumps(told).encode())
    assert [turn.text for turn in again.turns] == ["Water the roses.", "I do.", "no hose", "The green one."]


@pytest.mark.parametrize(
    "wrong", [{}, {"turns": 3, "hidden": [4, {"at": "x"}]}, {"turns": [{"author": "moon", "set": 1, "unset": 2}]}]
)
def test_what_was_kept_and_then_broken_is_passed_over(wrong: dict[str, Any]) -> None:
    line = {**to_openai_chat(small()), "secondnature": wrong}
    (again,) = traces(OpenAIChat(), jsonl(line))
    assert [turn.text for turn in again.turns if turn.text][:2] == ["Water the roses.", "I do."]
