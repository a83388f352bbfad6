"""The control routes over real parts: what they let in, how they refuse, and what a person can undo."""

import asyncio
import json
import sqlite3
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from proxy_world import serving, until
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from traffic import conversation

from daemon.api import Parts
from daemon.app import create_app, status_of
from daemon.capture import Recorder
from daemon.config import Settings, load
from daemon.encoding import MAX_DEPTH
from daemon.health import Check, Health
from daemon.metrics import Metrics
from daemon.proxy import tenant_of
from daemon.serving import Serving
from daemon.sqlite_log import SqliteLog
from daemon.store import Store
from harness_adapters.errors import (
    AliasMovedError,
    CheckpointError,
    EngineError,
    LearnerError,
    LogUnavailableError,
    SecondNatureError,
    StoreError,
    StoreUnavailableError,
)
from harness_adapters.exchange import Exchange, exchange_json
from hinting.signal import Fault, Signal, SignalKind


@dataclass
class Control:
    """A service without traffic and without an engine."""

    url: str
    http: aiohttp.ClientSession
    store: Store
    recorder: Recorder
    serving: Serving

    async def call(self, method: str, path: str, body: bytes | dict[str, Any] | None = None, **headers: str) -> Any:
        """Return the status, the headers and the JSON of an answer."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"content-type": "application/json", **headers}
        async with self.http.request(method, self.url + path, data=data, headers=headers) as response:
            return response.status, response.headers, json.loads(await response.read())


def configured(folder: Path, **given: Any) -> Settings:
    base: dict[str, Any] = {
        "data_dir": folder,
        "model": {"name": "help/desk"},
        "engine": {"kind": "vllm", "url": "http://127.0.0.1:9"},
    }
    return load(None, base | given)


@asynccontextmanager
async def control(
    folder: Path, wrapped: Callable[[ASGIApp], ASGIApp] = lambda app: app, **given: Any
) -> AsyncGenerator[Control]:
    settings, metrics = configured(folder, **given), Metrics()
    log = SqliteLog(settings.log_path, "g", timeout_s=0.1)
    with closing(Store(settings.store_url, busy_timeout_s=0.2)) as store, closing(log):
        recorder = Recorder(log, settings.spool_dir)
        serving_ = Serving(settings, store, [], metrics)
        await serving_.load_all()
        parts = Parts(settings, store, serving_, recorder, lambda: "http://127.0.0.1:9")
        app = create_app(parts, Health(metrics, lambda: Check(ok=True), recorder, None, None), metrics, None)
        async with serving(wrapped(app)) as url, aiohttp.ClientSession() as http:
            yield Control(url, http, store, recorder, serving_)
        await asyncio.to_thread(recorder.close)


def lines(exchanges: Sequence[Any]) -> bytes:
    return b"\n".join(exchange_json.dump_json(e) for e in exchanges)


async def test_imported_exchanges_and_feedback_are_recorded(tmp_path: Path) -> None:
    async with control(tmp_path) as c:
        assert (await c.call("POST", "/api/exchanges", lines(conversation("a", 3))))[2] == {"appended": 3}
        status, _, answer = await c.call("POST", "/v1/feedback", {"response_id": "resp-a-1", "rating": -1})
        assert status == 202
        assert answer["id"].startswith("fb")
        await until(lambda: c.recorder.status().appended == 4)


async def test_bodies_longer_than_the_limit_are_refused(tmp_path: Path) -> None:
    async with control(tmp_path, server={"max_request_bytes": 2000}) as c:
        big = lines(conversation("a", 20))
        status, _, answer = await c.call("POST", "/api/exchanges", big)
        assert (status, "max_request_bytes" in answer["detail"]) == (413, True)
        status, _, answer = await c.call("POST", "/v1/feedback", {"response_id": "r", "comment": "x" * 3000})
        assert (status, "max_request_bytes" in answer["error"]["message"]) == (413, True)
        assert c.recorder.status().appended == c.recorder.status().spool_records == 0


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"response_id": "r"}', b'{"response_id": "r", "rating": 2}', b'{"rating": 1, "secret": 7}']
)
async def test_what_is_no_feedback_is_refused_in_openais_shape(tmp_path: Path, body: bytes) -> None:
    async with control(tmp_path) as c:
        status, _, answer = await c.call("POST", "/v1/feedback", body)
        assert status == 422
        assert answer["error"]["type"] == "invalid_request_error"
        assert "nothing was recorded" in answer["error"]["message"]
        assert (await c.call("GET", "/v1/feedback"))[2]["error"]["message"]


async def test_one_bad_line_keeps_the_whole_import_out(tmp_path: Path) -> None:
    async with control(tmp_path) as c:
        status, _, answer = await c.call("POST", "/api/exchanges", lines(conversation("a", 2)) + b'\n{"id": "x"}')
        assert status == 422
        assert answer["detail"].startswith("line 3 is not an exchange")
        assert c.recorder.status().appended == 0


async def test_an_import_is_parsed_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched:
        threads: set[int] = set()  # noqa: RUF012 - one instance

        def validate_json(self, line: bytes) -> Exchange:
            self.threads.add(threading.get_ident())
            return exchange_json.validate_json(line)

    monkeypatch.setattr("daemon.api.exchange_json", Watched())
    async with control(tmp_path) as c:
        await c.call("POST", "/api/exchanges", lines(conversation("a", 1)))
    assert len(Watched.threads) == 1
    assert threading.get_ident() not in Watched.threads


async def test_a_locked_store_is_said_to_be_away_for_now(tmp_path: Path) -> None:
    async with control(tmp_path) as c:
        with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as other:
            c.store.flip("help/desk", "help/desk@v1", 0)
            other.execute("BEGIN EXCLUSIVE")
            status, headers, answer = await c.call("POST", "/api/rollback")
            assert status == 503
            assert headers["Retry-After"]
            assert "cannot be used now" in answer["detail"]
        assert (await c.call("POST", "/api/rollback"))[0] == 200


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StoreUnavailableError("x"), 503),
        (LogUnavailableError("x"), 503),
        (AliasMovedError("x"), 409),
        (EngineError("x", status=500), 409),
        (CheckpointError("x"), 409),
        (StoreError("x"), 500),
        (LearnerError("x"), 500),
    ],
)
def test_every_error_has_its_status(error: SecondNatureError, status: int) -> None:
    assert status_of(error) == status


async def test_a_version_is_named_with_its_slash(tmp_path: Path) -> None:
    async with control(tmp_path) as c:
        status, _, answer = await c.call("POST", "/api/adapters/help/desk@v7/promote")
        assert status == 409
        assert "help/desk@v7" in answer["detail"]


async def test_a_rollback_that_is_repeated_never_goes_forward_again(tmp_path: Path) -> None:
    async with control(tmp_path) as c:
        c.store.flip("help/desk", "help/desk@v1", 0)
        c.store.flip("help/desk", "help/desk@v2", 1)
        for _ in range(3):
            status, _, answer = await c.call("POST", "/api/rollback", {"leave": "help/desk@v2"})
            assert (status, answer["current"], answer["generation"]) == (200, "help/desk@v1", 3)
        assert (await c.call("GET", "/api/serving"))[2] == {
            "serving": "help/desk@v1",
            "previous": "help/desk@v2",
            "generation": 3,
            "not_loaded": {},
        }
        assert (await c.call("POST", "/api/rollback", {"lave": "help/desk@v1"}))[0] == 422
        assert (await c.call("POST", "/api/rollback"))[2]["current"] == "help/desk@v2"


@pytest.mark.parametrize(
    "body", [b'{"leave":NaN}', b'{"leave":"\\ud800"}', b'{"leave":7}', b"[]", b"{", b'{"leave":"\xff"}']
)
async def test_what_is_no_rollback_is_refused_and_not_repeated(tmp_path: Path, body: bytes) -> None:
    async with control(tmp_path) as c:
        c.store.flip("help/desk", "help/desk@v1", 0)
        status, _, answer = await c.call("POST", "/api/rollback", body)
        assert status == 422
        assert answer["detail"].startswith("this is no rollback: ")
        alias = c.store.alias("help/desk")
        assert alias is not None
        assert alias.current == "help/desk@v1"


async def test_a_rollbacks_body_has_the_limit_of_all_bodies(tmp_path: Path) -> None:
    async with control(tmp_path, server={"max_request_bytes": 2000}) as c:
        status, _, answer = await c.call("POST", "/api/rollback", {"leave": "x" * 3000})
        assert (status, "max_request_bytes" in answer["detail"]) == (413, True)


async def test_what_a_query_holds_is_not_repeated(tmp_path: Path) -> None:
    async with control(tmp_path) as c:
        status, _, answer = await c.call("GET", "/api/traces?limit=hunter2")
        assert status == 422
        assert answer["detail"].startswith("query.limit ")
        assert "hunter2" not in str(answer)


@pytest.mark.parametrize("flaw", [{"started_at": float("nan")}, {"duration_s": float("inf")}, {"request": "deep"}])
async def test_an_exchange_that_could_not_be_read_again_is_not_appended(tmp_path: Path, flaw: dict[str, Any]) -> None:
    whole = exchange_json.dump_python(conversation("a", 1)[0], mode="json")
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    given = json.dumps({**whole, **(flaw if "request" not in flaw else {"request": deep})}).encode()
    async with control(tmp_path) as c:
        status, _, answer = await c.call("POST", "/api/exchanges", lines(conversation("b", 1)) + b"\n" + given)
        assert status == 422
        assert "finite number" in answer["detail"] or "levels deep" in answer["detail"]
        assert (c.recorder.status().appended, c.recorder.status().spool_records) == (0, 0)


async def test_the_command_rolls_back_once_though_its_first_answer_is_lost(tmp_path: Path) -> None:
    lost: list[Scope] = []

    def losing(app: ASGIApp) -> ASGIApp:
        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            loses = scope["type"] == "http" and scope["method"] == "POST" and not lost

            async def cut(message: Message) -> None:
                # Of the answer the client gets the head alone: the server cuts off what has begun and then fails.
                if message["type"] == "http.response.start":
                    await send(message)

            if loses:
                lost.append(scope)
                await app(scope, receive, cut)
                return
            await app(scope, receive, send)

        return wrapped

    async with control(tmp_path, losing) as c:
        c.store.flip("help/desk", "help/desk@v1", 0)
        c.store.flip("help/desk", "help/desk@v2", 1)
        await c.serving.load_all()
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ops.cli", "rollback", "--yes", "--json", "--url", c.url),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await command.communicate()
        assert command.returncode == 0
        alias = json.loads(said)
        assert lost
        assert (alias["current"], alias["generation"]) == ("help/desk@v1", 3)


async def test_signals_show_what_became_of_them(tmp_path: Path) -> None:
    signal = Signal(
        id="sig",
        trace_id="s",
        kind=SignalKind.USER_CORRECTION,
        target=1,
        shown_by=2,
        fix=None,
        fault=Fault.AGENT,
        confidence=0.75,
        evidence="no, shorter",
    )
    async with control(tmp_path) as c:
        c.store.put_signals([signal, replace(signal, id="other")])
        c.store.set_signal_state("sig", "set_aside", "too unsure")
        shown = {s["id"]: (s["state"], s["reason"], s["evidence"]) for s in (await c.call("GET", "/api/signals"))[2]}
        assert shown == {"sig": ("set_aside", "too unsure", "no, shorter"), "other": ("new", "", "no, shorter")}


async def test_dead_letters_are_listed_without_their_content(tmp_path: Path) -> None:
    async with control(tmp_path) as c:
        c.store.put_dead_letter("partition 0, offset 7", "it is not JSON", b"my secret")
        (letter,) = (await c.call("GET", "/api/dead-letters"))[2]
        assert (letter["place"], letter["reason"], letter["bytes"]) == ("partition 0, offset 7", "it is not JSON", 9)
        assert "secret" not in str(letter)


@pytest.mark.parametrize("named", ["acme", "a b", "", "x" * 200, "ünï:1"])
async def test_feedback_has_the_tenant_that_traffic_with_the_same_header_has(tmp_path: Path, named: str) -> None:
    headers = {"x-secondnature-tenant": named}
    async with control(tmp_path) as c:
        latin = named.encode().decode("latin-1")
        await c.call("POST", "/v1/feedback", {"response_id": "r", "rating": 1}, **headers)
        await until(lambda: c.recorder.status().appended == 1)
    with closing(SqliteLog(tmp_path / "log.sqlite", "g")) as log:
        (record,) = log.poll(max_records=9, timeout_s=1)
    assert json.loads(record.value)["tenant"] == tenant_of({"x-secondnature-tenant": latin})
