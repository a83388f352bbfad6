"""A trace read as a story: who spoke after whom, which call a result answers, what was done between two remarks."""

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import cast

from harness_adapters.trace import Author, Outcome, ToolCall, Trace, Turn
from hinting.effects import changes_something

PEOPLE = (Author.HUMAN, Author.SIMULATED_USER)
SUCCESS = (Outcome.OK, Outcome.OK_EMPTY, Outcome.UNKNOWN)

RESULT_CHARS = 2000
"""How much of a result is read for what it made."""
SHORTEST = 3
"""Characters of a value that may stand for one thing."""
_IDENTIFIER = re.compile(r"(?<![\w.-])(?:(?=[\w-]*\d)(?=[\w-]*[^\W\d])[\w-]{3,40}|\d{6,20})(?![\w.-])")
_TIME = re.compile(r"\d{4}-\d\d(-\d\d)?(T\w*)?|\d{1,2}(h\d\d|[ap]m)")


class Story:
    """One trace, with what its rules look up by name found once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.turns = trace.turns
        self._calls: dict[str, tuple[Turn, ToolCall]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._results: dict[str, str] = {}
        self._worked: dict[str, list[tuple[int, Turn, ToolCall]]] | None = None
        """By tool: the calls that worked, each behind the turn of its result."""
        self._users: dict[str, list[int]] | None = None
        """The turns of the calls that have a value among their arguments."""
        self._calling: list[Turn | None] = []
        """Of each turn: the nearest turn of the agent before it that called something."""
        nearest: Turn | None = None
        for turn in trace.turns:
            self._calling.append(nearest)
            if turn.author is Author.AGENT and turn.tool_calls:
                nearest = turn
                self._calls.update({call.id: (turn, call) for call in turn.tool_calls if call.id})
            elif turn.tool_call_id and turn.outcome:
                self._outcomes[turn.tool_call_id] = turn.outcome
                self._results[turn.tool_call_id] = turn.text

    def call_of(self, result: Turn) -> tuple[Turn | None, ToolCall | None]:
        """Return the agent's turn whose call a result answers, and the call; the nearest calling turn where no id
        matches, with its call if it made only one."""
        known = self._calls.get(result.tool_call_id or "")
        if known is not None and known[0].index < result.index:
            return known
        nearest = self._calling[result.index]
        return nearest, nearest.tool_calls[0] if nearest and len(nearest.tool_calls) == 1 else None

    def worked_after(self, index: int, name: str) -> Iterator[tuple[Turn, ToolCall]]:
        """Yield the calls of a tool that worked and whose results stand behind a turn, each with the agent's turn."""
        if self._worked is None:
            self._worked = defaultdict(list)
            for turn in self.turns:
                agent, call = self.call_of(turn) if turn.author is Author.TOOL else (None, None)
                if agent is not None and call is not None and turn.outcome in SUCCESS:
                    self._worked[call.name].append((turn.index, agent, call))
        worked = self._worked.get(name, [])
        for _, agent, call in islice(worked, bisect_left(worked, index, key=itemgetter(0)), None):
            yield agent, call

    def answered(self) -> Iterator[tuple[Turn, Turn]]:
        """Yield each turn of a person that follows an agent's turn, with the nearest such turn."""
        agent: Turn | None = None
        for turn in self.turns:
            if turn.author is Author.AGENT:
                agent = turn
            elif turn.author in PEOPLE and agent is not None and turn.text.strip():
                yield turn, agent

    def done(self, index: int, step: int) -> list[tuple[Turn, ToolCall]]:
        """Return what was changed between a person's words and those of a person before (`step` -1) or after them (1),
        the nearest first."""
        done: list[tuple[Turn, ToolCall]] = []
        at = index + step
        while 0 <= at < len(self.turns) and self.turns[at].author not in PEOPLE:
            turn = self.turns[at]
            if turn.author is Author.AGENT:
                done += [(turn, c) for c in turn.tool_calls if self._changed(c)]
            at += step
        return done

    def made_by(self, call: ToolCall) -> set[str]:
        """Return the identifiers that a call's result names and its arguments do not: what it has made."""
        found = _IDENTIFIER.findall(self._results.get(call.id, "")[:RESULT_CHARS])
        return {name for name in found if name not in call.arguments and not _TIME.fullmatch(name)}

    def is_of_one(self, value: str, before: int) -> bool:
        """Say whether just one call before a turn had a value among its arguments: it tells that call from others, as
        the customer's number, say, does not."""
        if self._users is None:
            self._users = defaultdict(list)
            for turn, call in self._calls.values():
                for used in values_of(call):
                    self._users[used].append(turn.index)
        return len(value) >= SHORTEST and bisect_left(self._users.get(value, []), before) == 1

    def changed_between(self, first: int, last: int) -> Turn | None:
        """Return the last turn between two that changed something."""
        for turn in reversed(self.turns[first + 1 : last]):
            if turn.author is Author.AGENT and any(map(self._changed, turn.tool_calls)):
                return turn
        return None

    def told(self, first: int, last: int) -> Iterator[str]:
        """Yield what the agent said, and called its tools with, from one turn to before another."""
        for turn in self.turns[first:last]:
            if turn.author is Author.AGENT:
                yield turn.text
                yield from (f"{call.name} {call.arguments}" for call in turn.tool_calls)

    def last_reply(self, index: int) -> int | None:
        """Return the last turn of the agent before a person speaks again: what they had in the end."""
        last = None
        for turn in self.until_a_person(index):
            if turn.author is Author.AGENT:
                last = turn.index
        return last

    def until_a_person(self, index: int) -> Iterator[Turn]:
        """Yield the turns behind one, up to what a person says next."""
        for at in range(index + 1, len(self.turns)):
            if self.turns[at].author in PEOPLE:
                return
            yield self.turns[at]

    def _changed(self, call: ToolCall) -> bool:
        if not changes_something(call.name) or self._outcomes.get(call.id) not in SUCCESS:
            return False
        # Some editors have one tool, whose command says what it does.
        arguments = arguments_of(call) if '"command"' in call.arguments else None
        command = arguments.get("command") if isinstance(arguments, Mapping) else None
        return not isinstance(command, str) or changes_something(command)


def is_identifier(value: str) -> bool:
    """Say whether a value looks like the name of one thing: `BK-77`, `4711042`."""
    return bool(_IDENTIFIER.fullmatch(value)) and not _TIME.fullmatch(value)


def arguments_of(call: ToolCall) -> object:
    """Return a call's arguments read as JSON; the text where they are none."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments


def values_of(call: ToolCall) -> set[str]:
    """Return the values of a call's arguments, as texts, without those that only say yes or no."""
    arguments = arguments_of(call)
    if not isinstance(arguments, Mapping):
        return set()
    values = cast("Mapping[str, object]", arguments).values()
    return {str(value) for value in values if value is not None and not isinstance(value, bool)}
