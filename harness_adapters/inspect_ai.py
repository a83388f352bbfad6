"""Inspect AI's evaluation logs: `{version, status, eval, plan, samples}` as JSON, and the members of `.eval` archives.

Each sample at each epoch is a session. Its `messages` are read, and what only its `events` tell: the tools it had,
which calls were refused, and the conversation itself where a sample failed before its messages were written down. Long
texts stand under `attachments`. What sub-agents and graders said is in `events` alone and is not read. The members of
an archive that summarise its samples are known and yield nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.authors import author_of
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, text, tool_call
from harness_adapters.messages import plain_content, text_of
from harness_adapters.outcome import outcome_of
from harness_adapters.recorded import values_of
from harness_adapters.records import Record
from harness_adapters.source import Head, Source
from harness_adapters.trace import Author, Message, Outcome, Trace

_ATTACHED = re.compile(r"\A(?:attachment|tc)://(?P<key>\S+)\Z")
# What a result's `error.type` says about who is to blame; those not named here are the agent's.
_OUTCOMES = {
    "timeout": Outcome.ERROR_ENV,
    "limit": Outcome.ERROR_ENV,
    "sandbox_unavailable": Outcome.ERROR_ENV,
    "cancelled": Outcome.CANCELLED,
    "approval": Outcome.REJECTED_BY_HUMAN,
}


class InspectAI:
    """Reads Inspect AI's logs."""

    name = "inspect_ai"
    unit = "message"

    def recognises(self, head: Head) -> bool:
        """Say whether the file is a log, one of its samples, or a member that summarises them."""
        return any(_is_log(value) or _is_sample(value) or _is_reduction(value) for value in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield a trace for each sample."""
        for record in values_of(source, ("samples",)):
            if isinstance(record, Skipped):
                yield record
            elif not _is_sample(record.value):
                if not (_is_log(record.value) or _is_reduction(record.value) or "sample_id" in record.value):
                    yield Skipped(record.line, "it is not a sample", record.raw)
            elif not ({"messages", "events", "output"} & record.value.keys()):
                # A summary, unless an archive keeps the sample's messages in members of their own.
                if source.name.endswith("/sample.json"):
                    yield Skipped(
                        record.line, "its messages stand in members of their own, which are not read", record.raw
                    )
            else:
                yield from _sample(record)


def _is_log(value: Mapping[str, Any]) -> bool:
    about = mapping(value.get("eval"))
    return "task" in about and ("model" in about or "created" in about) and ("version" in value or "plan" in value)


def _is_sample(value: Mapping[str, Any]) -> bool:
    return {"id", "epoch", "input"} <= value.keys() and ("target" in value or "messages" in value)


def _is_reduction(value: Mapping[str, Any]) -> bool:
    scored = mappings(value.get("samples"))
    return "scorer" in value and bool(scored) and "sample_id" in scored[0]


def _sample(record: Record) -> Iterator[Trace | Skipped]:
    sample = record.value
    attached = mapping(sample.get("attachments"))
    events = mappings(sample.get("events"))
    calls = [event for event in events if event.get("event") == "model"]
    messages = _list(sample.get("messages"))
    complete = not record.cut and not any(event.get("event") == "compaction" for event in events)
    if not messages:
        messages, complete = _last_said(sample, calls), False
    refused = _refused(events)
    has_sources = any(message.get("source") == "input" for message in mappings(messages))
    conversation = Conversation()
    failed: set[str] = set()
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping):
            yield Skipped(record.line, f"message {place} of the sample is not an object", orjson.dumps(message))
            continue
        said = _resolved(cast(Message, message), attached)
        failed |= {text(call.get("id")) for call in mappings(said.get("tool_calls")) if call.get("parse_error")}
        told = _chat(said)
        if said.get("role") == "tool":
            call_id = text(said.get("tool_call_id"))
            conversation.add(told, place=place, outcome=_outcome(said, told, refused.get(call_id), call_id in failed))
        else:
            conversation.add(told, place=place, **_author(said, told, has_sources=has_sources))
    if conversation.turns:
        name = f"{sample.get('id')}/epoch-{sample.get('epoch')}"
        tools = _tools(calls, attached)
        yield conversation.trace(InspectAI.name, name, tools=tools, complete=complete, is_named=False)


def _last_said(sample: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> list[object]:
    """Return the messages of the last call of the model; without one, the sample's input."""
    pool = _list(mapping(sample.get("events_data")).get("messages")) or _list(sample.get("message_pool"))
    for event in reversed(calls):
        shared = [message for ref in _list(event.get("input_refs")) for message in _span(pool, ref)]
        if shown := _list(event.get("input")) or shared:
            choices = mappings(mapping(event.get("output")).get("choices"))
            return [*shown, *(choice.get("message") for choice in choices[:1])]
    given = sample.get("input")
    return _list(given) or [{"role": "user", "content": given, "source": "input"}]


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _span(pool: Sequence[object], ref: object) -> Sequence[object]:
    """Return the messages of a range `[first, end]`, with `end` left out."""
    match ref:
        case [int() as first, int() as end]:
            return pool[max(first, 0) : max(end, 0)]
        case _:
            return ()


def _refused(events: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Say of each call that had to be approved whether it was refused in the end."""
    decided = [event for event in events if event.get("event") == "approval" and event.get("decision") != "escalate"]
    return {text(mapping(e.get("call")).get("id")): e.get("decision") in ("reject", "terminate") for e in decided}


def _resolved(value: Any, attached: Mapping[str, Any]) -> Any:
    """Return a message with the texts that are attached to the sample in their places."""
    if isinstance(value, str):
        found = _ATTACHED.match(value)
        return attached.get(found["key"], value) if found else value
    if isinstance(value, list):
        return [_resolved(item, attached) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {name: _resolved(item, attached) for name, item in cast("Mapping[str, object]", value).items()}
    return value


def _chat(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in OpenAI's chat shape."""
    told: dict[str, Any] = {"role": message.get("role"), "content": _content(message.get("content"))}
    thought = [_thought(part) for part in mappings(message.get("content")) if part.get("type") == "reasoning"]
    if any(thought) or text(message.get("reasoning")):
        told["reasoning_content"] = "\n".join(filter(None, thought)) or text(message.get("reasoning"))
    calls = [tool_call(c.get("id"), c.get("function"), c.get("arguments")) for c in mappings(message.get("tool_calls"))]
    if calls:
        told["tool_calls"] = calls
    if message.get("role") == "tool":
        told["tool_call_id"] = text(message.get("tool_call_id"))
        error = text(mapping(message.get("error")).get("message")) or text(message.get("tool_error"))
        if error and error not in text_of(told["content"]):
            told["content"] = "\n".join(filter(None, (error, text_of(told["content"]))))
    return told


def _content(content: object) -> object:
    """Return content as one text where it is nothing but text and thinking, else as parts."""
    parts = [part for part in mappings(content) if part.get("type") != "reasoning"]
    return content if isinstance(content, str) else plain_content([_part(part) for part in parts])


def _part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = text(part.get("type"))
    if kind == "text":
        return {"type": "text", "text": text(part.get("text"))}
    return {"type": "image_url", "image_url": {"url": part.get("image")}} if kind == "image" else part


def _thought(part: Mapping[str, Any]) -> str:
    return text(part.get("summary")) if part.get("redacted") else text(part.get("reasoning"))


def _author(said: Mapping[str, Any], told: Message, *, has_sources: bool) -> dict[str, Any]:
    """Say who wrote a user's message: where the log tells what its input was, the rest was put there by the solver."""
    if said.get("role") != "user" or not has_sources or said.get("source") in ("input", "operator"):
        return {}
    if author_of(told).author is not Author.HUMAN:
        return {}
    return {"author": Author.CLIENT, "text": text_of(told.get("content"))}


def _outcome(said: Mapping[str, Any], told: Message, refused: bool | None, failed: bool) -> Outcome:
    error = mapping(said.get("error"))
    if refused and (error or not text_of(said.get("content"))):
        return Outcome.REJECTED_BY_HUMAN
    if error:
        return _OUTCOMES.get(text(error.get("type"))) or _failure(text(error.get("type")), told)
    return outcome_of(text_of(told.get("content")), flag=True if failed or said.get("tool_error") else None)


def _failure(kind: str, told: Message) -> Outcome:
    return outcome_of(text_of(told.get("content")), flag=True) if kind in ("", "unknown") else Outcome.ERROR_AGENT


def _tools(calls: Sequence[Mapping[str, Any]], attached: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tools that the model had at its last call of those that had some."""
    found = next((tools for event in reversed(calls) if (tools := mappings(event.get("tools")))), [])
    return [{"type": "function", "function": _function(_resolved(tool, attached))} for tool in found]


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tool[name] for name in ("name", "description", "parameters") if tool.get(name) is not None}
