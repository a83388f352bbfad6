"""Where the engine is: a child process of ours that is started and kept alive, or one that runs elsewhere."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import aiohttp

from daemon.config import Settings
from daemon.embedded_process import EmbeddedEngine
from daemon.engine import EngineClient
from daemon.health import EngineWatch
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.supervise import wait_for
from harness_adapters.errors import ConfigError, EngineError

LOOK_EVERY_S = 1.0
STUCK_AFTER = 10
"""Failed health checks in a row after which a child that still runs is started again."""

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
        self._child: EmbeddedEngine | None = None

    @property
    def url(self) -> str:
        """Root of the engine's routes; known once started."""
        return self._child.base_url if self._child else (self._settings.engine.url or "").rstrip("/")

    async def start(self) -> EngineClient:
        """Start the child if there is to be one, wait until the engine answers, and check that it can be used safely.

        Raises EngineError when it does not answer within `engine.start_timeout_s`, or cannot be used.
        """
        deadline = time.monotonic() + self._settings.engine.start_timeout_s
        if self._settings.engine.url is None:
            await self._spawn()
        client = EngineClient.from_settings(self._settings, self._session, url=self.url)
        waited = False
        while not await client.health():
            if time.monotonic() > deadline:
                raise EngineError(f"no engine answers at {self.url}/health; start it, or mend engine.url")
            if not waited:
                logger.warning("engine_awaited", url=self.url, at_most_s=self._settings.engine.start_timeout_s)
            waited = True
            self._watch.say(ok=False, reason=f"no engine answers at {self.url}")
            await asyncio.sleep(LOOK_EVERY_S)
        facts = await client.check_contract()
        self._watch.say(ok=True)
        logger.info("engine_ready", url=self.url, version=facts.version, embedded=facts.embedded)
        return client

    async def watch(self, client: EngineClient, stop: asyncio.Event, reload: Callable[[], Awaitable[None]]) -> None:
        """Look after the engine: a child that is dead or stuck is started again, and then given its adapters again."""
        up, failed = True, 0
        while not stop.is_set():
            if self._child is not None and failed >= STUCK_AFTER:
                logger.error("engine_stuck", failed_checks=failed)
                await self._child.stop()
            if self._child is not None and not self._child.alive:
                up, code = False, await self._child.wait()
                self._watch.say(ok=False, reason=f"the engine ended with {code} and is started again")
                logger.error("engine_died", code=code)
                self._metrics.engine_restarts.inc()
                await self._spawn()
                failed = 0
            was_up, up = up, await client.health()
            failed = 0 if up else failed + 1
            self._watch.say(ok=up, reason="" if up else f"the engine at {self.url} does not answer its health check")
            if up and not was_up:
                logger.info("engine_back", url=self.url)
                await reload()
            await wait_for(stop, LOOK_EVERY_S)

    async def stop(self) -> None:
        """End the child. An engine that runs elsewhere goes on."""
        if self._child is not None:
            await self._child.stop()

    async def _spawn(self) -> None:
        """Start the child, at the port it had before if it had one."""
        engine, path = self._settings.engine, self._settings.model.path
        if path is None:
            raise ConfigError("model.path is missing: the embedded engine needs the folder of the base model's weights")
        if not (path / "config.json").is_file():
            raise ConfigError(
                f"model.path is {path}, where there is no config.json: give the folder that holds the base model's"
                " config.json, weights (safetensors) and tokenizer"
            )
        self._child = await EmbeddedEngine.start(
            path.absolute(),
            name=engine.base_model,
            port=urlsplit(self._child.base_url).port or 0 if self._child else 0,
            max_loras=engine.max_loras,
            threads=engine.threads,
            ready_s=engine.start_timeout_s,
        )
