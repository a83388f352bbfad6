import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from inspect import iscoroutinefunction
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from proxy_world import TIMEOUT_S, until

from daemon.capture import Recorder
from daemon.config import Settings, load
from daemon.health import Check, Health
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.sqlite_log import SqliteLog
from daemon.store import Alias, Store
from harness_adapters.errors import (
    AliasMovedError,
    CheckpointError,
    EngineError,
    SecondNatureError,
    StoreUnavailableError,
    VersionError,
)
from learner.manifest import MANIFEST_FILE, Manifest, sha256_of
from learner.probe import PROBE_FILE, Probe, Probes

REFUSAL = EngineError("rank 128 is more than max_lora_rank", status=500)
IDS = tuple(range(20))
START = 4
BEFORE = tuple(-2.0 for _ in IDS[START:])


class ScriptedEngine:
    """A replica that scores as the loaded adapter's probes say, unless told to behave like vLLM at its worst."""

    def __init__(self) -> None:
        self.adapters: dict[str, Path] = {}
        self.refuses: EngineError | None = None
        self.ignores_adapters = False
        self.scored: list[str] = []

    async def models(self) -> list[str]:
        return ["base", *self.adapters]

    async def load_adapter(self, name: str, path: Path) -> None:
        if self.refuses:
            raise self.refuses
        if name in self.adapters:
            raise EngineError(f"{name} has already been loaded", status=400)
        assert path.is_absolute()
        self.adapters[name] = path

    async def unload_adapter(self, name: str) -> None:
        if self.adapters.pop(name, None) is None:
            raise EngineError(f"{name} is not loaded", status=404)

    async def score(self, model: str, ids: Sequence[int], start: int) -> list[float]:
        self.scored.append(model)
        if self.ignores_adapters or model == "base":
            return list(BEFORE)
        if model not in self.adapters:
            raise EngineError(f"{model} is not loaded", status=404)
        probes = Probes.model_validate_json((self.adapters[model] / PROBE_FILE).read_bytes())
        return [x + 0.001 for x in probes.probes[0].after_logprobs]


def checkpoint(folder: Path, name: str, shift: float = 0.5) -> Path:
    """A published checkpoint, as far as serving reads one."""
    path = folder / name
    path.mkdir(parents=True)
    (path / "adapter_model.safetensors").write_bytes(name.encode())
    after = tuple(x + (shift if at % 2 else -shift) for at, x in enumerate(BEFORE))
    probe = Probe(ids=IDS, start=START, before_logprobs=BEFORE, after_logprobs=after)
    (path / PROBE_FILE).write_text(Probes(probes=(probe,)).model_dump_json())
    manifest = Manifest(
        id=name,
        round_id="round-1",
        parent=None,
        step=3,
        base_sha256="b",
        tokenizer_sha256="t",
        template_sha256="c",
        sample_ids=(),
        hyperparameters={},
        files={file.name: sha256_of(file) for file in path.iterdir()},
    )
    (path / MANIFEST_FILE).write_text(manifest.model_dump_json())
    return path


