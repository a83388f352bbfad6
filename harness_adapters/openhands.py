"""OpenHands' events: of version 0 (`action` or `observation`), and of the SDK of version 1 (by `kind`).

They stand in a list, one a line, under `trajectory`, `events` or `history` of an object, or one a file. An evaluation's
output has a line for each instance, whose `history` may also be pairs of an action and its observation, which are then
what places count, or messages. A file of a single event is a session of its own, as what belongs with it stands in
other files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, quoted, stem, text
from harness_adapters.notes import Notes
from harness_adapters.openhands_sdk import KINDS, SdkSession, is_sdk_event
from harness_adapters.openhands_v0 import V0Sessions, is_event
from harness_adapters.recorded import values_of
from harness_adapters.records import Record
from harness_adapters.source import Head, Source
from harness_adapters.trace import Trace

_LISTS = ("history", "trajectory", "events")
_EVALUATED = ("agent_class", "llm_config", "eval_output_dir")


class OpenHands:
    """Reads OpenHands' events."""

    name = "openhands"
    unit = "event"

    def recognises(self, head: Head) -> bool:
        """Say whether the file holds events, or an evaluation's output."""
        return any(_stands_alone(value) or _is_holder(value) for value in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield a trace for each history, one for all the events that stand by themselves, and those of delegates."""
        alone: list[tuple[int, Mapping[str, Any]]] = []
        lines: list[int] = []
        notes = Notes()
        complete = True
        for record in values_of(source):
            if isinstance(record, Skipped):
                complete = False
                yield record
                continue
            complete = complete and not record.cut
            if is_event(record.value) or is_sdk_event(record.value):
                alone.append((record.index, record.value))
                lines.append(record.line)
            elif (history := _history(record.value)) is not None:
                name = text(record.value.get("instance_id")) or stem(source.name)
                held: list[tuple[int, Mapping[str, Any]]] = []
                for place, value in history:
                    event = mapping(value)
                    if is_event(event) or is_sdk_event(event) or isinstance(event.get("role"), str):
                        held.append((place, event))
                    else:
                        reason = f"event {place} of its history is of no kind known to this version"
                        yield Skipped(record.line, reason, orjson.dumps(value))
                yield from _session(held, [record.line] * len(held), name, notes, complete=not record.cut)
            elif not _is_holder(record.value) and not record.cut:
                yield Skipped(record.line, "it is no event, and holds none", record.raw)
        if alone:
            yield from _session(alone, lines, stem(source.name), notes, complete=complete)


def _stands_alone(value: Mapping[str, Any]) -> bool:
    """Say whether an object is an event of ours and of no other format that has actions or kinds."""
    told = "source" in value and ("id" in value or "timestamp" in value)
    if is_event(value):
        return told or "cause" in value or "tool_call_metadata" in value
    return told and value.get("kind") in KINDS


def _is_holder(value: Mapping[str, Any]) -> bool:
    """Say whether an object is an evaluation's output, or holds a list of events."""
    about = mapping(value.get("metadata"))
    return _history(value) is not None or ("instance_id" in value and any(name in about for name in _EVALUATED))


def _history(value: Mapping[str, Any]) -> Sequence[tuple[int, object]] | None:
    """Return the events an object holds, each with its place, those of a pair with the pair's; None without any."""
    for name in _LISTS:
        held = value.get(name)
        if not isinstance(held, list) or not held:
            continue
        events: list[tuple[int, object]] = []
        for place, item in enumerate(cast("list[object]", held)):
            pair = cast("list[object]", item) if isinstance(item, list) else [item]
            events += [(place, event) for event in pair]
        first = mapping(next((event for _, event in events if isinstance(event, Mapping)), None))
        if is_event(first) or is_sdk_event(first) or (name == "history" and "instance_id" in value and "role" in first):
            return events
    return None


def _session(
    events: Sequence[tuple[int, Mapping[str, Any]]], lines: Sequence[int], name: str, notes: Notes, *, complete: bool
) -> Iterator[Trace | Skipped]:
    if any("kind" in event for _, event in events):
        yield from _sdk(events, lines, name, notes, complete=complete)
    elif any("role" in event for _, event in events):
        conversation = Conversation()
        for place, event in events:
            conversation.add(event, place=place)
        yield conversation.trace(OpenHands.name, name, complete=complete, is_named=False)
    else:
        yield from _v0(events, name, complete=complete)


def _sdk(
    events: Sequence[tuple[int, Mapping[str, Any]]], lines: Sequence[int], name: str, notes: Notes, *, complete: bool
) -> Iterator[Trace | Skipped]:
    session = SdkSession(events)
    for kind, number in session.unknown.items():
        reason = f"records of kind {quoted(kind or 'none')} are not known to this version"
        yield from notes.once(reason, Record(events[number][0], lines[number], events[number][1]))
    if session.conversation.turns:
        complete = complete and session.is_complete
        yield session.conversation.trace(OpenHands.name, name, tools=session.tools, complete=complete, is_named=False)


def _v0(events: Sequence[tuple[int, Mapping[str, Any]]], name: str, *, complete: bool) -> Iterator[Trace]:
    root: str | None = None
    for session in V0Sessions(events).sessions:
        if session.conversation.turns:
            trace = session.conversation.trace(
                OpenHands.name,
                f"{name}/{session.name}" if session.name else name,
                tools=session.tools,
                complete=complete and session.is_complete,
                is_named=False,
            )
            root = root or trace.id
            yield replace(trace, root=root)
