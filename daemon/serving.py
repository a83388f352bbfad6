"""Serving: which adapter stands behind the public model name, and how that changes.

The alias is a row with a generation number. Every process remembers it, follows it, and goes on serving by it when the
store is away. A swap loads and checks before it flips; a rollback is the flip alone, for the previous version stays
loaded and warm. Of ours the engine holds at most what serves, what served before, and one candidate.
"""

import asyncio
import re
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from daemon.config import Settings
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.store import AdapterRow, Alias, Store
from daemon.store_rounds import moved
from daemon.versions import AdapterEngine, check_effect, publish
from harness_adapters.errors import CheckpointError, EngineError, SecondNatureError, StoreError, VersionError
from learner.manifest import read_manifest
from learner.probe import read_probes

WATCH_EVERY_S = 0.25
RELOAD_PAUSE_S = 1.0
RELOAD_EVERY_S = 30.0
"""How often a version that is not loaded is tried again: another process, or a person, may have mended it."""

logger = get_logger(__name__)


class Serving:
    """The alias of one public model name over one or many replicas of the engine."""

    def __init__(self, settings: Settings, store: Store, engines: Sequence[AdapterEngine], metrics: Metrics) -> None:
        self._name = settings.model.name
        self._base = settings.engine.base_model
        self._folder = settings.adapters_dir
        self._store = store
        self._engines = engines
        self._metrics = metrics
        self._alias: Alias | None = None
        self._remembering = threading.Lock()
        self._changing = asyncio.Lock()
        self._missing = asyncio.Event()
        self._not_loaded: dict[str, str] = {}
        self._loaded_at = 0.0

    def alias(self) -> Alias | None:
        """Return the alias as last seen; None before the store was first read."""
        return self._alias

    def current(self) -> str:
        """Return the engine's name for what serves now: a version, or the base model."""
        alias = self._alias
        return alias.current or self._base if alias else self._base

    def current_version(self) -> AdapterRow | None:
        """Return the version serving now, None for the base. Asks the store."""
        alias = self._alias
        return self._row(alias.current) if alias and alias.current else None

    def not_loaded(self) -> dict[str, str]:
        """Return which versions the alias names that an engine lacked when last seen, and why; the base answers for
        them."""
        alias, reasons = self._alias, self._not_loaded
        named = (alias.current, alias.previous) if alias else ()
        return {version: reasons[version] for version in named if version and version in reasons}

    def report_missing(self, version: str) -> None:
        """Let the watcher load the adapters again: the engine does not know `version`."""
        if version != self._base:
            self._not_loaded.setdefault(version, "the engine does not know it")
            self._missing.set()

    async def load_all(self) -> None:
        """Read the alias and load what it names, and the version before it, on every replica; unload what is over.

        A version the engine refuses is logged; until it is loaded the base answers, and that is counted.
        """
        async with self._changing:
            self._loaded_at = time.monotonic()
            self._remember(await asyncio.to_thread(self._store.alias, self._name))
            await self._tidy()
            alias = self._alias
            for version in dict.fromkeys((alias.current, alias.previous) if alias else ()):
                if version is None:
                    continue
                try:
                    await self._load(await self._found(version))
                except (EngineError, CheckpointError) as error:
                    logger.error("version_not_loaded", version=version, reason=str(error))  # noqa: TRY400 - says it all

    async def prepare(self, checkpoint: Path, round_id: str) -> str:
        """Make a checkpoint a version and load it under a name that no client can reach. Returns the name.

        A checkpoint is one version for ever: doing it again loads that one, whatever became of it. Any other candidate
        makes room. Raises CheckpointError when the checkpoint is not sound, VersionError when a replica refuses it (its
        state is `refused` then), EngineError when one cannot be reached, OSError when the disk does not take it.
        """
        async with self._changing:
            row = await asyncio.to_thread(self._publish, checkpoint, round_id)
            try:
                await self._admit(row)
            except VersionError:
                self._metrics.swaps.labels("refused").inc()
                raise
            return row.version

    async def promote(self, version: str, expected_generation: int | None = None) -> Alias:
        """Serve a version: load it on every replica, check its effect, warm the one before it, flip the alias.

        Requests in flight end on the version they began with. A version that serves already stays so, whatever is
        expected. Raises AliasMovedError when the alias is not at `expected_generation`, or moved meanwhile;
        VersionError when there is no such version, an engine refuses it or does not serve what was learnt; EngineError
        when one cannot be reached; CheckpointError when its files are not sound. Then what served before serves on.

        A StoreError may also mean that the flip was done and its confirmation lost: the alias tells.
        """
        started = time.monotonic()
        async with self._changing:
            try:
                alias = await asyncio.to_thread(self._store.alias, self._name)
                if alias.current == version:
                    self._remember(alias)
                    return alias
                if expected_generation not in (None, alias.generation):
                    raise moved(alias, expected_generation)
                row = await self._found(version)
                probes = await asyncio.to_thread(read_probes, Path(row.path))
                await self._admit(row)
                for engine in self._engines:
                    distance = await check_effect(engine, version, probes)
                    logger.info("effect_checked", version=version, distance_nats=round(distance, 4))
                await self._warm(alias.current)
                flipped = await asyncio.to_thread(self._store.flip, self._name, version, alias.generation)
            except SecondNatureError:
                self._metrics.swaps.labels("held").inc()
                raise
            self._remember(flipped)
            self._metrics.swaps.labels("promoted").inc()
            self._metrics.swap_seconds.labels("promote").observe(time.monotonic() - started)
            logger.info("promoted", version=version, previous=flipped.previous, generation=flipped.generation)
            try:
                await self._tidy()
            except StoreError as error:
                logger.warning("version_not_retired", version=alias.previous, reason=str(error))
            return flipped

    async def discard(self, version: str) -> None:
        """Unload a version that will not serve; one that the alias names stays as it is.

        Its folder stays: the engine may still hold the weights.
        """
        async with self._changing:
            row = await self._found(version)
            await asyncio.to_thread(self._store.set_adapter_state, row.version, "retired")
            await self._tidy()

    def rollback(self, leave: str | None = None) -> Alias:
        """Leave a version, the current one unless said, for the previous; any thread may call, no engine is asked.

        `leave` is a version or the engine's name for the base. When it does not serve any more nothing changes, so a
        call may be repeated. Without it once more goes forward again: the alias remembers two. Raises VersionError when
        nothing ever served but the base, AliasMovedError when the alias moved meanwhile, StoreError when the store
        cannot write it down.
        """
        started = time.monotonic()
        alias = self._store.alias(self._name)
        if leave not in (None, alias.current or self._base):
            self._remember(alias)
            return alias
        if alias.current is None and alias.previous is None:
            raise VersionError(f"{self._name} has always been the base model: there is nothing to roll back to")
        flipped = self._store.flip(self._name, alias.previous, alias.generation)
        self._remember(flipped)
        self._metrics.swaps.labels("rolled_back").inc()
        self._metrics.swap_seconds.labels("rollback").observe(time.monotonic() - started)
        logger.warning("rolled_back", to=self.current(), was=alias.current, generation=flipped.generation)
        return flipped

    async def watch(self, stop: asyncio.Event) -> None:
        """Follow the alias, which other processes flip too, and load again what an engine has lost."""
        while not stop.is_set():
            pause_s = WATCH_EVERY_S
            try:
                due = self.not_loaded() and time.monotonic() - self._loaded_at >= RELOAD_EVERY_S
                if due or self._missing.is_set():
                    self._missing.clear()
                    await self.load_all()
                    pause_s = RELOAD_PAUSE_S
                else:
                    self._remember(await asyncio.to_thread(self._store.alias, self._name))
            except StoreError as error:
                logger.warning("alias_unread", reason=str(error), serving=self.current())
                pause_s = RELOAD_PAUSE_S
            try:
                await asyncio.wait_for(stop.wait(), pause_s)
            except TimeoutError:
                continue

    def _remember(self, alias: Alias) -> None:
        """Take an alias over unless a later one is known."""
        with self._remembering:
            if self._alias is None or alias.generation >= self._alias.generation:
                self._alias = alias
                self._metrics.serving_generation.set(alias.generation)
                self._metrics.serving_base.set(alias.current is None)

    def _publish(self, checkpoint: Path, round_id: str) -> AdapterRow:
        manifest = read_manifest(checkpoint)
        rows = self._store.adapters()
        known = next((r for r in rows if r.checkpoint_id == manifest.id and self._is_ours(r.version)), None)
        if known:
            return known
        number = max((row.number for row in rows), default=0) + 1
        while not publish(checkpoint, folder := self._folder_of(number)):
            number += 1
        row = AdapterRow(
            version=f"{self._name}@v{number}",
            number=number,
            checkpoint_id=manifest.id,
            path=str(folder),
            round_id=round_id,
            state="candidate",
            created_at=time.time(),
        )
        self._store.put_adapter(row)
        return row

    def _folder_of(self, number: int) -> Path:
        # Engines run elsewhere in the tree of processes: only an absolute path means the same to all.
        return self._folder.absolute() / f"{self._name.replace('/', '_')}@v{number}"

    def _is_ours(self, name: str) -> bool:
        return re.fullmatch(rf"{re.escape(self._name)}@v\d+", name) is not None

    def _row(self, version: str) -> AdapterRow | None:
        return next((row for row in self._store.adapters() if row.version == version), None)

    async def _found(self, version: str) -> AdapterRow:
        row = await asyncio.to_thread(self._row, version)
        if row is None:
            raise VersionError(f"there is no version {version!r}; `secondnature adapters list` names them")
        return row

    async def _admit(self, row: AdapterRow) -> None:
        """Load a version that may come to serve, in place of any other that waits.

        One whose files are not sound changes nothing. One that an engine refuses is `refused`, and stays loaded nowhere
        unless the alias names it. An engine that is away says nothing of the version.
        """
        await asyncio.to_thread(read_manifest, Path(row.path))
        await asyncio.to_thread(self._store.set_adapter_state, row.version, "candidate")
        await self._tidy(room_for=row.version)
        try:
            await self._load(row)
        except EngineError as error:
            if error.passing:
                raise
            await asyncio.to_thread(self._store.set_adapter_state, row.version, "refused")
            await self._tidy()
            raise VersionError(f"the engine refuses {row.version}: {error}", status=error.status) from error

    async def _load(self, row: AdapterRow) -> None:
        try:
            await self._load_lacking(row)
        except (EngineError, CheckpointError) as error:
            self._not_loaded[row.version] = str(error)
            raise
        self._not_loaded.pop(row.version, None)

    async def _load_lacking(self, row: AdapterRow) -> None:
        lacking = [engine for engine in self._engines if row.version not in await engine.models()]
        if lacking:
            await asyncio.to_thread(read_manifest, Path(row.path))
        for engine in lacking:
            try:
                await engine.load_adapter(row.version, Path(row.path))
            except EngineError as error:
                # Another process may have been first.
                if error.status != HTTPStatus.BAD_REQUEST or row.version not in await engine.models():
                    raise

    async def _warm(self, version: str | None) -> None:
        """Send one request to the version that stays behind: an adapter's first request is slow.

        A promotion goes on without it; after a rollback to a version that is missing the base answers.
        """
        if version is None:
            return
        try:
            row = await self._found(version)
            await self._load(row)
            probe = (await asyncio.to_thread(read_probes, Path(row.path))).probes[0]
            for engine in self._engines:
                await engine.score(version, probe.ids, probe.start)
        except (EngineError, CheckpointError) as error:
            logger.warning("previous_not_warm", version=version, reason=str(error))

    async def _tidy(self, room_for: str | None = None) -> None:
        """Unload every version of ours that is over; with `room_for`, every other candidate too.

        What the alias names always stays. Raises StoreError only.
        """
        for engine in self._engines:
            try:
                # First the engine, then the store: a version is written down before any process loads it.
                loaded = [name for name in await engine.models() if self._is_ours(name)]
                wanted = await asyncio.to_thread(self._wanted, room_for)
                for name in loaded:
                    if name not in wanted:
                        await engine.unload_adapter(name)
            except EngineError as error:
                logger.warning("versions_not_unloaded", reason=str(error))

    def _wanted(self, room_for: str | None) -> set[str | None]:
        alias = self._store.alias(self._name)
        candidates = {row.version for row in self._store.adapters() if row.state == "candidate"}
        return {alias.current, alias.previous} | (candidates if room_for is None else {room_for})