class World:
    """A serving over two replicas and a real store."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        given: dict[str, Any] = {
            "data_dir": tmp_path / "data",
            "model": {"name": "help/desk"},
            "engine": {"kind": "vllm", "url": "http://127.0.0.1:9"},
        }
        self.settings: Settings = load(None, given)
        self.store = Store(self.settings.store_url)
        self.engines = [ScriptedEngine(), ScriptedEngine()]
        self.metrics = Metrics()
        self.serving = self.another()

    def another(self) -> Serving:
        return Serving(self.settings, self.store, self.engines, self.metrics)

    async def candidate(self, name: str, shift: float = 0.5) -> str:
        return await self.serving.prepare(checkpoint(self.tmp_path, name, shift), "round-1")

    async def served(self, *names: str) -> list[str]:
        """Serve these checkpoints one after the other; returns their versions."""
        versions: list[str] = []
        for name in names:
            versions.append(await self.candidate(name))
            await self.serving.promote(versions[-1])
        return versions

    def alias(self) -> Alias:
        return self.store.alias("help/desk")

    def states(self) -> dict[str, str]:
        return {row.version.removeprefix("help/desk"): row.state for row in self.store.adapters()}

    def loaded(self) -> set[str]:
        """Return the versions both replicas have."""
        first, second = (set(engine.adapters) for engine in self.engines)
        assert first == second
        return first


@pytest.fixture
def w(tmp_path: Path):
    made = World(tmp_path)
    yield made
    made.store.close()


async def test_the_base_answers_until_something_is_promoted(w: World):
    assert w.serving.current() == "base"
    await w.serving.load_all()
    assert w.serving.current() == "base"
    assert w.serving.current_version() is None
    with pytest.raises(EngineError, match="nothing to roll back to"):
        w.serving.rollback()


async def test_a_candidate_has_its_own_name_and_folder_and_does_not_serve(w: World):
    first, second = await w.candidate("a"), await w.candidate("b")
    assert (first, second) == ("help/desk@v1", "help/desk@v2")
    paths = [Path(row.path) for row in w.store.adapters()]
    assert [path.name for path in paths] == ["help_desk@v1", "help_desk@v2"]
    assert all(path.parent == w.settings.adapters_dir for path in paths)
    shutil.rmtree(w.tmp_path / "a")
    assert (paths[0] / "adapter_model.safetensors").read_bytes() == b"a"
    assert w.serving.current() == "base"
    assert all(set(engine.adapters) == {second} for engine in w.engines)


async def test_preparing_the_same_checkpoint_again_is_the_same_version(w: World):
    first = await w.candidate("a")
    assert await w.another().prepare(w.tmp_path / "a", "round-1") == first


async def test_promote_flip_and_roll_back(w: World):
    await w.serving.load_all()
    first = await w.candidate("a")
    alias = await w.serving.promote(first)
    assert (alias.current, alias.previous, alias.generation) == (first, None, 1)
    assert w.serving.current() == first
    serving = w.serving.current_version()
    assert serving is not None
    assert Path(serving.path) == w.settings.adapters_dir / "help_desk@v1"
    second = await w.candidate("b")
    await w.serving.promote(second)
    assert w.states() == {"@v1": "previous", "@v2": "serving"}
    assert all(set(engine.adapters) == {first, second} for engine in w.engines)
    before = [list(engine.scored) for engine in w.engines]
    assert all(scored[-2:] == [second, first] for scored in before), "the version that stays behind was warmed last"
    rolled = w.serving.rollback()
    assert (rolled.current, rolled.previous, w.serving.current()) == (first, second, first)
    assert [engine.scored for engine in w.engines] == before
    assert w.states() == {"@v1": "serving", "@v2": "previous"}
    third = await w.candidate("c")
    await w.serving.promote(third)
    assert w.states() == {"@v1": "previous", "@v2": "retired", "@v3": "serving"}
    assert all(set(engine.adapters) == {first, third} for engine in w.engines)
    assert 'secondnature_swaps_total{result="promoted"} 3.0' in w.metrics.render().decode()


async def test_rollback_of_the_first_version_serves_the_base(w: World):
    version = await w.candidate("a")
    await w.serving.promote(version)
    w.serving.rollback()
    assert w.serving.current() == "base"
    assert w.serving.current_version() is None
    assert w.serving.rollback().current == version


async def test_promoting_what_serves_changes_nothing(w: World):
    version = await w.candidate("a")
    first = await w.serving.promote(version)
    assert await w.serving.promote(version) == first


async def test_an_adapter_the_engine_refuses_is_marked_and_the_current_one_stays(w: World):
    served = await w.candidate("a")
    await w.serving.promote(served)
    w.engines[1].refuses = REFUSAL
    with pytest.raises(VersionError, match="max_lora_rank") as refused:
        await w.candidate("b")
    assert (refused.value.status, refused.value.passing) == (500, False)
    assert w.states() == {"@v1": "serving", "@v2": "refused"}
    assert w.serving.current() == served
    assert w.loaded() == {served}, "a refused version takes no slot of the replica that took it"


async def test_an_engine_that_ignores_the_adapter_is_found_out(w: World):
    version = await w.candidate("a")
    w.engines[1].ignores_adapters = True
    with pytest.raises(EngineError, match="does not serve what was learnt"):
        await w.serving.promote(version)
    assert w.serving.current() == "base"
    assert w.store.alias("help/desk").generation == 0


async def test_a_shift_too_small_to_tell_is_held(w: World):
    version = await w.candidate("a", shift=0.001)
    with pytest.raises(EngineError, match="too little to tell"):
        await w.serving.promote(version)
    assert w.serving.current() == "base"


@pytest.mark.parametrize("damage", ["changed", "missing", "no manifest"])
async def test_a_damaged_checkpoint_is_refused(w: World, damage: str):
    path = checkpoint(w.tmp_path, "a")
    if damage == "changed":
        (path / "adapter_model.safetensors").write_bytes(b"other")
    else:
        (path / (PROBE_FILE if damage == "missing" else MANIFEST_FILE)).unlink()
    with pytest.raises(CheckpointError):
        await w.serving.prepare(path, "round-1")
    assert w.states() == {}
    assert not w.settings.adapters_dir.exists() or not list(w.settings.adapters_dir.iterdir())


def damage(w: World, version: str) -> None:
    """Cut off a published version's weights."""
    (row,) = [row for row in w.store.adapters() if row.version == version]
    (Path(row.path) / "adapter_model.safetensors").unlink()
    (Path(row.path) / "adapter_model.safetensors").write_bytes(b"")


