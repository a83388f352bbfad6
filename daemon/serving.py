"""Serving: which adapter stands behind the public model name, and how that changes.

The alias is a row with a generation number. Every process remembers it, follows it, and goes on serving by it when the
store is away. A swap loads and checks before it flips; a rollback is the flip alone, for the previous version stays
loaded and warm.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from daemon.config import Settings
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.store import AdapterRow, Alias, Store
from daemon.versions import Scorer, check_effect, publish, read_probes
from harness_adapters.errors import AliasMovedError, CheckpointError, EngineError, SecondNatureError, StoreError
from learner.manifest import read_manifest

WATCH_EVERY_S = 0.25
RELOAD_PAUSE_S = 1.0
WAITING = ("candidate", "loaded")
"""States of versions that do not serve and may."""

logger = get_logger(__name__)


class AdapterEngine(Scorer, Protocol):
    """What serving asks of one replica. All raise EngineError."""

    async def models(self) -> Sequence[str]:
        """Return the names of the base model and of every loaded adapter."""
        ...

    async def load_adapter(self, name: str, path: Path) -> None:
        """Load an adapter from a folder."""
        ...

    async def unload_adapter(self, name: str) -> None:
        """Forget an adapter. Requests already running on it go on."""
        ...


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

    def alias(self) -> Alias | None:
        """Return the alias as last seen; None before the store was first read."""
        return self._alias

    def current(self) -> str:
        """Return the engine's name for what serves now: a version, or the base model."""
        alias = self._alias
        return alias.current or self._base if alias else self._base

    def current_checkpoint(self) -> Path | None:
        """Return the folder of the version serving now, None for the base. Asks the store."""
        alias = self._alias
        row = self._row(alias.current) if alias and alias.current else None
        return Path(row.path) if row else None

    def report_missing(self, version: str) -> None:
        """Let the watcher load the adapters again: the engine does not know `version`."""
        if version != self._base:
            self._missing.set()

    async def load_all(self) -> None:
        """Read the alias and load what it names, and the version before it, on every replica.

        A version the engine refuses is logged; until it is loaded the base answers, and that is counted.
        """
        async with self._changing:
            self._remember(await asyncio.to_thread(self._store.alias, self._name))
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

        Doing it again for a checkpoint that waits loads the same version. Raises CheckpointError when the checkpoint
        is not sound, EngineError when a replica refuses it (its state is `refused` then), OSError when the disk does.
        """
        async with self._changing:
            await self._make_room()
            row = await asyncio.to_thread(self._publish, checkpoint, round_id)
            try:
                await self._load(row)
            except EngineError as error:
                await self._set_state(row, "refused")
                self._metrics.swaps.labels("refused").inc()
                raise EngineError(f"the engine refuses {row.version}: {error}", status=error.status) from error
            return row.version

    async def promote(self, version: str) -> Alias:
        """Serve a version: load it on every replica, check its effect, warm the one before it, flip the alias.

        Requests in flight end on the version they began with. Raises EngineError when the engine refuses the version
        or does not serve what was learnt, or when the alias moved meanwhile; CheckpointError when its files are not
        sound. Whatever is raised, what served before serves on.
        """
        started = time.monotonic()
        async with self._changing:
            alias = await asyncio.to_thread(self._store.alias, self._name)
            if alias.current == version:
                self._remember(alias)
                return alias
            row = await self._found(version)
            try:
                await self._load(row)
                probes = await asyncio.to_thread(read_probes, Path(row.path))
                for engine in self._engines:
                    distance = await check_effect(engine, version, probes)
                    logger.info("effect_checked", version=version, distance_nats=round(distance, 4))
                await self._warm(alias.current)
                flipped = await asyncio.to_thread(self._flip, alias, version)
            except SecondNatureError:
                self._metrics.swaps.labels("held").inc()
                raise
            self._metrics.swaps.labels("promoted").inc()
            self._metrics.swap_seconds.labels("promote").observe(time.monotonic() - started)
            logger.info("promoted", version=version, previous=flipped.previous, generation=flipped.generation)
            await self._retire(alias.previous, flipped)
            return flipped

    async def discard(self, version: str) -> None:
        """Unload a version that will not serve. Its folder stays: the engine may still hold the weights."""
        async with self._changing:
            await self._unload(await self._found(version), "retired")

    def rollback(self) -> Alias:
        """Serve the previous version again; any thread may call. Nothing is asked of the engine.

        Once more goes forward again: the alias remembers two. Raises EngineError when nothing ever served but the base,
        or when the alias moved meanwhile; StoreError when the store cannot write it down.
        """
        started = time.monotonic()
        alias = self._store.alias(self._name)
        if alias.current is None and alias.previous is None:
            raise EngineError(f"{self._name} has always been the base model: there is nothing to roll back to")
        flipped = self._flip(alias, alias.previous)
        self._metrics.swaps.labels("rolled_back").inc()
        self._metrics.swap_seconds.labels("rollback").observe(time.monotonic() - started)
        logger.warning("rolled_back", to=self.current(), was=alias.current, generation=flipped.generation)
        return flipped

    async def watch(self, stop: asyncio.Event) -> None:
        """Follow the alias, which other processes flip too, and load again what an engine has lost."""
        while not stop.is_set():
            pause_s = WATCH_EVERY_S
            try:
                if self._missing.is_set():
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

    def _flip(self, alias: Alias, to: str | None) -> Alias:
        try:
            flipped = self._store.flip(self._name, to, alias.generation)
        except AliasMovedError as error:
            raise EngineError(str(error)) from error
        self._remember(flipped)
        for version, state in ((flipped.current, "serving"), (flipped.previous, "previous")):
            row = self._row(version) if version else None
            if row:
                self._store.put_adapter(replace(row, state=state))
        return flipped

    def _publish(self, checkpoint: Path, round_id: str) -> AdapterRow:
        manifest = read_manifest(checkpoint)
        rows = self._store.adapters()
        known = next((r for r in rows if r.checkpoint_id == manifest.id and r.state in WAITING), None)
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

    def _row(self, version: str) -> AdapterRow | None:
        return next((row for row in self._store.adapters() if row.version == version), None)

    async def _found(self, version: str) -> AdapterRow:
        row = await asyncio.to_thread(self._row, version)
        if row is None:
            raise EngineError(f"there is no version {version!r}; `secondnature adapters list` names them")
        return row

    async def _load(self, row: AdapterRow) -> None:
        await asyncio.to_thread(read_manifest, Path(row.path))
        for engine in self._engines:
            if row.version not in await engine.models():
                await engine.load_adapter(row.version, Path(row.path))

    async def _unload(self, row: AdapterRow, state: str) -> None:
        for engine in self._engines:
            try:
                if row.version in await engine.models():
                    await engine.unload_adapter(row.version)
            except EngineError as error:
                logger.warning("version_not_unloaded", version=row.version, reason=str(error))
        await self._set_state(row, state)

    async def _warm(self, version: str | None) -> None:
        """Send one request to the version that stays behind: an adapter's first request is slow."""
        row = await asyncio.to_thread(self._row, version) if version else None
        if row is None:
            return
        probe = (await asyncio.to_thread(read_probes, Path(row.path))).probes[0]
        for engine in self._engines:
            await engine.score(row.version, probe.ids, probe.start)

    async def _make_room(self) -> None:
        """Unload candidates that wait for a person, so that a new one never crowds out what serves."""
        for row in await asyncio.to_thread(self._store.adapters):
            if row.state in WAITING:
                await self._unload(row, row.state)

    async def _retire(self, version: str | None, alias: Alias) -> None:
        if version is None or version in (alias.current, alias.previous):
            return
        try:
            await self._unload(await self._found(version), "retired")
        except SecondNatureError as error:
            logger.warning("version_not_retired", version=version, reason=str(error))

    async def _set_state(self, row: AdapterRow, state: str) -> None:
        await asyncio.to_thread(self._store.put_adapter, replace(row, state=state))
