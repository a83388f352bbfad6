"""Anthropic's Messages API in chat shape: blocks as messages, messages as answers, streamed events as a message."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from harness_adapters.fields import mapping, mappings, sole_text, text, tool_call
from harness_adapters.jsontext import value_in
from harness_adapters.streams import grow, joined
from harness_adapters.trace import Message

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_THINKING = ("thinking", "redacted_thinking")
# Deltas that add to a text of their block, and the member it stands in.
_GROWING = {
    "text_delta": "text",
    "input_json_delta": "partial_json",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}


def chat_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request in chat shape, its `system` as the first message; other members stay as they are."""
    request = {name: value for name, value in body.items() if name not in ("system", "messages", "tools")}
    system = [{"role": "system", "content": _content(body["system"])}] if body.get("system") else []
    request["messages"] = [*system, *chat_messages(body.get("messages"))]
    if body.get("tools"):
        request["tools"] = [_tool(tool) for tool in mappings(body["tools"])]
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        name = {"type": "function", "function": {"name": choice.get("name")}}
        request["tool_choice"] = _CHOICES.get(str(choice.get("type")), name)
    return request


def chat_messages(messages: object) -> list[dict[str, Any]]:
    """Return messages in chat shape, each result of a tool as a message of its own, before what else the user says."""
    found: list[dict[str, Any]] = []
    for message in mappings(messages):
        role, content = text(message.get("role")) or "user", message.get("content")
        if role == "tool" or message.get("tool_calls"):  # in chat shape already, as gateways log some
            found.append(dict(message))
            continue
        if role == "assistant":
            found += answer_messages(content)
            continue
        blocks = cast("list[Any]", content) if isinstance(content, list) else []
        results = [block for block in mappings(blocks) if block.get("type") == "tool_result"]
        found += [_result(block) for block in results]
        rest = [block for block in blocks if not any(block is result for result in results)]
        if rest or not results:
            found.append({"role": role, "content": _content(rest if blocks else content) or ""})
    return found


def answer_messages(content: object) -> list[dict[str, Any]]:
    """Return what the model wrote: one message or, where a server ran tools in between, several with the results."""
    if not isinstance(content, list):
        return [{"role": "assistant", "content": text(content)}]
    messages: list[dict[str, Any]] = []
    before = ""
    for block in mappings(content):
        kind = text(block.get("type"))
        if kind.endswith("tool_result"):
            messages.append(_result(block))
        elif kind in _THINKING:
            message = _agent(messages)
            message.setdefault("thinking_blocks", []).append(dict(block))
            thoughts = [text(message.get("reasoning_content")), text(block.get("thinking"))]
            if any(thoughts):
                message["reasoning_content"] = "\n".join(thought for thought in thoughts if thought)
        elif kind.endswith("tool_use"):
            message, call = _agent(messages), tool_call(block.get("id"), block.get("name"), block.get("input"))
            message.setdefault("tool_calls", []).append(call)
        else:
            _say(_agent(messages), block, "" if before == "text" else "\n\n")
        before = kind
    return messages or [{"role": "assistant", "content": ""}]


def chat_response(message: Mapping[str, Any], answer: Message | None) -> dict[str, Any]:
    """Return a response in chat shape, with `answer`, the last that the model says in it."""
    reason = message.get("stop_reason")
    usage = mapping(message.get("usage"))
    cached = (usage.get("cache_creation_input_tokens"), usage.get("cache_read_input_tokens"))
    read, wrote = sum(map(_count, (usage.get("input_tokens"), *cached))), _count(usage.get("output_tokens"))
    counts = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
    choice = {"index": 0, "message": answer, "finish_reason": _FINISH.get(str(reason)), "stop_reason": reason}
    return {
        **{name: message[name] for name in ("id", "model", "error") if message.get(name)},
        "object": "chat.completion",
        "choices": [choice] if answer else [],
        **({"usage": counts} if usage else {}),
    }


def message_of(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Put a streamed message together; of one that was cut off, what had come. An error stands in its `error`."""
    message: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    slots: dict[object, dict[str, Any]] = {}
    for event in events:
        kind, delta = event.get("type"), mapping(event.get("delta"))
        if kind == "message_start":
            message = dict(mapping(event.get("message")))
        elif kind == "content_block_start":
            # A new slot even at an index already used: some servers put all parallel calls at index 0.
            blocks.append(dict(mapping(event.get("content_block"))))
            slots[str(event.get("index"))] = blocks[-1]
        elif kind == "content_block_delta":
            block = slots.get(str(event.get("index")))
            if block is not None:
                _grow(block, delta)
        elif kind == "message_delta":
            usage = {k: v for k, v in mapping(event.get("usage")).items() if v is not None}
            message = {**message, **delta, "usage": {**mapping(message.get("usage")), **usage}}
        elif kind == "error":
            message["error"] = event.get("error") or event
    whole: list[dict[str, Any]] = joined(blocks)
    for block in whole:
        if partial := block.pop("partial_json", ""):
            found = value_in(text(partial))
            block["input"] = partial if found is None else found
    return {**joined(message), "content": [*mappings(message.get("content")), *whole]}


def _grow(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    name = _GROWING.get(text(delta.get("type")))
    if name is not None:
        grow(block, name, delta.get(name))


def _agent(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _say(message: dict[str, Any], block: Mapping[str, Any], between: str) -> None:
    """Add a block to what the model says. Texts go on in the next block where a citation begins or ends."""
    old, new = message["content"], _part(block)
    if isinstance(old, list):
        old.append(new)
    elif new.get("type") == "text" and isinstance(old, str | None):
        message["content"] = f"{old}{between}{new['text']}" if old else new["text"]
    else:
        message["content"] = [*([{"type": "text", "text": old}] if old else ()), new]


def _content(value: object) -> Any:
    """Return a content in chat shape: a text, parts, or None."""
    if not isinstance(value, list):
        return value if isinstance(value, str) else None
    return sole_text([_part(block) for block in cast("list[object]", value)])


def _part(block: object) -> dict[str, Any]:
    if not isinstance(block, Mapping):
        return {"type": "text", "text": text(block)}
    source = mapping(block.get("source"))
    if block.get("type") == "text":
        return {"type": "text", "text": text(block.get("text"))}
    if block.get("type") == "image" and (source.get("url") or source.get("data")):
        url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "image_url", "image_url": {"url": str(url)}}
    return {name: value for name, value in block.items() if name != "cache_control"}


def _result(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's result as a message, with its error flag where it has one."""
    content = block.get("content")
    message: dict[str, Any] = {"role": "tool", "tool_call_id": text(block.get("tool_use_id")), "content": ""}
    if isinstance(block.get("is_error"), bool):
        message["is_error"] = block["is_error"]
    elif text(mapping(content).get("type")).endswith("_error"):
        message["is_error"] = True
    if isinstance(content, list) and any(block.get("type") in ("text", "image") for block in mappings(content)):
        message["content"] = _content([_legible(block) for block in cast("list[object]", content)])
    elif content:
        message["content"] = content if isinstance(content, str) else _json(content)
    return message


def _legible(block: object) -> object:
    """Return a block of a result as it is if it is a text or an image, else its JSON as a text."""
    known = isinstance(block, str) or mapping(block).get("type") in ("text", "image")
    return block if known else {"type": "text", "text": _json(block)}


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """Leave out what only the server can read."""
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if not (isinstance(k, str) and k.startswith("encrypted_"))}
    return value


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if "input_schema" not in tool:
        return dict(tool)  # one that the server runs, or already in chat shape
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def _count(value: object) -> int:
    return value if type(value) is int else 0
