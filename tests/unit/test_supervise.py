import asyncio

import pytest

from daemon import supervise as module
from daemon.metrics import Metrics
from daemon.supervise import supervise


async def test_a_task_that_dies_or_returns_is_started_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
    stop, metrics, runs = asyncio.Event(), Metrics(), list[int]()

    async def task() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise RuntimeError("first")
        if len(runs) == 3:
            stop.set()

    async with asyncio.timeout(10):
        await supervise("the task", task, stop, metrics)
    assert runs == [0, 1, 2]
    assert 'secondnature_task_restarts_total{task="the task"} 2.0' in metrics.render().decode()


async def test_a_stop_ends_the_pause(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 3600.0)
    stop, died = asyncio.Event(), asyncio.Event()

    async def task() -> None:
        died.set()
        raise RuntimeError("dies")

    watched = asyncio.create_task(supervise("x", task, stop, Metrics()))
    async with asyncio.timeout(10):
        await died.wait()
        stop.set()
        await watched
