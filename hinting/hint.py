"""Hint: at most three forward-looking sentences anchored at the turn that went wrong, with its trials."""

from dataclasses import dataclass, replace
from enum import StrEnum

from harness_adapters.ids import stable_id
from hinting.signal import Signal


class HintSource(StrEnum):
    """Who wrote a hint."""

    RULE = "rule"
    REVIEWER = "reviewer"
    OPTIMIZER = "optimizer"
    RUBRIC = "rubric"
    HUMAN = "human"


class HintState(StrEnum):
    """What is known of a hint. Only `passed` trains unless configured otherwise."""

    PROPOSED = "proposed"
    PASSED = "passed"
    FAILED = "failed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One re-generation of the target turn from its recorded prefix. `passed` is None where the grader abstained."""

    hinted: bool
    seed: int
    reply: str
    passed: bool | None
    grader: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A hint for turn `target` of one trace. `family` names the rule that wrote it (`length`, `own_words`, …)."""

    id: str
    trace_id: str
    target: int
    signal_ids: tuple[str, ...]
    text: str
    source: HintSource
    family: str
    state: HintState = HintState.PROPOSED
    trials: tuple[Trial, ...] = ()
    reason: str = ""
    """Why it failed or was rejected: a screen's reason code, a grader's words."""

    @property
    def score(self) -> float | None:
        """Mean pass rate of its graded trials with the hint; None before any."""
        graded = [t.passed for t in self.trials if t.hinted and t.passed is not None]
        return sum(graded) / len(graded) if graded else None

    @property
    def baseline(self) -> float | None:
        """Mean pass rate of the graded trials without the hint; None before any."""
        graded = [t.passed for t in self.trials if not t.hinted and t.passed is not None]
        return sum(graded) / len(graded) if graded else None

    def tried(self, trials: tuple[Trial, ...], state: HintState, reason: str = "") -> "Hint":
        """Return the hint with its trials and what they showed."""
        return replace(self, trials=trials, state=state, reason=reason)


def new_hint(signal: Signal, text: str, source: HintSource, family: str) -> Hint:
    """Make a proposed hint for a signal, named by its content."""
    return Hint(
        id=stable_id("hint", signal.trace_id, signal.target, text),
        trace_id=signal.trace_id,
        target=signal.target,
        signal_ids=(signal.id,),
        text=text,
        source=source,
        family=family,
    )


def merged(old: Hint, new: Hint) -> Hint:
    """Return one hint of two records of it: the signals of both, the later trials unless the earlier ones passed."""
    kept = old if old.state is HintState.PASSED or not new.trials else new
    return replace(kept, signal_ids=tuple(dict.fromkeys((*old.signal_ids, *new.signal_ids))))
