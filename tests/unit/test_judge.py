"""The judge of signals: what votes come to, what is read of an answer, what it may cost, and that it loses nothing."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hint_cases import corrected, signal_of
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.errors import EngineError
from harness_adapters.trace import Message
from hinting.fake_model import FakeTextModel
from hinting.judge import SILENT, Breaker, Budget, Cast, Decided, Judge, Vote, decide, read_vote, unteachable
from hinting.signal import Fault

TRACE = corrected("Too long!", asked="What is tea?")
SIGNAL = replace(signal_of(TRACE), confidence=0.8)
PLENTY = 1_000_000

WRONG = Vote(cast=Cast.WRONG, fault=Fault.AGENT)
RIGHT = Vote(cast=Cast.NOT_WRONG, reason="it did as told")
BROKEN = Vote(cast=Cast.WRONG, fault=Fault.ENVIRONMENT)
MISSING = [Vote(cast=cast) for cast in Cast if cast not in (Cast.WRONG, Cast.NOT_WRONG)]


@pytest.mark.parametrize(
    ("votes", "decided", "fault", "confidence"),
    [
        ([WRONG, WRONG, WRONG], Decided.WRONG, Fault.AGENT, (1 + 0.8) / 2),
        ([WRONG, RIGHT, WRONG], Decided.WRONG, Fault.AGENT, (2 / 3 + 0.8) / 2),
        ([WRONG, WRONG, *MISSING], Decided.WRONG, Fault.AGENT, (1 + 0.8) / 2),
        ([BROKEN, WRONG, BROKEN], Decided.WRONG, Fault.ENVIRONMENT, (1 + 0.8) / 2),
        ([BROKEN, WRONG, RIGHT], Decided.WRONG, Fault.UNKNOWN, (2 / 3 + 0.8) / 2),
        ([RIGHT, RIGHT, RIGHT], Decided.NOT_WRONG, Fault.AGENT, 0),
        ([RIGHT, WRONG, RIGHT], Decided.NOT_WRONG, Fault.AGENT, 1 / 3),
        ([RIGHT, RIGHT, MISSING[0]], Decided.NOT_WRONG, Fault.AGENT, 0),
        ([RIGHT], Decided.NOT_WRONG, Fault.AGENT, 0),
        ([BROKEN], Decided.WRONG, Fault.ENVIRONMENT, (1 + 0.8) / 2),
        ([RIGHT, WRONG], Decided.OPEN, Fault.AGENT, 0.8),
        ([RIGHT, WRONG, MISSING[0]], Decided.OPEN, Fault.AGENT, 0.8),
        ([RIGHT, RIGHT, WRONG, WRONG], Decided.OPEN, Fault.AGENT, 0.8),
        ([RIGHT, MISSING[0], MISSING[1]], Decided.OPEN, Fault.AGENT, 0.8),
        ([WRONG, MISSING[0]], Decided.OPEN, Fault.AGENT, 0.8),
        (MISSING[:1], Decided.OPEN, Fault.AGENT, 0.8),
        (MISSING, Decided.OPEN, Fault.AGENT, 0.8),
    ],
)
def test_more_than_half_of_the_votes_cast_decide(
    votes: list[Vote], decided: Decided, fault: Fault, confidence: float
) -> None:
    judged = decide(SIGNAL, votes)
    assert (judged.decided, judged.signal.fault) == (decided, fault)
    assert judged.signal.confidence == pytest.approx(confidence)
    assert judged.votes == tuple(votes)
    assert bool(judged.refuted) == (decided is Decided.NOT_WRONG)
    if decided is Decided.OPEN:
        assert judged.signal == SIGNAL


any_vote = st.builds(Vote, cast=st.sampled_from(Cast), fault=st.sampled_from(Fault))


@given(st.lists(any_vote, min_size=1, max_size=9), st.floats(0, 1))
def test_whatever_the_votes_a_refuted_signal_stays_below_training(votes: list[Vote], before: float) -> None:
    signal = replace(SIGNAL, confidence=before)
    judged = decide(signal, votes)
    assert judged.signal == decide(signal, list(reversed(votes))).signal, "the order of votes says nothing"
    assert replace(judged.signal, fault=signal.fault, confidence=before) == signal, "nothing else changes"
    if judged.decided is Decided.NOT_WRONG:
        assert judged.signal.confidence < 0.5
        assert judged.signal.confidence <= before
    if judged.decided is Decided.WRONG:
        assert min(0.5, before) <= judged.signal.confidence <= 1
    if len(votes) > 1:
        assert judged.signal == decide(signal, [*votes, *MISSING]).signal, "abstentions decide nothing"


def test_a_refutation_by_few_never_raises_what_the_rule_thought() -> None:
    unsure = replace(SIGNAL, confidence=0.1)
    assert decide(unsure, [RIGHT, WRONG, RIGHT]).signal.confidence == 0.1


def test_the_reason_of_a_refutation_is_told() -> None:
    assert decide(SIGNAL, [WRONG, RIGHT, RIGHT]).refuted == "judged not wrong by 2 of 3 votes: it did as told"


@pytest.mark.parametrize(
    ("answer", "vote"),
    [
        ('{"wrong": true, "fault": "agent", "reason": "r"}', Vote(cast=Cast.WRONG, fault=Fault.AGENT, reason="r")),
        ('{"wrong": false}', Vote(cast=Cast.NOT_WRONG)),
        ('{"wrong": null, "reason": 7}', Vote(cast=Cast.ABSTAINED)),
        ('```json\n{"wrong": true, "fault": "weather"}\n```', Vote(cast=Cast.WRONG)),
        ('{"wrong": true, "fault": ["agent"], "more": {"wrong": false}}', Vote(cast=Cast.WRONG)),
        (
            'I read {"wrong": false} there. {x} So: {"wrong": true, "fault": "user"} {}',
            Vote(cast=Cast.WRONG, fault=Fault.USER),
        ),
        ("{" * 9000 + '{"wrong": false}', Vote(cast=Cast.NOT_WRONG)),
    ],
)
def test_the_last_object_with_a_verdict_is_the_vote(answer: str, vote: Vote) -> None:
    assert read_vote(answer) == vote


@pytest.mark.parametrize(
    "answer", ["", "Yes, it was wrong.", "{}", '{"wrong": "true"}', '{"wrong": 1}', '{"wrong": true', '{"a":' * 4000]
)
def test_what_is_no_verdict_is_no_vote(answer: str) -> None:
    vote = read_vote(answer)
    assert vote.cast is Cast.UNREADABLE
    assert len(vote.reason) <= 300


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["wrong", "fault", "reason", "x"]), inner)
    ),
    max_leaves=6,
)


@given(st.one_of(st.text(), st.text('{}[]":,wrong truefals'), values.map(json.dumps)))
def test_any_answer_can_be_read(answer: str) -> None:
    read_vote(answer).reason.encode()


class Scripted(FakeTextModel):
    """Answers one after the other, an error by raising it, None never; and knows how many it was asked at once."""

    def __init__(self, *answers: str | EngineError | None) -> None:
        super().__init__(lambda _messages, _seed: "")
        self.answers = list(answers)
        self.busy = self.most = 0

    async def answer(
        self, messages: Sequence[Message], *, temperature: float, max_tokens: int, seed: int | None = None
    ) -> str:
        self.asked.append(tuple(messages))
        answer = self.answers.pop(0)
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await (asyncio.sleep(0.01) if answer is not None else asyncio.Event().wait())
        finally:
            self.busy -= 1
        if isinstance(answer, EngineError):
            raise answer
        return answer or ""


YES, NO = '{"wrong": true, "fault": "agent"}', '{"wrong": false}'
AWAY = EngineError("it is away", status=503)


async def test_votes_are_asked_for_at_once_as_far_as_there_are_places() -> None:
    model = Scripted(YES, YES, NO)
    judged = await Judge(model, Budget(PLENTY)).judge(TRACE, SIGNAL)
    assert judged.decided is Decided.WRONG
    assert model.most == 3
    crowded = Scripted(*[YES] * 9)
    judge = Judge(crowded, Budget(PLENTY), max_concurrency=2)
    await asyncio.gather(*(judge.judge(TRACE, SIGNAL) for _ in range(3)))
    assert crowded.most == 2
    assert len(crowded.asked) == 9


async def test_a_slow_vote_and_a_failed_one_leave_the_others_to_decide() -> None:
    judge = Judge(Scripted(None, YES, AWAY, YES), Budget(PLENTY), votes=4, timeout_s=0.1)
    judged = await judge.judge(TRACE, SIGNAL)
    assert judged.decided is Decided.WRONG
    assert [vote.cast for vote in judged.votes] == [Cast.TIMED_OUT, Cast.WRONG, Cast.FAILED, Cast.WRONG]
    assert [vote.reason for vote in judged.votes] == ["no answer within 0.1 s", "", "it is away", ""]


@pytest.mark.parametrize("answers", [[AWAY] * 3, [None] * 3, ["who knows"] * 3, [YES, "", AWAY]])
async def test_a_judge_that_cannot_judge_leaves_a_signal_as_it_was(answers: list[str | EngineError | None]) -> None:
    judged = await Judge(Scripted(*answers), Budget(PLENTY), timeout_s=0.1).judge(TRACE, SIGNAL)
    assert judged.signal == SIGNAL
    assert judged.decided is Decided.OPEN


async def test_one_vote_is_enough_where_one_is_asked_for() -> None:
    judged = await Judge(Scripted(NO), Budget(PLENTY), votes=1).judge(TRACE, SIGNAL)
    assert judged.decided is Decided.NOT_WRONG


async def test_a_judge_that_is_cancelled_asks_no_further() -> None:
    model = Scripted(None, None, None)
    task = asyncio.create_task(Judge(model, Budget(PLENTY)).judge(TRACE, SIGNAL))
    while model.busy < 3:  # noqa: ASYNC110 - the model tells nobody
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert model.busy == 0


async def test_beyond_the_days_budget_signals_pass_unjudged_until_the_next_day() -> None:
    now = datetime(2026, 3, 1, 23, 0, tzinfo=UTC)
    budget = Budget(7, lambda: now)
    model = Scripted(*[NO] * 9)
    judge = Judge(model, budget)
    decided = [(await judge.judge(TRACE, SIGNAL)).decided for _ in range(4)]
    assert decided == [Decided.NOT_WRONG, Decided.NOT_WRONG, Decided.UNASKED, Decided.UNASKED]
    assert (len(model.asked), budget.spent, budget.refused) == (6, 6, 2)
    now = datetime(2026, 3, 2, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    unasked = await judge.judge(TRACE, SIGNAL)
    assert (unasked.decided, unasked.signal, unasked.votes) == (Decided.UNASKED, SIGNAL, ()), (
        "it is not midnight in UTC"
    )
    now = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)
    assert (await judge.judge(TRACE, SIGNAL)).decided is Decided.NOT_WRONG
    assert (budget.spent, budget.refused) == (3, 3)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.AGENT])
def test_votes_never_make_the_agents_fault_of_another(fault: Fault) -> None:
    judged = decide(replace(SIGNAL, fault=fault), [WRONG, WRONG, WRONG])
    assert (judged.decided, judged.signal.fault) == (Decided.WRONG, fault)
    assert unteachable(judged.signal, 0.0)


class Silent(FakeTextModel):
    """Answers YES when it is told to, and else never; and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__(lambda _messages, _seed: YES)
        self.answers = False

    async def answer(
        self, messages: Sequence[Message], *, temperature: float, max_tokens: int, seed: int | None = None
    ) -> str:
        if not self.answers:
            self.asked.append(tuple(messages))
            await asyncio.Event().wait()
        return await super().answer(messages, temperature=temperature, max_tokens=max_tokens, seed=seed)


