"""Measure a candidate against the adapter now serving, on gate sessions, through the engine.

Imported when the first candidate is measured: scipy takes a second to import, and a daemon should start in about one.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from daemon.config import Settings
from daemon.engine import EngineClient
from daemon.logs import get_logger
from daemon.rounds import Material, gather
from daemon.store import Store
from harness_adapters.errors import EngineError, RenderError
from harness_adapters.exchange import Exchange
from harness_adapters.fields import mappings
from harness_adapters.prompt import prompt_of
from harness_adapters.trace import Trace
from hinting.grade import Grader, case_of
from hinting.graders import grade_all
from hinting.model import Completion, Sampling
from hinting.reply import read_reply
from hinting.signal import Signal
from hinting.together import together
from learner.gate import CaseResult, Reply, Verdict, judge

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GateCase:
    """One held-out turn, to be answered without a hint."""

    id: str
    kind: Literal["flagged", "passing"]
    trace: Trace
    turn: int
    exchange: Exchange | None
    signal: Signal | None = None
    """What showed that a flagged turn was wrong; graders may need it."""


class Gatekeeper:
    """Answers held-out turns with two policies and judges the one by the other."""

    def __init__(self, settings: Settings, store: Store, engine: EngineClient, graders: Sequence[Grader]) -> None:
        self._settings = settings
        self._store = store
        self._engine = engine
        self._graders = graders

    async def examine(self, candidate: str, serving: str) -> tuple[Verdict, dict[str, Any]]:
        """Measure a candidate and return its verdict, and the verdict as it is stored and shown.

        Raises EngineError while the engine is away.
        """
        started = time.monotonic()
        material = await asyncio.to_thread(gather, self._store, self._settings)
        results = await self.measure(candidate, serving, await asyncio.to_thread(self._cases, material))
        verdict = judge(results, self._settings.gate.bounds)
        return verdict, {
            "against": serving,
            "reasons": list(verdict.reasons),
            "figures": [asdict(figure) for figure in verdict.figures],
            "cases": [asdict(result) for result in results],
            "ungraded": verdict.ungraded,
            "wall_s": round(time.monotonic() - started, 3),
        }

    async def measure(self, candidate: str, serving: str, cases: Sequence[GateCase]) -> list[CaseResult]:
        """Answer every case with both policies at one seed and grade the replies.

        A case the engine or the template refuses is left out and logged. Raises EngineError while the engine is away.
        """
        slots = asyncio.Semaphore(self._settings.hints.max_concurrency)

        async def one(number: int, case: GateCase) -> CaseResult | None:
            async with slots:
                try:
                    return await self._measure(candidate, serving, number, case)
                except (EngineError, RenderError) as error:
                    if isinstance(error, EngineError) and not error.refusal:
                        # Away, or no longer loaded because a person promoted another: a verdict on the rest would lie.
                        raise
                    logger.warning("gate_case_refused", case=case.id, reason=str(error))
                    return None

        found = await together(one(number, case) for number, case in enumerate(cases))
        return [result for result in found if result is not None]

    def _cases(self, material: Material) -> list[GateCase]:
        """Return the gate side's flagged and accepted turns, at most `gate.max_cases` of each."""
        most = self._settings.gate.max_cases
        flagged, accepted = material.flagged.get("gate", [])[:most], material.accepted.get("gate", [])[:most]
        signals = {signal.id: signal for signal in self._store.signals_by_id([f.hint.signal_ids[0] for f in flagged])}
        return [
            *(self._case("flagged", f.trace, f.hint.target, signals.get(f.hint.signal_ids[0])) for f in flagged),
            *(self._case("passing", a.trace, a.turn) for a in accepted),
        ]

    def _case(
        self, kind: Literal["flagged", "passing"], trace: Trace, turn: int, signal: Signal | None = None
    ) -> GateCase:
        exchange_id = trace.turns[turn].exchange_id
        exchange = self._store.exchange(exchange_id) if exchange_id else None
        return GateCase(f"{trace.id}#{turn}", kind, trace, turn, exchange, signal)

    async def _measure(self, candidate: str, serving: str, seed: int, case: GateCase) -> CaseResult:
        new, old = self._engine.for_model(candidate), self._engine.for_model(serving)
        prompt = prompt_of(case.trace, case.turn, case.exchange)
        prompt_ids = list(prompt.ids) if prompt.ids is not None else await new.render(prompt)
        length, was_cut = _recorded(case)
        most = max(self._settings.hints.max_tokens, length)
        sampling = Sampling(temperature=self._settings.gate.temperature, max_tokens=most, seed=seed)
        replies = await together(model.complete(prompt_ids, sampling) for model in (new, old))

        async def graded(completion: Completion) -> Reply:
            text, calls = read_reply(completion.text)
            grade = await grade_all(self._graders, case_of(case.trace, case.turn, text, calls, case.signal))
            # Where the reply was cut, nobody knows whether the rest would have passed too; unless the reply that was
            # accepted had been cut there as well.
            unknown = grade.passed and completion.finish_reason == "length" and not was_cut
            return Reply(text=completion.text, tokens=len(completion.ids), passed=None if unknown else grade.passed)

        kl = None
        if case.kind == "passing":
            tokens = self._settings.hints.max_tokens
            kl = await kl_nats(self._engine, candidate, serving, prompt_ids, seed=seed, max_tokens=tokens)
        return CaseResult(
            case_id=case.id,
            kind=case.kind,
            candidate=await graded(replies[0]),
            serving=await graded(replies[1]),
            kl_nats=kl,
        )


def _recorded(case: GateCase) -> tuple[int, bool]:
    """Return how many tokens the recorded reply of an accepted turn has, and whether it was cut; 0 where that is not
    known, and of a flagged turn, whose reply is nothing to hold others against."""
    if case.kind == "flagged" or case.exchange is None or case.exchange.sampled is None:
        return 0, False
    choice = next(iter(mappings((case.exchange.response or {}).get("choices"))), {})
    return len(case.exchange.sampled.completion_ids), choice.get("finish_reason") == "length"


async def kl_nats(
    engine: EngineClient, first: str, second: str, prompt_ids: Sequence[int], *, seed: int, max_tokens: int
) -> float | None:
    """Estimate the mean KL(first ‖ second) per token, in nats, on one reply that `first` samples at temperature 1.

    The estimator is r - 1 - log r with r = p_second / p_first on the sampled tokens: unbiased, and never negative
    (Schulman 2020, "Approximating KL divergence", k3). None for an empty reply.
    """
    sampling = Sampling(temperature=1.0, max_tokens=max_tokens, seed=seed, pure=True)
    sampled = await engine.for_model(first).complete(prompt_ids, sampling)
    if not sampled.ids:
        return None
    ids, start = [*prompt_ids, *sampled.ids], len(prompt_ids)
    of_first, of_second = await together(engine.score(name, ids, start) for name in (first, second))
    terms = [math.expm1(b - a) - (b - a) for a, b in zip(of_first, of_second, strict=True)]
    return sum(terms) / len(terms)
