import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.openai_chat import sampled_of
from harness_adapters.streams import assemble, chunks_of, sse_events


def chunk(delta: dict[str, Any], index: int = 0, **members: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None, **members}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """Whole answers: texts, reasoning, tool calls, ids and log-probabilities, over one to three choices."""
    choices: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 3))):
        message: dict[str, Any] = {"role": "assistant", "content": draw(st.none() | st.text(min_size=1))}
        if draw(st.booleans()):
            message["reasoning_content"] = draw(st.text(min_size=1))
        names = draw(st.lists(st.sampled_from(["get", "set", "find"]), max_size=3))
        if names:
            message["tool_calls"] = [
                {"id": f"call_{index}_{at}", "type": "function", "function": {"name": n, "arguments": draw(st.text())}}
                for at, n in enumerate(names)
            ]
        ids = draw(st.lists(st.integers(0, 99), min_size=1, max_size=6))
        logprobs = {"content": [{"token": "t", "logprob": -0.5} for _ in ids]}
        choices.append(
            {"index": index, "message": message, "token_ids": ids, "logprobs": logprobs, "finish_reason": "stop"}
        )
    tokens = sum(len(c["token_ids"]) for c in choices)
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "prompt_token_ids": [1, 2],
        "usage": {"completion_tokens": tokens},
        "choices": choices,
    }


@st.composite
def streamed(draw: st.DrawFn, whole: dict[str, Any], same_index: bool) -> list[dict[str, Any]]:
    """The answer in pieces cut anywhere, with the members a server adds to a stream."""

    def pieces(text: str) -> list[str]:
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    chunks: list[dict[str, Any]] = []
    for choice in whole["choices"]:
        at, message = choice["index"], choice["message"]
        chunks.append(chunk({"role": "assistant", "content": None}, at))
        for name in ("reasoning_content", "content"):
            if message.get(name) is not None:
                chunks += [chunk({name: piece}, at) for piece in pieces(message[name])]
        for slot, call in enumerate(message.get("tool_calls", [])):
            index = 0 if same_index else slot
            opening = {"index": index, "id": call["id"], "type": "function"}
            chunks.append(chunk({"tool_calls": [{**opening, "function": {"name": call["function"]["name"]}}]}, at))
            for piece in pieces(call["function"]["arguments"]):
                chunks.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, at))
        for token, logprob in zip(choice["token_ids"], choice["logprobs"]["content"], strict=True):
            chunks.append(chunk({}, at, token_ids=[token], logprobs={"content": [logprob]}))
        chunks.append(chunk({}, at, finish_reason="stop"))
    chunks[0]["prompt_token_ids"] = whole["prompt_token_ids"]
    for c in chunks:
        c["usage"] = None
        c["obfuscation"] = "x7"
    return [*chunks, {**chunks[0], "choices": [], "usage": whole["usage"]}]


@given(st.data(), answers(), st.booleans())
def test_a_stream_cut_anywhere_is_the_answer_that_was_not_streamed(
    data: st.DataObject, whole: dict[str, Any], same_index: bool
) -> None:
    assert assemble(data.draw(streamed(whole, same_index))) == whole


def test_null_arguments_and_a_call_without_any_make_an_empty_string() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "now", "arguments": None}}
    message = assemble([chunk({"tool_calls": [call]})])["choices"][0]["message"]
    assert message["tool_calls"] == [{"id": "a", "function": {"name": "now", "arguments": ""}, "type": "function"}]


def test_an_id_and_name_repeated_in_every_piece_are_not_glued() -> None:
    pieces = [
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get", "arguments": part}}]})
        for part in ('{"x"', ": 1}")
    ]
    (call,) = assemble(pieces)["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "get", "arguments": '{"x": 1}'}


def test_text_completion_chunks_are_joined() -> None:
    base: dict[str, Any] = {"id": "t", "object": "text_completion", "model": "m"}
    first: dict[str, Any] = {"index": 0, "text": "a", "prompt_token_ids": [7], "token_ids": [1], "finish_reason": None}
    first["logprobs"] = {"token_logprobs": [-1.0], "tokens": ["a"]}
    second: dict[str, Any] = {"index": 0, "text": "b", "token_ids": [2], "finish_reason": "length"}
    second["logprobs"] = {"token_logprobs": [-2.0], "tokens": ["b"]}
    whole = assemble([{**base, "choices": [first]}, {**base, "choices": [second]}])
    assert whole["object"] == "text_completion"
    assert whole["choices"][0]["text"] == "ab"
    assert whole["choices"][0]["finish_reason"] == "length"
    sampled = sampled_of(whole)
    assert sampled is not None
    assert (sampled.prompt_ids, sampled.completion_ids, sampled.logprobs) == ((7,), (1, 2), (-1.0, -2.0))


def test_an_error_in_the_stream_is_kept() -> None:
    assert assemble([chunk({"content": "x"}), {"error": {"message": "gone"}}])["error"] == {"message": "gone"}


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=8), max_size=3), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_events_survive_every_line_end(objects: list[dict[str, str]], end: str) -> None:
    lines = [": ping", ""]
    for item in objects:
        lines += ["event: x", *(f"data: {line}" for line in json.dumps(item, indent=1).split("\n")), ""]
    body = end.join([*lines, "data: [DONE]", "", ""]).encode()
    assert chunks_of(body) == objects
    assert sse_events(body)[-1] == "[DONE]"


@given(st.integers(0, 200))
def test_a_stream_cut_off_anywhere_gives_whole_chunks_alone(at: int) -> None:
    chunks = [chunk({"content": "é\u2028"}), chunk({"content": "b"})]
    body = "".join(f"data: {json.dumps(c, ensure_ascii=False)}\n\n" for c in chunks).encode()
    read = chunks_of(body[: len(body) - at])
    assert read == chunks[: len(read)]


def test_a_line_separator_inside_a_text_ends_no_line() -> None:
    assert sse_events('data: {"a":"x\u2028y"}\n\n'.encode()) == ['{"a":"x\u2028y"}']


WHOLE: dict[str, Any] = {
    "prompt_token_ids": [1, 2],
    "usage": {"completion_tokens": 2},
    "choices": [
        {
            "index": 0,
            "token_ids": [3, 4],
            "logprobs": {"content": [{"logprob": -0.1}, {"logprob": -0.2}]},
            "message": {},
        }
    ],
}


def test_complete_ids_are_taken() -> None:
    sampled = sampled_of(WHOLE)
    assert sampled is not None
    assert sampled.completion_ids == (3, 4)
    assert sampled.logprobs == (-0.1, -0.2)


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_token_ids": None},
        {"prompt_token_ids": ["1"]},
        {"usage": {"completion_tokens": 3}},
        {"choices": []},
        {"choices": [{"index": 0, "token_ids": [], "message": {}}]},
        {"choices": [{"index": 0, "token_ids": [3, True], "message": {}}]},
        {"choices": [{"index": 0, "message": {}}]},
    ],
)
def test_incomplete_ids_are_never_guessed(change: dict[str, Any]) -> None:
    assert sampled_of({**WHOLE, **change}) is None


def test_log_probabilities_that_do_not_match_are_left_out() -> None:
    choice = {**WHOLE["choices"][0], "logprobs": {"content": [{"logprob": -0.1}]}}
    sampled = sampled_of({**WHOLE, "choices": [choice]})
    assert sampled is not None
    assert sampled.logprobs is None