async def test_a_promotion_of_what_is_damaged_changes_nothing(w: World):
    first, second = await w.served("a", "b")
    retired = await w.candidate("c")
    await w.serving.discard(retired)
    held = await w.candidate("d")
    damage(w, retired)
    before = w.states()
    assert before["@v3"] == "retired"
    with pytest.raises(CheckpointError, match="differs"):
        await w.serving.promote(retired)
    assert w.states() == before
    assert w.loaded() == {first, second, held}


async def test_a_restart_tells_which_versions_are_not_loaded(w: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, second = await w.served("a", "b")
    assert w.serving.not_loaded() == {}
    weights = Path(w.store.adapters()[0].path), Path(w.store.adapters()[1].path)
    damage(w, second)
    for engine in w.engines:
        engine.adapters.clear()
    restarted = w.another()
    await restarted.load_all()
    assert restarted.current() == second
    assert list(restarted.not_loaded()) == [second]
    assert w.loaded() == {first}
    recorder = Recorder(SqliteLog(tmp_path / "log.sqlite", "g"), tmp_path / "spool")
    health = Health(w.metrics, lambda: Check(ok=True), recorder, None, restarted)
    assert f"{second} is not loaded, the base answers in its place" in health.checks()["serving"].reason

    monkeypatch.setattr("daemon.serving.RELOAD_EVERY_S", 0.0)
    stop = asyncio.Event()
    watching = asyncio.create_task(restarted.watch(stop))
    shutil.copy(w.tmp_path / "b" / "adapter_model.safetensors", weights[1])
    await until(lambda: restarted.not_loaded() == {})
    assert w.loaded() == {first, second}
    assert health.checks()["serving"].reason == ""
    stop.set()
    async with asyncio.timeout(TIMEOUT_S):
        await watching
    await asyncio.to_thread(recorder.close)


async def test_what_an_engine_still_has_is_loaded_whatever_became_of_its_files(w: World):
    _, second = await w.served("a", "b")
    damage(w, second)
    restarted = w.another()
    await restarted.load_all()
    assert restarted.not_loaded() == {}
    w.engines[1].adapters.pop(second)
    restarted.report_missing(second)
    assert list(restarted.not_loaded()) == [second]
    await restarted.load_all()
    assert "differs" in restarted.not_loaded()[second]


async def test_a_version_without_probes_is_not_promoted(w: World):
    path = checkpoint(w.tmp_path, "a")
    manifest = json.loads((path / MANIFEST_FILE).read_text())
    del manifest["files"][PROBE_FILE]
    (path / MANIFEST_FILE).write_text(json.dumps(manifest))
    (path / PROBE_FILE).unlink()
    version = await w.serving.prepare(path, "round-1")
    with pytest.raises(CheckpointError, match="cannot be checked"):
        await w.serving.promote(version)


async def test_an_unknown_version(w: World):
    with pytest.raises(EngineError, match="no version 'help/desk@v9'"):
        await w.serving.promote("help/desk@v9")


async def test_a_folder_left_by_a_killed_daemon_is_never_written_over(w: World):
    left = w.settings.adapters_dir / "help_desk@v1"
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"")
    assert await w.candidate("a") == "help/desk@v2"
    assert [file.name for file in left.iterdir()] == ["half"]


