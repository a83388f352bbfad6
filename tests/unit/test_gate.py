"""The gate's figures against independent references, and its verdicts on planted candidates."""

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.config import GateBounds
from learner.gate import (
    CaseResult,
    Decision,
    Reply,
    Verdict,
    judge,
    mean_interval,
    paired_difference,
    ratio_interval,
    repetition,
)

BOUNDS = GateBounds()


def case(
    index: int,
    kind: str,
    candidate: bool | None,
    serving: bool | None,
    *,
    text: str = "It ships tomorrow.",
    kl: float | None = 0.01,
) -> CaseResult:
    return CaseResult(
        case_id=f"c{index}",
        kind="flagged" if kind == "flagged" else "passing",
        candidate=Reply(text=text, tokens=len(text.split()), passed=candidate),
        serving=Reply(text="It ships on Monday.", tokens=4, passed=serving),
        kl_nats=kl,
    )


def good(flagged: int = 20, passing: int = 10) -> list[CaseResult]:
    return [case(i, "flagged", True, False) for i in range(flagged)] + [
        case(100 + i, "passing", True, True) for i in range(passing)
    ]


LONG = "It ships tomorrow, " * 4


def failed_guards(verdict: Verdict) -> list[str]:
    return [f.name for f in verdict.figures if f.role == "guard" and f.ok is False]


def sign_test(wins: int, losses: int) -> float:
    """Two-sided exact sign test, summed by hand."""
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(max(wins, losses), n + 1)) / 2**n
    return min(1.0, 2 * tail)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
@settings(deadline=None)
def test_gain_excludes_zero_exactly_when_the_sign_test_rejects(wins: int, losses: int, ties: int) -> None:
    pairs = [(True, False)] * wins + [(False, True)] * losses + [(True, True)] * ties
    found = paired_difference(pairs)
    assert found["low"] <= found["value"] <= found["high"]
    excludes = found["low"] > 0 or found["high"] < 0
    if wins + losses:
        assert excludes == (sign_test(wins, losses) < 0.05)
    else:
        assert not excludes


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
@settings(deadline=None)
def test_paired_difference_is_antisymmetric(pairs: list[tuple[bool, bool]]) -> None:
    there, back = paired_difference(pairs), paired_difference([(b, a) for a, b in pairs])
    assert there["value"] == pytest.approx(-back["value"])
    assert there["low"] == pytest.approx(-back["high"])


def test_mean_interval_covers_the_mean_and_shrinks_with_n() -> None:
    few, many = mean_interval([0.0, 1.0] * 5), mean_interval([0.0, 1.0] * 200)
    assert few["low"] < 0.5 < few["high"]
    assert many["high"] - many["low"] < few["high"] - few["low"]
    assert mean_interval([0.3, 0.3]) == {"value": 0.3, "low": 0.3, "high": 0.3}


def test_repetition_counts_repeated_four_grams() -> None:
    assert repetition("a b c d e f") == 0
    assert repetition("a b c d a b c d") == pytest.approx(1 - 4 / 5)
    assert repetition("no") == 0


def test_a_good_candidate_is_promoted() -> None:
    verdict = judge(good(), BOUNDS)
    assert verdict.decision is Decision.PROMOTE, verdict.reasons
    assert not verdict.ungraded


def test_an_identical_candidate_is_held() -> None:
    results = [case(i, "flagged", False, False) for i in range(20)] + [case(i, "passing", True, True) for i in range(9)]
    assert judge(results, BOUNDS).decision is Decision.HOLD


def test_too_few_cases_hold_whatever_the_gain() -> None:
    assert judge(good(flagged=7), BOUNDS).decision is Decision.HOLD
    assert judge(good(passing=3), BOUNDS).decision is Decision.HOLD


def test_a_worse_candidate_is_rejected() -> None:
    results = [case(i, "flagged", False, True) for i in range(20)] + [case(i, "passing", True, True) for i in range(9)]
    assert judge(results, BOUNDS).decision is Decision.REJECT