async def test_a_model_that_does_not_answer_is_left_alone_and_tried_again_later() -> None:
    now = 0.0
    model = Silent()
    judge = Judge(model, Budget(PLENTY), timeout_s=0.05, max_concurrency=2, breaker=Breaker(4, 60, lambda: now))
    first, *others = await asyncio.gather(*(judge.judge(TRACE, SIGNAL) for _ in range(9)))
    assert len(model.asked) <= 6
    assert first.decided is Decided.OPEN
    assert {(each.decided, each.reason, each.votes) for each in others[2:]} == {(Decided.UNASKED, SILENT, ())}
    asked = len(model.asked)
    now = 59.0
    assert (await judge.judge(TRACE, SIGNAL)).decided is Decided.UNASKED
    assert len(model.asked) == asked
    now = 61.0
    halves = await asyncio.gather(*(judge.judge(TRACE, SIGNAL) for _ in range(3)))
    assert asked < len(model.asked) <= asked + 3, "one of them tries"
    assert not any(each.decided is Decided.WRONG for each in halves)
    now = 200.0
    model.answers = True
    assert [(await judge.judge(TRACE, SIGNAL)).decided for _ in range(3)] == [Decided.WRONG] * 3


async def test_one_answer_among_many_that_fail_keeps_the_model_asked() -> None:
    model = Scripted(*[AWAY, AWAY, YES] * 5)
    judge = Judge(model, Budget(PLENTY), max_concurrency=1, breaker=Breaker(3, 60))
    assert [(await judge.judge(TRACE, SIGNAL)).decided for _ in range(5)] == [Decided.OPEN] * 5
