"""Gemini CLI sessions, from `~/.gemini/tmp/*/chats/`.

Until 2026 a session was one JSON object `{sessionId, projectHash, messages}`. Since then it is a log: a line of
metadata, one line a message, whole again under the same id whenever something is added to it, and lines `{"$set": …}`,
which may hold the whole list of messages, and `{"$rewindTo": id}`. A call and its result stand in the same message.
Sub-agents have files of their own, in a folder named as the session they work for. What was taken back by a rewind is a
trace of its own that shares its beginning.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from harness_adapters.adapter import Skipped
from harness_adapters.fields import mapping, mappings, quoted, stem, text
from harness_adapters.gemini_messages import MODEL, NOTICES, conversation_of, kind_of, said_in
from harness_adapters.notes import Notes
from harness_adapters.recorded import values_of
from harness_adapters.source import Head, Source
from harness_adapters.trace import Trace

_METADATA = ("session_metadata", None)


class GeminiCli:
    """Reads the sessions of Gemini CLI."""

    name = "gemini_cli"
    unit = "message"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records is a session, its metadata or a message of the model."""
        return any(
            (isinstance(value.get("sessionId"), str) and "projectHash" in value)
            or any(message.get("type") == "gemini" and "content" in message for message in (value, *_messages(value)))
            for value in head.objects()
        )

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield the source's sessions, each behind what of it was taken back."""
        session = _Session(source.name)
        notes = Notes()
        for record in values_of(source):
            if isinstance(record, Skipped):
                session.is_whole = False
                yield record
                continue
            value = record.value
            if session.is_other(value):
                yield from session.traces()
                session = _Session(source.name)
            session.is_whole = session.is_whole and not record.cut
            kinds = {kind_of(message) for message in (value, *_messages(value)) if not _is_metadata(message)}
            for kind in sorted(kinds - {"user", "message_update", *MODEL, *NOTICES}):
                yield from notes.once(f"records of type {quoted(kind)} are not known to this version", record)
            session.add(value)
        yield from session.traces()


def _messages(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of a session that is one object."""
    return [] if "type" in value else mappings(value.get("messages"))


def _is_metadata(value: Mapping[str, Any]) -> bool:
    return "$set" in value or "$rewindTo" in value or ("sessionId" in value and value.get("type") in _METADATA)


class _Session:
    """The messages of a session as its lines leave them, each with its index among all that there were."""

    def __init__(self, source: str) -> None:
        self._name = stem(source)
        self._folder = PurePath(source).parent.name
        self._about: dict[str, Any] = {}
        self._messages: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self._count = 0
        self._rewound: list[tuple[int, list[tuple[int, Mapping[str, Any]]]]] = []
        self.is_whole = True

    def is_other(self, value: Mapping[str, Any]) -> bool:
        """Say whether a record begins another session."""
        named = value.get("sessionId")
        return _is_metadata(value) and isinstance(named, str) and self._about.get("sessionId", named) != named

    def add(self, value: Mapping[str, Any]) -> None:
        """Take in a record."""
        if isinstance(value.get("$rewindTo"), str):
            self._rewind(value["$rewindTo"])
        elif "$set" in value:
            changes = mapping(value["$set"])
            self._about.update(changes)
            if isinstance(changes.get("messages"), list):
                self._replace(mappings(changes["messages"]))
        elif _is_metadata(value):
            self._about.update(value)
            for message in _messages(value):
                self._put(message)
        else:
            self._put(value)

    def _put(self, message: Mapping[str, Any]) -> None:
        key = text(message.get("id")) or f"number {self._count}"
        place, before = self._messages.get(key, (self._count, {}))
        self._count += key not in self._messages
        is_update = message.get("type") == "message_update"
        self._messages[key] = (place, {**before, **message, "type": before.get("type")} if is_update else message)

    def _replace(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Take in a list of messages.

        Some versions write all of them at each turn, others only once they have shortened the history: what stood there
        is kept, and what stands before it now is the client's summary.
        """
        keys = self._known(messages)
        first = next((key for key, (_, m) in self._messages.items() if kind_of(m) in ("user", *MODEL)), None)
        is_shortened = first is not None and first not in keys
        self.is_whole = self.is_whole and not is_shortened
        is_summary = is_shortened and any(keys)
        for key, message in zip(keys, messages, strict=True):
            if key:
                place, before = self._messages[key]
                self._messages[key] = (place, _fuller(before, message))
                is_summary = False
            else:
                self._put({**message, "is_summary": is_summary})

    def _known(self, messages: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return under which key each message is known, by its id or by what it says; empty where it is new."""
        alike: dict[tuple[str, str], list[str]] = {}
        for key, (_, message) in self._messages.items():
            alike.setdefault(_likeness(message), []).append(key)
        taken = self._messages.keys() & {text(message.get("id")) for message in messages}
        keys: list[str] = []
        for message in messages:
            key = text(message.get("id"))
            if key not in self._messages:
                key = next((key for key in alike.get(_likeness(message), ()) if key not in taken), "")
            keys.append(key)
            taken.add(key)
        return keys

    def _rewind(self, key: str) -> None:
        kept: dict[str, tuple[int, Mapping[str, Any]]] = {}
        for name, entry in self._messages.items():
            if name == key:
                break
            kept[name] = entry
        else:
            kept = {}  # as the client does where it does not know the message
        if len(kept) < len(self._messages):
            self._rewound.append((len(kept), list(self._messages.values())))
        self._messages = kept

    def traces(self) -> Iterator[Trace]:
        """Yield what was taken back, then the session."""
        name = text(self._about.get("sessionId")) or self._name
        is_sub = self._about.get("kind") == "subagent" and self._folder not in ("", "chats")
        parent = self._folder if is_sub else None
        for number, (shared, messages) in enumerate(self._rewound, 1):
            inherited = len(conversation_of(messages[:shared]).turns)
            yield conversation_of(messages).trace(
                GeminiCli.name,
                f"{name}-rewound-{number}",
                parent=parent or name,
                complete=self.is_whole,
                inherited=inherited,
            )
        conversation = conversation_of(list(self._messages.values()))
        if conversation.turns:
            yield conversation.trace(GeminiCli.name, name, parent=parent, complete=self.is_whole)


def _likeness(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return what is alike in two copies of a message that have not the same id."""
    calls = [text(call.get("id")) for call in mappings(message.get("toolCalls"))]
    return kind_of(message), json.dumps([said_in(message.get("content")), calls], default=str)


def _fuller(before: Mapping[str, Any], after: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message as it was, with what it has been given since; results may have been masked since."""
    calls = {text(call.get("id")): call for call in mappings(before.get("toolCalls"))}
    for call in mappings(after.get("toolCalls")):
        if not calls.get(text(call.get("id")), {}).get("result"):
            calls[text(call.get("id"))] = call
    old, new = said_in(before.get("content")), said_in(after.get("content"))
    grew = isinstance(old, str) and isinstance(new, str) and new.startswith(old)
    kept = {name: value for name, value in before.items() if value}
    content = after.get("content") if grew or not old else before.get("content")
    return {**after, **kept, "content": content, "toolCalls": list(calls.values())}