async def test_a_restarted_engine_and_daemon_load_both_versions_again(w: World):
    first, second = await w.candidate("a"), ""
    await w.serving.promote(first)
    second = await w.candidate("b")
    await w.serving.promote(second)
    for engine in w.engines:
        engine.adapters.clear()
    restarted = w.another()
    await restarted.load_all()
    assert restarted.current() == second
    assert all(set(engine.adapters) == {first, second} for engine in w.engines)


async def test_a_discarded_candidate_is_unloaded_and_can_still_be_promoted_by_a_person(w: World):
    version = await w.candidate("a")
    await w.serving.discard(version)
    assert w.states() == {"@v1": "retired"}
    assert not any(engine.adapters for engine in w.engines)
    await w.serving.promote(version)
    assert w.serving.current() == version


async def test_the_watcher_follows_other_processes_and_reloads_what_is_missing(w: World):
    first = await w.candidate("a")
    follower = w.another()
    await follower.load_all()
    stop = asyncio.Event()
    watching = asyncio.create_task(follower.watch(stop))
    await w.serving.promote(first)
    await until(lambda: follower.current() == first)
    w.serving.rollback()
    await until(lambda: follower.current() == "base")
    w.serving.rollback()
    await until(lambda: follower.current() == first)
    w.engines[0].adapters.clear()
    follower.report_missing(first)
    await until(lambda: first in w.engines[0].adapters)
    stop.set()
    async with asyncio.timeout(TIMEOUT_S):
        await watching


