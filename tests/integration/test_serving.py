import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from proxy_world import TIMEOUT_S, until

from daemon.config import Settings, load
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.store import Store
from harness_adapters.errors import CheckpointError, EngineError, StoreUnavailableError
from learner.manifest import MANIFEST_FILE, Manifest, sha256_of
from learner.probe import PROBE_FILE, Probe, Probes

IDS = tuple(range(20))
START = 4
BEFORE = tuple(-2.0 for _ in IDS[START:])


class ScriptedEngine:
    """A replica that scores as the loaded adapter's probes say, unless told to behave like vLLM at its worst."""

    def __init__(self) -> None:
        self.adapters: dict[str, Path] = {}
        self.refuses = False
        self.ignores_adapters = False
        self.scored: list[str] = []

    async def models(self) -> list[str]:
        return ["base", *self.adapters]

    async def load_adapter(self, name: str, path: Path) -> None:
        if self.refuses:
            raise EngineError("rank 128 is more than max_lora_rank", status=500)
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

    def states(self) -> dict[str, str]:
        return {row.version.removeprefix("help/desk"): row.state for row in self.store.adapters()}


@pytest.fixture
def w(tmp_path: Path):
    made = World(tmp_path)
    yield made
    made.store.close()


async def test_the_base_answers_until_something_is_promoted(w: World):
    assert w.serving.current() == "base"
    await w.serving.load_all()
    assert w.serving.current() == "base"
    assert w.serving.current_checkpoint() is None
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
    assert w.serving.current_checkpoint() == w.settings.adapters_dir / "help_desk@v1"
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
    assert w.serving.current_checkpoint() is None
    assert w.serving.rollback().current == version


async def test_promoting_what_serves_changes_nothing(w: World):
    version = await w.candidate("a")
    first = await w.serving.promote(version)
    assert await w.serving.promote(version) == first


async def test_an_adapter_the_engine_refuses_is_marked_and_the_current_one_stays(w: World):
    served = await w.candidate("a")
    await w.serving.promote(served)
    w.engines[1].refuses = True
    with pytest.raises(EngineError, match="max_lora_rank") as refused:
        await w.candidate("b")
    assert refused.value.status == 500
    assert w.states() == {"@v1": "serving", "@v2": "refused"}
    assert w.serving.current() == served


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
    with pytest.raises(EngineError, match="flipped to the base model meanwhile"):
        await w.serving.promote(second)
    assert w.store.alias("help/desk").current is None
