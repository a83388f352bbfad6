import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.chatlike import answers_of, chat_messages, request_of, with_ids
from harness_adapters.chatparts import content_of, loose, tools_of
from harness_adapters.times import instant


def call(call_id: str, arguments: str = '{"n": 1}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


ASKED = {"role": "user", "content": "go"}
CALLED = {"role": "assistant", "content": "", "tool_calls": [call("c1")]}
THOUGHT = {"role": "assistant", "content": "on it", "reasoning_content": "hm", "tool_calls": [call("c1")]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "no"}
FAILED = RESULT | {"is_error": True}


@pytest.mark.parametrize(
    ("given_messages", "expected"),
    [
        ("go", [ASKED]),
        ([["user", "go"], ["ai", "yes"]], [ASKED, {"role": "assistant", "content": "yes"}]),
        ([[{"role": "user", "content": "go"}], [{"role": "user", "content": "of the next prompt"}]], [ASKED]),
        (
            [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "x"},
                        {"type": "text", "text": "on it"},
                        {"type": "tool_use", "id": "c1", "name": "f", "input": {"n": 1}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": "no"},
                        {"type": "text", "text": "go"},
                    ],
                },
            ],
            [THOUGHT, FAILED, ASKED],
        ),
        (
            [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "on it"}]},
                {"type": "function_call", "call_id": "c1", "id": "fc", "name": "f", "arguments": '{"n": 1}'},
                {"type": "function_call_output", "call_id": "c1", "output": "no"},
            ],
            [ASKED, THOUGHT, RESULT],
        ),
        (
            [
                {
                    "role": "model",
                    "parts": [{"text": "hm", "thought": True}, {"functionCall": {"id": "c1", "name": "f"}}],
                }
            ],
            [
                {
                    "role": "assistant",
                    "content": "",
                    "reasoning_content": "hm",
                    "tool_calls": [call("c1", "{}")],
                }
            ],
        ),
        (
            [{"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "no"}]}}]}],
            [RESULT],
        ),
        (
            [{"role": "assistant", "function_call": {"name": "f", "arguments": '{"n": 1}'}}],
            [CALLED | {"tool_calls": [call("")]}],
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": json.dumps([{"id": "c1", "name": "f", "arguments": {"n": 1}}]),
                }
            ],
            [CALLED],
        ),
        (
            [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "go"}, {"type": "image_url", "image_url": {"url": "u"}}],
                }
            ],
            None,
        ),
    ],
)
def test_messages(given_messages: Any, expected: Any) -> None:
    if expected is None:  # images stay as they are
        assert chat_messages(given_messages) == given_messages
    else:
        assert chat_messages(given_messages) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        {"role": "assistant", "content": "yes"},
        {"content": "yes"},
        {"text": "yes"},
        {"answer": "yes", "score": 3},
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]},
        {"generations": [[{"text": "yes", "message": {"type": "ai", "content": "yes"}}]]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "yes"}]}}]},
        {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}]},
        {"output": {"message": {"role": "assistant", "content": [{"text": "yes"}]}}, "stopReason": "end_turn"},
        [{"type": "text", "text": "yes"}],
        {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "yes"}]},
    ],
)
def test_answers(answer: Any) -> None:
    assert answers_of(answer) == [{"role": "assistant", "content": "yes"}]


def test_an_answer_that_is_an_object_is_told_as_json() -> None:
    assert answers_of({"a": 1, "b": 2}) == [{"role": "assistant", "content": '{"a": 1, "b": 2}'}]
    assert answers_of({"finish_reason": "stop"}) == []


def test_requests() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}
    flat = {"name": "f", "input_schema": {"type": "object"}}
    system = {"role": "system", "content": "be brief"}
    assert request_of({"system": "be brief", "messages": [ASKED], "tools": [flat], "model": "m"}) == {
        "messages": [system, ASKED],
        "tools": [tool],
        "model": "m",
    }
    assert request_of({"instructions": "be brief", "input": "go", "previous_response_id": "r"}) == {
        "messages": [system, ASKED],
        "previous_response_id": "r",
    }
    google = {
        "config": {"system_instruction": {"parts": [{"text": "be brief"}]}},
        "contents": [{"parts": [{"text": "go"}]}],
    }
    assert request_of(google)["messages"] == [system, ASKED]
    assert tools_of([{"function_declarations": [flat]}, json.dumps(tool), {"type": "web_search"}, 3]) == [tool, tool]


def test_calls_and_results_without_ids_are_given_the_same_ones_in_every_request() -> None:
    said = [ASKED, CALLED | {"tool_calls": [call(""), call("", "{}")]}, {**RESULT, "tool_call_id": ""}]
    first, second = with_ids(said), with_ids([*said, {**RESULT, "tool_call_id": ""}, ASKED])
    assert second[:3] == first
    ids = [c["id"] for c in first[1]["tool_calls"]]
    assert len({*ids, ""}) == 3
    assert [message["tool_call_id"] for message in second[2:4]] == ids


def test_results() -> None:
    assert content_of([{"type": "text", "text": "a"}]) == "a"
    assert content_of([1, 2]) == "[1, 2]"
    assert content_of({"a": None}) == '{"a": null}'
    image = {"type": "image", "source": {}}
    assert content_of([{"type": "text", "text": "a"}, image]) == [{"type": "text", "text": "a"}, image]


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["role", "type", "content", "parts", "text", "message", "tool_calls", "data", "kwargs", "lc", "id"]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(_json)
def test_anything_is_read(value: Any) -> None:
    for message in with_ids([*request_of(value)["messages"], *answers_of(value), *chat_messages(value)]):
        assert isinstance(message["role"], str)
        assert isinstance(message["content"], str | list)
        assert all(isinstance(c["function"]["arguments"], str) for c in message.get("tool_calls") or [])
    tools_of(value)
    content_of(value)


@given(_json.filter(lambda value: isinstance(value, dict | list) and bool(value)), st.data())
def test_json_text_that_was_cut_off_is_read_up_to_its_last_whole_part(value: Any, data: st.DataObject) -> None:
    whole = json.dumps(value)
    assert loose(whole) == (value, False)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    found, is_cut = loose(cut)
    assert is_cut or found == cut
    if is_cut:
        assert isinstance(found, dict | list)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2025-03-01T10:00:00Z", 1740823200.0),
        ("2025-03-01T10:00:00.5", 1740823200.5),
        ("2025-03-01T11:00:00+01:00", 1740823200.0),
        ("1740823200000000000", 1740823200.0),
        (1740823200000000, 1740823200.0),
        (1740823200500, 1740823200.5),
        (1740823200.25, 1740823200.25),
        ("soon", None),
        ("9" * 5000, None),
        (True, None),
        (float("inf"), None),
        (-1, None),
        (None, None),
        ([], None),
    ],
)
def test_times(value: Any, seconds: float | None) -> None:
    assert instant(value) == seconds
