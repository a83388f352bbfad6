"""OpenAI's Responses API in chat shape: items as messages, responses as answers, streamed events as a response."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from harness_adapters.fields import mapping, mappings, sole_text, text, tool_call
from harness_adapters.streams import grow, joined
from harness_adapters.trace import Message

HIDDEN = ("compaction", "item_reference")
"""Items that stand for history which is kept elsewhere."""

_NO_TURNS = (*HIDDEN, "compaction_trigger", "mcp_list_tools", "additional_tools", "configuration_update")
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
# Of a call that is no function: what is neither its arguments nor part of its result.
_FRAME = ("id", "call_id", "type", "status", "name", "caller", "created_by", "agent", "execution", "server_label")
_RESULTS = ("output", "outputs", "result", "results", "error", "revised_prompt")
# Texts that come in pieces: the member they grow in, and where that is a list, the event's index into it.
_FLAT = {
    "function_call_arguments": "arguments",
    "mcp_call_arguments": "arguments",
    "custom_tool_call_input": "input",
    "code_interpreter_call_code": "code",
}
_LISTED = {
    "output_text": ("content", "content_index", "text"),
    "refusal": ("content", "content_index", "refusal"),
    "reasoning_text": ("content", "content_index", "text"),
    "reasoning_summary_text": ("summary", "summary_index", "text"),
}


def chat_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request in chat shape, its instructions as a system message; other members stay as they are."""
    rest = {name: value for name, value in body.items() if name not in ("input", "instructions", "tools")}
    instructions = body.get("instructions")
    messages = chat_messages(instructions)
    if isinstance(instructions, str) and instructions:
        messages = [{"role": "system", "content": instructions}]
    tools = {"tools": [_tool(tool) for tool in mappings(body["tools"])]} if body.get("tools") else {}
    return {**rest, "messages": [*messages, *chat_messages(body.get("input"))], **tools}


def chat_messages(items: object) -> list[dict[str, Any]]:
    """Return items as messages. What the model wrote in a row is one message; a result stands by itself, right behind
    its call where a server ran the tool."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}] if items else []
    messages: list[dict[str, Any]] = []
    call_ids: dict[str, str] = {}
    for item in mappings(items):
        kind = _kind(item)
        if kind in _NO_TURNS:
            continue
        role = text(item.get("role")) or "assistant"
        if kind == "message" and role != "assistant":
            messages.append({"role": role, "content": _content(item.get("content"))})
        elif kind == "message":
            _said(messages, "content", _content(item.get("content")))
        elif kind == "reasoning":
            parts = [*mappings(item.get("summary")), *mappings(item.get("content"))]
            if thought := "\n".join(text(part.get("text")) for part in parts):
                _said(messages, "reasoning_content", thought)
        elif kind.endswith("_output") or kind == "mcp_approval_response":
            messages.append(_result(item, call_ids))
        elif kind.endswith("_call") or kind in ("mcp_approval_request", "program"):
            call = _call(item, kind)
            call_ids[text(item.get("id"))] = call["id"]
            _agent(messages).setdefault("tool_calls", []).append(call)
            if not item.get("call_id") and kind not in ("function_call", "custom_tool_call", "mcp_approval_request"):
                messages.append(_server_result(item, call["id"]))
    return messages


def unknown_items(items: object) -> set[str]:
    """Return the types of the items of which `chat_messages` makes nothing."""
    kinds = {_kind(item) for item in mappings(items)}
    read = ("message", "reasoning", "mcp_approval_request", "mcp_approval_response", "program", *_NO_TURNS)
    return {kind for kind in kinds if kind not in read and not kind.endswith(("_call", "_output"))}


def chat_response(response: Mapping[str, Any], answer: Message | None) -> dict[str, Any]:
    """Return a response in chat shape, with `answer`, the last that the model says in it."""
    incomplete = mapping(response.get("incomplete_details")).get("reason")
    reason = {"max_output_tokens": "length", "content_filter": "content_filter"}.get(str(incomplete))
    if reason is None and response.get("status") == "completed":
        reason = "tool_calls" if (answer or {}).get("tool_calls") else "stop"
    choice: dict[str, Any] = {"index": 0, "message": answer, "finish_reason": reason}
    logprobs = [
        token
        for item in mappings(response.get("output"))
        for part in mappings(item.get("content"))
        for token in mappings(part.get("logprobs"))
    ]
    if logprobs:
        choice["logprobs"] = {"content": logprobs}
    usage = mapping(response.get("usage"))
    counts = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
    return {
        **{name: response[name] for name in ("id", "model", "error") if response.get(name)},
        "object": "chat.completion",
        "created": response.get("created_at"),
        "choices": [choice] if answer else [],
        **({"usage": {chat: usage.get(ours) for chat, ours in counts.items()}} if usage else {}),
    }


def response_of(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Put a streamed response together; of one that was cut off, what had come."""
    response: dict[str, Any] = {}
    items: dict[int, dict[str, Any]] = {}
    for event in events:
        kind, index = text(event.get("type")), event.get("output_index")
        if isinstance(event.get("response"), Mapping):
            response = dict(event["response"])
        if kind == "error":
            error = mapping(event.get("error")) or {"message": event.get("message"), "code": event.get("code")}
            response = {**response, "status": "failed", "error": error}
        elif type(index) is int and kind.startswith("response.output_item."):
            items[index] = dict(mapping(event.get("item")))
        elif type(index) is int and index in items and kind.endswith(".delta"):
            _grow(items[index], kind.removeprefix("response.").removesuffix(".delta"), event)
    if not response.get("output"):
        response["output"] = [items[index] for index in sorted(items)]
    return joined(response)


