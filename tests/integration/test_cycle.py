"""The street behind the log, with a real store, a real engine, a real learner; things go wrong on the way."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from traffic import exchange, said

from daemon.config import Settings, load
from daemon.cycle import Cycle
from daemon.embedded_process import EmbeddedEngine
from daemon.engine import EngineClient
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.store import Ingested, Store
from harness_adapters.errors import EngineError
from harness_adapters.exchange import Exchange
from harness_adapters.sessions import assign
from hinting.hint import HintState
from hinting.model import Sampling

WAIT_S = 120.0
SESSIONS = 16


class RefusingEngine(EngineClient):
    """The engine, as one that has no room for adapters."""

    async def load_adapter(self, name: str, path: Path) -> None:
        raise EngineError(f"{name} at {path} was refused: rank 8 is more than max_lora_rank 1", status=500)


def session(number: int) -> list[Exchange]:
    """Ask, complain, be thankful."""
    messages = [said("user", f"How do I return order {number}?")]
    long, short = f"You go to page {number} and then you write a letter and wait.", f"On page {number}."
    first = exchange(f"{number}-a", messages, long, sequence=10 * number)
    messages += [said("assistant", long), said("user", "That is far too long, one sentence please.")]
    second = exchange(f"{number}-b", messages, short, sequence=10 * number + 1)
    messages += [said("assistant", short), said("user", "Perfect, thank you!")]
    return [first, second, exchange(f"{number}-c", messages, "Bye.", sequence=10 * number + 2)]


def settings_for(base: Path, folder: Path, **rounds: Any) -> Settings:
    never = {"kind": "rule", "name": "never", "clauses": [{"matches": "^this is never sampled$"}]}
    return load(
        None,
        {
            "data_dir": folder,
            "model": {"name": "desk", "path": base},
            "graders": [never],
            "hints": {"rollouts": 1, "max_tokens": 8, "train_unverified": True},
            "rounds": {"min_hints": 2, "min_validate": 1, "min_gate": 1, "poll_s": 0.05, **rounds},
            "learner": {
                "threads": 1,
                "optimizer": {"learning_rate": 0.01},
                "batch": {"repair": 4, "preserve": 2},
                "generation": {"max_new_tokens": 8},
                "stopping": {"max_steps": 2, "validate_every": 1},
            },
        },
    )


class Street:
    """Everything between the tail and the alias."""

    def __init__(self, settings: Settings, engine: EngineClient, url: str = "") -> None:
        self.settings = settings
        self.url = url
        self.store = Store(settings.store_url)
        self.engine = engine
        self.serving = Serving(settings, self.store, [engine], Metrics())

    def ingest(self) -> None:
        for number in range(SESSIONS):
            for made in session(number):
                place = assign(made, self.store)
                self.store.ingest([Ingested(made, place.session_id, place.root, place.keys)])

    def cycle(self, **changes: Any) -> Cycle:
        serving = changes.get("serving", self.serving)
        return Cycle(self.settings, self.store, self.engine, serving, Metrics())

    async def hinted(self) -> Cycle:
        """Walk as far as tried hints."""
        self.ingest()
        cycle = self.cycle()
        await cycle.read_sessions()
        await cycle.write_hints()
        cycle.ask_for_round()
        return cycle


@pytest.fixture
async def street(tiny_base: Path, tmp_path: Path) -> AsyncGenerator[Street]:
    settings = settings_for(tiny_base, tmp_path)
    child = await EmbeddedEngine.start(tiny_base, threads=1)
    try:
        async with aiohttp.ClientSession() as session:
            walked = Street(settings, EngineClient(child.base_url, session), child.base_url)
            yield walked
            walked.store.close()
    finally:
        await child.stop()


async def until(found: Callable[[], Any]) -> Any:
    async with asyncio.timeout(WAIT_S):
        while not (answer := found()):  # noqa: ASYNC110 - what is waited for is another process
            await asyncio.sleep(0.02)
    return answer


def learners() -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for child in psutil.Process().children(recursive=True):
        try:
            if "learner.run" in child.cmdline():
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


async def test_corrections_become_hints_and_a_candidate_that_the_gate_holds(street: Street) -> None:
    cycle = await street.hinted()
    signals = street.store.signals(limit=100)
    assert len(signals) == SESSIONS
    assert {signal.target for signal in signals} == {1}
    hints = street.store.hints(limit=1000)
    assert {hint.trace_id for hint in hints} == {signal.trace_id for signal in signals}
    assert all(hint.trials for hint in hints if hint.state is HintState.FAILED)
    assert await cycle.run_rounds()
    (row,) = street.store.rounds()
    assert row.state in ("held", "rejected"), row.body
    assert row.body["candidate"] == "desk@v1"
    assert "desk@v1" in await street.engine.models() or row.state == "rejected"
    assert street.serving.current() == "base"
    (verdict,) = street.store.verdicts()
    assert verdict.body["figures"]
    assert verdict.body["against"] == "base"
    assert street.store.used_hints() <= {hint.id for hint in hints}
    assert street.store.used_hints()


async def test_a_killed_learner_fails_its_round_and_frees_its_hints(street: Street) -> None:
    cycle = await street.hinted()
    running = asyncio.create_task(cycle.run_rounds())
    (learner,) = await until(learners)
    learner.kill()
    assert await running
    (row,) = street.store.rounds()
    assert row.state == "failed"
    assert "ended with code -9" in row.body["reason"]
    assert not street.store.used_hints()
    assert street.serving.current() == "base"
    cycle.ask_for_round()
    assert await cycle.run_rounds()
    assert [round_row.state for round_row in street.store.rounds()][1] in ("held", "rejected")


async def test_a_stopped_daemon_takes_its_round_up_again(street: Street) -> None:
    cycle = await street.hinted()
    running = asyncio.create_task(cycle.run_rounds())
    await until(learners)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not learners(), "a learner outlived its daemon"
    assert [row.state for row in street.store.rounds()] == ["running"]
    assert await street.cycle().run_rounds()
    (row,) = street.store.rounds()
    assert row.state in ("held", "rejected"), row.body


async def test_an_engine_that_refuses_the_adapter_keeps_serving(street: Street) -> None:
    await street.hinted()
    async with aiohttp.ClientSession() as session:
        refusing = RefusingEngine(street.url, session)
        cycle = street.cycle(serving=Serving(street.settings, street.store, [refusing], Metrics()))
        cycle.ask_for_round()
        assert await cycle.run_rounds()
    (row,) = street.store.rounds()
    assert row.state == "rejected"
    assert "max_lora_rank" in row.body["reason"]
    assert street.serving.current() == "base"
    assert (await street.engine.complete("base", [5, 6], Sampling(max_tokens=2))).ids


async def test_signals_wait_while_the_engine_is_away(street: Street) -> None:
    street.ingest()
    async with aiohttp.ClientSession() as session:
        away = Street(street.settings, EngineClient("http://127.0.0.1:9", session))
        cycle = away.cycle()
        await cycle.read_sessions()
        await cycle.write_hints()
        away.store.close()
    assert len(street.store.signals("new", 100)) == SESSIONS
    assert not street.store.hints()
    await street.cycle().write_hints()
    assert not street.store.signals("new", 100)


async def test_a_round_without_material_says_what_it_waits_for(street: Street) -> None:
    cycle = street.cycle()
    assert not await cycle.run_rounds()
    assert cycle.waits_for == "0 of 2 hinted turns on the train side"
    assert not street.store.rounds()
