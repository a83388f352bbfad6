"""The gate: what was measured of a candidate and of the adapter now serving becomes a verdict. Needs no torch.

The candidate is promoted only for a gain whose interval excludes zero while every guard stays inside its bound. It is
rejected only where the evidence against it is as strong; anything between is held. Without graded cases there is no
gain to read, and a person decides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from scipy import stats

from learner.config import GateBounds

CONFIDENCE = 0.95
NGRAM_WORDS = 4
BOOTSTRAP_SEED = 0


class Decision(StrEnum):
    """`hold` is a normal answer: more traffic may settle it."""

    PROMOTE = "promote"
    HOLD = "hold"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply and its grade; `passed` is None where every grader abstained."""

    text: str
    tokens: int
    passed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One held-out turn answered without a hint by both policies.

    `flagged` turns were corrected and have a hint that passed its trial; `passing` turns were accepted. `kl_nats` is
    an estimate of the mean KL(candidate ‖ serving) per token on a reply the candidate sampled.
    """

    case_id: str
    kind: Literal["flagged", "passing"]
    candidate: Reply
    serving: Reply
    kl_nats: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure with its 95 % interval and what it was held against. `ok` is None where it has no bound."""

    name: str
    value: float
    low: float
    high: float
    n: int
    role: Literal["gain", "guard", "report"]
    bound: str = ""
    ok: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate decided, why, and every figure it read."""

    decision: Decision
    reasons: tuple[str, ...]
    figures: tuple[Figure, ...]
    ungraded: bool = False


def judge(results: Sequence[CaseResult], bounds: GateBounds) -> Verdict:
    """Turn case results into a verdict.

    A guard rejects where its whole interval lies beyond the bound; where its figure alone does, as by a single empty
    reply among few, the answer is at most `hold`. A fall of recovery whose interval excludes zero rejects too.
    """
    flagged = [r for r in results if r.kind == "flagged" and _graded(r)]
    passing = [r for r in results if r.kind == "passing" and _graded(r)]
    figures = [*_pass_rates(flagged, "recovery"), *_pass_rates(passing, "passing")]
    gain = paired_difference([(bool(r.candidate.passed), bool(r.serving.passed)) for r in flagged])
    figures.append(Figure(name="recovery_gain", **gain, n=len(flagged), role="gain", bound="> 0", ok=gain["low"] > 0))
    guards = _guards(results, passing, bounds)
    figures += [guard.figure for guard in guards]

    broken = [_outside(guard.figure) for guard in guards if guard.broken]
    ungraded = not flagged
    if broken:
        return Verdict(decision=Decision.REJECT, reasons=tuple(broken), figures=tuple(figures), ungraded=ungraded)
    reasons = [f"{_outside(guard.figure)}, too few cases to be sure" for guard in guards if not guard.figure.ok]
    if ungraded:
        reasons.append("no grader applied to any flagged turn: a person has to accept this candidate")
    elif len(flagged) < bounds.min_flagged:
        reasons.append(f"only {len(flagged)} graded flagged turns, {bounds.min_flagged} are needed")
    if len(passing) < bounds.min_passing:
        reasons.append(f"only {len(passing)} graded passing turns, {bounds.min_passing} are needed")
    if not ungraded and gain["high"] < 0:
        text = f"recovery fell by {-gain['value']:.3g} (95 % {gain['low']:.3g} to {gain['high']:.3g})"
        return Verdict(decision=Decision.REJECT, reasons=(text,), figures=tuple(figures))
    if not ungraded and gain["low"] <= 0:
        reasons.append(f"the gain's interval, {gain['low']:.3g} to {gain['high']:.3g}, does not exclude zero")
    if reasons:
        return Verdict(decision=Decision.HOLD, reasons=tuple(reasons), figures=tuple(figures), ungraded=ungraded)
    text = f"recovery rose by {gain['value']:.3g} (95 % {gain['low']:.3g} to {gain['high']:.3g}), every guard holds"
    return Verdict(decision=Decision.PROMOTE, reasons=(text,), figures=tuple(figures))


def paired_difference(pairs: Sequence[tuple[bool, bool]]) -> dict[str, float]:
    """Return value, low and high of the difference of two paired pass rates, first minus second.

    The interval is exact and conditional on the discordant pairs (McNemar 1947): Clopper-Pearson limits of the share
    of them that favour the first, scaled to the difference. It excludes zero exactly when the two-sided sign test
    rejects at 5 %.
    """
    n = len(pairs)
    wins = sum(a and not b for a, b in pairs)
    losses = sum(b and not a for a, b in pairs)
    discordant = wins + losses
    if n == 0:
        return {"value": 0.0, "low": -1.0, "high": 1.0}
    if discordant == 0:
        # Nothing differed: the difference lies within what n agreeing pairs can hide (rule of Clopper and Pearson).
        hidden = float(stats.binomtest(0, n).proportion_ci(CONFIDENCE, method="exact").high)
        return {"value": 0.0, "low": -hidden, "high": hidden}
    share = stats.binomtest(wins, discordant).proportion_ci(CONFIDENCE, method="exact")
    scale = discordant / n
    return {
        "value": (wins - losses) / n,
        "low": (2 * float(share.low) - 1) * scale,
        "high": (2 * float(share.high) - 1) * scale,
    }


def mean_interval(values: Sequence[float]) -> dict[str, float]:
    """Return value, low and high of a mean: percentile bootstrap over cases, seeded."""
    mean = float(np.mean(values)) if values else 0.0
    if len(values) < 2 or len(set(values)) == 1:
        return {"value": mean, "low": mean, "high": mean}
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    found = stats.bootstrap(
        (np.asarray(values),), np.mean, confidence_level=CONFIDENCE, method="percentile", n_resamples=2000, rng=rng
    )
    return {"value": mean, "low": float(found.confidence_interval.low), "high": float(found.confidence_interval.high)}


def ratio_interval(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return value, low and high of the ratio of two paired means, first over second: bootstrap over pairs, seeded.

    Not the mean of ratios, in which one pair with a small second value outweighs all others. The second values are
    above 0.
    """

    def ratio(first: np.ndarray, second: np.ndarray, axis: int = -1) -> Any:
        return first.mean(axis) / second.mean(axis)

    first, second = np.asarray(pairs, dtype=float).T
    value = float(ratio(first, second))
    if len(set(first / second)) == 1:
        return {"value": value, "low": value, "high": value}
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    found = stats.bootstrap(
        (first, second),
        ratio,
        paired=True,
        confidence_level=CONFIDENCE,
        method="percentile",
        n_resamples=2000,
        rng=rng,
    )
    return {"value": value, "low": float(found.confidence_interval.low), "high": float(found.confidence_interval.high)}