@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("passing_drop", [*good(passing=0), *(case(i, "passing", i > 8, True) for i in range(12))]),
        ("kl_nats", [*good(passing=0), *(case(i, "passing", True, True, kl=0.9) for i in range(9))]),
        ("length_ratio", [*good(passing=0), *(case(i, "passing", True, True, text="Yes.") for i in range(9))]),
        ("repetition_rise", [*good(), *(case(i, "flagged", True, False, text="no " * 40) for i in range(20))]),
        ("empty_rise", [*good(), *(case(i, "flagged", True, False, text=" ") for i in range(9))]),
    ],
)
def test_each_guard_rejects_by_itself_on_strong_evidence(name: str, results: list[CaseResult]) -> None:
    verdict = judge(results, BOUNDS)
    assert verdict.decision is Decision.REJECT
    assert failed_guards(verdict) == [name]
    assert any(name in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("passing_drop", [*good(passing=0), *(case(i, "passing", i > 2, True) for i in range(12))]),
        ("kl_nats", [*good(passing=0), *(case(i, "passing", True, True, kl=i % 3) for i in range(9))]),
        (
            "length_ratio",
            [*good(passing=0), *(case(i, "passing", True, True, text=LONG if i % 3 else "Yes.") for i in range(9))],
        ),
        ("length_ratio", [*good(passing=0), *(case(i, "passing", True, True, text="Yes.") for i in range(1))]),
        ("repetition_rise", [*good(8, 4), *(case(i, "flagged", True, False, text="no " * 40) for i in range(4))]),
        ("empty_rise", [*good(), case(30, "flagged", True, False, text=" ")]),
    ],
)
def test_each_guard_holds_by_itself_where_its_interval_reaches_inside_the_bound(
    name: str, results: list[CaseResult]
) -> None:
    verdict = judge(results, BOUNDS)
    assert verdict.decision is Decision.HOLD
    assert failed_guards(verdict) == [name]
    assert any(name in reason and "too few" in reason for reason in verdict.reasons)


@given(empty=st.integers(0, 30), full=st.integers(0, 30), limit=st.floats(0, 0.5))
@settings(deadline=None)
def test_a_guard_rejects_exactly_where_its_interval_lies_beyond_the_bound(empty: int, full: int, limit: float) -> None:
    results = [
        *good(),
        *(case(i, "flagged", True, False, text="" if i < empty else "Soon.") for i in range(empty + full)),
    ]
    verdict = judge(results, BOUNDS.model_copy(update={"max_empty": limit}))
    figure = next(f for f in verdict.figures if f.name == "empty_rise")
    expected = Decision.REJECT if figure.low > limit else Decision.HOLD if figure.value > limit else Decision.PROMOTE
    assert verdict.decision is expected
    assert figure.ok == (expected is Decision.PROMOTE)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 200)), min_size=1, max_size=30))
@settings(deadline=None)
def test_a_ratio_is_that_of_the_means_and_lies_between_those_of_its_cases(pairs: list[tuple[int, int]]) -> None:
    found = ratio_interval(pairs)
    assert found["value"] == pytest.approx(sum(a for a, _ in pairs) / sum(b for _, b in pairs))
    ratios = [a / b for a, b in pairs]
    slack = 1e-9 * max(1.0, *ratios)
    assert min(ratios) - slack <= found["low"] <= found["high"] <= max(ratios) + slack


def test_one_short_reply_does_not_outweigh_all_others() -> None:
    results = [*good(passing=9), case(99, "passing", True, True, text="It ships tomorrow, so wait until then.")]
    short = replace(results[-1], serving=Reply(text="No.", tokens=1, passed=True))
    verdict = judge([*results[:-1], short], BOUNDS)
    assert verdict.decision is Decision.PROMOTE, verdict.reasons


def test_without_grades_a_person_decides() -> None:
    results = [case(i, "flagged", None, None) for i in range(20)] + [case(i, "passing", True, True) for i in range(9)]
    verdict = judge(results, BOUNDS)
    assert verdict.decision is Decision.HOLD
    assert verdict.ungraded


def test_no_cases_at_all_is_a_hold_with_reasons() -> None:
    verdict = judge([], BOUNDS)
    assert verdict.decision is Decision.HOLD
    assert verdict.reasons


def test_false_promotions_stay_near_their_nominal_rate() -> None:
    """All outcomes of 8 discordant pairs under no change: the exact share that promotes is at most 2.5 %."""
    promoted = 0
    for signs in product((True, False), repeat=8):
        results = [case(i, "flagged", won, not won) for i, won in enumerate(signs)]
        results += [case(i, "passing", True, True) for i in range(9)]
        promoted += judge(results, BOUNDS).decision is Decision.PROMOTE
    assert promoted / 2**8 <= 0.025
