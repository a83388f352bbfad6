"""ATIF, the Agent Trajectory Interchange Format, versions 1.0 to 1.8, as Harbor and other harnesses write it.

A document is one trajectory: steps of the system, the user and the agent, a result beside the call it belongs to. Each
is a trace, and so is every trajectory of a sub-agent that it embeds; those in files of their own are read there. Steps
copied from the trajectory that this one continues are inherited turns. What our own exports add is read back.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, cast

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.conversation import Conversation
from harness_adapters.extra import NAMESPACE, Retold
from harness_adapters.fields import mapping, mappings, quoted, sole_text, stem, text, tool_call
from harness_adapters.gather import Gather
from harness_adapters.ids import stable_id
from harness_adapters.notes import Notes
from harness_adapters.outcome import error_flag
from harness_adapters.recorded import values_of
from harness_adapters.records import Record
from harness_adapters.source import Head, Source
from harness_adapters.trace import Author, Outcome, Trace

ROLES = {"agent": "assistant", "user": "user", "system": "system"}
_SERVES = re.compile(r"(.+?)(-cont-\d+|-summarization-\d+-\w+)+\Z")
"""Names that Harbor makes of a session's for what continues it or sums it up."""


class Atif:
    """Reads ATIF trajectories."""

    name = "atif"
    unit = "step"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first documents is a trajectory."""
        return any(_is_trajectory(value) for value in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield the source's trajectories, each before those it embeds."""
        notes = Notes()
        with Gather() as known:
            for record in values_of(source):
                if isinstance(record, Skipped):
                    yield record
                elif not isinstance(record.value.get("steps"), list):
                    yield Skipped(record.line, "it is not a trajectory: it has no list of steps", record.raw)
                elif known.put("documents", stable_id("document", record.raw), b""):
                    yield from _not_read(record, record.value, notes)
                    yield from _traces(record.value, known, (stem(source.name),), None, whole=not record.cut)


