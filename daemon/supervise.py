"""Side tasks that are watched: one that dies is logged and started again, later each time."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from daemon.logs import get_logger
from daemon.metrics import Metrics

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
HEALTHY_S = 60.0
"""A task that ran this long begins with the first pause again."""

logger = get_logger(__name__)


async def supervise(name: str, run: Callable[[], Awaitable[object]], stop: asyncio.Event, metrics: Metrics) -> None:
    """Run a task until `stop` is set, again whenever it raises or returns early."""
    pause_s = FIRST_PAUSE_S
    while not stop.is_set():
        started = time.monotonic()
        try:
            await run()
        except Exception:
            # The edge of the loop: a side task that dies silently is a service that has stopped learning.
            logger.exception("task_died", task=name, pause_s=pause_s)
        if stop.is_set():
            return
        metrics.task_restarts.labels(name).inc()
        if time.monotonic() - started > HEALTHY_S:
            pause_s = FIRST_PAUSE_S
        await wait_for(stop, pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


async def wait_for(stop: asyncio.Event, pause_s: float) -> None:
    """Wait `pause_s` seconds, or less when `stop` is set."""
    try:
        await asyncio.wait_for(stop.wait(), pause_s)
    except TimeoutError:
        return
