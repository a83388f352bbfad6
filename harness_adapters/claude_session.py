"""One session of Claude Code: its records put together into turns, in the order in which the agent saw them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from harness_adapters.anthropic_blocks import answer_messages, chat_messages
from harness_adapters.claude_queue import Queue, content_of
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, text
from harness_adapters.messages import text_of
from harness_adapters.outcome import command_of, outcome_of
from harness_adapters.trace import Author, Message, Outcome, ToolCall


@dataclass(frozen=True, slots=True)
class Row:
    """A record with its line, from 0, and whether it was copied from the session that this one was forked from."""

    line: int
    value: Mapping[str, Any]
    is_inherited: bool = False


@dataclass(slots=True)
class Told:
    """What a session's records say."""

    conversation: Conversation = field(default_factory=Conversation)
    inherited: int = 0
    is_compacted: bool = False
    unknown: dict[str, "_Block"] = field(default_factory=dict[str, "_Block"])
    """Types of blocks that are not known, each with the first one and its line."""
    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    results: dict[str, list[object]] = field(default_factory=dict[str, list[object]])
    """What came of the calls, by the call's id."""


_Block = tuple[int, Mapping[str, Any]]
_WRITTEN = frozenset({"text", "thinking", "redacted_thinking", "image", "document"})
_FALLBACK = "fallback"
"""A block that says which model took over."""
# Written by the client or by another agent in the person's name, without a member that says so.
_CLIENT = re.compile(
    r"\A\s*(<(teammate-message|channel|user-prompt-submit-hook|session-start-hook)\b|stop hook feedback:"
    r"|\[system notification\b|this session is being continued from)",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"\A\s*/[\w:-]+(\s|\Z)")
_REFUSED = re.compile(
    r"\A(Error: )?(Claude requested permissions? |Permission to use .{1,200} (has been |was )?denied)", re.DOTALL
)
_EXIT_CODE = re.compile(r"\A(Error: )?Exit code (?P<code>\d{1,3})\b")
_DENIALS = {
    "user-rejected": Outcome.REJECTED_BY_HUMAN,
    "interrupted": Outcome.CANCELLED,
    "cancelled": Outcome.CANCELLED,
}


@dataclass(slots=True)
class _Answer:
    """One response of the model. Its blocks stand on lines of their own, among other records, some of them twice."""

    id: str
    blocks: dict[object, _Block] = field(default_factory=dict[object, _Block])
    is_inherited: bool = False

    def take(self, row: Row) -> None:
        """Take in a line; a block that is there already is replaced."""
        blocks = _blocks(mapping(row.value.get("message")).get("content"))
        at = row.value.get("apiBlockIndex")
        for number, block in enumerate(blocks):
            kind = text(block.get("type"))
            if kind in ("text", "thinking") and not text(block.get(kind)):
                continue  # thinking whose text was not kept
            key: object = (kind, text(block.get("id")) or (row.line, number))
            if kind in ("text", "thinking"):
                key = (kind, at) if type(at) is int and len(blocks) == 1 else self._written_before(kind, block) or key
            self.blocks[key] = (row.line, block)

    def _written_before(self, kind: str, block: Mapping[str, Any]) -> object:
        """Return the key of a block that this one repeats or, as it was written while it streamed, goes on from."""
        written = text(block.get(kind))
        alike = [(key, text(known.get(kind))) for key, (_, known) in self.blocks.items() if known.get("type") == kind]
        if repeated := next((key for key, said in alike if said == written), None):
            return repeated
        last = next(reversed(self.blocks), None)
        # Another block between them has ended the one before it.
        return next((key for key, said in alike if key == last and written.startswith(said)), None)


def read_session(rows: Sequence[Row], *, is_sub: bool) -> Told:
    """Put the records of one session, in the order of their lines, together. `is_sub`: a sub-agent's."""
    told = Told()
    items = list(_items(rows))
    answers = [at for at, item in enumerate(items) if isinstance(item, _Answer)]
    queue = Queue(
        [(at, i.line, i.value) for at, i in enumerate(items) if isinstance(i, Row) and _is_typed(i.value)], answers
    )
    waiting: list[Row] = []

    def tell_waiting() -> None:
        for row in waiting:
            _say(told, row.value, row.line, is_sub)
        waiting.clear()

    for at, item in enumerate(items):
        if isinstance(item, _Answer):
            tell_waiting()
            _answer(told, item)
        elif item.value.get("type") == "user":
            _results(told, item)
            if _said(item.value) is not None:
                tell_waiting()
                _say(told, item.value, item.line, is_sub)
        elif item.value.get("type") == "assistant":
            _add_error(told, item)
        elif item.value.get("type") == "attachment":
            # The agent is shown it with the results of its calls, which may stand behind it.
            waiting.append(item)
        elif item.value.get("type") == "queue-operation":
            waiting.extend(Row(line, value) for line, value in queue.take(at, item.line, item.value))
        elif item.value.get("subtype") == "compact_boundary":
            told.is_compacted = True
        if item.is_inherited:
            told.inherited = len(told.conversation.turns)
    tell_waiting()
    for line, value in queue.left():
        _say(told, value, line, is_sub, shown=False)
    return told


def _items(rows: Sequence[Row]) -> Iterator[_Answer | Row]:
    """Yield the records, those of a response as one, where the first of them stands."""
    answers: dict[str, _Answer] = {}
    for row in rows:
        message = mapping(row.value.get("message"))
        if row.value.get("type") == "attachment":
            if mapping(row.value.get("attachment")).get("type") == "queued_command":
                yield row
        elif (
            row.value.get("type") != "assistant"
            or row.value.get("isApiErrorMessage")
            or message.get("model") == "<synthetic>"
        ):
            yield row
        else:
            key = text(message.get("id")) or text(row.value.get("requestId")) or f"line {row.line}"
            if key not in answers:
                answers[key] = _Answer(text(message.get("id")), is_inherited=row.is_inherited)
                yield answers[key]
            answers[key].take(row)


