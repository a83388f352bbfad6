"""Signals that tools, people who decline calls, and frameworks that refuse a reply give."""

import re
from collections.abc import Iterator
from itertools import islice

from harness_adapters.messages import text_of
from harness_adapters.outcome import command_of, rejection_reason
from harness_adapters.trace import Author, Outcome, ToolCall, Turn
from hinting.reaction import announces_failure
from hinting.signal import Fault, Signal, SignalKind, shown
from hinting.story import Story, arguments_of

TRIES = 200
"""How many later calls of a tool are looked at for the one that put a failure right."""
_WORD = re.compile(r"\w{3,}")


def tool_signals(story: Story) -> Iterator[Signal]:
    """Yield a signal for each failed or declined call, put right or not, and for each reply a framework refused."""
    for turn in story.turns:
        if turn.author is Author.FRAMEWORK:
            before = story.turns[turn.index - 1] if turn.index else None
            if before and before.author is Author.AGENT:
                fix = _accepted_retry(story, turn.index)
                rule = "tool_retry" if fix is None else "tool_retry_fixed"
                yield shown(story.trace, SignalKind.TOOL_ERROR_RETRY, before.index, turn, rule, fix=fix)
        elif turn.outcome in (Outcome.ERROR_AGENT, Outcome.ERROR_ENV, Outcome.REJECTED_BY_HUMAN):
            agent, call = story.call_of(turn)
            if agent is not None and not _expected(turn, agent, call):
                yield _of_call(story, turn, agent, call)


def _of_call(story: Story, turn: Turn, agent: Turn, call: ToolCall | None) -> Signal:
    if turn.outcome is Outcome.REJECTED_BY_HUMAN:
        given = rejection_reason(turn.text) is not None
        rule, fault = ("rejected_with_reason", Fault.AGENT) if given else ("rejected", Fault.UNKNOWN)
        return shown(story.trace, SignalKind.REJECTED_ACTION, agent.index, turn, rule, fault=fault)
    fix, flaky = _retry(story, turn, call)
    if turn.outcome is Outcome.ERROR_ENV or flaky:
        fault, rule = Fault.ENVIRONMENT, "environment"
    else:
        fault, rule = Fault.AGENT, "tool_retry" if fix is None else "tool_retry_fixed"
    return shown(story.trace, SignalKind.TOOL_ERROR_RETRY, agent.index, turn, rule, fix=fix, fault=fault)


def _expected(failed: Turn, agent: Turn, call: ToolCall | None) -> bool:
    """Say whether a command failed as the agent had said it would."""
    ran = call is not None and command_of(call.arguments)
    said = f"{text_of(agent.message.get('reasoning_content'))}\n{agent.text}"
    return bool(ran) and failed.outcome is Outcome.ERROR_AGENT and announces_failure(said)


def _retry(story: Story, failed: Turn, call: ToolCall | None) -> tuple[int | None, bool]:
    """Return the turn that put a failed call right, and whether the call was flaky.

    Put right is what is called again otherwise and works, or works again once something else was changed. What works
    again just so was not what was wrong.
    """
    if call is None:
        return None, False
    for agent, again in islice(story.worked_after(failed.index, call.name), TRIES):
        if agent.index < failed.index:
            continue
        if arguments_of(again) == arguments_of(call):
            changed = story.changed_between(failed.index, agent.index)
            return (changed.index, False) if changed else (None, True)
        if _akin(call, again):
            return agent.index, False
    return None, False


def _akin(call: ToolCall, again: ToolCall) -> bool:
    """Say whether two calls of one tool are about one thing. A shell's commands may be about anything, so they have
    to share a word."""
    first, second = command_of(call.arguments), command_of(again.arguments)
    if not first or not second:
        return True
    return not set(_WORD.findall(first.lower())).isdisjoint(_WORD.findall(second.lower()))


def _accepted_retry(story: Story, refused: int) -> int | None:
    """Return the agent's turn behind a framework's refusal, unless that was refused as well."""
    for turn in story.turns[refused + 1 :]:
        if turn.author is Author.AGENT:
            after = story.turns[turn.index + 1] if turn.index + 1 < len(story.turns) else None
            return None if after and after.author is Author.FRAMEWORK else turn.index
    return None
