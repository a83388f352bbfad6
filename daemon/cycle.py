"""The street: sessions are read, signals found, hints tried, rounds run, candidates gated, the best one served.

Every stage reads what the stage before it stored and stores what it made, so the daemon may be ended at any moment
and goes on where it stood.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog

from daemon import rounds
from daemon.config import Settings
from daemon.engine import EngineClient
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.store import RoundRow, SessionRow, Store
from harness_adapters.errors import CheckpointError, ConfigError, EngineError, RenderError, SecondNatureError
from harness_adapters.sessions import trace_of
from hinting.detect import detect
from hinting.graders import Grader, load_graders
from hinting.hint import Hint, HintState
from hinting.model import Sampling
from hinting.screen import screen
from hinting.signal import Fault, Signal
from hinting.verify import try_hints
from hinting.write import propose
from learner.config import CHECKPOINT_DIR, Progress, RoundConfig

logger = structlog.get_logger()


class Cycle:
    """Walks the street, one stage after the other, for as long as it is let."""

    def __init__(
        self, settings: Settings, store: Store, engine: EngineClient, serving: Serving, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._store = store
        self._engine = engine
        self._serving = serving
        self._metrics = metrics
        self._graders: list[Grader] = load_graders(settings.graders)
        self._asked = asyncio.Event()
        self._settled = False
        self.waits_for = ""
        """What keeps the next round from starting, in words."""

    def ask_for_round(self) -> None:
        """Let the next round start with what there is, whatever the thresholds say."""
        self._asked.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Walk until told to stop. A stage that fails is logged and tried again at the next pass.

        Rounds have a walk of their own, as one takes from minutes to hours and corrections go on coming in.
        """
        async with asyncio.TaskGroup() as walks:
            walks.create_task(self._walk(stop, self._read_and_hint))
            walks.create_task(self._walk(stop, self.run_rounds))

    async def _read_and_hint(self) -> bool:
        read = await self.read_sessions()
        hinted = await self.write_hints()
        self._settled = not (read or hinted)
        return read or hinted

    async def _walk(self, stop: asyncio.Event, step: Callable[[], Awaitable[bool]]) -> None:
        while not stop.is_set():
            try:
                busy = await step()
            except SecondNatureError as error:
                logger.warning("walk_interrupted", reason=str(error))
                busy = False
            if not busy:
                try:
                    await asyncio.wait_for(stop.wait(), timeout=self._settings.rounds.poll_s)
                except TimeoutError:
                    continue

    async def read_sessions(self) -> bool:
        """Read sessions that have changed into traces and signals."""
        sessions = await asyncio.to_thread(self._store.dirty_sessions, 64)
        for session in sessions:
            await asyncio.to_thread(self._read_session, session)
        return bool(sessions)

    def _read_session(self, session: SessionRow) -> None:
        trace = trace_of(session.id, session.root, self._store.exchanges_of(session.id))
        responses = [t.response_id for t in trace.turns if t.response_id]
        self._store.put_trace(trace)
        found = self._store.put_signals(detect(trace, self._store.feedback_for(responses)))
        self._store.mark_read(session.id, session.revision)
        self._metrics.stages.labels("trace", "read").inc()
        for signal in found:
            self._metrics.stages.labels("signal", signal.kind.value).inc()
            logger.info("signal_found", signal=signal.id, kind=signal.kind.value, trace=trace.id, target=signal.target)

    async def write_hints(self) -> bool:
        """Write, screen and try hints for new signals; keep every one with its trials."""
        signals = await asyncio.to_thread(self._store.signals, "new", 64)
        slots = asyncio.Semaphore(self._settings.hints.max_concurrency)

        async def one(signal: Signal) -> None:
            async with slots:
                await self._hint(signal)

        await asyncio.gather(*(one(signal) for signal in signals))
        return bool(signals)

    async def _hint(self, signal: Signal) -> None:
        store, settings = self._store, self._settings.hints
        trace = await asyncio.to_thread(store.trace, signal.trace_id)
        reason = _unteachable(signal, settings.min_confidence)
        if trace is None or reason:
            set_aside = reason or "its trace is gone"
            await asyncio.to_thread(store.set_signal_state, signal.id, "set_aside", set_aside)
            return
        screened: list[Hint] = []
        refused: list[Hint] = []
        for hint in propose(trace, signal):
            code = screen(hint, trace, signal)
            if code is None:
                screened.append(hint)
            else:
                refused.append(hint.tried((), HintState.REJECTED, code))
        exchange_id = trace.turns[signal.target].exchange_id
        exchange = await asyncio.to_thread(store.exchange, exchange_id) if exchange_id else None
        try:
            tried = await try_hints(
                trace,
                screened,
                self._engine.for_model(self._serving.current()),
                self._graders,
                signal=signal,
                sampling=Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens),
                rollouts=settings.rollouts,
                max_concurrency=settings.rollouts,
                threshold=settings.threshold,
                stop_at_full=True,
                recorded_prompt_ids=exchange.sampled.prompt_ids if exchange and exchange.sampled else None,
            )
        except EngineError as error:
            # The signal stays new: the next pass tries again once the engine answers.
            logger.warning("trial_postponed", signal=signal.id, reason=str(error))
            return
        for hint in (*tried, *refused):
            await asyncio.to_thread(store.put_hint, hint)
            self._metrics.stages.labels("hint", hint.state.value).inc()
        passed = any(hint.state is HintState.PASSED for hint in tried)
        state, why = ("hinted", "") if passed else ("set_aside", "no hint passed its trials")
        await asyncio.to_thread(store.set_signal_state, signal.id, state, why)
        logger.info("hints_tried", signal=signal.id, tried=len(tried), passed=passed, screened_out=len(refused))

    async def run_rounds(self) -> bool:
        """Take up unfinished rounds first; then start a new one when there is enough to learn from.

        While hints are still coming in, a round waits for them, unless it is full already.
        """
        for row in await asyncio.to_thread(self._store.rounds):
            if row.state in ("running", "published"):
                await self._finish(row)
                return True
        asked = self._asked.is_set()
        if not (asked or self._settings.rounds.auto):
            return False
        material = await asyncio.to_thread(rounds.gather, self._store, self._settings)
        self.waits_for = rounds.enough(material, self._settings) or ""
        full = len(material.flagged.get("train", ())) >= self._settings.rounds.max_hints
        if not (self.waits_for or self._settled or full):
            self.waits_for = "the hints being tried"
        if self.waits_for and not asked:
            return False
        self._asked.clear()
        specs = await asyncio.to_thread(rounds.build_specs, self._store, material, self._settings)
        if not any(spec.hint_id and spec.split == "train" for spec in specs):
            self.waits_for = "no hinted turn on the train side: a round would have nothing to learn"
            return False
        row = await asyncio.to_thread(self._open_round, specs)
        await self._finish(row)
        return True

    def _open_round(self, specs: list[Any]) -> RoundRow:
        number = len(self._store.rounds()) + 1
        round_id = f"round-{number:04d}"
        directory = Path(self._settings.data_dir) / "rounds" / round_id
        parent = self._serving.current_checkpoint()
        learner = self._settings.learner
        base = self._settings.model.path
        if base is None:
            raise ConfigError("model.path is not set: the learner needs the folder of the base model's weights")
        config = RoundConfig(
            id=round_id,
            base=base,
            parent=parent,
            seed=learner.seed + number,
            threads=learner.threads,
            max_length=learner.max_length,
            lora=learner.lora,
            optimizer=learner.optimizer,
            objective=learner.objective,
            batch=learner.batch,
            generation=learner.generation,
            stopping=learner.stopping,
        )
        rounds.write_round(directory, config, specs)
        counts = Counter(spec.mode for spec in specs if spec.split == "train")
        for mode, count in counts.items():
            self._metrics.stages.labels("sample", mode).inc(count)
        row = RoundRow(
            id=round_id,
            state="running",
            parent=self._serving.current(),
            directory=str(directory),
            created_at=time.time(),
            body={"samples": dict(counts)},
        )
        self._store.open_round(row, specs)
        logger.info("round_started", round=round_id, directory=str(directory), samples=dict(counts))
        return row

    async def _finish(self, row: RoundRow) -> None:
        """Bring a round from whatever state it is in to its end."""
        directory = Path(row.directory)
        if row.state == "running":
            code = await rounds.run_learner(directory, self._settings.learner.threads)
            last = (await asyncio.to_thread(rounds.read_progress, directory))[-1:]
            state, why = _ended(code, last[0] if last else None)
            if state != "published":
                await self._end(row, state, {"reason": why})
                return
            await asyncio.to_thread(self._store.set_round_state, row.id, state)
        await self._gate(row, directory / CHECKPOINT_DIR)

    async def _gate(self, row: RoundRow, checkpoint: Path) -> None:
        """Load the candidate under a name routing cannot reach, measure it, and serve it if it may be."""
        try:
            candidate = await self._serving.prepare(checkpoint, row.id)
        except (EngineError, CheckpointError, OSError) as error:
            await self._end(row, "rejected", {"reason": f"the candidate cannot be loaded: {error}"})
            return
        from daemon.gatekeeper import Gatekeeper  # noqa: PLC0415 - see there: scipy is slow to import

        gatekeeper = Gatekeeper(self._settings, self._store, self._engine, self._graders)
        verdict, body = await gatekeeper.examine(candidate, self._serving.current())
        decision = verdict.decision.value
        await asyncio.to_thread(self._store.put_verdict, candidate, row.id, decision, body)
        self._metrics.verdicts.labels(decision).inc()
        logger.info("verdict", candidate=candidate, decision=decision, reasons=list(verdict.reasons))
        said: dict[str, Any] = {"candidate": candidate, "reason": "; ".join(verdict.reasons)}
        if decision == "promote" or not self._settings.gate.enabled:
            said |= await self._promote(candidate)
        elif decision == "reject":
            await self._serving.discard(candidate)
            said["state"] = "rejected"
        else:
            said["state"] = "held"
        await self._end(row, said.pop("state"), said)

    async def _promote(self, candidate: str) -> dict[str, Any]:
        started = time.monotonic()
        try:
            await self._serving.promote(candidate)
        except (EngineError, CheckpointError, RenderError) as error:
            logger.warning("promotion_held", candidate=candidate, reason=str(error))
            return {"state": "held", "reason": str(error)}
        return {"state": "promoted", "swap_s": round(time.monotonic() - started, 3)}

    async def _end(self, row: RoundRow, state: str, said: dict[str, Any]) -> None:
        """Record how a round ended."""
        await asyncio.to_thread(self._store.set_round_state, row.id, state, said)
        self._metrics.rounds.labels(state).inc()
        self._metrics.round_seconds.observe(time.time() - row.created_at)
        logger.info("round_ended", round=row.id, state=state, **said)


def _unteachable(signal: Signal, min_confidence: float) -> str | None:
    if signal.fault is not Fault.AGENT:
        return f"the fault is the {signal.fault.value}'s, not the agent's"
    if signal.confidence < min_confidence:
        return f"confidence {signal.confidence:.2f} is below {min_confidence:.2f}"
    return None


def _ended(code: int, last: Progress | None) -> tuple[str, str]:
    if code == 0 and last is not None and last.event == "published":
        return "published", ""
    if code == 0 and last is not None and last.event == "finding":
        return "finding", last.message
    if last is not None and last.event == "failed":
        return "failed", last.message
    return "failed", f"the learner ended with code {code}; see {rounds.LEARNER_LOG} in the round's directory"
