"""One session of Codex: its items and events put together into turns, in the order in which the model saw them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from harness_adapters.codex_result import Fact, Judged, facts_of, judge
from harness_adapters.codex_texts import Spoken, attributed, spoken_once
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, text, tool_call
from harness_adapters.jsontext import value_in
from harness_adapters.messages import calls_of, plain_content, text_of
from harness_adapters.response_items import chat_messages
from harness_adapters.trace import Author, Message, Outcome, ToolCall

_TIMED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7")
Row = tuple[int, str, Mapping[str, Any]]
"""A record's line, from 0, what it is, and what it holds."""


@dataclass(slots=True)
class Rollout:
    """The records of one session, and what its first ones say of it."""

    name: str
    line: int = 0
    is_whole: bool = False
    is_broken: bool = False
    """Whether lines of it could not be read."""
    parent: str | None = None
    instructions: str = ""
    is_sub: bool = False
    rows: list[Row] = field(default_factory=list[Row])
    inherited: int = 0
    _begun: bytes = b""
    _runs: list[int] = field(default_factory=list[int])
    """Where the rows of each printed run begin but for the first: a session that is resumed is printed anew."""

    def goes_on(self, meta: Mapping[str, Any], raw: bytes) -> bool:
        """Say whether a record that begins a session belongs to this one: said again, or copied along with the history
        of the session that this one was forked from."""
        is_same_again = id_of(meta) == self.name and (raw != self._begun or meta.get("type") == "thread.started")
        return not self.rows or is_same_again

    def begin(self, meta: Mapping[str, Any], raw: bytes, line: int) -> None:
        """Take in a record that begins a session."""
        if self._begun:
            if id_of(meta) != self.name:
                self.parent = self.parent or id_of(meta) or None
            elif self.rows:
                self.end()
                self._runs.append(len(self.rows))
            return
        self.name, self.line, self._begun = id_of(meta) or self.name, line, raw
        source = mapping(mapping(meta.get("source")).get("subagent"))
        spawned = mapping(source.get("thread_spawn")).get("parent_thread_id")
        parent = text(meta.get("forked_from_id")) or text(spawned) or text(meta.get("parent_thread_id"))
        self.parent = parent or None
        self.is_sub = "subagent" in mapping(meta.get("source")) or meta.get("thread_source") == "subagent"
        self.instructions = text(mapping(meta.get("base_instructions")).get("text"))
        # What is printed lacks the prompt, and a page of a history is not all of it.
        self.is_whole = meta.get("type") != "thread.started" and not mapping(meta.get("history_base"))

    def end(self) -> None:
        """Leave out the last run if it is one before it once more."""
        starts = [0, *self._runs, len(self.rows)]
        runs = [[row[1:] for row in self.rows[a:b]] for a, b in pairwise(starts)]
        if runs[-1] in runs[:-1]:
            del self.rows[self._runs.pop() :]


def id_of(meta: Mapping[str, Any]) -> str:
    """Return the session's id in a record that begins one; empty where there is none."""
    return text(meta.get("id")) or text(meta.get("session_id")) or text(meta.get("thread_id"))


def read_rollout(rollout: Rollout) -> Conversation:
    """Put the records of a session together. Notes in the rollout whether history is missing and how much is copied."""
    return _Reader(rollout).run()


@dataclass(slots=True)
class _Answer:
    """What the model wrote up to the next thing it was shown."""

    written: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    calls: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list[tuple[int, Mapping[str, Any]]])
    place: int | None = None
    """The line of its first text."""
    begun: int | None = None

    def begin(self, line: int) -> None:
        self.begun = line if self.begun is None else self.begun

    def write(self, line: int, words: str) -> None:
        self.begin(line)
        self.place = line if self.place is None else self.place
        self.written.append(words)

    def think(self, line: int, words: str) -> None:
        self.begin(line)
        self.thoughts.append(words)


