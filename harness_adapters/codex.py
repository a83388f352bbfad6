"""Codex's rollouts: `~/.codex/sessions/YEAR/MONTH/DAY/rollout-TIME-SESSION.jsonl`, and what `codex exec --json` prints.

A rollout's lines are `{timestamp, type, payload}`; the first ones of 2025 hold the payloads alone, or one document
`{session, items}`. Read are the response items, which are what the model was shown, and of the events those that say
more: texts that no item holds, exit codes, whether a patch applied. Texts that stand in several forms count once. Left
out are encrypted reasoning, counts of tokens, the state of turns, and what events repeat.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from harness_adapters.adapter import Skipped
from harness_adapters.codex_session import Rollout, read_rollout
from harness_adapters.fields import mapping, mappings, quoted, stem, text
from harness_adapters.notes import Notes
from harness_adapters.recorded import values_of
from harness_adapters.records import Record
from harness_adapters.source import Head, Source
from harness_adapters.trace import Trace


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WRAPPERS = _names(
    """
    session_meta response_item event_msg turn_context compacted inter_agent_communication world_state
    inter_agent_communication_metadata security_risk_score realtime_item token_usage_record
    """
)
_ITEMS = _names(
    """
    message agent_message reasoning function_call function_call_output custom_tool_call custom_tool_call_output
    local_shell_call local_shell_call_output tool_search_call tool_search_output web_search_call image_generation_call
    compaction compaction_summary context_compaction compaction_trigger ghost_snapshot additional_tools other
    """
)
_EVENTS = _names(
    """
    user_message agent_message item_completed exec_command_end patch_apply_end mcp_tool_call_end turn_aborted
    task_started turn_started context_compacted
    """
)
_LEFT_OUT_EVENTS = _names(
    """
    agent_reasoning agent_reasoning_raw_content agent_reasoning_section_break token_count task_complete turn_complete
    session_configured thread_name_updated thread_rolled_back item_started exec_command_begin exec_command_output_delta
    exec_approval_request apply_patch_approval_request patch_apply_begin turn_diff mcp_tool_call_begin web_search_begin
    web_search_end view_image_tool_call plan_update entered_review_mode exited_review_mode background_event stream_error
    error warning mcp_startup_update mcp_startup_complete shutdown_complete
    """
)
_PRINTED = _names("item.started item.updated item.completed turn.started")
_LEFT_OUT_PRINTED = _names("turn.completed turn.failed error")


class Codex:
    """Reads Codex's rollouts."""

    name = "codex"
    unit = "line"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records is one that only Codex writes."""
        return any(_is_ours(value) for value in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield the source's sessions. A file of several rollouts, one behind the other, holds as many."""
        notes = Notes()
        rollout = Rollout(stem(source.name))
        for record in values_of(source, ("items",)):
            if isinstance(record, Skipped):
                rollout.is_broken = True
                yield record
                continue
            for place, value in _values(record):
                kind, payload = _unwrapped(value)
                if kind == "session_meta":
                    if not rollout.goes_on(payload, record.raw):
                        yield from self._trace(rollout)
                        rollout = Rollout(stem(source.name))
                    rollout.begin(payload, record.raw, place)
                elif (name := _unread(kind, payload)) is None:
                    rollout.rows.append((place, kind, payload))
                elif name:
                    yield from notes.once(f"records of type {name} are not known; no more of them are named", record)
            rollout.is_broken = rollout.is_broken or record.cut
        yield from self._trace(rollout)

    def _trace(self, rollout: Rollout) -> Iterator[Trace]:
        rollout.end()
        conversation = read_rollout(rollout)
        if conversation.turns:
            complete = rollout.is_whole and not rollout.is_broken
            yield conversation.trace(
                self.name, rollout.name, parent=rollout.parent, complete=complete, inherited=rollout.inherited
            )


def _values(record: Record) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the values of a record with their places; those of a document `{session, items}` are many."""
    session = {"type": "session_meta", "payload": record.head["session"]} if "session" in record.head else None
    if isinstance(record.value.get("session"), Mapping) and isinstance(record.value.get("items"), list):
        begin = {"type": "session_meta", "payload": record.value["session"]}
        return [(0, begin), *enumerate(mappings(record.value["items"]))]
    if session is not None and record.index == 0:
        return [(0, session), (0, record.value)]
    return [(record.index, record.value)]


def _is_ours(value: Mapping[str, Any]) -> bool:
    kind = text(value.get("type"))
    if kind in _WRAPPERS:
        return isinstance(value.get("payload"), Mapping)
    if kind == "thread.started":
        return isinstance(value.get("thread_id"), str)
    if kind in _PRINTED and "item" in value:
        return "id" in mapping(value["item"])
    session, items = value.get("session"), value.get("items")
    return _is_bare_meta(value) or (isinstance(session, Mapping) and isinstance(items, list) and "id" in session)


def _is_bare_meta(value: Mapping[str, Any]) -> bool:
    """Say whether a record is the first line of a rollout of early 2025."""
    return (
        {"id", "timestamp"} <= value.keys()
        and "instructions" in value
        and not {"type", "messages", "role"} & value.keys()
    )


def _unwrapped(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return what a record is and what it holds, whichever form it is written in."""
    kind = text(value.get("type"))
    if kind in _WRAPPERS:
        payload = mapping(value.get("payload"))
        meta = mapping(payload.get("meta"))
        return kind, meta if kind == "session_meta" and meta else payload
    if kind == "thread.started" or _is_bare_meta(value):
        return "session_meta", value
    if kind in _ITEMS:
        return "response_item", value
    return ("state" if "record_type" in value else kind), value


def _unread(kind: str, payload: Mapping[str, Any]) -> str | None:
    """Return None for a record that is read, and else how to name it, if it is not known."""
    inner = text(payload.get("type"))
    if kind == "response_item":
        return None if inner in _ITEMS else f"response_item {quoted(inner)}"
    if kind == "event_msg":
        return None if inner in _EVENTS else "" if inner in _LEFT_OUT_EVENTS else f"event_msg {quoted(inner)}"
    if kind in ("compacted", "inter_agent_communication", "turn_context") or kind in _PRINTED:
        return None
    return "" if kind in _WRAPPERS | _LEFT_OUT_PRINTED | {"state"} else quoted(kind)
