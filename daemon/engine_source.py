"""Where the engine is: a child process of ours that is started and kept alive, or one that runs elsewhere."""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable

import aiohttp
import orjson

from daemon.config import Settings
from daemon.engine import EngineClient
from daemon.health import EngineWatch
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.supervise import wait_for
from harness_adapters.errors import EngineError

LOOK_EVERY_S = 1.0
STOP_S = 10.0

logger = get_logger(__name__)


class EngineSource:
    """One engine at one address, which stays the same when the child has to be started again."""

    def __init__(
        self, settings: Settings, session: aiohttp.ClientSession, metrics: Metrics, watch: EngineWatch
    ) -> None:
        self._settings = settings
        self._session = session
        self._metrics = metrics
        self._watch = watch
        self._child: Process | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Root of the engine's routes; known once started."""
        return self._settings.engine.url or f"http://127.0.0.1:{self._port}"

    async def start(self) -> EngineClient:
        """Start the child if there is to be one, wait until the engine answers, and check that it can be used safely.

        Raises EngineError when it does not answer within `engine.start_timeout_s`, or cannot be used.
        """
        deadline = time.monotonic() + self._settings.engine.start_timeout_s
        if self._settings.engine.url is None:
            await self._spawn()
        key = self._settings.engine.api_key
        client = EngineClient(
            self.url,
            session=self._session,
            model=self._settings.engine.base_model,
            api_key=key.get_secret_value() if key else None,
        )
        while not await client.health():
            if time.monotonic() > deadline:
                raise EngineError(f"no engine answers at {self.url}/health; start it, or mend engine.url")
            self._watch.say(ok=False, reason=f"no engine answers at {self.url}")
            await asyncio.sleep(LOOK_EVERY_S)
        facts = await client.check_contract()
        self._watch.say(ok=True)
        logger.info("engine_ready", url=self.url, version=facts.version, embedded=facts.embedded)
        return client

    async def watch(self, client: EngineClient, stop: asyncio.Event, reload: Callable[[], Awaitable[None]]) -> None:
        """Look after the engine: a dead child is started again, and a restarted engine is given its adapters again."""
        up = True
        while not stop.is_set():
            if self._child is not None and self._child.returncode is not None:
                up = False
                self._watch.say(ok=False, reason=f"the engine ended with {self._child.returncode} and is started again")
                logger.error("engine_died", code=self._child.returncode)
                self._metrics.engine_restarts.inc()
                await self._spawn()
            was_up, up = up, await client.health()
            self._watch.say(ok=up, reason="" if up else f"the engine at {self.url} does not answer its health check")
            if up and not was_up:
                logger.info("engine_back", url=self.url)
                await reload()
            await wait_for(stop, LOOK_EVERY_S)

    async def stop(self) -> None:
        """End the child. An engine that runs elsewhere goes on."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        child.terminate()
        try:
            await asyncio.wait_for(child.wait(), STOP_S)
        except TimeoutError:
            child.kill()
            await child.wait()

    async def _spawn(self) -> None:
        """Start the child and wait until it says that it serves. It ends with us: its standard input closes then."""
        engine, rank = self._settings.engine, self._settings.learner.lora.rank
        arguments = {
            "--model": self._settings.model.path,
            "--served-model-name": engine.base_model,
            "--port": self._port,
            "--max-loras": engine.max_loras,
            "--max-lora-rank": rank,
            "--threads": engine.threads,
        }
        flat = [str(word) for pair in arguments.items() for word in pair]
        command = [sys.executable, "-m", "daemon.embedded_engine", *flat, "--exit-with-stdin"]
        self._child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert self._child.stdout is not None
        try:
            line = await asyncio.wait_for(self._child.stdout.readline(), engine.start_timeout_s)
        except TimeoutError:
            await self.stop()
            raise EngineError(
                f"the embedded engine was not ready after {engine.start_timeout_s:.0f} s; raise engine.start_timeout_s,"
                " or use a smaller model"
            ) from None
        if not line:
            code = await self._child.wait()
            raise EngineError(
                f"the embedded engine ended with {code} before it was ready; its reason stands in the log"
            )
        self._port = int(orjson.loads(line)["port"])
