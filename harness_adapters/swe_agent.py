"""SWE-agent's trajectories: `{environment, trajectory, history, info}`, one run a file, of old versions and new ones.

`trajectory` has the steps, each an action and what came of it; `history` has the messages the model was shown, with
demonstrations among them, which are left out here. A step that the model had to write anew, as its format was wrong,
is in `history` no longer: what it was told then stands in the next step's `query`. Where a run was tried several times,
each of its `attempts` is a session. Files of mini-swe-agent are read too.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, cast

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, stem, text, tool_call
from harness_adapters.messages import calls_of, plain_content, text_of
from harness_adapters.mini_swe_agent import is_mini, read_mini
from harness_adapters.outcome import outcome_of
from harness_adapters.recorded import values_of
from harness_adapters.records import Record
from harness_adapters.source import Head, Source
from harness_adapters.trace import Author, Message, Outcome, Trace

Step = Mapping[str, Any]

_SHELL = "bash"
_STEP_MEMBERS = ("action", "observation", "response", "thought")
# What the harness writes in place of an answer when it ends a run.
_ENDED = re.compile(r"\A\s*(exit due to|exiting due to|exited \(autosubmitted\))", re.IGNORECASE)
_TIMED_OUT = re.compile(
    r"\A\s*(execution timed out|the command .{1,4000}? was cancelled because it took more)", re.DOTALL | re.IGNORECASE
)
# What the harness's own commands say when they refuse, and a shell in the first line of its answer.
_REFUSED = re.compile(
    r"\A\s*(wrong flag!|your (proposed )?edit (has introduced|was not applied)|no replacement was performed"
    r"|file \S+ not found|no file open\b|(error: )?invalid (line|start|end)\b|operation .{1,200} is not supported"
    r"|[^\n]{1,400}[:(] ?(no such file or directory|command not found|permission denied|(is|not) a directory)\)?[ \t]*"
    r"(\n|\Z))",
    re.IGNORECASE,
)


class SweAgent:
    """Reads SWE-agent's trajectories."""

    name = "swe_agent"
    unit = "step"

    def recognises(self, head: Head) -> bool:
        """Say whether the file holds steps of an action and its observation, or is mini-swe-agent's."""
        return any(_is_run(value) or _attempts(value) or is_mini(value) for value in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield a trace for each run, or each attempt at one."""
        for record in values_of(source):
            if isinstance(record, Skipped):
                yield record
                continue
            run = record.value
            name = text(run.get("instance_id")) or stem(source.name)
            if attempts := _attempts(run):
                for number, attempt in enumerate(attempts):
                    yield from _run(attempt, f"{name}_attempt-{number}", record)
            elif _is_run(run):
                yield from _run(run, name, record)
            elif is_mini(run):
                yield from read_mini(run, self.name, name, record)
            else:
                yield Skipped(record.line, "it has neither `trajectory` nor messages of mini-swe-agent", record.raw)


def _is_run(run: Mapping[str, Any]) -> bool:
    steps = run.get("trajectory")
    if not isinstance(steps, list):
        return False
    if not steps:
        return "environment" in run or isinstance(run.get("history"), list)
    first = mapping(cast("list[object]", steps)[0])
    return sum(isinstance(first.get(name), str) for name in _STEP_MEMBERS) > 1


def _attempts(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [attempt for attempt in mappings(run.get("attempts")) if _is_run(attempt)]


def _run(run: Mapping[str, Any], name: str, record: Record) -> Iterator[Trace | Skipped]:
    steps = cast("list[object]", run["trajectory"])
    for index, step in enumerate(steps):
        if not isinstance(step, Mapping):
            yield Skipped(record.line, f"step {index} of `trajectory` is not an object", orjson.dumps(step))
    history = [message for message in mappings(run.get("history")) if not message.get("is_demo")]
    writing = _Run(Conversation(), [mapping(step) for step in steps], history)
    writing.write()
    if writing.conversation.turns:
        yield writing.conversation.trace(SweAgent.name, name, complete=not record.cut, is_named=False)


@dataclass(slots=True)
class _Run:
    """Writes a run's turns: each step as `history` tells it, else as it tells itself."""

    conversation: Conversation
    steps: Sequence[Step]
    history: Sequence[Message]
    next: int = 0
    """The first message of `history` that has not been written."""

    def write(self) -> None:
        places = _places(self.steps, self.history)
        self._between(next(iter(_answers(self.history)), len(self.history)), None)
        for index, step in enumerate(self.steps):
            at = places.get(index)
            if at is not None:
                self._between(at, index)
                self.next = at + 1
            if _has_ended(step):
                said = "\n".join(filter(None, (_response(step), text(step.get("observation")))))
                self._add({"role": "user", "content": said}, index, author=Author.FRAMEWORK, text=said, shown=False)
            elif any(step.get(name) for name in _STEP_MEMBERS):
                self._step(step, index, None if at is None else self.history[at], shown=at is not None or not places)
        if places or not self.steps:
            self._between(len(self.history), len(self.steps) - 1 if self.steps else None)

    def _add(self, message: Message, place: int | None, **said: Any) -> None:
        self.conversation.add(message, place=place, **said)

    def _between(self, end: int, place: int | None) -> None:
        """Write the messages that belong to no step: those of the setup and, behind it, of the harness."""
        for message in self.history[self.next : end]:
            is_setup = not any(turn.author is Author.AGENT for turn in self.conversation.turns)
            said = text_of(message.get("content"))
            author = Author.FRAMEWORK if message.get("role") == "user" and not is_setup else None
            at = None if is_setup and message.get("role") != "assistant" else place
            self._add(_message(message), at, author=author, text=said if author else None)
        self.next = max(self.next, end)

    def _step(self, step: Step, index: int, told: Message | None, *, shown: bool) -> None:
        action, observation = text(step.get("action")), step.get("observation")
        message = _message(told or {"role": "assistant", "content": _response(step), **_extra(step)})
        self._add(message, index, text=text_of(message.get("content")) or _response(step), shown=shown)
        turn = self.conversation.turns[-1]
        calls = turn.tool_calls
        if not calls and action.strip():
            calls = calls_of({"tool_calls": [tool_call(f"step-{index}", _SHELL, {"command": action})]})
            self.conversation.turns[-1] = replace(turn, tool_calls=calls)
        reprompt = None if told or observation else _reprompt(self.steps, index)
        if reprompt:
            asked = {"role": "user", "content": reprompt}
            self._add(asked, index, author=Author.FRAMEWORK, text=reprompt, shown=False)
        elif isinstance(observation, str) and (calls or observation):
            result = self._result(told) or {
                "role": "tool" if message.get("tool_calls") else "user",
                "content": observation,
            }
            if result["role"] == "tool" and calls:
                result = {**result, "tool_call_id": calls[0].id}
            self._add(
                result,
                index,
                author=Author.TOOL if calls else Author.FRAMEWORK,
                text=observation,
                answers=calls[0].id if calls else None,
                outcome=_outcome(observation, action),
                shown=shown,
            )

    def _result(self, told: Message | None) -> Message | None:
        """Take the message with the step's result, where that comes next in `history`."""
        if (
            told is None
            or self.next >= len(self.history)
            or self.history[self.next].get("role") not in ("user", "tool")
        ):
            return None
        self.next += 1
        return _message(self.history[self.next - 1])


def _answers(history: Sequence[Message]) -> list[int]:
    return [at for at, message in enumerate(history) if message.get("role") == "assistant"]


def _places(steps: Sequence[Step], history: Sequence[Message]) -> dict[int, int]:
    """Return where in `history` each step's answer stands; steps that were taken back are not there."""
    answers = _answers(history)
    wanted = [(_response(step).strip(), text(step.get("action")).strip()) for step in steps]
    told = [(text_of(history[at].get("content")).strip(), text(history[at].get("action")).strip()) for at in answers]
    if not all("action" in history[at] for at in answers):
        same = _same([said for said, _ in wanted], [said for said, _ in told])
    else:
        same = _same(wanted, told) or _same([action for _, action in wanted], [action for _, action in told])
    return {step: answers[at] for step, at in same.items()}


def _same(wanted: Sequence[Hashable], told: Sequence[Hashable]) -> dict[int, int]:
    """Return which of one sequence are which of the other, in their order."""
    shorter = min(len(wanted), len(told))
    start = next((i for i in range(shorter) if wanted[i] != told[i]), shorter)
    rest = SequenceMatcher(None, wanted[start:], told[start:], autojunk=False).get_matching_blocks()
    ends = {start + block.a + i: start + block.b + i for block in rest for i in range(block.size)}
    return {i: i for i in range(start)} | ends


def _response(step: Step) -> str:
    return text(step.get("response")) or text(step.get("thought"))


def _extra(step: Step) -> Mapping[str, Any]:
    return {name: step[name] for name in ("tool_calls", "thinking_blocks", "reasoning_content") if step.get(name)}


def _message(message: Message) -> Message:
    """Return a message of `history` in the chat shape, without what the harness noted for itself."""
    content = message.get("content")
    kept: dict[str, Any] = {"role": message.get("role")}
    kept["content"] = content if isinstance(content, str) else plain_content(mappings(content))
    thinking = "\n".join(filter(None, (text(b.get("thinking")) for b in mappings(message.get("thinking_blocks")))))
    if thinking or text(message.get("reasoning_content")):
        kept["reasoning_content"] = text(message.get("reasoning_content")) or thinking
    if calls := mappings(message.get("tool_calls")):
        kept["tool_calls"] = calls
    ids = message.get("tool_call_ids")
    if isinstance(ids, list) and ids and message.get("role") == "tool":
        kept["tool_call_id"] = text(cast("list[object]", ids)[0])
    return kept


def _has_ended(step: Step) -> bool:
    action = text(step.get("action")).strip()
    return (not action or action.startswith("exit_")) and _ENDED.match(_response(step)) is not None


def _reprompt(steps: Sequence[Step], index: int) -> str:
    """Return what the model was told before the next step about this one, which was not carried out; else nothing."""
    following = mapping(steps[index + 1]) if index + 1 < len(steps) else {}
    shown = mappings(following.get("query")) or mappings(following.get("messages"))
    if len(shown) < 2 or shown[-1].get("role") != "user" or shown[-2].get("role") != "assistant":
        return ""
    written = text_of(shown[-2].get("content")).strip()
    return text_of(shown[-1].get("content")) if written == _response(steps[index]).strip() else ""


def _outcome(observation: str, action: str) -> Outcome:
    if _TIMED_OUT.match(observation):
        return Outcome.ERROR_ENV
    return outcome_of(observation, flag=True if _REFUSED.match(observation) else None, command=action)
