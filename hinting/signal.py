"""Signal: evidence that one turn of the agent was wrong."""

from dataclasses import dataclass
from enum import StrEnum

from harness_adapters.ids import stable_id


class SignalKind(StrEnum):
    """What kind of evidence showed that the target turn was wrong."""

    TOOL_ERROR_RETRY = "tool_error_retry"
    USER_CORRECTION = "user_correction"
    USER_REPEAT = "user_repeat"
    SELF_CORRECTION = "self_correction"
    REJECTED_ACTION = "rejected_action"
    FEEDBACK = "feedback"
    ACCEPTED_EDIT = "accepted_edit"


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
