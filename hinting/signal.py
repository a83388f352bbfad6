"""Signal: evidence that one turn of the agent was wrong."""

from dataclasses import dataclass
from enum import StrEnum

from harness_adapters.ids import stable_id
from harness_adapters.trace import Trace, Turn

EVIDENCE_CHARS = 4000
"""How much of the words that show it a signal keeps."""


class SignalKind(StrEnum):
    """What kind of evidence showed that the target turn was wrong."""

    TOOL_ERROR_RETRY = "tool_error_retry"
    USER_CORRECTION = "user_correction"
    USER_REPEAT = "user_repeat"
    SELF_CORRECTION = "self_correction"
    REJECTED_ACTION = "rejected_action"
    FEEDBACK = "feedback"
    ACCEPTED_EDIT = "accepted_edit"


GIVEN = (SignalKind.FEEDBACK, SignalKind.ACCEPTED_EDIT)
"""What people gave outside the conversation, on purpose."""


class Fault(StrEnum):
    """Whose fault it was. Only `agent` teaches."""

    AGENT = "agent"
    ENVIRONMENT = "environment"
    USER = "user"
    POLICY = "policy"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Turn `target` of a trace was wrong, as turn `shown_by` shows.

    `shown_by` is None where the evidence stands outside the conversation (explicit feedback); `fix` is the turn that
    put it right, if one did.
    """

    id: str
    trace_id: str
    kind: SignalKind
    target: int
    shown_by: int | None
    fix: int | None
    fault: Fault
    confidence: float
    evidence: str
    """The words that show it: the user's message, the tool's error, the comment."""


def signal_id(trace_id: str, kind: SignalKind, target: int, shown_by: int | str | None) -> str:
    """Name a signal by what it is about, so that reading a session again finds the same signal."""
    return stable_id("sig", trace_id, kind, target, shown_by)


# How much each rule is trusted, from 0 to 1: its precision as judged on hand-labelled recordings, coarsely.
CONFIDENCE = {
    "rating": 0.95,
    "accepted_edit": 0.95,
    "comment": 0.9,
    "tool_retry_fixed": 0.9,
    "rejected_with_reason": 0.9,
    "correction_owned": 0.95,
    "correction": 0.85,
    "owned": 0.75,
    "redone": 0.85,
    "amended": 0.45,  # set aside by default: what was made is also carried on with
    "echo": 0.6,
    "self": 0.55,
    "environment": 0.8,
    "correction_generic": 0.45,  # set aside by default: too many ordinary sentences hold one of these cues
    "tool_retry": 0.6,
    "repeat": 0.6,
    "reminder": 0.6,
    "rejected": 0.5,
}


def shown(
    trace: Trace,
    kind: SignalKind,
    target: int,
    by: Turn,
    rule: str,
    *,
    fix: int | None = None,
    fault: Fault = Fault.AGENT,
) -> Signal:
    """Return the signal that a turn of the trace shows by a rule of CONFIDENCE."""
    return Signal(
        id=signal_id(trace.id, kind, target, by.index),
        trace_id=trace.id,
        kind=kind,
        target=target,
        shown_by=by.index,
        fix=fix,
        fault=fault,
        confidence=CONFIDENCE[rule],
        evidence=by.text[:EVIDENCE_CHARS],
    )
