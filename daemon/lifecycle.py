"""Starts the service's parts in order, watches them, and stops them in the opposite order."""

import asyncio
import contextlib
import fcntl
import math
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import aiohttp
import uvicorn
from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon import logs
from daemon.api import Parts
from daemon.app import create_app
from daemon.capture import Recorder
from daemon.config import ServerSettings, Settings
from daemon.cycle import Cycle
from daemon.engine_source import EngineSource
from daemon.health import EngineWatch, Health
from daemon.judging import open_judge
from daemon.kafka_log import KafkaLog
from daemon.log import EventLog
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.proxy import Proxy
from daemon.serving import Serving
from daemon.sqlite_log import SqliteLog
from daemon.store import Store
from daemon.supervise import supervise
from daemon.tail import DeadLetterLimits, Tail
from harness_adapters.errors import ConfigError, StoreError

Role = Literal["proxy", "worker"]
ROLES: tuple[Role, ...] = ("proxy", "worker")
THREADS = 32
KEEP_ALIVE_S = 75
"""Longer than the 60 s after which common load balancers drop idle connections: they must be the ones to close."""
TAIL_STOP_S = 15.0
ENGINE_READ_S = 600.0
"""How long the engine may keep the daemon's own requests waiting, which queue behind the agents'."""

logger = get_logger(__name__)


def roles_of(names: Iterable[str]) -> frozenset[Role]:
    """Read role names; `all` is both. Raises ConfigError for a name that is none."""
    wanted: set[Role] = set()
    for name in names:
        if name == "all":
            wanted.update(ROLES)
        elif name in ROLES:
            wanted.add(name)
        else:
            raise ConfigError(f"there is no role {name!r}; choose among all, {', '.join(ROLES)}")
    return frozenset(wanted) or frozenset(ROLES)


def open_log(settings: Settings) -> EventLog:
    """Open the configured event log. Who appends and who reads each open their own."""
    log = settings.log
    if log.kind == "embedded":
        _make_folder(settings.log_path.parent, "the log's folder")
        return SqliteLog(settings.log_path, log.group)
    return KafkaLog(
        log.bootstrap_servers,
        log.topic,
        log.group,
        assignment=log.assignment,
        partitions=log.partitions,
        replication=log.replication,
        max_request_bytes=log.max_request_bytes,
        client={
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in log.client.items()
        },
    )