def _grow(item: dict[str, Any], kind: str, event: Mapping[str, Any]) -> None:
    if kind in _FLAT:
        grow(item, _FLAT[kind], event.get("delta"))
    elif kind in _LISTED:
        member, index_name, name = _LISTED[kind]
        index = event.get(index_name)
        parts = item.get(member)
        if not isinstance(parts, _Parts):
            parts = item[member] = _Parts(dict(part) for part in mappings(parts))
        at = index if type(index) is int and 0 <= index < len(parts) else len(parts)
        if at == len(parts):
            parts.append({"type": kind, name: ""})
        grow(parts[at], name, event.get("delta"))


class _Parts(list[dict[str, Any]]):
    """Parts of an item whose texts are still to come."""


def _kind(item: Mapping[str, Any]) -> str:
    return text(item.get("type")) or ("message" if isinstance(item.get("role"), str) else "")


def _agent(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _said(messages: list[dict[str, Any]], name: str, new: object) -> None:
    """Add a text, or parts, to what the model is saying."""
    message = _agent(messages)
    old = message.get(name)
    if not old or not new:
        message[name] = old or new
    elif name == "reasoning_content":
        message[name] = f"{old}\n{new}"
    elif isinstance(old, list):
        old.extend(_parts(new))
    else:
        message[name] = [*_parts(old), *_parts(new)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _content(value: object) -> object:
    """Return a content in chat shape: a text, parts, or None."""
    if not isinstance(value, list):
        return value if isinstance(value, str) else None
    return sole_text([_part(part) for part in cast("list[object]", value)])


def _part(part: object) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        return {"type": "text", "text": text(part)}
    kind, rest = part.get("type"), {name: value for name, value in part.items() if name != "type"}
    if kind in _TEXTS:
        return {"type": "text", "text": text(part.get("text"))}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    return {"type": "file", "file": rest} if kind == "input_file" else dict(part)


def _call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    call_id = text(item.get("call_id")) or text(item.get("id"))
    name = text(item.get("name")) or kind.removesuffix("_call")
    if kind == "custom_tool_call":
        return {"id": call_id, "type": "custom", "custom": {"name": name, "input": text(item.get("input"))}}
    arguments = item.get("arguments")
    if not isinstance(arguments, str):
        found = {k: v for k, v in item.items() if k not in (*_FRAME, *_RESULTS) and v is not None}
        only = next(iter(found.values())) if len(found) == 1 else None
        arguments = _json(only if isinstance(only, Mapping) else found)
    return tool_call(call_id, name, arguments)


def _result(item: Mapping[str, Any], call_ids: Mapping[str, str]) -> dict[str, Any]:
    """Return the result of a call as a message. Some clients name the call by the id of its item."""
    called = text(item.get("call_id")) or text(item.get("approval_request_id")) or text(item.get("id"))
    message: dict[str, Any] = {"role": "tool", "tool_call_id": call_ids.get(called, called)}
    if item.get("type") == "mcp_approval_response":
        reason = f" The user said: {item['reason']}" if text(item.get("reason")) else ""
        approved = item.get("approve") is True
        content: object = f"The user {'approved' if approved else 'declined'} this call.{reason}"
        message["is_error"] = not approved
    elif item.get("type") == "shell_call_output":
        content = "\n".join(_shell(part) for part in mappings(item.get("output")))
    else:
        content = _output(item.get("output", item.get("result", item.get("tools"))))
    if item.get("status") == "failed":
        message["is_error"] = True
    return {**message, "content": content}


def _output(value: object) -> object:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and any("text" in part or "image_url" in part for part in mappings(value)):
        return _content(value)
    if isinstance(value, Mapping) and isinstance(value.get("image_url"), str):
        return [_part({**value, "type": "input_image"})]
    return _json(value)


def _shell(part: Mapping[str, Any]) -> str:
    outcome = mapping(part.get("outcome"))
    end = "Command timed out" if outcome.get("type") == "timeout" else f"Exit code: {outcome.get('exit_code')}"
    return "\n".join(line for line in (end, text(part.get("stdout")), text(part.get("stderr"))) if line)


def _server_result(item: Mapping[str, Any], call_id: str) -> dict[str, Any]:
    """Return what came of a tool that the server ran, as far as the item says."""
    message: dict[str, Any] = {"role": "tool", "tool_call_id": call_id}
    error = item.get("error")
    if error or item.get("status") == "failed":
        said = text(error) or text(mapping(error).get("message")) or (_json(error) if error else "failed")
        return {**message, "content": said, "is_error": True}
    if isinstance(item.get("output"), str):
        return {**message, "content": item["output"]}
    if isinstance(item.get("result"), str):  # an image
        url = f"data:image/{text(item.get('output_format')) or 'png'};base64,{item['result']}"
        return {**message, "content": [{"type": "image_url", "image_url": {"url": url}}]}
    found = {name: item[name] for name in ("status", *_RESULTS) if item.get(name) is not None}
    return {**message, "content": _json(found)}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    kind, rest = tool.get("type"), {name: value for name, value in tool.items() if name != "type"}
    return {"type": kind, str(kind): rest} if kind in ("function", "custom") and kind not in tool else dict(tool)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
