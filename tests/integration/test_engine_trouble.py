"""Engines that answer oddly, late or not at all."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from aiohttp import web
from proxy_world import TIMEOUT_S, until

from daemon import embedded_process, engine, engine_source
from daemon.config import load
from daemon.embedded_process import EmbeddedEngine
from daemon.engine import EngineClient
from daemon.engine_source import EngineSource
from daemon.health import EngineWatch
from daemon.metrics import Metrics
from harness_adapters.errors import EngineError
from harness_adapters.prompt import Prompt
from hinting.model import Sampling

ODD = [
    *(b"", b"not JSON", b"null", b"7", b"[]", b"{}", b'{"data": 7}', b'{"data": [7]}', b'{"choices": []}'),
    b'{"choices": [{"token_ids": 7, "prompt_logprobs": 7}]}',
    b'{"tokens": "many", "version": {"a": 1}}',
    b'{"choices": [{"token_ids": [1]}]}',
    b'{"choices": [{"prompt_logprobs": [null, null, {"3": 1}]}]}',
]


@asynccontextmanager
async def answering(answer: Any) -> AsyncGenerator[EngineClient]:
    """A client of a server that answers everything alike."""
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as session:
        yield EngineClient(f"http://127.0.0.1:{runner.addresses[0][1]}", session)
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


async def test_an_engine_that_never_answers_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEALTH_S", 0.1)

    async def answer(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with answering(answer) as client, asyncio.timeout(TIMEOUT_S):
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
