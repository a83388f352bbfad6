"""Engines that answer oddly, late or not at all."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import aiohttp
import psutil
import pytest
from aiohttp import web
from hint_cases import corrected, signal_of
from proxy_world import TIMEOUT_S, until
from traffic import exchange, said

from daemon import embedded_process, engine, engine_source
from daemon.config import load
from daemon.embedded_process import EmbeddedEngine
from daemon.engine import EngineClient
from daemon.engine_source import EngineSource
from daemon.gatekeeper import GateCase, Gatekeeper, kl_nats
from daemon.health import EngineWatch
from daemon.lessons import Lessons
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.store import Store
from harness_adapters.errors import EngineError, StoreUnavailableError
from harness_adapters.exchange import Sampled
from harness_adapters.prompt import Prompt
from harness_adapters.trace import Trace
from hinting.graders import RuleClause, RuleGraderConfig, load_graders
from hinting.model import Sampling

SAMPLED = Sampled(prompt_ids=(1, 2), completion_ids=(3,))
NEVER = {"kind": "rule", "clauses": [{"when_user_matches": "^nobody asks this$", "max_chars": 9}]}
ODD = [
    *(b"", b"not JSON", b"null", b"7", b"[]", b"{}", b'{"data": 7}', b'{"data": [7]}', b'{"choices": []}'),
    b'{"choices": [{"token_ids": 7, "prompt_logprobs": 7}]}',
    b'{"tokens": "many", "version": {"a": 1}}',
    b'{"choices": [{"token_ids": [1]}]}',
    b'{"choices": [{"prompt_logprobs": [null, null, {"3": 1}]}]}',
]


@asynccontextmanager
async def answering(answer: Any) -> AsyncGenerator[EngineClient]:
    """A client of a server that answers everything alike; all must be over in time."""
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with asyncio.timeout(TIMEOUT_S), aiohttp.ClientSession() as session:
            yield EngineClient(f"http://127.0.0.1:{runner.addresses[0][1]}", session)
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("body", ODD)
async def test_an_answer_of_another_shape_is_an_error_of_the_engine(body: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    async with answering(answer) as client:
        for asked in (
            client.models(),
            client.encode("a"),
            client.render(Prompt(messages=({"role": "user", "content": "a"},))),
            client.complete("base", [1], Sampling()),
            client.score("base", [1, 2, 3], 1),
            client.check_contract(),
        ):
            with pytest.raises(EngineError) as caught:
                await asked
            assert "http://127.0.0.1" in str(caught.value)
            assert not caught.value.passing


@pytest.mark.parametrize("kind", ["vllm", "secondnature-embedded"])
async def test_scores_and_divergence_leave_no_default_of_the_model_in_place(kind: str) -> None:
    bodies: list[dict[str, Any]] = []
    whole = {"prompt_logprobs": [None, {"2": {"logprob": -1}}, {"3": {"logprob": -1}}]}
    following = {"logprobs": {"top_logprobs": [{"token_id:3": -1}]}}
    choice = {"text": "a", "token_ids": [3], "finish_reason": "stop", **whole, **following}

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            bodies.append(await request.json())
        return web.json_response({"version": "0.32.0", "engine": kind, "choices": [choice]})

    async with answering(answer) as client:
        assert await kl_nats(client, "new", "old", [1, 2], seed=4, max_tokens=8) == 0.0
    neutral = {"top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}
    neutral |= {"presence_penalty": 0, "frequency_penalty": 0, "temperature": 1}
    assert sorted(body["model"] for body in bodies) == ["new", "new", "old"]
    assert all(body.items() >= neutral.items() for body in bodies)


@dataclass
class Halting:
    """An engine that fails the requests it is told to, once another has come, and leaves every other without answer."""

    fails: Callable[[dict[str, Any]], bool]
    status: int = 500
    stuck: int = 0
    met: threading.Event = field(default_factory=threading.Event)

    async def answer(self, request: web.Request) -> web.Response:
        """Fail, or hang until the client goes."""
        if request.path == "/version":
            return web.json_response({"version": "0.32.0"})
        if self.fails(await request.json()):
            await until(self.met.is_set)
            return web.json_response({"error": {"message": "worker died"}}, status=self.status)
        self.stuck += 1
        self.met.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stuck -= 1
        return web.Response()

    async def left_alone(self) -> None:
        """Wait until no request waits for an answer, having seen one that did."""
        assert self.met.is_set()
        await until(lambda: not self.stuck)


async def test_the_first_failed_score_ends_the_others() -> None:
    halting = Halting(lambda body: len(body["prompt"]) == 2)
    async with answering(halting.answer) as client:
        with pytest.raises(EngineError, match="worker died"):
            await client.score("base", [1, 2, 3, 4, 5], 1)
        await halting.left_alone()


@pytest.mark.parametrize("status", [404, 500])
async def test_an_engine_that_fails_in_the_gate_gives_no_verdict_and_is_left_alone(tmp_path: Path, status: int) -> None:
    halting = Halting(lambda body: body["model"] == "new" and body["seed"] == 0, status=status)
    settings = load(None, {"data_dir": tmp_path, "model": {"path": tmp_path}})
    asked = exchange("e", [said("user", "What is tea?")], "A drink.", sequence=1, sampled=SAMPLED)
    cases = [GateCase(str(seed), "flagged", corrected("Too long!"), 1, asked) for seed in range(3)]
    async with answering(halting.answer) as client:
        gatekeeper = Gatekeeper(settings, Store(settings.store_url), client, [])
        with pytest.raises(EngineError, match="worker died"):
            await gatekeeper.measure("new", "old", cases)
        await halting.left_alone()


@pytest.mark.parametrize(
    ("kind", "finish", "most", "passed"),
    [("passing", "length", 12, True), ("passing", "stop", 12, None), ("flagged", "length", 4, None)],
)
async def test_an_accepted_reply_that_was_cut_is_held_against_replies_cut_there(
    tmp_path: Path, kind: Literal["flagged", "passing"], finish: str, most: int, passed: bool | None
) -> None:
    """What a person accepted at the client's own limit is asked for at that limit, and judged as they saw it."""
    limits = set[int]()

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"version": "0.1"})
        body = await request.json()
        limits.add(body["max_tokens"])
        choice: dict[str, Any] = {"text": "A list", "token_ids": [3], "finish_reason": "length"}
        choice["logprobs"] = {"top_logprobs": [{"token_id:3": -1.0}]}
        return web.json_response({"choices": [choice]})

    settings = load(None, {"data_dir": tmp_path, "model": {"path": tmp_path}, "hints": {"max_tokens": 4}})
    graders = load_graders([RuleGraderConfig(kind="rule", name="any", clauses=(RuleClause(max_chars=99),))])
    response = {"choices": [{"message": said("assistant", "A list"), "finish_reason": finish}]}
    sampled = Sampled(prompt_ids=(1, 2), completion_ids=(3,) * 12)
    asked = exchange("e", [said("user", "A list?")], "", sequence=1, sampled=sampled, response=response)
    async with answering(answer) as client:
        gatekeeper = Gatekeeper(settings, Store(settings.store_url), client, graders)
        (result,) = await gatekeeper.measure("new", "old", [GateCase("c", kind, corrected("Too long!"), 1, asked)])
    assert (most in limits, result.candidate.passed, result.serving.passed) == (True, passed, passed)