class _Reader:
    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self._conversation = Conversation()
        self._answer = _Answer()
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, set[str]] = {}
        """What came of the calls, by id."""
        self._running: dict[str, str] = {}
        """Calls that started a process, by the process's number."""
        self._printed: dict[str, str] = {}
        """Calls that are printed and have no result yet, by the item's id."""
        self._has_items = any(kind == "response_item" for _, kind, _ in rollout.rows)
        self._facts = facts_of(payload for _, kind, payload in rollout.rows if kind == "event_msg")

    def run(self) -> Conversation:
        rollout = self._rollout
        if rollout.instructions:
            self._conversation.add({"role": "system", "content": rollout.instructions}, place=rollout.line)
        spoken = spoken_once(rollout.rows)
        is_old = False
        for index, (line, kind, payload) in enumerate(rollout.rows):
            turn_id = text(payload.get("turn_id"))
            if rollout.parent and kind != "response_item" and _TIMED.match(turn_id) and _TIMED.match(rollout.name):
                # These ids begin with the time they were given at: a turn older than the session is the parent's.
                if turn_id < rollout.name:
                    is_old = True
                elif is_old:
                    self._shut()
                    rollout.inherited, is_old = len(self._conversation.turns), False
            said = spoken.get(index)
            if said is not None:
                self._say(line, said)
            elif kind == "response_item":
                self._item(line, payload)
            elif kind == "compacted":
                self._shut()
                rollout.is_whole = False
                if summary := text(payload.get("message")):
                    message = {"role": "user", "content": summary}
                    self._conversation.add(message, place=line, author=Author.CLIENT, text=summary)
            elif kind == "inter_agent_communication":
                self._tell(line, payload)
            elif kind == "event_msg":
                self._event(line, payload)
            elif kind == "turn.started":
                self._shut()
            elif kind in ("item.started", "item.updated", "item.completed"):
                self._print(line, mapping(payload.get("item")), is_done=kind == "item.completed")
        self._shut()
        if is_old:
            rollout.inherited = len(self._conversation.turns)
        return self._conversation

    def _event(self, line: int, payload: Mapping[str, Any]) -> None:
        kind, item = text(payload.get("type")), mapping(payload.get("item"))
        if kind in ("turn_aborted", "task_started", "turn_started"):
            self._shut()
        elif kind == "context_compacted" or item.get("type") == "ContextCompaction":
            self._rollout.is_whole = False
        elif kind == "item_completed" and not self._has_items:
            self._print(line, item, is_done=True)

    def _shut(self) -> None:
        """End the answer, if one was begun."""
        answer, self._answer = self._answer, _Answer()
        if not (answer.written or answer.calls or answer.thoughts):
            return
        message: dict[str, Any] = {"role": "assistant", "content": "\n".join(answer.written) or None}
        if answer.thoughts:
            message["reasoning_content"] = "\n".join(answer.thoughts)
        if answer.calls:
            message["tool_calls"] = [call for _, call in answer.calls]
        places = [line for line, _ in answer.calls]
        place = next((p for p in (answer.place, *places, answer.begun) if p is not None), None)
        self._conversation.add(message, place=place, call_places=places, author=Author.AGENT)

    def _say(self, line: int, said: Spoken) -> None:
        """Add what a person, the client or the model said."""
        content = plain_content(said.parts)
        if said.role == "assistant":
            if words := text_of(content):
                self._answer.write(line, words)
            return
        if not content:
            return
        self._shut()
        message = {"role": said.role, "content": content}
        if said.role != "user":
            self._conversation.add(message, place=line)
        else:
            author, words = attributed(said, is_sub=self._rollout.is_sub)
            self._conversation.add(message, place=line, author=author, text=words)

    def _tell(self, line: int, payload: Mapping[str, Any]) -> None:
        """Add what another agent wrote to this one."""
        self._shut()
        content = text_of(payload.get("content"))
        if content:
            self._conversation.add(
                {"role": "user", "content": content}, place=line, author=Author.FRAMEWORK, text=content
            )

    def _item(self, line: int, item: Mapping[str, Any]) -> None:
        kind = text(item.get("type"))
        if kind == "reasoning":
            for part in [*mappings(item.get("summary")), *mappings(item.get("content"))]:
                if words := text(part.get("text")):
                    self._answer.think(line, words)
        elif kind == "agent_message":
            self._tell(line, item)
        elif kind in ("compaction", "compaction_summary", "context_compaction"):
            self._rollout.is_whole = False
        elif kind.endswith("_output"):
            self._result(line, item)
        elif kind.endswith("_call"):
            call_id = text(item.get("call_id")) or text(item.get("id")) or f"line-{line}"
            (message,) = chat_messages([{**item, "call_id": call_id}])
            self._call(line, message["tool_calls"][0])

    def _call(self, line: int, call: Mapping[str, Any]) -> None:
        (known,) = calls_of({"tool_calls": [call]})
        if self._calls.get(known.id) == known and not self._results[known.id]:
            return  # the same again
        self._calls[known.id], self._results[known.id] = known, set()
        self._answer.begin(line)
        self._answer.calls.append((line, call))

    def _result(self, line: int, item: Mapping[str, Any]) -> None:
        call_id = text(item.get("call_id")) or text(item.get("id"))
        output, flag = item.get("output"), None
        if isinstance(output, Mapping) and type(output.get("success")) is bool:
            flag, output = not output["success"], output.get("content")
        (message,) = chat_messages([{**item, "call_id": call_id, "output": item.get("tools", output)}])
        said = text_of(message["content"])
        if call_id and said in self._results.setdefault(call_id, set()):
            return  # the same again
        self._results.setdefault(call_id, set()).add(said)
        answers = self._polled(self._calls.get(call_id))
        asked = self._calls.get(answers or call_id)
        fact = self._facts.get(call_id, Fact()) if flag is None else Fact(flag=flag)
        judged = judge(said, asked.arguments if asked else "", fact)
        if judged.process:
            self._running.setdefault(judged.process, answers or call_id)
        self._add_result(line, message, judged, answers if judged.is_of_process else None)

    def _polled(self, call: ToolCall | None) -> str | None:
        """Return the call whose process this call only asks after; None where it does something of its own."""
        if call is None or call.name != "write_stdin":
            return None
        asked = mapping(value_in(call.arguments))
        return None if text(asked.get("chars")) else self._running.get(str(asked.get("session_id")))

    def _add_result(self, line: int, message: Message, judged: Judged, answers: str | None = None) -> None:
        self._shut()
        self._conversation.add(message, place=line, text=judged.text, answers=answers, outcome=judged.outcome)

    def _print(self, line: int, item: Mapping[str, Any], *, is_done: bool) -> None:
        """Add an item as `codex exec --json` prints it, begun and done."""
        written = text(item.get("item_type")) or text(item.get("type"))
        kind = re.sub(r"(?<!^)(?=[A-Z])", "_", written).lower()
        if kind in (
            "agent_message",
            "assistant_message",
            "user_message",
            "reasoning",
            "error",
            "context_compaction",
            "plan",
            "",
        ):
            words = text(item.get("text"))
            if is_done and words and kind == "reasoning":
                self._answer.think(line, words)
            elif is_done and words and kind in ("agent_message", "assistant_message"):
                self._answer.write(line, words)
            return
        ident = text(item.get("id")) or f"line-{line}"
        if ident not in self._printed:
            self._printed[ident] = f"{ident}-{line}" if ident in self._calls else ident
            self._call(line, tool_call(self._printed[ident], *_printed_call(kind, item)))
        if not is_done:
            return
        call_id = self._printed.pop(ident)
        said, status = _printed_result(item), text(item.get("status"))
        code = item.get("exit_code")
        flag = {"failed": True, "completed": False}.get(status)
        judged = judge(said, self._calls[call_id].arguments, Fact(code if type(code) is int else None, flag))
        if status == "declined" and judged.outcome in (Outcome.UNKNOWN, Outcome.OK_EMPTY):
            judged = Judged(judged.text, Outcome.REJECTED_BY_HUMAN)
        self._add_result(line, {"role": "tool", "tool_call_id": call_id, "content": said}, judged)


def _printed_call(kind: str, item: Mapping[str, Any]) -> tuple[str, object]:
    """Return the name and the arguments of a call that an item tells of."""
    if kind == "mcp_tool_call":
        return f"{text(item.get('server'))}__{text(item.get('tool'))}", item.get("arguments")
    left_out = (
        "id",
        "type",
        "item_type",
        "status",
        "result",
        "error",
        "exit_code",
        "aggregated_output",
        "stdout",
        "stderr",
    )
    return text(item.get("kind")) or kind, {name: value for name, value in item.items() if name not in left_out}


def _printed_result(item: Mapping[str, Any]) -> str:
    error, result = item.get("error"), item.get("result")
    if message := text(error) or text(mapping(error).get("message")):
        return message
    told = text_of(mapping(result).get("content")) or text(result)
    streams = "\n".join(said for name in ("stdout", "stderr") if (said := text(item.get(name))))
    return text(item.get("aggregated_output")) or streams or told
