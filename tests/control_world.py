"""A daemon's control routes behind a real server, and the command as people run it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from proxy_world import serving
from starlette.types import Receive, Scope, Send

from daemon.api import Parts
from daemon.app import create_app
from daemon.capture import Recorder
from daemon.config import load
from daemon.health import Check, Health
from daemon.kafka_log import KafkaLog
from daemon.log import EventLog
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.sqlite_log import SqliteLog
from daemon.store import Store
from ops.demo.service import free_port

NOWHERE = f"http://127.0.0.1:{free_port()}"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ops.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "NO_COLOR": "1", "COLUMNS": "200", **environment},
    )


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


PAIR = {
    "request": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "response": {
        "id": "r1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    },
}


def pair(text: str) -> dict[str, Any]:
    return {**PAIR, "request": {"model": "m", "messages": [{"role": "user", "content": text}]}}


@asynccontextmanager
async def control_routes(
    folder: Path, *, of_kafka: bool = False, max_spool_bytes: int = 1 << 30, **server: Any
) -> AsyncGenerator[tuple[str, Recorder, list[int]]]:
    """Serve the control routes; yields their address, their recorder, and the length of every body they are sent.

    `of_kafka` has them record to a Kafka that is away.
    """
    settings = load(None, {"data_dir": folder, "engine": {"kind": "vllm", "url": NOWHERE}, "server": server})
    sizes: list[int] = []
    log: EventLog = KafkaLog("127.0.0.1:9", "t", "g", timeout_s=0.2, max_request_bytes=20_000)
    if not of_kafka:
        log = SqliteLog(settings.log_path, "g", timeout_s=0.1)
    with closing(Store(settings.store_url)) as store, closing(log):
        recorder, metrics = Recorder(log, settings.spool_dir, max_spool_bytes=max_spool_bytes), Metrics()
        parts = Parts(settings, store, Serving(settings, store, [], metrics), recorder, lambda: NOWHERE)
        routes = create_app(parts, Health(metrics, lambda: Check(ok=True), recorder, None, None), metrics, None)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            sizes.append(int(dict(scope["headers"]).get(b"content-length", 0)))
            await routes(scope, receive, send)

        async with serving(app) as url:
            yield url, recorder, sizes
        await asyncio.to_thread(recorder.close)
