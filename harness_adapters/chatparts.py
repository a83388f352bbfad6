"""Parts of messages as vendors and frameworks write them: words, thoughts, tool calls and their results.

Read are the parts of OpenAI, Anthropic, Google, Bedrock, OpenTelemetry, LangChain, OpenInference and the Vercel AI SDK.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from harness_adapters.errors import RecordError
from harness_adapters.fields import mapping, mappings, text, tool_call
from harness_adapters.jsontext import closed, mended, parse

Chat = dict[str, Any]
"""A message, a call or a tool in OpenAI's chat shape."""

_CALLS = ("tool_call", "tool_use", "tool-call", "function_call", "server_tool_use", "custom_tool_call")
_RESULTS = ("tool_call_response", "tool_result", "tool-result", "function_call_output", "custom_tool_call_output")
_THOUGHTS = ("thinking", "reasoning", "reasoning_content", "redacted_thinking")
_TEXTS = ("text", "input_text", "output_text", "refusal")
_WRAPPED_CALLS = ("functionCall", "function_call", "toolUse")
_WRAPPED_RESULTS = ("functionResponse", "function_response", "toolResult")


def loose(value: object) -> tuple[Any, bool]:
    """Read a value that may be an object or list in JSON text; say also whether the end of that text is missing."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value, False
    raw = mended(value).encode()
    try:
        return parse(raw), False
    except RecordError:
        whole = closed(raw)
    try:
        found = parse(whole) if whole else None
    except RecordError:
        found = None
    return (found, True) if isinstance(found, Mapping) or mappings(found) else (value, False)


def is_part(value: Mapping[str, Any]) -> bool:
    """Say whether an object is a part of a message rather than a message."""
    wrapped = any(isinstance(value.get(name), Mapping) for name in (*_WRAPPED_CALLS, *_WRAPPED_RESULTS))
    known = value.get("type") in (*_CALLS, *_RESULTS, *_THOUGHTS, *_TEXTS)
    return "role" not in value and (wrapped or known or (isinstance(value.get("text"), str) and len(value) == 1))


def is_models(value: Mapping[str, Any]) -> bool:
    """Say whether a part is one that only a model writes."""
    return value.get("type") in (*_CALLS, *_THOUGHTS) or any(name in value for name in _WRAPPED_CALLS)


@dataclass(slots=True)
class Parts:
    """What stands in a message's content, by kind."""

    said: list[Any] = field(default_factory=list[Any])
    thought: list[str] = field(default_factory=list[str])
    calls: list[Chat] = field(default_factory=list[Chat])
    results: list[Chat] = field(default_factory=list[Chat])

    def add(self, part: Any) -> None:
        """Take in one part; of a kind that is not known it is kept as it is, with what was said."""
        if not isinstance(part, Mapping):
            self.said += [{"type": "text", "text": part}] if isinstance(part, str) and part else []
            return
        part = _unwrapped(cast("Mapping[str, Any]", part), ("message_content",))
        kind = text(part.get("type"))
        call = next((part[n] for n in _WRAPPED_CALLS if isinstance(part.get(n), Mapping)), None)
        result = next((part[n] for n in _WRAPPED_RESULTS if isinstance(part.get(n), Mapping)), None)
        words = next((part[n] for n in ("text", "content", "refusal") if isinstance(part.get(n), str)), None)
        if call is not None or kind in _CALLS:
            self.calls.append(call_of(part if call is None else call))
        elif result is not None or kind in _RESULTS:
            self.results.append(result_of(part if result is None else result))
        elif kind in _THOUGHTS or part.get("thought") is True or "reasoningContent" in part:
            thought = part.get("thinking") or words or _summary(part)
            self.thought += [thought] if isinstance(thought, str) and thought else []
        elif kind in _TEXTS or (words is not None and not kind):
            self.said += [{"type": "text", "text": words}] if words else []
        else:
            self.said.append(dict(part))


def _summary(part: Mapping[str, Any]) -> str:
    inner = mapping(mapping(part.get("reasoningContent")).get("reasoningText"))
    return text(inner.get("text")) or "\n".join(text(item.get("text")) for item in mappings(part.get("summary")))


def call_of(value: Mapping[str, Any]) -> Chat:
    """Return a tool call in OpenAI's chat shape; its id is empty where it has none."""
    value = _unwrapped(value, ("tool_call",))
    body = next((value[n] for n in ("function", "custom") if isinstance(value.get(n), Mapping)), value)
    names = ("arguments", "args", "input", "parameters")
    arguments = next((body[name] for name in names if body.get(name) is not None), {})
    name = _first(body, ("name", "toolName", "tool_name"))
    return tool_call(_first(value, ("call_id", *_IDS)), name, json_text(arguments))


_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "id")


def result_of(value: Mapping[str, Any]) -> Chat:
    """Return the result of a call as a tool's message; `is_error` is there where it failed."""
    held = next((value[n] for n in ("response", "output", "result", "content") if value.get(n) is not None), "")
    failed = True in (value.get("is_error"), value.get("isError")) or value.get("status") == "error"
    if isinstance(held, Mapping) and isinstance(held.get("type"), str) and "value" in held:
        failed, held = failed or held["type"].startswith("error"), held["value"]
    message: Chat = {"role": "tool", "tool_call_id": _first(value, _IDS), "content": content_of(held)}
    if text(value.get("name")):
        message["name"] = value["name"]
    return message | ({"is_error": True} if failed else {})


def content_of(value: object) -> Any:
    """Return a result as a tool message's content: its text, parts where it has other than text, else JSON."""
    if not isinstance(value, list) or not all(isinstance(i, Mapping) and (is_part(i) or "type" in i) for i in value):
        return json_text(value)
    parts = Parts()
    for part in value:
        parts.add(part)
    only = len(parts.said) == 1 and parts.said[0].get("type") == "text"
    return parts.said[0]["text"] if only else parts.said or json_text(value)


def tools_of(value: object) -> list[Chat]:
    """Return tool definitions in OpenAI's chat shape."""
    found: list[Chat] = []
    for item in cast("list[Any]", value) if isinstance(value, list) else []:
        tool = mapping(loose(item)[0])
        groups = next((tool[n] for n in ("function_declarations", "functionDeclarations") if tool.get(n)), None)
        if groups:
            found += tools_of(groups)
        elif isinstance(tool.get("function"), Mapping):
            found.append({"type": "function", **tool})
        elif text(tool.get("name")):
            names = ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema")
            schema = mapping(next((loose(tool[n])[0] for n in names if tool.get(n)), {}))
            function = {"name": tool["name"], "description": text(tool.get("description")), "parameters": schema}
            found.append({"type": "function", "function": function})
    return found


def _unwrapped(value: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    return next((value[name] for name in names if isinstance(value.get(name), Mapping)), value)


def _first(value: Mapping[str, Any], names: Sequence[str]) -> str:
    return next(
        (str(value[name]) for name in names if isinstance(value.get(name), str | int) and value[name] != ""), ""
    )


def json_text(value: object) -> str:
    """Return a text as it is, nothing as an empty one, and any other value as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
