"""A real proxy behind a real server, before a scripted upstream that is a real server too."""

import asyncio
import contextlib
import io
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import uvicorn
from aiohttp import web
from starlette.types import ASGIApp

from daemon.assemble import exchange_of
from daemon.config import Settings, load
from daemon.exchange_raw import RawExchange
from daemon.metrics import Metrics
from daemon.proxy import Proxy
from daemon.spool import Begun
from harness_adapters.exchange import Exchange

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
TIMEOUT_S = 20.0


class FixedRouting:
    """Serves one version."""

    def __init__(self, version: str = "helpdesk@v3") -> None:
        self.version = version
        self.missing: list[str] = []

    def current(self) -> str:
        return self.version

    def report_missing(self, version: str) -> None:
        self.missing.append(version)


class ListRecorder:
    """Keeps what the proxy hands over, read as the real recorder reads it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.raw: list[RawExchange] = []
        self.changed = asyncio.Event()

    def begin(self, begun: Begun) -> None:
        self.begun.append(begun.exchange_id)

    def end_raw(self, raw: RawExchange) -> None:
        self.raw.append(raw)
        self.changed.set()

    async def one(self) -> Exchange:
        """Wait for the only exchange."""
        async with asyncio.timeout(TIMEOUT_S):
            await self.changed.wait()
        (raw,) = self.raw
        assert self.begun == [raw.id]
        return exchange_of(raw)


@dataclass
class Upstream:
    """A scripted engine: `answer` is what it does with a completion request."""

    answer: Handler
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(json.loads(await request.read()))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        try:
            return await self.answer(request)
        except (asyncio.CancelledError, ConnectionResetError):
            self.cancelled.set()
            raise


async def until(holds: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 - what is waited for is in another part, which tells nobody
            await asyncio.sleep(0.01)


@dataclass
class World:
    """Where everything is."""

    url: str
    proxy: Proxy
    upstream: Upstream
    recorder: ListRecorder
    routing: FixedRouting
    metrics: Metrics
    http: aiohttp.ClientSession

    def post(self, body: Any, path: str = "/v1/chat/completions", **kwargs: Any) -> Any:
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        return self.http.post(self.url + path, data=data, **kwargs)

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        await until(lambda: not self.proxy.in_flight)


def settings(**overrides: Any) -> Settings:
    given = {"model": {"name": "helpdesk"}, "engine": {"kind": "vllm", "url": "http://127.0.0.1:9"}}
    return load(None, given | overrides)


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, **options: Any) -> AsyncGenerator[str]:
    """Serve an ASGI app on a free port with uvicorn."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", **options))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


@contextlib.asynccontextmanager
async def world(answer: Handler, config: Settings | None = None) -> AsyncGenerator[World]:
    """Start upstream, proxy and client, and stop them in the opposite order."""
    config = config or settings()
    upstream = Upstream(answer)
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", upstream.handle)
    app.router.add_post("/v1/completions", upstream.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    upstream.url = site.name if not site.name.endswith(":0") else f"http://127.0.0.1:{runner.addresses[0][1]}"
    routing, recorder, metrics = FixedRouting(), ListRecorder(), Metrics()
    proxy = Proxy(config, routing, recorder, metrics, lambda: upstream.url)
    await proxy.start()
    try:
        async with serving(proxy) as url, aiohttp.ClientSession() as http:
            yield World(url, proxy, upstream, recorder, routing, metrics, http)
    finally:
        await proxy.close()
        await runner.cleanup()