def run(settings: Settings, roles: Iterable[str] = ("all",)) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError, EngineError or OSError when the service cannot start."""
    logs.set_up(settings.logging)
    asyncio.run(serve(settings, roles_of(roles)))


async def serve(settings: Settings, roles: frozenset[Role] = frozenset(ROLES)) -> None:
    """Start everything, serve, and stop everything again.

    The first SIGTERM or SIGINT lets requests in flight end, for `server.drain_s` at most; a second one does not.
    """
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    servers: list[_Server] = []
    daemon = Daemon(settings, roles)

    def stop() -> None:
        daemon.wind_down()
        if not servers:
            main.cancel()
        for server in servers:
            if server.should_exit:
                server.cut_off()
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        await daemon.run(servers.append)
    except asyncio.CancelledError:
        if servers:
            raise
        logger.warning("stopped_while_starting")
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


class Daemon:
    """One process of the service, in one or both roles."""

    def __init__(self, settings: Settings, roles: frozenset[Role]) -> None:
        if settings.engine.kind == "embedded" and settings.engine.url is None and roles != frozenset(ROLES):
            raise ConfigError(
                "the embedded engine belongs to the process that has all roles; with split roles start it by itself and"
                " give its address as engine.url"
            )
        if "worker" in roles and settings.model.path is None:
            raise ConfigError("model.path is missing: the learner needs the folder of the base model's weights")
        self._settings = settings
        self._roles = roles
        self._metrics = Metrics()
        self._stop = asyncio.Event()

    def wind_down(self) -> None:
        """Start nothing more: no round, no engine in place of one that is ending too."""
        self._stop.set()

    async def run(self, started: "Callable[[_Server], None]") -> None:
        """Start the parts, serve HTTP until the server is told to exit, stop the parts."""
        async with AsyncExitStack() as stack:
            listener = stack.enter_context(_bound(self._settings.server))
            server = await self._start(stack)
            started(server)
            await server.serve(sockets=[listener])
            logger.info("stopping")

    async def _start(self, stack: AsyncExitStack) -> "_Server":
        settings, metrics = self._settings, self._metrics
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="blocking"))
        _make_folder(settings.data_dir, "data_dir")
        if "worker" in self._roles:
            stack.enter_context(only_worker(settings.data_dir))
        store = Store(settings.store_url)
        stack.callback(store.close)

        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=settings.engine.connect_timeout_s, sock_read=ENGINE_READ_S
                )
            )
        )
        watch = EngineWatch(metrics)
        source = EngineSource(settings, session, metrics, watch)
        stack.push_async_callback(source.stop)
        engine = await source.start()

        recorder = self._recorder(stack)
        tail = self._tail(stack, store) if "worker" in self._roles else None
        serving = Serving(settings, store, [engine], metrics)
        try:
            await serving.load_all()
        except StoreError as error:
            # The watcher reads the alias again; until then the base answers.
            logger.error("alias_unread", reason=str(error))  # noqa: TRY400 - the reason says it all
        proxy = await self._proxy(stack, serving, recorder, source) if "proxy" in self._roles else None
        cycle = None
        if "worker" in self._roles:
            judge = await stack.enter_async_context(open_judge(settings.judge))
            cycle = Cycle(settings, store, engine, serving, metrics, judge=judge)

        self._watch_over(stack, "engine", lambda: source.watch(engine, self._stop, serving.load_all))
        self._watch_over(stack, "alias", lambda: serving.watch(self._stop))
        if cycle is not None:
            self._watch_over(stack, "cycle", lambda: cycle.run(self._stop))

        parts = Parts(settings, store, serving, recorder, lambda: source.url, cycle, tail)
        app = create_app(parts, Health(metrics, watch.last, recorder, tail, serving), metrics, proxy)
        return self._server(app)

    def _recorder(self, stack: AsyncExitStack) -> Recorder:
        settings, limits = self._settings, self._settings.capture
        log = open_log(settings)
        stack.callback(log.close)
        recorder = Recorder(
            log,
            settings.spool_dir,
            max_queue_records=limits.max_queue_records,
            max_queue_bytes=limits.max_queue_bytes,
            max_spool_bytes=limits.max_spool_bytes,
        )
        stack.push_async_callback(asyncio.to_thread, recorder.close)
        return recorder

    def _tail(self, stack: AsyncExitStack, store: Store) -> Tail:
        """Run the tail in a thread of its own; it looks after itself, and a halted one waits for a person."""
        log = open_log(self._settings)
        limits = DeadLetterLimits(self._settings.log.max_dead_in_a_row, self._settings.log.max_dead_share)
        tail, stop = Tail(log, store, limits=limits), threading.Event()
        thread = threading.Thread(target=tail.run, args=(stop,), name="tail", daemon=True)
        stack.callback(log.close)
        stack.push_async_callback(asyncio.to_thread, thread.join, TAIL_STOP_S)
        stack.callback(stop.set)
        thread.start()
        return tail

    async def _proxy(self, stack: AsyncExitStack, serving: Serving, recorder: Recorder, source: EngineSource) -> Proxy:
        kept = recorder if self._settings.capture.enabled else None
        proxy = Proxy(self._settings, serving, kept, self._metrics, lambda: source.url)
        await proxy.start()
        stack.push_async_callback(proxy.close)
        return proxy

    def _watch_over(self, stack: AsyncExitStack, name: str, run: Callable[[], Awaitable[object]]) -> None:
        task = asyncio.create_task(supervise(name, run, self._stop, self._metrics), name=name)

        async def end() -> None:
            self._stop.set()
            task.cancel()
            await asyncio.wait((task,))

        stack.push_async_callback(end)

    def _server(self, app: ASGIApp) -> "_Server":
        server = self._settings.server
        config = uvicorn.Config(
            _ending(app),
            host=server.host,
            port=server.port,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=math.ceil(server.drain_s),
        )
        return _Server(config)


def _bound(server: ServerSettings) -> socket.socket:
    """Take the port before anything slow is started; nothing is accepted on it yet."""
    listener = socket.socket(socket.AF_INET6 if ":" in server.host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((server.host, server.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"nothing can listen on {server.host}:{server.port}: {error.strerror}; choose another"
            " server.port, or stop the program that has it"
        ) from error
    return listener


def _make_folder(folder: Path, noun: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{noun} {folder} cannot be made: {error.strerror}; give a folder that this user may write to"
        ) from error


def _ending(app: ASGIApp) -> ASGIApp:
    """Return the application with its cancellation, which only the end of the service brings, as no failure of it."""

    async def ended(scope: Scope, receive: Receive, send: Send) -> None:
        # The server cuts off what has begun and not ended.
        with contextlib.suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    return ended


@contextlib.contextmanager
def only_worker(data_dir: Path) -> Generator[None]:
    """Hold the folder's lock, which ends with this process: two workers would take up each other's rounds."""
    with (data_dir / "worker.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another worker already uses {data_dir}; stop it, or start this one with --roles proxy"
            ) from None
        yield


class _Server(uvicorn.Server):
    """Leaves signals to `serve`, says where it listens, and can end at once."""

    def cut_off(self) -> None:
        """Wait for no request any more: each is cancelled, so that it is recorded as abandoned."""
        self.force_exit = True
        for task in self.server_state.tasks:
            task.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            places = [listener.getsockname()[:2] for server in self.servers for listener in server.sockets]
            logger.info("serving", places=[f"http://{host}:{port}" for host, port in places])
