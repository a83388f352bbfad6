"""The street behind the log, with a real store, a real engine, a real learner; things go wrong on the way."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from traffic import exchange, said

from daemon import gatekeeper, rounds
from daemon.config import Settings, load
from daemon.cycle import MOST_FAILURES, Cycle
from daemon.embedded_process import EmbeddedEngine
from daemon.engine import EngineClient
from daemon.gatekeeper import Gatekeeper
from daemon.lessons import MOST_TRIES
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.store import Alias, Ingested, Store
from harness_adapters.errors import EngineError, StoreError
from harness_adapters.exchange import Exchange, Feedback
from harness_adapters.sessions import assign
from hinting.hint import HintState
from hinting.model import Completion, Sampling
from hinting.verify import UNGRADED
from learner.config import GateBounds
from learner.gate import CaseResult, Decision, Verdict

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
    # A rule that applies to nothing: the graders abstain, and hints may teach unverified.
    never = {"kind": "rule", "name": "never", "clauses": [{"when_user_matches": "^nobody asks this$", "max_chars": 9}]}
    return load(
        None,
        {
            "data_dir": folder,
            "model": {"name": "desk", "path": base},
            "graders": [never],
            "hints": {"rollouts": 1, "max_tokens": 8, "train_unverified": True},
            "rounds": {"min_hints": 2, "min_validate": 1, "min_gate": 1, "poll_s": 0.05, "settle_s": 0, **rounds},
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
        await cycle.lessons.read_sessions()
        await cycle.lessons.write_hints()
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
    assert {hint.reason for hint in hints if hint.state is HintState.FAILED} == {UNGRADED}
    assert await cycle.run_rounds()
    (row,) = street.store.rounds()
    assert row.state in ("held", "rejected"), row.body
    assert row.body["candidate"] == "desk@v1"
    assert "desk@v1" in await street.engine.models() or row.state == "rejected"
    assert street.serving.current() == "base"
    (verdict,) = street.store.verdicts()
    assert verdict.body["figures"]
    assert verdict.body["against"] == "base"
    assert verdict.body["ungraded"]
    held = rounds.gather(street.store, street.settings)
    assert held.flagged["train"], "what came to nothing may try again"
    assert "that no round has tried" in (rounds.enough(held, street.settings) or "")
    alias = await street.serving.promote("desk@v1")
    assert alias.current == "desk@v1"
    await until(lambda: street.serving.current() == "desk@v1")
    serving = rounds.gather(street.store, street.settings)
    assert not serving.flagged["train"], "what serves was taught"
    assert len(serving.flagged["gate"]) == len(held.flagged["gate"])
    street.serving.rollback()
    back = rounds.gather(street.store, street.settings)
    assert len(back.flagged["train"]) == len(held.flagged["train"]), "what was rolled back is not taught any more"
    assert back.fresh == 0


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> list[Decision]:
    """The gate measures as ever, and decides what is in the list, the last word for ever."""
    said = [Decision.PROMOTE]

    def judge(results: Sequence[CaseResult], bounds: GateBounds) -> Verdict:
        decision = said.pop(0) if len(said) > 1 else said[0]
        return replace(measured(results, bounds), decision=decision, reasons=("said so",))

    measured = gatekeeper.judge
    monkeypatch.setattr(gatekeeper, "judge", judge)
    return said


async def test_a_candidate_that_passes_its_gate_serves(street: Street, verdicts: list[Decision]) -> None:
    cycle = await street.hinted()
    assert await cycle.run_rounds()
    (row,) = street.store.rounds()
    assert row.state == "promoted", row.body
    assert row.body["swap_s"] > 0
    assert street.serving.current() == row.body["candidate"] == "desk@v1"
    assert street.store.alias("desk").current == "desk@v1"
    assert not rounds.gather(street.store, street.settings).flagged["train"], "what serves was taught"
    cycle.ask_for_round()
    assert not await cycle.run_rounds()
    assert "nothing to learn" in cycle.waits_for
    assert verdicts == [Decision.PROMOTE]


async def test_a_candidate_stays_published_while_the_engine_is_away_and_is_measured_once(
    street: Street, verdicts: list[Decision]
) -> None:
    cycle = await street.hinted()

    class Away(Serving):
        async def promote(self, version: str, expected_generation: int | None = None) -> Alias:
            raise EngineError(f"{version} at {expected_generation}: connection refused", status=503)

    serving = Away(street.settings, street.store, [street.engine], Metrics())
    away = street.cycle(serving=serving)
    away.ask_for_round()
    with pytest.raises(EngineError):
        await away.run_rounds()
    assert [row.state for row in street.store.rounds()] == ["published"]
    verdicts[:] = [Decision.REJECT]
    assert await cycle.run_rounds(), "the verdict stands, as it was stored"
    assert [row.state for row in street.store.rounds()] == ["promoted"]
    assert street.serving.current() == "desk@v1"


async def test_a_flip_by_a_person_during_the_gate_is_not_overruled(street: Street, verdicts: list[Decision]) -> None:
    cycle = await street.hinted()
    assert await cycle.run_rounds()
    street.serving.rollback()

    class Flipped(Gatekeeper):
        async def examine(self, candidate: str, serving: str) -> tuple[Verdict, dict[str, Any]]:
            found = await super().examine(candidate, serving)
            await street.serving.promote("desk@v1")
            return found

    cycle.ask_for_round()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gatekeeper, "Gatekeeper", Flipped)
        assert await cycle.run_rounds()
    last = street.store.rounds()[-1]
    assert last.state == "held"
    assert "generation" in last.body["reason"]
    assert street.serving.current() == "desk@v1"
    assert verdicts


async def test_without_a_gate_the_verdict_is_recorded_and_not_obeyed(street: Street, verdicts: list[Decision]) -> None:
    verdicts[:] = [Decision.REJECT]
    await street.hinted()
    gate = street.settings.gate.model_copy(update={"enabled": False})
    street.settings = street.settings.model_copy(update={"gate": gate})
    cycle = street.cycle()
    cycle.ask_for_round()
    assert await cycle.run_rounds()
    assert [row.state for row in street.store.rounds()] == ["promoted"]
    assert [verdict.decision for verdict in street.store.verdicts()] == ["reject"]


async def test_a_kept_folder_of_an_older_store_is_left_alone(street: Street) -> None:
    old = street.settings.rounds_dir / "round-0001"
    old.mkdir(parents=True)
    (old / "checkpoint").mkdir()
    cycle = await street.hinted()
    assert await cycle.run_rounds()
    assert [row.id for row in street.store.rounds()] == ["round-0002"]
    assert not list((old / "checkpoint").iterdir())


async def test_a_store_that_is_locked_loses_no_request_for_a_round(street: Street) -> None:
    cycle = await street.hinted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "glance", locked)
        with pytest.raises(StoreError):
            await cycle.run_rounds()
    assert await cycle.run_rounds()
    assert len(street.store.rounds()) == 1


def locked(*_: object, **__: object) -> rounds.Material:
    raise StoreError("the store is locked by another program")


async def test_a_hint_of_a_turn_that_is_gone_stops_no_round(street: Street) -> None:
    cycle = await street.hinted()
    hint = next(hint for hint in street.store.hints(limit=1000) if hint.text)
    street.store.put_hint(replace(hint, id="stray", target=99))
    street.store.put_hint(replace(hint, id="odd", target=0))
    found = rounds.gather(street.store, street.settings)
    assert {turn.hint.target for side in found.flagged.values() for turn in side} == {1}
    assert await cycle.run_rounds()


async def test_a_killed_learner_fails_its_round_and_frees_its_hints(street: Street) -> None:
    cycle = await street.hinted()
    running = asyncio.create_task(cycle.run_rounds())
    (learner,) = await until(learners)
    learner.kill()
    assert await running
    (row,) = street.store.rounds()
    assert row.state == "failed"
    assert "ended with code -9" in row.body["reason"]
    assert rounds.gather(street.store, street.settings).fresh
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
        await cycle.lessons.read_sessions()
        await cycle.lessons.write_hints()
        away.store.close()
    assert len(street.store.signals("new", 100)) == SESSIONS
    assert not street.store.hints()
    await street.cycle().lessons.write_hints()
    assert not street.store.signals("new", 100)


async def test_a_signal_on_which_the_engine_always_fails_gives_way(street: Street) -> None:
    street.ingest()

    class Failing(EngineClient):
        async def complete(self, model: str, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
            raise EngineError(f"{model}: the engine's worker raised IndexError", status=500)

    async with aiohttp.ClientSession() as session:
        cycle = Cycle(street.settings, street.store, Failing(street.url, session), street.serving, Metrics())
        await cycle.lessons.read_sessions()
        for _ in range(MOST_TRIES - 1):
            assert not await cycle.lessons.write_hints()
        assert await cycle.lessons.write_hints()
    assert not street.store.signals("new", 100)
    (row, *_) = street.store.signal_rows("set_aside", 100)
    assert "IndexError" in row.reason


async def test_a_learner_that_fails_every_time_is_not_started_for_ever(street: Street) -> None:
    cycle = await street.hinted()
    nowhere = street.settings.model.model_copy(update={"path": street.settings.data_dir / "nowhere"})
    broken = street.settings.model_copy(update={"model": nowhere})
    failing = Cycle(broken, street.store, street.engine, street.serving, Metrics())
    for _ in range(MOST_FAILURES + 3):
        await failing.run_rounds()
    assert [row.state for row in street.store.rounds()] == ["failed"] * MOST_FAILURES
    assert "a person" in failing.waits_for
    assert await cycle.run_rounds(), "asked for, it is tried again"


async def test_a_session_nobody_foresaw_blocks_no_other(street: Street) -> None:
    odd = exchange("odd", [said("user", "Hello?")], "Yes.", sequence=1)
    street.store.ingest([Ingested(odd, "odd", "odd", ())])
    with sqlite3.connect(street.settings.data_dir / "store.sqlite") as raw:
        raw.execute("update exchanges set body = substr(body, 1, 40)")
    raw.close()
    street.ingest()
    cycle = street.cycle()
    while await cycle.lessons.read_sessions():
        pass
    assert len(street.store.signals(limit=100)) == SESSIONS
    assert street.store.counts()["dead_letters"] == 1
    (letter,) = street.store.dead_letters(10)
    assert letter.place == "session odd"
    assert letter.reason


async def test_two_signals_on_one_turn_share_their_hint(street: Street) -> None:
    street.ingest()
    said_apart = Feedback(
        id="fb", response_id="resp-3-a", tenant="default", created_at=1.0, comment="That is far too long, one sentence."
    )
    street.store.put_feedback(said_apart)
    await street.cycle().find_lessons()
    signals = [s for s in street.store.signals(limit=100) if s.kind.value == "feedback"]
    assert len(signals) == 1
    shared = [hint for hint in street.store.hints(limit=1000) if signals[0].id in hint.signal_ids]
    assert any(len(hint.signal_ids) == 2 for hint in shared)


async def test_a_round_without_material_says_what_it_waits_for(street: Street) -> None:
    cycle = street.cycle()
    assert not await cycle.run_rounds()
    assert cycle.waits_for == "0 of 2 hinted turns on the train side"
    assert not street.store.rounds()
    hints = street.settings.hints.model_copy(update={"train_unverified": False})
    ungraded = street.settings.model_copy(update={"graders": (), "hints": hints})
    cycle = Cycle(ungraded, street.store, street.engine, street.serving, Metrics())
    assert not await cycle.run_rounds()
    assert cycle.waits_for.startswith("a grader")
