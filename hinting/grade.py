"""What a grader is asked and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from harness_adapters.messages import text_of
from harness_adapters.trace import Author, Message, ToolCall, Trace
from hinting.signal import Signal, SignalKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """A grader's answer. `passed` is None where it abstains: the rule does not apply, or it could not be applied."""

    passed: bool | None
    reason: str = ""
    grader: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeCase:
    """One reply to grade, with what it answered and what had been wrong with the recorded one."""

    messages: Sequence[Message]
    """The prefix the model was shown."""
    text: str
    """The reply's visible text."""
    tool_calls: Sequence[ToolCall] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    user_text: str | None = None
    """The last message a person wrote in the prefix, where authors are known; else `request` goes by role."""
    kind: SignalKind | None = None
    evidence: str = ""
    recorded_text: str = ""
    failed_calls: Sequence[ToolCall] = ()
    """The recorded calls that failed or were rejected."""

    @property
    def request(self) -> str:
        """What the reply has to answer: the last human message of the prefix."""
        if self.user_text is not None:
            return self.user_text
        return next((text_of(m.get("content")) for m in reversed(self.messages) if m.get("role") == "user"), "")


class Grader(Protocol):
    """Says whether a reply is right. May raise or take long: `grade_all` turns either into an abstention."""

    @property
    def name(self) -> str:
        """How trials name this grader."""
        ...

    async def grade(self, case: GradeCase) -> Grade:
        """Grade one reply."""
        ...


def failed_calls(trace: Trace, signal: Signal) -> tuple[ToolCall, ...]:
    """Return the target turn's call that the showing turn answers; all its calls where that turn answers none."""
    calls = trace.turns[signal.target].tool_calls
    answered = trace.turns[signal.shown_by].tool_call_id if signal.shown_by is not None else None
    return tuple(call for call in calls if call.id == answered) or calls


def case_of(
    trace: Trace, target: int, text: str, tool_calls: Sequence[ToolCall] = (), signal: Signal | None = None
) -> GradeCase:
    """Return the case of a new reply to the prefix of turn `target`, with what a signal showed of the recorded one."""
    people = (Author.HUMAN, Author.SIMULATED_USER)
    said = next((turn.text for turn in reversed(trace.turns[:target]) if turn.author in people), None)
    of_tools = (SignalKind.TOOL_ERROR_RETRY, SignalKind.REJECTED_ACTION)
    return GradeCase(
        messages=trace.prefix(target),
        text=text,
        tool_calls=tool_calls,
        tools=trace.tools,
        user_text=said,
        kind=signal.kind if signal else None,
        evidence=signal.evidence if signal else "",
        recorded_text=trace.turns[target].text,
        failed_calls=failed_calls(trace, signal) if signal and signal.kind in of_tools else (),
    )


def function_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a declared tool's function (`name`, `description`, `parameters`), nested as in chat or flat."""
    return _mapping(tool.get("function")) or tool


def properties_of(function: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the declared arguments of a function by name, each with its schema; malformed parts read as empty."""
    found = _mapping(_mapping(function.get("parameters")).get("properties"))
    return {str(name): _mapping(rule) for name, rule in found.items()}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
