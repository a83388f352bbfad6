"""Traces written in formats of other tools. Read again with the adapter of the format, each gives the same trace."""

import re
from collections.abc import Mapping
from typing import Any

from harness_adapters.atif import ROLES, chat_result, chat_step
from harness_adapters.extra import NAMESPACE, trace_extra, turn_extra
from harness_adapters.fields import mapping, mappings, text
from harness_adapters.jsontext import value_in
from harness_adapters.messages import calls_of, text_of
from harness_adapters.trace import Author, Trace, Turn

ATIF_VERSION = "ATIF-v1.7"
"""The first version in which results have an `extra`."""

_SOURCES = {role: source for source, role in ROLES.items()}
_PICTURES = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png", "gif": "gif", "webp": "webp"}
_PICTURE = re.compile(r"data:image/(\w+)[;,]|[^?#]*\.(\w+)(?:[?#].*)?\Z", re.DOTALL)


def to_openai_chat(trace: Trace) -> dict[str, Any]:
    """Return a trace as a line of a file for fine-tuning: `messages`, `tools`, and what these cannot say."""
    shown = [turn for turn in trace.turns if turn.shown]
    turns = [turn_extra(turn, turn.message) for turn in shown]
    tools = {"tools": list(trace.tools)} if trace.tools else {}
    return {
        "messages": [dict(turn.message) for turn in shown],
        **tools,
        NAMESPACE: {**trace_extra(trace), "turns": turns},
    }


def to_atif(trace: Trace) -> dict[str, Any]:
    """Return a trace as an ATIF document. What a tool answered stands in the step before it, as the format wants it."""
    steps: list[dict[str, Any]] = []
    for turn in trace.turns:
        if not turn.shown:
            continue
        is_result = turn.author is Author.TOOL
        if is_result and not steps:
            steps.append({"source": "system", "message": "", "extra": {NAMESPACE: {"empty": True}}})
        if is_result:
            _results(steps[-1]).append(_result(turn, steps[-1]))
        else:
            steps.append(_step(turn))
    tools = {"tool_definitions": list(trace.tools)} if trace.tools else {}
    return {
        "schema_version": ATIF_VERSION,
        "session_id": trace.name or trace.id,
        "trajectory_id": trace.id,
        "agent": {"name": trace.harness, "version": "unknown", **tools},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "extra": {NAMESPACE: trace_extra(trace)},
    }


def _step(turn: Turn) -> dict[str, Any]:
    message = turn.message
    source = _SOURCES.get(str(message.get("role")), "system")
    step: dict[str, Any] = {"source": source, "message": _content(message.get("content"))}
    if source == "agent" and text(message.get("reasoning_content")):
        step["reasoning_content"] = message["reasoning_content"]
    if source == "agent" and (calls := calls_of(message)):
        step["tool_calls"] = [
            {"tool_call_id": call.id, "function_name": call.name, "arguments": _arguments(call.arguments)}
            for call in calls
        ]
    return {**step, "extra": {NAMESPACE: turn_extra(turn, chat_step(step))}}


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    return step.setdefault("observation", {"results": []})["results"]


def _result(turn: Turn, step: Mapping[str, Any]) -> dict[str, Any]:
    called = turn.message.get("tool_call_id")
    in_step = any(call["tool_call_id"] == called for call in mappings(step.get("tool_calls")))
    result = {"source_call_id": called if in_step else None, "content": _content(turn.message.get("content"))}
    return {**result, "extra": {NAMESPACE: turn_extra(turn, chat_result(result))}}


def _arguments(raw: str) -> dict[str, Any]:
    value = value_in(raw)
    return value if isinstance(value, dict) else {"raw": raw}


def _content(content: object) -> Any:
    """Return a content as ATIF has it; only the text where there is something in it that ATIF does not know."""
    parts = [_part(part) for part in content] if isinstance(content, list) else [None]
    return text_of(content) if not parts or None in parts else parts


def _part(part: object) -> dict[str, Any] | None:
    told = mapping(part)
    if told.get("type") == "text" and isinstance(told.get("text"), str):
        return {"type": "text", "text": told["text"]}
    url = text(mapping(told.get("image_url")).get("url"))
    found = _PICTURE.match(url)
    kind = _PICTURES.get((found[1] or found[2]).lower()) if found else None
    if told.get("type") != "image_url" or kind is None:
        return None
    return {"type": "image", "source": {"media_type": f"image/{kind}", "path": url}}
