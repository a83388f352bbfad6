"""Messages of Gemini CLI's sessions, made into turns."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness_adapters.authors import author_of
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, text, tool_call
from harness_adapters.trace import Author, Outcome

NOTICES = ("info", "error", "warning")
MODEL = ("gemini", "model", "assistant")

_REJECTED = re.compile(r"\b(did not allow|denied|declined|rejected)\b", re.IGNORECASE)
_EXIT_CODE = re.compile(r"^Exit Code: *(-?\d{1,9}) *$", re.MULTILINE)
_FILES = "\n--- Content from referenced files ---"
"""What the client puts behind the text of a person who names files."""


def kind_of(message: Mapping[str, Any]) -> str:
    """Return who a message is of, as the client says."""
    return text(message.get("type")) or text(message.get("role"))


def conversation_of(messages: Sequence[tuple[int, Mapping[str, Any]]]) -> Conversation:
    """Return the turns of a session's messages, each of which comes with its place."""
    conversation = Conversation()
    answered = {
        text(call.get("id"))
        for _, message in messages
        for call in mappings(message.get("toolCalls"))
        if call.get("result")
    }
    for place, message in messages:
        kind, content = kind_of(message), said_in(message.get("content"))
        if kind == "user":
            _add_user(conversation, place, message, content, answered)
        elif kind in MODEL:
            _add_model(conversation, place, message, content)
        elif kind in NOTICES:
            notice = {"role": "system", "content": content}
            conversation.add(notice, place=place, author=Author.CLIENT, shown=False)
    return conversation


def _add_user(
    conversation: Conversation, place: int, message: Mapping[str, Any], content: Any, answered: set[str]
) -> None:
    for part in mappings(message.get("content")):
        response = mapping(part.get("functionResponse"))
        if response and text(response.get("id")) not in answered:
            result = {"role": "tool", "tool_call_id": text(response.get("id")), "content": _response_text(response)}
            conversation.add(result, place=place)
    if not content:
        return
    said = {"role": "user", "content": content}
    shown = said_in(message.get("displayContent"))
    typed = author_of({"role": "user", "content": shown} if shown else said)
    author = Author.CLIENT if message.get("is_summary") else typed.author
    conversation.add(said, place=place, author=author, text=typed.text.split(_FILES)[0])


def _add_model(conversation: Conversation, place: int, message: Mapping[str, Any], content: Any) -> None:
    calls = mappings(message.get("toolCalls"))
    if not calls:
        calls = [
            mapping(part.get("functionCall")) for part in mappings(message.get("content")) if part.get("functionCall")
        ]
    thoughts = [
        "\n".join(line for line in (text(thought.get("subject")), text(thought.get("description"))) if line)
        for thought in mappings(message.get("thoughts"))
    ]
    said: dict[str, Any] = {"role": "assistant", "content": content or None}
    if thoughts:
        said["reasoning_content"] = "\n\n".join(thoughts)
    if calls:
        said["tool_calls"] = [tool_call(call.get("id"), call.get("name"), call.get("args")) for call in calls]
    if not content and not thoughts and not calls:
        return
    author = Author.CLIENT if message.get("is_summary") else None
    conversation.add(said, place=place, author=author, call_places=() if author else [place] * len(calls))
    for call in calls:
        _add_result(conversation, place, call)


def _add_result(conversation: Conversation, place: int, call: Mapping[str, Any]) -> None:
    call_id, status = text(call.get("id")), call.get("status")
    result = _result_text(call.get("result"), call_id)
    if result is None and status in ("error", "cancelled"):
        result = text(call.get("resultDisplay"))
    if result is None:
        return
    outcome = None
    if status == "cancelled":
        outcome = Outcome.REJECTED_BY_HUMAN if _REJECTED.search(result[:200]) else Outcome.CANCELLED
    # A command that fails was carried out: its status is success.
    codes = _EXIT_CODE.findall(result) if status == "success" and "command" in mapping(call.get("args")) else []
    conversation.add(
        {"role": "tool", "tool_call_id": call_id, "content": result},
        place=place,
        flag=None if codes else {"error": True, "success": False}.get(str(status)),
        exit_code=int(codes[-1]) if codes else None,
        outcome=outcome,
    )


def _result_text(result: object, call_id: str) -> str | None:
    """Return the text of a call's result; None without one. The parts may hold those of calls made beside it."""
    if result is None or isinstance(result, str):
        return result
    parts = mappings(result) or [mapping(result)]
    responses = [mapping(part["functionResponse"]) for part in parts if part.get("functionResponse")]
    own = [response for response in responses if response.get("id") == call_id] or responses
    texts = [_response_text(response) for response in own] + [text(part.get("text")) for part in parts]
    return "\n".join(found for found in texts if found) if any(parts) else None


def _response_text(response: Mapping[str, Any]) -> str:
    body = mapping(response.get("response"))
    for name in ("output", "error"):
        if isinstance(body.get(name), str):
            return body[name]
    return json.dumps(body, ensure_ascii=False, default=str) if body else ""


def said_in(content: object) -> Any:
    """Return a content in chat shape: a text or, with pictures or files, parts. Calls and results are left out."""
    if isinstance(content, str):
        return content
    items = cast("list[object]", content) if isinstance(content, list) else [content]
    parts = [_part(item) for item in items]
    found = [part for part in parts if part is not None]
    if all(part.get("type") == "text" for part in found):
        return "".join(part["text"] for part in found)
    return found


def _part(item: object) -> dict[str, Any] | None:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    part = mapping(item)
    if isinstance(part.get("text"), str):
        return None if part.get("thought") else {"type": "text", "text": part["text"]}
    data = mapping(part.get("inlineData"))
    if data:
        url = f"data:{text(data.get('mimeType'))};base64,{text(data.get('data'))}"
        return (
            {"type": "image_url", "image_url": {"url": url}}
            if url.startswith("data:image")
            else {"type": "file", "file": dict(data)}
        )
    return {"type": "file", "file": dict(part["fileData"])} if isinstance(part.get("fileData"), Mapping) else None
