"""The street behind the log: lessons are found, rounds run, candidates gated, the best one served.

Every stage reads what the stage before it stored and stores what it made, so the daemon may be ended at any moment
and goes on where it stood.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from daemon import rounds
from daemon.config import Settings
from daemon.engine import EngineClient
from daemon.lessons import Lessons
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.store import RoundRow, Store
from daemon.supervise import supervise, wait_for
from harness_adapters.errors import (
    AliasMovedError,
    CheckpointError,
    ConfigError,
    EngineError,
    SecondNatureError,
    StoreError,
)
from hinting.graders import load_graders
from hinting.judge import Judge
from learner.config import CHECKPOINT_DIR, Progress, RoundConfig, SampleSpec
from learner.manifest import read_manifest

MOST_FAILURES = 3
"""Rounds that may fail one after the other before a person has to ask for the next."""

logger = get_logger(__name__)


class Cycle:
    """Walks the street for as long as it is let."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        engine: EngineClient,
        serving: Serving,
        metrics: Metrics,
        *,
        judge: Judge | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._engine = engine
        self._serving = serving
        self._metrics = metrics
        self._graders = load_graders(settings.graders)
        self.lessons = Lessons(settings, store, engine, serving, graders=self._graders, metrics=metrics, judge=judge)
        self._asked = False
        self._changed = True
        self._settled = False
        self._enough_since: float | None = None
        self.waits_for = ""
        """What keeps the next round from starting, in words."""

    def ask_for_round(self) -> None:
        """Let the next round start with what there is, whatever the thresholds say."""
        self._asked = True

    async def run(self, stop: asyncio.Event) -> None:
        """Walk until told to stop.

        Rounds have a walk of their own, as one takes from minutes to hours and corrections go on coming in.
        """
        walks = (("lessons", self.find_lessons), ("rounds", self.run_rounds))
        await asyncio.gather(*(supervise(name, self._walker(stop, step), stop, self._metrics) for name, step in walks))

    def _walker(self, stop: asyncio.Event, step: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[None]]:
        async def walk() -> None:
            while not stop.is_set():
                try:
                    busy = await step()
                except SecondNatureError as error:
                    logger.warning("walk_interrupted", step=step.__name__, reason=str(error))
                    busy = False
                if not busy:
                    await wait_for(stop, self._settings.rounds.poll_s)

        return walk

    async def find_lessons(self) -> bool:
        """Read what has come in and try hints for it."""
        read = await self.lessons.read_sessions()
        settled = await self.lessons.write_hints()
        self._settled = not (read or settled)
        self._changed |= read or settled
        return read or settled

    async def run_rounds(self) -> bool:
        """Take up unfinished rounds first; then start a new one when there is enough to learn from."""
        known = await asyncio.to_thread(self._store.rounds)
        for row in known:
            if row.state in rounds.UNDER_WAY:
                await self._finish(row)
                return True
        asked = self._asked
        if not asked and not (self._settings.rounds.auto and (self._changed or self._enough_since is not None)):
            return False
        if not asked and _failures(known) >= MOST_FAILURES:
            self.waits_for = f"a person: {MOST_FAILURES} rounds failed one after the other; see the latest, then ask"
            return False
        changed, self._changed = self._changed, False
        try:
            row = await self._start(asked, known)
        except StoreError:
            # Nothing is lost with a look that failed: the next one sees the same.
            self._changed = changed
            raise
        self._asked = False
        if row is not None:
            await self._finish(row)
        return row is not None

    async def _start(self, asked: bool, known: Sequence[RoundRow]) -> RoundRow | None:
        """Open the next round if one was asked for or there is enough for it."""
        material = await asyncio.to_thread(rounds.glance, self._store, self._settings)
        self.waits_for = self._missing(material)
        if self.waits_for and not asked:
            return None
        self._enough_since = None
        material = await asyncio.to_thread(rounds.with_accepted, material, self._store, self._settings)
        specs = await asyncio.to_thread(rounds.build_specs, self._store, material, self._settings)
        if not any(spec.hint_id and spec.split == "train" for spec in specs):
            self.waits_for = "no hinted turn on the train side: a round would have nothing to learn"
            return None
        return await asyncio.to_thread(self._open_round, specs, len(known) + 1)

    def _missing(self, material: rounds.Material) -> str:
        """Say what a round waits for. Once there is enough it waits for hints still being tried, but not for ever."""
        if not self._graders and not self._settings.hints.train_unverified:
            return "a grader: none is configured, so no hint can pass its trials"
        missing = rounds.enough(material, self._settings)
        if missing:
            self._enough_since = None
            return missing
        limits = self._settings.rounds
        now = time.monotonic()
        self._enough_since = self._enough_since or now
        full = len(material.flagged.get("train", ())) >= limits.max_hints
        if self._settled or full or now - self._enough_since >= limits.settle_s:
            return ""
        return "the hints being tried"

    def _open_round(self, specs: Sequence[SampleSpec], number: int) -> RoundRow:
        # A folder kept from an older store may hold rounds of other samples.
        while (self._settings.rounds_dir / f"round-{number:04d}").exists():
            number += 1
        round_id = f"round-{number:04d}"
        directory = self._settings.rounds_dir.absolute() / round_id
        base = self._settings.model.path
        if base is None:
            raise ConfigError("model.path is not set: the learner needs the folder of the base model's weights")
        parent = self._serving.current_version()
        learner = self._settings.learner
        config = RoundConfig(
            id=round_id,
            base=base.absolute(),
            parent=Path(parent.path) if parent else None,
            seed=learner.seed + number,
            threads=learner.threads,
            dtype=learner.dtype,
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
            parent=parent.version if parent else None,
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
            try:
                code = await rounds.run_learner(directory, self._settings.learner.threads)
            except OSError as error:
                await self._end(row, "failed", {"reason": f"the learner cannot be started in {directory}: {error}"})
                return
            last = (await asyncio.to_thread(rounds.read_progress, directory))[-1:]
            state, why = _ended(code, last[0] if last else None)
            if state != "published":
                await self._end(row, state, {"reason": why})
                return
            await asyncio.to_thread(self._store.set_round_state, row.id, state)
        await self._gate(row, directory / CHECKPOINT_DIR)

    async def _gate(self, row: RoundRow, checkpoint: Path) -> None:
        """Load the candidate under a name routing cannot reach, measure it once, and serve it if it may be.

        Raises EngineError while the engine is away: the round stays `published`, and is gated when it is back.
        """
        try:
            candidate = await self._serving.prepare(checkpoint, row.id)
        except (EngineError, CheckpointError, OSError) as error:
            if isinstance(error, EngineError) and error.passing:
                raise
            await self._end(row, "rejected", {"reason": f"the candidate cannot be loaded: {error}"})
            return
        alias = self._serving.alias()
        if alias and alias.current == candidate:
            await self._end(row, "promoted", {"candidate": candidate})
            return
        decision, reason, generation = await self._verdict(row, checkpoint, candidate)
        said: dict[str, Any] = {"candidate": candidate, "reason": reason}
        state = {"hold": "held", "reject": "rejected"}.get(decision, "")
        if not state or not self._settings.gate.enabled:
            state, more = await self._promote(candidate, generation)
            said |= more
        elif state == "rejected":
            await self._serving.discard(candidate)
        await self._end(row, state, said)

    async def _verdict(self, row: RoundRow, checkpoint: Path, candidate: str) -> tuple[str, str, int]:
        """Return the gate's decision, its reasons, and the alias' generation it was measured against.

        A candidate that was measured before a restart is not measured again.
        """
        for stored in await asyncio.to_thread(self._store.verdicts):
            if stored.version == candidate:
                return stored.decision, "; ".join(stored.body["reasons"]), int(stored.body["generation"])
        from daemon.gatekeeper import Gatekeeper  # noqa: PLC0415 - see there: scipy is slow to import

        gatekeeper = Gatekeeper(self._settings, self._store, self._engine, self._graders)
        alias = self._serving.alias()
        generation = alias.generation if alias else 0
        verdict, body = await gatekeeper.examine(candidate, self._serving.current())
        body["generation"] = generation
        decision, reason = verdict.decision.value, "; ".join(verdict.reasons)
        manifest = await asyncio.to_thread(read_manifest, checkpoint)
        await asyncio.to_thread(self._store.put_verdict, manifest.id, row.id, candidate, decision, body)
        self._metrics.verdicts.labels(decision).inc()
        logger.info("verdict", candidate=candidate, decision=decision, reason=reason)
        return decision, reason, generation

    async def _promote(self, candidate: str, generation: int) -> tuple[str, dict[str, Any]]:
        """Serve a candidate that was measured against the alias of `generation`; return the round's state and facts."""
        started = time.monotonic()
        try:
            await self._serving.promote(candidate, generation)
        except (EngineError, CheckpointError, AliasMovedError) as error:
            if isinstance(error, EngineError) and error.passing:
                raise
            logger.warning("promotion_held", candidate=candidate, reason=str(error))
            return "held", {"reason": str(error)}
        return "promoted", {"swap_s": round(time.monotonic() - started, 3)}

    async def _end(self, row: RoundRow, state: str, said: dict[str, Any]) -> None:
        """Record how a round ended."""
        await asyncio.to_thread(self._store.set_round_state, row.id, state, said)
        self._changed = True
        self._metrics.rounds.labels(state).inc()
        self._metrics.round_seconds.observe(time.time() - row.created_at)
        logger.info("round_ended", round=row.id, state=state, **said)


def _failures(known: Sequence[RoundRow]) -> int:
    """Return how many of the latest rounds failed one after the other."""
    count = 0
    for row in reversed(known):
        if row.state != "failed":
            break
        count += 1
    return count


def _ended(code: int, last: Progress | None) -> tuple[str, str]:
    """Return a round's state and reason from its learner's exit code and last word."""
    if code == 0 and last is not None and last.event == "published":
        return "published", ""
    if code == 0 and last is not None and last.event == "finding":
        return "finding", last.message
    if last is not None and last.event == "failed":
        return "failed", last.message
    return "failed", f"the learner ended with code {code}; see {rounds.LEARNER_LOG} in the round's directory"