def chat_step(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said in a step as a message in chat shape."""
    made = mappings(step.get("tool_calls"))
    calls = [tool_call(c.get("tool_call_id"), c.get("function_name"), c.get("arguments")) for c in made]
    content = _content(step.get("message"))
    message: dict[str, Any] = {"role": ROLES.get(str(step.get("source")), "system"), "content": content}
    if calls:
        message = {**message, "content": content or None, "tool_calls": calls}
    if text(step.get("reasoning_content")):
        message["reasoning_content"] = step["reasoning_content"]
    return message


def chat_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result as a message in chat shape."""
    called = text(result.get("source_call_id"))
    message = {"role": "tool", "content": _content(result.get("content"))}
    return {**message, "tool_call_id": called} if called else message


def results_of(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the results in a step."""
    return mappings(mapping(step.get("observation")).get("results"))


def _is_trajectory(value: Mapping[str, Any]) -> bool:
    if text(value.get("schema_version")).startswith("ATIF"):
        return True
    steps = mappings(value.get("steps"))
    return (
        bool(steps)
        and "step_id" in steps[0]
        and text(steps[0].get("source")) in ROLES
        and isinstance(value.get("agent"), Mapping)
    )


def _not_read(record: Record, document: Mapping[str, Any], notes: Notes) -> Iterator[Skipped]:
    for step in cast("list[object]", document["steps"]):
        source = step.get("source") if isinstance(step, Mapping) else None
        if not isinstance(step, Mapping):
            yield Skipped(record.line, "one of its steps is not an object", orjson.dumps(step))
        elif str(source) not in ROLES:
            reason = f"steps of source {quoted(source)} are not known to this version"
            yield from notes.once(reason, replace(record, value=step, written=None))


def _traces(
    document: Mapping[str, Any], known: Gather, otherwise: Sequence[str], main: str | None, *, whole: bool
) -> Iterator[Trace]:
    """Yield the trace of a document and those of the trajectories that it embeds; `main` is the name of the first."""
    ids = [text(document.get("session_id")), text(document.get("trajectory_id"))]
    name = _free([*(ids if main is None else ids[::-1]), *otherwise], known)
    kept = mapping(mapping(document.get("extra")).get(NAMESPACE))
    steps = [(place, step) for place, step in enumerate(cast("list[object]", document.get("steps") or []))]
    read = [(place, mapping(step)) for place, step in steps if text(mapping(step).get("source")) in ROLES]
    tools = mappings(mapping(document.get("agent")).get("tool_definitions"))
    if kept:
        yield _retold(kept, read, name, tools)
    else:
        conversation = Conversation()
        inherited = 0
        for place, step in read:
            is_next = step.get("is_copied_context") is True and inherited == len(conversation.turns)
            _add(conversation, place, step)
            inherited = len(conversation.turns) if is_next else inherited
        served = _SERVES.fullmatch(name) if len(name) < 500 else None
        main = main or (served[1] if served else None)
        if conversation.turns:
            yield conversation.trace(Atif.name, name, parent=main, tools=tools, complete=whole, inherited=inherited)
    for number, embedded in enumerate(mappings(document.get("subagent_trajectories")), 1):
        if isinstance(embedded.get("steps"), list):
            yield from _traces(embedded, known, (f"{name}-{number}",), main or name, whole=whole)


def _free(candidates: Sequence[str], known: Gather) -> str:
    """Return the first name that no trajectory of the file has yet: those of one run may share the run's."""
    told = [name for name in candidates if name] or ["trajectory"]
    number = int(known.noted(f"named {told[0]}") or 1)
    numbered = (f"{told[0]}-{n}" for n in count(number))
    name = next(name for name in chain(told, numbered) if known.put("names", name, b""))
    known.note(f"named {told[0]}", str(number + 1))
    return name


def _retold(
    kept: Mapping[str, Any],
    steps: Sequence[tuple[int, Mapping[str, Any]]],
    name: str,
    tools: Sequence[Mapping[str, Any]],
) -> Trace:
    retold = Retold(kept)
    for place, step in steps:
        beside = mapping(mapping(step.get("extra")).get(NAMESPACE))
        if not beside.get("empty"):
            retold.add(chat_step(step), beside, place)
        for result in results_of(step):
            retold.add(chat_result(result), mapping(result.get("extra")).get(NAMESPACE), place)
    return retold.trace(Atif.name, name, tools)


def _add(conversation: Conversation, place: int, step: Mapping[str, Any]) -> None:
    message = chat_step(step)
    if message["content"] or len(message) > 2:
        # What ran without a model being asked was not written by the agent.
        is_made = (
            step.get("source") == "agent" and type(step.get("llm_call_count")) is int and not step["llm_call_count"]
        )
        conversation.add(message, place=place, author=Author.FRAMEWORK if is_made else None)
    calls = mappings(step.get("tool_calls"))
    sole = text(calls[0].get("tool_call_id")) if len(calls) == 1 else ""
    for result in results_of(step):
        told, more = chat_result(result), mapping(result.get("extra"))
        code = more.get("exit_code")
        is_elsewhere = not told["content"] and bool(mappings(result.get("subagent_trajectory_ref")))
        conversation.add(
            told,
            place=place,
            answers=text(told.get("tool_call_id")) or sole or None,
            flag=not more["success"] if isinstance(more.get("success"), bool) else error_flag(more),
            exit_code=code if type(code) is int else None,
            outcome=Outcome.UNKNOWN if is_elsewhere else None,
        )


def _content(value: object) -> Any:
    """Return a content in chat shape: a text or, with pictures or sound, parts."""
    if not isinstance(value, list):
        return text(value)
    return sole_text([_part(part) for part in mappings(value)])


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    source = mapping(part.get("source"))
    if part.get("type") == "text":
        return {"type": "text", "text": text(part.get("text"))}
    if part.get("type") == "image" and text(source.get("path")):
        return {"type": "image_url", "image_url": {"url": source["path"]}}
    return dict(part)