async def test_the_first_failed_score_of_two_policies_ends_the_others() -> None:
    halting = Halting(lambda body: "logprobs" in body and body["model"] == "new")

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST" and "logprobs" not in await request.json():
            return web.json_response({"choices": [{"text": "a", "token_ids": [3], "finish_reason": "stop"}]})
        return await halting.answer(request)

    async with answering(answer) as client:
        with pytest.raises(EngineError, match="worker died"):
            await kl_nats(client, "new", "old", [1, 2], seed=4, max_tokens=8)
        await halting.left_alone()


class LosingStore(Store):
    """Loses one trace, and is away when it is to be written down what became of its signal."""

    lost: str
    halting: Halting

    def trace(self, trace_id: str) -> Trace | None:
        return None if trace_id == self.lost else super().trace(trace_id)

    def set_signal_state(self, signal_id: str, state: str, reason: str = "") -> None:
        assert self.halting.met.wait(TIMEOUT_S)
        raise StoreUnavailableError("the store is away")


async def test_a_store_that_goes_away_ends_the_trials_under_way(tmp_path: Path) -> None:
    settings = load(None, {"data_dir": tmp_path, "model": {"path": tmp_path}})
    store = LosingStore(settings.store_url)
    store.lost, store.halting = "t0", Halting(lambda _body: False)
    for number in range(3):
        trace = replace(corrected("Too long!"), id=f"t{number}", root=f"t{number}")
        store.put_trace(trace)
        store.put_signals([signal_of(trace)])
    async with answering(store.halting.answer) as client:
        serving, metrics = Serving(settings, store, [client], Metrics()), Metrics()
        never = load_graders([RuleGraderConfig.model_validate(NEVER)])
        lessons = Lessons(settings, store, client, serving, graders=never, metrics=metrics)
        with pytest.raises(StoreUnavailableError):
            await lessons.write_hints()
        await store.halting.left_alone()
    store.close()


async def test_an_engine_that_never_answers_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEALTH_S", 0.1)

    async def answer(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with answering(answer) as client:
        assert not await client.health()


def process_of(source: EngineSource) -> asyncio.subprocess.Process:
    child = source._child  # pyright: ignore[reportPrivateUsage] - what is looked after is not shown elsewhere
    assert isinstance(child, EmbeddedEngine)
    return child.process


async def test_a_child_that_is_stuck_is_started_again(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "HEALTH_S", 0.3)
    monkeypatch.setattr(engine_source, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(engine_source, "STUCK_AFTER", 3)
    monkeypatch.setattr(embedded_process, "STOP_S", 0.2)
    settings = load(None, {"data_dir": tmp_path, "model": {"path": tiny_base}, "engine": {"threads": 1}})
    metrics, stop, reloaded = Metrics(), asyncio.Event(), asyncio.Event()
    check = EngineWatch(metrics)

    async def reload() -> None:
        reloaded.set()

    async with aiohttp.ClientSession() as session:
        source = EngineSource(settings, session, metrics, check)
        client = await source.start()
        url, pid = source.url, process_of(source).pid
        watching = asyncio.create_task(source.watch(client, stop, reload))
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: not check.last().ok)
        async with asyncio.timeout(60):
            await reloaded.wait()
        assert source.url == url
        assert process_of(source).pid != pid
        assert check.last().ok
        assert "secondnature_engine_restarts_total 1.0" in metrics.render().decode()
        stop.set()
        await watching
        await source.stop()


async def test_the_engine_never_sees_our_secrets(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECONDNATURE_SERVER__ADMIN_TOKEN", "hunter2")
    child = await EmbeddedEngine.start(tiny_base, log=tmp_path / "engine.log", threads=1)
    try:
        assert "hunter2" not in psutil.Process(child.process.pid).environ().values()
    finally:
        await child.stop()
