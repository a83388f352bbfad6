"""The judge: a model votes on what the rules found, so that what only looks like a mistake does not teach.

It sees candidates only and finds nothing by itself. What it cannot say, be it away, slow or out of its budget, leaves
a signal as the rules made it.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, cast

from harness_adapters.errors import EngineError
from harness_adapters.trace import Message, Trace
from hinting.model import TextModel
from hinting.prompts import PROMPT_VERSION, judge_messages
from hinting.signal import Fault, Signal
from hinting.together import together

ANSWER_TOKENS = 1_024
"""Longest answer; it leaves room for models that think aloud first."""
READ_CHARS = 8_000
"""How much of an answer is read, from its end."""
REASON_CHARS = 300
SILENT_VOTES, REST_S = 12, 60.0
"""Votes in a row without an answer after which the model is left alone, and for how many seconds."""
SILENT = "the judge's model has not answered for a while"


class Cast(StrEnum):
    """What became of one vote. Only the first two count; the others abstain."""

    WRONG = "wrong"
    NOT_WRONG = "not_wrong"
    ABSTAINED = "abstained"
    UNREADABLE = "unreadable"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One answer of the judge. `reason` is its own, or says why it did not vote."""

    cast: Cast
    fault: Fault = Fault.UNKNOWN
    reason: str = ""


class Decided(StrEnum):
    """What the votes on one signal came to."""

    WRONG = "wrong"
    NOT_WRONG = "not_wrong"
    OPEN = "open"
    """A tie, or too few votes: the signal stays as it was."""
    UNASKED = "unasked"
    """The day's budget was spent, or the model had not answered for a while: the signal stays as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A signal as judged, with the votes for people to read."""

    signal: Signal
    votes: tuple[Vote, ...]
    decided: Decided
    prompt: str = PROMPT_VERSION
    """Which prompt was asked with."""
    reason: str = ""
    """Why nobody was asked."""

    @property
    def refuted(self) -> str:
        """Why the turn was not wrong: how many votes said so, and the first one's reason. Empty where it was not so."""
        votes = [vote for vote in self.votes if vote.cast is Cast.NOT_WRONG]
        if self.decided is not Decided.NOT_WRONG:
            return ""
        return f"judged not wrong by {len(votes)} of {len(self.votes)} votes: {votes[0].reason or 'no reason given'}"