def repetition(text: str) -> float:
    """Return the share of word 4-grams of `text` that stood in it before; 0 for texts shorter than that."""
    words = text.split()
    grams = [tuple(words[i : i + NGRAM_WORDS]) for i in range(len(words) - NGRAM_WORDS + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


@dataclass(frozen=True, slots=True)
class _Guard:
    """A guard's figure, and whether its whole interval lies beyond the bound."""

    figure: Figure
    broken: bool


def _outside(figure: Figure) -> str:
    return f"{figure.name} is {figure.value:.3g} (95 % {figure.low:.3g} to {figure.high:.3g}), outside {figure.bound}"


def _graded(result: CaseResult) -> bool:
    return result.candidate.passed is not None and result.serving.passed is not None


def _pass_rates(results: Sequence[CaseResult], name: str) -> list[Figure]:
    figures: list[Figure] = []
    for side in ("candidate", "serving"):
        passed = sum(bool(getattr(r, side).passed) for r in results)
        if not results:
            continue
        limits = stats.binomtest(passed, len(results)).proportion_ci(CONFIDENCE, method="wilson")
        figures.append(
            Figure(
                name=f"{name}_{side}",
                value=passed / len(results),
                low=float(limits.low),
                high=float(limits.high),
                n=len(results),
                role="report",
            )
        )
    return figures


def _guards(results: Sequence[CaseResult], passing: Sequence[CaseResult], bounds: GateBounds) -> list[_Guard]:
    def guard(name: str, found: dict[str, float], n: int, most: float, least: float = -math.inf) -> None:
        ok = least <= found["value"] <= most
        bound = f"≤ {most}" if least == -math.inf else f"{least} to {most}"
        figure = Figure(name=name, **found, n=n, role="guard", bound=bound, ok=ok)
        # One case alone has no spread from which an interval could be read.
        guards.append(_Guard(figure, broken=n > 1 and (found["low"] > most or found["high"] < least)))

    guards: list[_Guard] = []
    if passing:
        drop = paired_difference([(bool(r.serving.passed), bool(r.candidate.passed)) for r in passing])
        guard("passing_drop", drop, len(passing), bounds.max_passing_drop)
    kept = [r for r in results if r.kind == "passing"]
    kls = [r.kl_nats for r in kept if r.kl_nats is not None]
    if kls:
        guard("kl_nats", mean_interval(kls), len(kls), bounds.max_kl_nats)
    lengths = [(r.candidate.tokens, r.serving.tokens) for r in kept if r.serving.tokens]
    if lengths:
        ratio = ratio_interval(lengths)
        guard("length_ratio", ratio, len(lengths), bounds.max_length_ratio, bounds.min_length_ratio)
    if results:
        rise = mean_interval([repetition(r.candidate.text) - repetition(r.serving.text) for r in results])
        guard("repetition_rise", rise, len(results), bounds.max_repetition)
        empty = paired_difference([(not r.candidate.text.strip(), not r.serving.text.strip()) for r in results])
        guard("empty_rise", empty, len(results), bounds.max_empty)
    return guards