def _blocks(content: object) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    items = cast("list[object]", content) if isinstance(content, list) else []
    return [{"type": "text", "text": item} if isinstance(item, str) else mapping(item) for item in items]


def _said(value: Mapping[str, Any]) -> Message | None:
    """Return what a record says beside results of calls; None where it says nothing."""
    messages = chat_messages([{"role": "user", "content": content_of(value)}])
    said = next((message for message in messages if message["role"] != "tool"), {})
    content = said.get("content")
    is_said = content.strip() if isinstance(content, str) else content
    return said if is_said else None


def _is_typed(value: Mapping[str, Any]) -> bool:
    """Say whether a record may be the delivery of a message that was queued."""
    if value.get("type") == "attachment" or value.get("subtype") == "local_command":
        return True
    return (
        value.get("type") == "user"
        and not value.get("isMeta")
        and not value.get("isCompactSummary")
        and _said(value) is not None
    )


def _answer(told: Told, answer: _Answer) -> None:
    written: list[_Block] = []
    for line, block in answer.blocks.values():
        kind = text(block.get("type"))
        if kind.endswith("tool_result"):  # of a tool that the server ran in between
            _write(told, answer.id, written)
            written = []
            _result(told, chat_messages([{"role": "user", "content": [{**block, "type": "tool_result"}]}])[0], line, {})
        elif kind.endswith("tool_use") or kind in _WRITTEN:
            written.append((line, block))
        elif kind != _FALLBACK:
            told.unknown.setdefault(kind, (line, block))
    _write(told, answer.id, written)


def _write(told: Told, message_id: str, blocks: Sequence[_Block]) -> None:
    if not blocks:
        return
    (message,) = answer_messages([block for _, block in blocks])
    calls = [(line, block) for line, block in blocks if text(block.get("type")).endswith("tool_use")]
    place = next((line for line, block in blocks if block.get("type") == "text"), blocks[0][0])
    places = [line for line, _ in calls]
    turn = told.conversation.add(
        message, place=place, call_places=places, response_id=message_id or None, author=Author.AGENT
    )
    for call in turn.tool_calls:
        told.calls[call.id] = call
        told.results.pop(call.id, None)


def _add_error(told: Told, row: Row) -> None:
    """Add what the client wrote in the model's name, such as an error of the service, which the model is not shown."""
    said = text_of(content_of(row.value))
    if said:
        message = {"role": "user", "content": said}
        told.conversation.add(message, place=row.line, author=Author.FRAMEWORK, text=said, shown=False)


def _say(told: Told, value: Mapping[str, Any], line: int, is_sub: bool, *, shown: bool = True) -> None:
    message = _said(value)
    if message is not None:
        author = _author(value, text_of(message["content"]), is_sub)
        told.is_compacted = told.is_compacted or bool(value.get("isCompactSummary"))
        told.conversation.add(message, place=line, author=author, shown=shown)


def _author(value: Mapping[str, Any], said: str, is_sub: bool) -> Author | None:
    """Return who wrote a text of the user's role, where the record says so."""
    inner = mapping(value.get("attachment")) or value
    origin = text(mapping(inner.get("origin")).get("kind")) or text(value.get("turnOrigin"))
    if inner.get("isMeta") or value.get("isCompactSummary") or value.get("isSynthetic") or _CLIENT.match(said):
        return Author.CLIENT
    if inner.get("commandMode") == "task-notification" or value.get("promptSource") == "system":
        return Author.CLIENT
    if origin not in ("", "human", "sdk") or (value.get("type") == "queue-operation" and _COMMAND.match(said)):
        return Author.CLIENT
    return Author.FRAMEWORK if is_sub and origin != "human" else None


def _results(told: Told, row: Row) -> None:
    messages = chat_messages([{"role": "user", "content": content_of(row.value)}])
    results = [message for message in messages if message["role"] == "tool"]
    for message in results:
        # What stands beside the message is of its one result.
        _result(told, message, row.line, row.value if len(results) == 1 else {})


def _result(told: Told, message: Message, line: int, record: Mapping[str, Any]) -> None:
    call_id, content = message["tool_call_id"], message["content"]
    said = text_of(content)
    if call_id and content in told.results.setdefault(call_id, []):
        return  # the same again
    told.results.setdefault(call_id, []).append(content)
    detail = mapping(record.get("toolUseResult"))
    exit_code = detail.get("exitCode")
    flag = message.get("is_error")
    if flag is True and (found := _EXIT_CODE.match(said)):
        exit_code = int(found["code"])
    elif flag is None:
        # The client's own tools have it wherever they fail; servers of others forget it.
        call = told.calls.get(call_id)
        flag = None if call is None or call.name.startswith("mcp__") else False
    outcome = _outcome(said, text(record.get("toolDenialKind")), detail)
    if outcome is None and type(exit_code) is int:
        call = told.calls.get(call_id)
        outcome = outcome_of(said, exit_code=exit_code, command=command_of(call.arguments) if call else "")
    told.conversation.add(message, place=line, flag=flag, outcome=outcome)


def _outcome(said: str, denial: str, detail: Mapping[str, Any]) -> Outcome | None:
    """Return what became of a call, where the record or the client's own words say so."""
    if denial or _REFUSED.match(said):
        return _DENIALS.get(denial, Outcome.ERROR_ENV)
    if detail.get("interrupted") is True:
        return Outcome.CANCELLED
    if detail.get("status") in ("async_launched", "running") or detail.get("backgroundTaskId"):
        return Outcome.STILL_RUNNING
    return None