def move_files(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for file in source.glob("store.sqlite*"):
        file.rename(target / file.name)


async def test_serving_goes_on_while_the_store_is_away(w: World, tmp_path: Path):
    version = await w.candidate("a")
    await w.serving.promote(version)
    w.store.close()
    move_files(w.settings.data_dir, tmp_path / "away")
    in_its_place = w.settings.data_dir / "store.sqlite"
    in_its_place.mkdir()
    stop = asyncio.Event()
    watching = asyncio.create_task(w.serving.watch(stop))
    with pytest.raises(StoreUnavailableError):
        w.serving.rollback()
    assert w.serving.current() == version
    in_its_place.rmdir()
    move_files(tmp_path / "away", w.settings.data_dir)
    assert w.serving.rollback().current is None
    stop.set()
    async with asyncio.timeout(TIMEOUT_S):
        await watching


async def test_a_flip_by_another_process_during_a_swap_wins(w: World, monkeypatch: pytest.MonkeyPatch):
    first = await w.candidate("a")
    await w.serving.promote(first)
    second = await w.candidate("b")
    other = w.another()
    score = w.engines[0].score

    async def score_and_roll_back(model: str, ids: Sequence[int], start: int) -> list[float]:
        if other.alias() is None:
            await asyncio.to_thread(other.rollback)
        return await score(model, ids, start)

    monkeypatch.setattr(w.engines[0], "score", score_and_roll_back)
    with pytest.raises(AliasMovedError, match="flipped to the base model meanwhile"):
        await w.serving.promote(second)
    assert w.store.alias("help/desk").current is None


async def test_a_rollback_leaves_the_version_it_was_told_to_and_is_safe_to_repeat(w: World):
    first, second = await w.served("a", "b")
    rolled = w.serving.rollback(leave=second)
    assert rolled.current == first
    assert w.serving.rollback(leave=second) == w.another().rollback(leave=second) == rolled
    assert w.serving.rollback(leave=first).current == second
    assert w.serving.rollback(leave="help/desk@v9") == w.alias()


async def test_leaving_the_base_goes_forward(w: World):
    assert w.serving.rollback(leave="help/desk@v1").generation == 0
    (first,) = await w.served("a")
    w.serving.rollback(leave=first)
    assert w.serving.rollback(leave=first).current is None
    assert w.serving.rollback(leave="base").current == first
    assert w.serving.rollback(leave="base").current == first


async def test_a_promotion_decided_before_a_rollback_is_not_carried_out(w: World):
    first, second = await w.served("a", "b")
    seen = w.alias().generation
    third = await w.candidate("c")
    w.another().rollback()
    with pytest.raises(AliasMovedError, match=f"flipped to {first} meanwhile"):
        await w.serving.promote(third, expected_generation=seen)
    assert (w.alias().current, w.alias().previous) == (first, second)
    assert (await w.serving.promote(third, expected_generation=seen + 1)).current == third
    assert (await w.serving.promote(third, expected_generation=seen)).current == third, "already so"


@pytest.mark.parametrize("status", [None, 408, 429, 502, 503, 504])
async def test_an_engine_that_is_away_refuses_nothing(w: World, status: int | None):
    w.engines[1].refuses = EngineError("away", status=status)
    with pytest.raises(EngineError, match="away") as raised:
        await w.candidate("a")
    assert raised.value.passing
    assert w.states() == {"@v1": "candidate"}
    w.engines[1].refuses = None
    assert await w.serving.prepare(w.tmp_path / "a", "round-1") == "help/desk@v1"
    assert w.loaded() == {"help/desk@v1"}


async def test_a_version_that_another_process_loads_first_is_loaded(w: World, monkeypatch: pytest.MonkeyPatch):
    load = w.engines[0].load_adapter

    async def load_twice(name: str, path: Path) -> None:
        await load(name, path)
        await load(name, path)

    monkeypatch.setattr(w.engines[0], "load_adapter", load_twice)
    assert await w.candidate("a") == "help/desk@v1"
    assert w.loaded() == {"help/desk@v1"}


@pytest.mark.parametrize("state", ["candidate", "serving", "previous", "retired", "refused"])
async def test_one_checkpoint_is_one_version_whatever_became_of_it(w: World, state: str):
    if state in ("serving", "previous"):
        await w.served("a", *(["b"] if state == "previous" else []))
    elif state == "refused":
        w.engines[1].refuses = REFUSAL
        with pytest.raises(VersionError):
            await w.candidate("a")
        w.engines[1].refuses = None
    else:
        version = await w.candidate("a")
        if state == "retired":
            await w.serving.discard(version)
    assert w.states()["@v1"] == state
    before = w.alias()
    assert await w.another().prepare(w.tmp_path / "a", "round-2") == "help/desk@v1"
    assert w.states()["@v1"] == (state if state in ("serving", "previous") else "candidate")
    assert "help/desk@v1" in w.loaded()
    assert w.alias() == before


async def test_what_the_alias_names_is_neither_discarded_nor_refused(w: World):
    first, second = await w.served("a", "b")
    await w.serving.discard(first)
    await w.serving.discard(second)
    w.engines[1].adapters.pop(first)
    w.engines[1].refuses = REFUSAL
    with pytest.raises(VersionError):
        await w.serving.promote(first)
    assert w.states() == {"@v1": "previous", "@v2": "serving"}
    assert set(w.engines[0].adapters) == {first, second}
    assert w.serving.rollback().current == first


async def test_no_more_is_loaded_than_what_serves_what_served_and_one_candidate(w: World):
    versions = await w.served("a", "b")
    for name in ("c", "d"):
        held = await w.candidate(name)
        assert w.loaded() == {*versions, held}
    await w.serving.promote("help/desk@v3")
    assert w.loaded() == {versions[1], "help/desk@v3"}
    assert w.states() == {"@v1": "retired", "@v2": "previous", "@v3": "serving", "@v4": "candidate"}


async def test_a_promotion_loads_again_what_the_engine_has_lost(w: World):
    (first,) = await w.served("a")
    second = await w.candidate("b")
    w.engines[1].adapters.clear()
    await w.serving.promote(second)
    assert w.loaded() == {first, second}


async def test_a_promotion_goes_on_without_the_version_that_stays_behind(w: World):
    (first,) = await w.served("a")
    second = await w.candidate("b")
    (w.settings.adapters_dir / "help_desk@v1" / "adapter_model.safetensors").unlink()
    alias = await w.serving.promote(second)
    assert (alias.current, alias.previous) == (second, first)


async def test_a_start_unloads_what_nobody_waits_for_and_no_one_elses(w: World):
    first, second = await w.served("a", "b")
    held, left = await w.candidate("c"), "help/desk@v7"
    for engine in w.engines:
        engine.adapters |= {left: w.tmp_path, "help/desk@vip": w.tmp_path, "other@v7": w.tmp_path}
    await w.another().load_all()
    assert w.loaded() == {first, second, held, "help/desk@vip", "other@v7"}


class Killed(BaseException):
    """The daemon ends here and now."""


class Breaker:
    """Breaks one of the calls that serving makes to its store and engines, before or after it took effect."""

    def __init__(self, w: World, patch: pytest.MonkeyPatch, step: int, *, after: bool, killed: bool) -> None:
        self.step, self.after, self.killed = step, after, killed
        self.calls = 0
        self.broken = ""
        """Name of the call that was broken; empty when there were too few."""
        for name in ("alias", "flip", "adapters", "put_adapter", "set_adapter_state"):
            patch.setattr(w.store, name, self._wrapped(getattr(w.store, name), StoreUnavailableError("gone")))
        for engine in w.engines:
            for name in ("models", "load_adapter", "unload_adapter", "score"):
                patch.setattr(engine, name, self._wrapped(getattr(engine, name), EngineError("gone", status=503)))

    def _wrapped(self, call: Callable[..., Any], error: SecondNatureError) -> Callable[..., Any]:
        @contextmanager
        def breaking() -> Generator[None]:
            self.calls += 1
            breaks = self.calls == self.step
            failure = Killed() if self.killed else error
            if breaks:
                self.broken = call.__name__
            if breaks and not self.after:
                raise failure
            yield
            if breaks:
                raise failure

        async def asked(*args: Any) -> Any:
            with breaking():
                return await call(*args)

        def stored(*args: Any) -> Any:
            with breaking():
                return call(*args)

        return asked if iscoroutinefunction(call) else stored


async def roll_back(w: World) -> None:
    await asyncio.to_thread(w.serving.rollback)


CHANGES: dict[str, Callable[[World], Awaitable[Any]]] = {
    "prepare": lambda w: w.candidate("d"),
    "prepare again": lambda w: w.serving.prepare(w.tmp_path / "c", "round-1"),
    "promote": lambda w: w.serving.promote("help/desk@v3"),
    "discard": lambda w: w.serving.discard("help/desk@v3"),
    "roll back": roll_back,
    "load all": lambda w: w.serving.load_all(),
}


@pytest.fixture
async def begun(w: World) -> World:
    """A world with one version serving, one before it, and one waiting; an engine has lost the one that serves."""
    await w.served("a", "b")
    await w.candidate("c")
    w.engines[1].adapters.pop("help/desk@v2")
    w.store.close()
    return w


def copy_of(w: World, folder: Path) -> World:
    copied = shutil.copytree(w.tmp_path, folder)
    made = World(copied)
    for engine, known in zip(made.engines, w.engines, strict=True):
        engine.adapters = dict(known.adapters)
    made.serving = made.another()
    return made


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "failed"])
@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_broken_anywhere_leaves_what_a_restart_puts_right(
    begun: World, tmp_path_factory: pytest.TempPathFactory, change: str, after: bool, killed: bool
):
    folder = tmp_path_factory.mktemp("copies")
    before = begun.alias()
    begun.store.close()
    for step in count(1):
        w = copy_of(begun, folder / str(step))
        raised = False
        with pytest.MonkeyPatch.context() as patch:
            breaker = Breaker(w, patch, step, after=after, killed=killed)
            try:
                await CHANGES[change](w)
            except (Killed, SecondNatureError):
                raised = True
        if not breaker.broken:
            assert step > 1
            assert not raised
            w.store.close()
            break
        now = w.alias()
        if raised and not killed and breaker.broken != "flip":
            assert now == before, "what raised changed what serves"
        await check_sound(w, now)
        w.store.close()


async def check_sound(w: World, alias: Alias) -> None:
    """A restarted daemon serves by the alias, tells its states, makes room for a candidate, and can roll back."""
    restarted = w.serving = w.another()
    await restarted.load_all()
    assert restarted.current() == alias.current
    assert {v: s for v, s in w.states().items() if s in ("serving", "previous")} == {
        str(alias.current).removeprefix("help/desk"): "serving",
        str(alias.previous).removeprefix("help/desk"): "previous",
    }
    waiting = {f"help/desk{v}" for v, state in w.states().items() if state == "candidate"}
    for engine in w.engines:
        assert {alias.current, alias.previous} <= set(engine.adapters) <= {alias.current, alias.previous, *waiting}
    candidate = await w.candidate("e")
    assert w.loaded() == {alias.current, alias.previous, candidate}
    assert restarted.rollback(leave=alias.current).current == alias.previous
    assert {alias.current, alias.previous} <= w.loaded()
