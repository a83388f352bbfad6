"""Chat messages as they come off the wire: their text, their calls, and a form in which two echoes are equal."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness_adapters.fields import mapping, mappings
from harness_adapters.jsontext import value_in
from harness_adapters.trace import Message, ToolCall

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


def messages_of(request: Mapping[str, Any]) -> list[Message]:
    """Return the request's messages; none for a text completion, whose prompt is no conversation."""
    return mappings(request.get("messages"))


def answer_of(response: Mapping[str, Any] | None) -> Message | None:
    """Return the message of the response's first choice; None where there is none, as in an error body."""
    choices = (response or {}).get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return None
    message = cast("Mapping[str, Any]", choices[0]).get("message")
    return {"role": "assistant", **message} if isinstance(message, Mapping) else None


def refused_of(response: Mapping[str, Any] | None) -> Message | None:
    """Return the message that the model wrote and the server refused to pass on, as an assistant's; None without one.

    Groq answers 400 with it in `failed_generation` when a call does not fit its tool.
    """
    error = (response or {}).get("error")
    text = error.get("failed_generation") if isinstance(error, Mapping) else None
    if not isinstance(text, str) or not text:
        return None
    call = value_in(text)
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        return {"role": "assistant", "content": text}
    function = {"name": call["name"], "arguments": _json(call.get("arguments") or {})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "", "type": "function", "function": function}]}


def text_of(content: object) -> str:
    """Return the text of a message's content, which may be a string, a list of parts, or null."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part if isinstance(part, str) else part.get("text") or part.get("refusal") for part in _parts(content)]
    return "\n".join(part for part in parts if isinstance(part, str))


def plain_content(parts: Sequence[Mapping[str, Any]]) -> str | list[Mapping[str, Any]]:
    """Return parts as a message's content: one text where there is nothing but text."""
    return text_of(list(parts)) if all(part.get("type") == "text" for part in parts) else list(parts)


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    """Return the calls of an assistant message; those without a function name are kept with an empty one."""
    calls: list[ToolCall] = []
    for call in mappings(message.get("tool_calls")):
        body = mapping(call.get("function") or call.get("custom"))
        arguments = body.get("arguments", body.get("input"))
        calls.append(
            ToolCall(
                id=str(call.get("id") or ""),
                name=str(body.get("name") or ""),
                arguments=arguments if isinstance(arguments, str) else _json(arguments or {}),
            )
        )
    return tuple(calls)


def canonical(message: Message) -> str:
    """Return the message in a form that does not depend on how a client echoes it.

    Kept: role, content, tool calls, tool call id. Left out: every other member, the difference between null, missing
    and empty content or between a string and a list of text parts, and, of an assistant's text, the white space round
    it and a leading block of thinking, which clients add (from `reasoning_content`) or take away. Digits of system
    texts are levelled, as many agents write the time of day there.
    """
    role = str(message.get("role") or "")
    content = message.get("content")
    if isinstance(content, list) and not all(_is_text(part) for part in _parts(content)):
        body = _json(content)
    else:
        body = text_of(content)
    if role == "assistant":
        body = _THINKING.sub("", body).strip()
    elif role in ("system", "developer"):
        body = re.sub(r"\d+", "0", body)
    calls = [[c.id, c.name, c.arguments] for c in calls_of(message)]
    return _json([role, body, calls, message.get("tool_call_id") or ""])


def _is_text(part: object) -> bool:
    return isinstance(part, str) or (isinstance(part, Mapping) and "text" in part)


def _parts(content: Sequence[object]) -> list[Any]:
    return [part for part in content if isinstance(part, str | Mapping)]


_json = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str).encode
