"""Claude Code's session logs: `~/.claude/projects/FOLDER/SESSION.jsonl`, and `SESSION/subagents/agent-*.jsonl`.

One record a line. A model's response is spread over several lines, one a block, which share the message's id. Read are
the logs of 1.x and 2.x and the output of `claude -p --output-format stream-json`, whose records are the same but for
the spelling of two members. The system prompt is in none of them. Left out are the client's books (titles, snapshots,
modes), what it shows to the person alone (`system`), what `progress` repeats of sub-agents' own logs, and the
attachments but for messages that were typed while the agent worked.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.claude_session import Row, read_session
from harness_adapters.fields import mapping, quoted, stem, text
from harness_adapters.gather import Gather
from harness_adapters.jsontext import parse
from harness_adapters.notes import Notes
from harness_adapters.recorded import values_of
from harness_adapters.records import Record
from harness_adapters.source import Head, Source
from harness_adapters.trace import Trace


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_READ = _names("user assistant system attachment queue-operation")
_LEFT_OUT = _names(
    """
    summary file-history-snapshot progress last-prompt ai-title custom-title agent-name agent-color agent-setting tag
    mode permission-mode pr-link result stream_event rate_limit_event tool_progress tool_use_summary auth_status
    control_request control_response keep_alive
    """
)


class ClaudeCode:
    """Reads Claude Code's session logs."""

    name = "claude_code"
    unit = "line"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records is one that only Claude Code writes."""
        return any(_is_ours(value) for value in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield the source's sessions, those of sub-agents among them.

        A session's name is its id, that of a sub-agent the session's, a slash and the sub-agent's.
        """
        notes = Notes()
        is_whole = True
        with Gather() as gather:
            lines = _Lines(gather, stem(source.name))
            for record in values_of(source):
                if isinstance(record, Skipped):
                    is_whole = False
                    yield record
                    continue
                kind = text(record.value.get("type"))
                lines.take(record, kind in _READ)
                is_whole = is_whole and not record.cut
                if kind not in _READ | _LEFT_OUT:
                    reason = f"records of type {quoted(kind)} are not known; no more of them are named"
                    yield from notes.once(reason, record)
            yield from _traces(self.name, gather, is_whole)


def _is_ours(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    if kind in ("user", "assistant", "system", "attachment", "progress") and "uuid" in value:
        return "parentUuid" in value or "session_id" in value
    members = {
        "summary": {"leafUuid"},
        "queue-operation": {"operation", "sessionId"},
        "file-history-snapshot": {"messageId", "snapshot"},
        "last-prompt": {"lastPrompt", "sessionId"},
        "permission-mode": {"permissionMode", "sessionId"},
        "ai-title": {"aiTitle", "sessionId"},
        "custom-title": {"customTitle", "sessionId"},
    }
    return isinstance(kind, str) and kind in members and members[kind] <= value.keys()


class _Lines:
    """Puts the records of a source to the sessions they are of."""

    def __init__(self, gather: Gather, name: str) -> None:
        self._gather = gather
        self._session = name

    def take(self, record: Record, is_read: bool) -> None:
        value, uuid = record.value, text(record.value.get("uuid"))
        self._session = text(value.get("sessionId")) or text(value.get("session_id")) or self._session
        group = self._group(value, uuid)
        copied = text(mapping(value.get("forkedFrom")).get("sessionId"))
        if uuid:
            first = self._gather.noted(f"uuid {uuid}")
            copied = copied or (first if first and first != group else "")
            if first is None:
                self._gather.note(f"uuid {uuid}", group)
            self._link(group, text(value.get("parentUuid")))
        if copied:
            self._gather.note(f"parent {group}", copied)
        if is_read:
            raw = orjson.dumps(value) if record.cut else record.raw
            # An answer's block is written anew while it streams, and a queue's records have no id: of those only a line
            # that is the same to its time is a copy.
            copy = blake2b(raw, digest_size=16).hexdigest() if "timestamp" in value else f"line {record.index}"
            key = uuid if uuid and value.get("type") != "assistant" else copy
            self._gather.put(group, key, b"%d %d " % (record.index, bool(copied)) + raw)

    def _group(self, value: Mapping[str, Any], uuid: str) -> str:
        """Return the name of a record's session: of its sub-agent's, where one wrote it."""
        task = text(value.get("parent_tool_use_id"))
        if value.get("isSidechain") is not True and not task:
            return self._session
        agent = text(value.get("agentId")) or task
        if not agent:
            # Older logs do not name the sub-agent: its records hang on its first one.
            agent = self._gather.noted(f"agent {value.get('parentUuid')}") or uuid
            self._gather.note(f"agent {uuid}", agent)
        group = f"{self._session}/{agent}"
        self._gather.note(f"parent {group}", self._session)
        return group

    def _link(self, group: str, before: str) -> None:
        """Note what the first record of a session goes on from."""
        if self._gather.noted(f"began {group}") is None:
            self._gather.note(f"began {group}", before)
            session = self._gather.noted(f"uuid {before}") if before else None
            if session is not None and session != group and self._gather.noted(f"parent {group}") is None:
                self._gather.note(f"follows {group}", session)
                self._gather.note(f"parent {group}", session)


def _traces(harness: str, gather: Gather, is_whole: bool) -> Iterator[Trace | Skipped]:
    held: tuple[str, list[Row]] = ("", [])
    for name, bodies in gather.groups():
        rows = [_row(body) for body in bodies]
        before = gather.noted(f"began {name}")
        if gather.noted(f"follows {name}") == held[0]:
            rows = [Row(row.line, row.value, True) for row in held[1]] + rows
        parent = gather.noted(f"parent {name}")
        root, seen = parent, {name}
        while root and root not in seen and (above := gather.noted(f"parent {root}")):
            seen.add(root)
            root = above
        told = read_session(rows, is_sub=parent is not None and name.startswith(f"{parent}/"))
        has_start = not before or gather.noted(f"uuid {before}") is not None
        for kind, (line, block) in told.unknown.items():
            reason = f"blocks of type {quoted(kind)} are not known; no more of them are named"
            yield Skipped(line + 1, reason, orjson.dumps(block))
        if told.conversation.turns:
            yield told.conversation.trace(
                harness,
                name,
                parent=root,
                complete=is_whole and has_start and not told.is_compacted,
                inherited=told.inherited,
            )
        if "/" not in name:
            held = (name, rows)


def _row(body: bytes) -> Row:
    line, is_inherited, raw = body.split(b" ", 2)
    return Row(int(line), parse(raw), is_inherited == b"1")