class Budget:
    """Calls per day of UTC. It lives in memory: a new process begins its day anew."""

    def __init__(self, calls_per_day: int, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._most = calls_per_day
        self._now = now
        self._day: date | None = None
        self.spent = 0
        """Calls of the current day."""
        self.refused = 0
        """How often there was not enough left, since the start."""

    def take(self, calls: int) -> bool:
        """Take calls out of today's, all or none; return whether they were there."""
        today = self._now().astimezone(UTC).date()
        if today != self._day:
            self._day, self.spent = today, 0
        if self.spent + calls > self._most:
            self.refused += 1
            return False
        self.spent += calls
        return True


class Breaker:
    """Keeps a model from being asked that does not answer.

    After `after` votes in a row without an answer it opens, for `rest_s` seconds. Then one signal may try: an answer
    closes it, and silence opens it again.
    """

    def __init__(self, after: int, rest_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._after = after
        self._rest_s = rest_s
        self._now = now
        self._silent = 0
        self._again_at = 0.0
        self.opened = 0
        """How often it has opened."""

    def lets_through(self) -> bool:
        """Say whether a signal's votes may be asked for."""
        if self._silent < self._after:
            return True
        if self._now() < self._again_at:
            return False
        self._again_at = self._now() + self._rest_s
        return True

    def saw(self, *, answered: bool) -> None:
        """Note what became of a vote."""
        self._silent = 0 if answered else self._silent + 1
        if self._silent >= self._after:
            self.opened += 1
            self._again_at = self._now() + self._rest_s


class Judge:
    """Asks a model about signals, several votes at once.

    `timeout_s` bounds each vote, from when it gets one of the `max_concurrency` places. A model that does not answer is
    left alone for a while.
    """

    def __init__(
        self,
        model: TextModel,
        budget: Budget,
        *,
        votes: int = 3,
        temperature: float = 0.7,
        timeout_s: float = 20.0,
        max_concurrency: int = 4,
        breaker: Breaker | None = None,
    ) -> None:
        self._model = model
        self._budget = budget
        self._breaker = breaker or Breaker(SILENT_VOTES, REST_S)
        self._votes = votes
        self._temperature = temperature
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(max_concurrency)

    async def judge(self, trace: Trace, signal: Signal) -> Judged:
        """Return a signal of a trace as judged. A model that is away or answers nonsense changes nothing of it."""
        if not self._breaker.lets_through():
            return _unasked(signal, SILENT)
        if not self._budget.take(self._votes):
            return _unasked(signal, "the judge's calls of today are spent")
        messages, opened = judge_messages(trace, signal), self._breaker.opened
        votes = await together(self._vote(messages, opened) for _ in range(self._votes))
        cast_ = [vote for vote in votes if vote is not None]
        return decide(signal, cast_) if len(cast_) == len(votes) else _unasked(signal, SILENT)

    async def _vote(self, messages: Sequence[Message], opened: int) -> Vote | None:
        """Return a vote; None, without asking, where the breaker has opened since the signal was taken up."""
        async with self._slots:
            if self._breaker.opened != opened:
                return None
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._model.answer(messages, temperature=self._temperature, max_tokens=ANSWER_TOKENS)
            except TimeoutError:
                self._breaker.saw(answered=False)
                return Vote(cast=Cast.TIMED_OUT, reason=f"no answer within {self._timeout_s:g} s")
            except EngineError as error:
                self._breaker.saw(answered=not error.passing)
                return Vote(cast=Cast.FAILED, reason=str(error)[:REASON_CHARS])
            self._breaker.saw(answered=True)
        return read_vote(answer)


def unteachable(signal: Signal, min_confidence: float) -> str | None:
    """Say why a signal must not teach; None when it may."""
    if signal.fault is not Fault.AGENT:
        return f"the fault is the {signal.fault.value}'s, not the agent's"
    if signal.confidence < min_confidence:
        return f"confidence {signal.confidence:.2f} is below {min_confidence:.2f}"
    return None


def blamed(signal: Signal, fault: Fault) -> Fault:
    """Return whose fault it is after a judge has named one: it may clear the agent, and never blames it instead."""
    return fault if signal.fault is Fault.AGENT else signal.fault


def _unasked(signal: Signal, reason: str) -> Judged:
    return Judged(signal=signal, votes=(), decided=Decided.UNASKED, reason=reason)


def decide(signal: Signal, votes: Sequence[Vote]) -> Judged:
    """Return what the votes make of a signal.

    More than half of the votes that were cast decide, and at least two must have been, or one where only one was asked
    for. Not wrong: the confidence becomes what the majority leaves over, 1 - share, and never more than it was; that is
    below a half, where by default nothing trains. Wrong: the confidence becomes the mean of the majority's share and
    the rule's own confidence, as neither has seen what the other has, and the fault the one that more than half of that
    majority name, else `unknown`; what the rules do not call the agent's fault never becomes it.
    """
    counts = Counter(vote.cast for vote in votes)
    wrong, right = counts[Cast.WRONG], counts[Cast.NOT_WRONG]
    decided, judged = Decided.OPEN, signal
    if wrong + right >= min(2, len(votes)) and wrong != right:
        share = max(wrong, right) / (wrong + right)
        if wrong > right:
            decided = Decided.WRONG
            judged = replace(signal, fault=blamed(signal, _fault(votes)), confidence=(share + signal.confidence) / 2)
        else:
            decided = Decided.NOT_WRONG
            judged = replace(signal, confidence=min(1 - share, signal.confidence))
    return Judged(signal=judged, votes=tuple(votes), decided=decided)


def _fault(votes: Sequence[Vote]) -> Fault:
    named = Counter(vote.fault for vote in votes if vote.cast is Cast.WRONG)
    fault, count = named.most_common(1)[0]
    return fault if 2 * count > named.total() else Fault.UNKNOWN


def read_vote(answer: str) -> Vote:
    """Read a vote from what a model answered: the last JSON object in it that has a `wrong`.

    The last, as what stands before it may be thought aloud and quote the recording.
    """
    found = [each for each in _objects(answer[-READ_CHARS:]) if "wrong" in each]
    wrong = found[-1]["wrong"] if found else ""
    if wrong is not None and not isinstance(wrong, bool):
        return Vote(cast=Cast.UNREADABLE, reason=_plain(f"no vote can be read from: {answer[-REASON_CHARS:]}"))
    vote = found[-1]
    cast_ = {True: Cast.WRONG, False: Cast.NOT_WRONG, None: Cast.ABSTAINED}[wrong]
    fault = next((each for each in Fault if each.value == vote.get("fault")), Fault.UNKNOWN)
    reason = vote.get("reason")
    return Vote(cast=cast_, fault=fault, reason=_plain(reason) if isinstance(reason, str) else "")


def _objects(text: str) -> list[Mapping[str, Any]]:
    """Return the JSON objects that stand in a text side by side; an inner one belongs to the outer one."""
    decoder, found, at = json.JSONDecoder(), list[Mapping[str, Any]](), text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
            found.append(cast("Mapping[str, Any]", value))
        except (ValueError, RecursionError):
            end = at + 1
        at = text.find("{", end)
    return found


def _plain(text: str) -> str:
    """Return text that any store takes: a model may cut a character in half."""
    return text.encode("utf-8", "replace").decode()[:REASON_CHARS]
