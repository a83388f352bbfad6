"""Generated sessions in the formats of several harnesses, as big as wanted: what `ops.bench.importing` reads."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import orjson

Said = dict[str, Any]

WORDS = ("pump", "valve", "gauge", "meter", "relay", "hinge", "crate", "label", "spool", "lever", "gasket", "funnel")
RESULT_WORDS = 300
"""Words of a tool's result; results are most of what agents' recordings hold."""


def conversation(number: int) -> list[Said]:
    """Return one session in the shape of chat completions: a failed call and its retry, a correction and its repair.

    All of its texts and ids are its own.
    """
    part = f"{WORDS[number % len(WORDS)]}-{number}"
    stock = " ".join(f"{WORDS[(number + n) % len(WORDS)]} {n * 7}" for n in range(RESULT_WORDS))
    return [
        {"role": "system", "content": f"You keep the store room. Today's list is {number}."},
        {"role": "user", "content": f"How many of {part} are left?"},
        _call(f"call-{number}-1", "count_stock", {"part": part, "room": "north"}),
        {
            "role": "tool",
            "tool_call_id": f"call-{number}-1",
            "content": f"Error: there is no room called north ({part})",
        },
        _call(f"call-{number}-2", "count_stock", {"part": part, "room": "N1"}),
        {"role": "tool", "tool_call_id": f"call-{number}-2", "content": f"{part}: {number % 90} left. {stock}"},
        {"role": "assistant", "content": f"There are {number % 90 + 1} of {part} left."},
        {"role": "user", "content": f"No, that's wrong: the list says {number % 90} of {part}."},
        {"role": "assistant", "content": f"You are right, I misread it: {number % 90} of {part} are left."},
    ]


def _call(call_id: str, name: str, arguments: Mapping[str, Any]) -> Said:
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def _lines(write: Callable[[int, list[Said]], Iterator[Any]]) -> Iterator[bytes]:
    for number in count():
        yield b"".join(orjson.dumps(record) + b"\n" for record in write(number, conversation(number)))


def _exported(_: int, messages: list[Said]) -> Iterator[Any]:
    yield {"messages": messages}


def _calls(number: int, messages: list[Said]) -> Iterator[Any]:
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            response = {"id": f"chatcmpl-{number}-{at}", "object": "chat.completion", "model": "m", "choices": [choice]}
            yield {"request": {"model": "m", "messages": messages[:at]}, "response": response}


def _claude(number: int, messages: list[Said]) -> Iterator[Any]:
    before: str | None = None
    for at, message in enumerate(messages[1:]):
        content: Any = message["content"]
        if calls := message.get("tool_calls"):
            of = [(call["id"], call["function"]) for call in calls]
            content = [
                {"type": "tool_use", "id": name, "name": f["name"], "input": orjson.loads(f["arguments"])}
                for name, f in of
            ]
        elif message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}
            content = [{**block, "is_error": True} if content.startswith("Error") else block]
        elif message["role"] == "assistant":
            content = [{"type": "text", "text": content}]
        role = "assistant" if message["role"] == "assistant" else "user"
        uuid = f"u-{number}-{at}"
        told = {"role": role, "content": content, **({"id": f"msg-{number}-{at}"} if role == "assistant" else {})}
        yield {
            "type": role,
            "uuid": uuid,
            "parentUuid": before,
            "sessionId": f"s-{number}",
            "isSidechain": False,
            "timestamp": "2026-01-05T10:00:00.000Z",
            "message": told,
        }
        before = uuid


def _spans(number: int, messages: list[Said]) -> Iterator[Any]:
    spans: list[Any] = []
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "gen_ai.conversation.id": f"s-{number}",
                "gen_ai.input.messages": orjson.dumps(messages[:at]).decode(),
                "gen_ai.output.messages": orjson.dumps([message]).decode(),
            }
            spans.append(
                {
                    "traceId": f"{number + 1:032x}",
                    "spanId": f"{number * 100 + at + 1:016x}",
                    "name": "chat m",
                    "startTimeUnixNano": str(10**18 + at * 10**9),
                    "endTimeUnixNano": str(10**18 + at * 10**9 + 1),
                    "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
                }
            )
    yield {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


def _tau() -> Iterator[bytes]:
    """Yield one great list, as tau-bench writes its results."""
    for number in count():
        run = {"task_id": number, "trial": 0, "reward": 1.0, "info": {}, "traj": conversation(number)}
        yield (b"," if number else b"[") + orjson.dumps(run, option=orjson.OPT_INDENT_2)
        # The end is not written: whoever takes pieces says when it is enough.


FORMATS: Mapping[str, tuple[str, Callable[[], Iterator[bytes]], bytes]] = {
    "openai_chat": ("openai_chat", lambda: _lines(_exported), b""),
    "openai_chat_calls": ("openai_chat", lambda: _lines(_calls), b""),
    "claude_code": ("claude_code", lambda: _lines(_claude), b""),
    "tau_bench": ("tau_bench", _tau, b"]"),
    "otel_genai": ("otel_genai", lambda: _lines(_spans), b""),
}
"""What can be written: the format it is read as, the pieces of a file without an end, and what ends one."""
