"""Where a signal stands in the source of its trace, in what the source counts."""

from dataclasses import dataclass

from harness_adapters.trace import ToolCall, Trace, Turn
from hinting.signal import Fault, Signal, SignalKind
from hinting.story import arguments_of

_OF_CALLS = (SignalKind.TOOL_ERROR_RETRY, SignalKind.REJECTED_ACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A signal told by places: what a person looks up in the file, and what labels refer to."""

    file: str
    session: str
    turn: int | None
    """Where it shows; None where the evidence stands outside the conversation."""
    kind: SignalKind
    target: int | None
    fix: int | None
    fault: Fault
    confidence: float
    evidence: str


def finding(file: str, trace: Trace, signal: Signal) -> Finding:
    """Tell a signal of a trace by the places of its turns or, where calls have places of their own, of its calls."""
    shown = None if signal.shown_by is None else trace.turns[signal.shown_by]
    failed = shown.tool_call_id if shown is not None and signal.kind in _OF_CALLS else None
    target = trace.turns[signal.target]
    call = next((call for call in target.tool_calls if call.id == failed), None)
    fix = None if signal.fix is None else trace.turns[signal.fix]
    return Finding(
        file=file,
        session=trace.name or trace.id,
        turn=None if shown is None else shown.place,
        kind=signal.kind,
        target=_place(target, call),
        fix=None if fix is None else _place(fix, call and _again(fix, call)),
        fault=signal.fault,
        confidence=signal.confidence,
        evidence=signal.evidence,
    )


def _again(fix: Turn, failed: ToolCall) -> ToolCall | None:
    """Return the turn's call that puts a failed one right: of its name, with other arguments where there is such a
    one."""
    named = [call for call in fix.tool_calls if call.name == failed.name]
    other = (call for call in named if arguments_of(call) != arguments_of(failed))
    return next(other, named[0] if named else None)


def _place(turn: Turn, call: ToolCall | None) -> int | None:
    """Return the place of a call of the turn or, where that has none of its own, of the turn."""
    return turn.place if call is None or call.place is None else call.place
