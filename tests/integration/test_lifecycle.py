import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from tiny_model import make_tiny_model

from daemon.config import load
from daemon.lifecycle import Daemon, only_worker, roles_of
from daemon.sqlite_log import SqliteLog
from daemon.store import Store
from daemon.tail import parse
from harness_adapters.errors import ConfigError
from harness_adapters.exchange import Exchange, Status

WAIT_S = 120.0
SERVE = """
import sys, pathlib, daemon.config, daemon.lifecycle
daemon.lifecycle.run(daemon.config.load(pathlib.Path(sys.argv[1])))
"""
MESSAGES: Any = [{"role": "user", "content": "Where is my parcel?"}]


def eventually(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
    return found


def fetch(url: str, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            status, body = response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            status, body = error.code, error.read()
    except OSError:
        return 0, None
    return status, json.loads(body) if body[:1] in b"{[" else body.decode()


@dataclass
class Service:
    """A daemon in a process of its own."""

    url: str
    process: subprocess.Popen[bytes]
    store_url: str
    log: Path

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return fetch(self.url + "/readyz")[0] == 200

    def counts(self) -> dict[str, int]:
        store = Store(self.store_url)
        try:
            return store.counts()
        finally:
            store.close()

    def recorded(self) -> list[Exchange]:
        """The exchanges behind the agent turns of all traces read so far, once there are two."""
        store = Store(self.store_url)
        try:
            turns = [turn for trace in store.traces(limit=10) for turn in trace.turns if turn.exchange_id]
            found = [store.exchange(turn.exchange_id) for turn in turns if turn.exchange_id]
        finally:
            store.close()
        return [exchange for exchange in found if exchange] if len(found) >= 2 else []

    def engine_pid(self) -> int | None:
        """The process id of the engine's child."""
        for children in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for child in children.read_text().split():
                with suppress(OSError):
                    if b"daemon.embedded_engine" in Path(f"/proc/{child}/cmdline").read_bytes():
                        return int(child)
        return None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@contextmanager
def service(folder: Path, model: Path) -> Generator[Service]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir(exist_ok=True)
    config, log = folder / "secondnature.toml", folder / "daemon.log"
    config.write_text(
        f'data_dir = "{folder}/data"\n[model]\nname = "helpdesk"\npath = "{model}"\n[engine]\nthreads = 1\n'
        f"[server]\nport = {port}\n[rounds]\nauto = false\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(config)], stdout=output, stderr=output, env=environment
        )
    made = Service(f"http://127.0.0.1:{port}", process, f"sqlite:///{folder}/data/store.sqlite", log)
    try:
        eventually(made.ready)
        yield made
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_whole_service_answers_records_survives_its_engine_and_drains(tmp_path: Path, model: Path):
    with service(tmp_path / "all", model) as made:
        with made.client() as client:
            reply = client.chat.completions.with_raw_response.create(model="helpdesk", messages=MESSAGES, max_tokens=8)
            assert reply.headers["x-secondnature-version"] == "base"
            chunks = list(
                client.chat.completions.create(
                    model="helpdesk", messages=MESSAGES, max_tokens=8, temperature=0.5, stream=True
                )
            )
            assert chunks[-1].choices[0].finish_reason in ("stop", "length")
            client.completions.create(model="helpdesk", prompt="List five cities", max_tokens=4)
        eventually(lambda: made.counts().get("exchanges/ok") == 3)
        recorded = eventually(made.recorded)
        assert all(exchange.version == "base" and exchange.sampled for exchange in recorded)
        assert {len(exchange.sampled.completion_ids) for exchange in recorded if exchange.sampled} <= set(range(1, 9))

        assert fetch(made.url + "/healthz") == (200, {"status": "ok"})
        status, metrics = fetch(made.url + "/metrics")
        assert status == 200
        assert 'secondnature_requests_total{code="200",endpoint="chat_completions",outcome="ok"} 2.0' in metrics
        assert "secondnature_capture_appended_total 3.0" in metrics
        assert fetch(made.url + "/api/status")[1]["serving"] == "base"
        assert fetch(made.url + "/api/status", Origin="http://evil.example")[0] == 403
        assert fetch(made.url + "/api/status", Host="evil.example")[0] == 403

        pid = eventually(made.engine_pid)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: made.engine_pid() not in (None, pid))
        eventually(made.ready)
        with made.client() as client:
            assert client.chat.completions.create(model="helpdesk", messages=MESSAGES, max_tokens=4).choices
            assert "secondnature_engine_restarts_total 1.0" in fetch(made.url + "/metrics")[1]

            stream = client.chat.completions.create(
                model="helpdesk", messages=MESSAGES, max_tokens=400, stream=True, extra_body={"ignore_eos": True}
            )
            next(stream)
            made.process.send_signal(signal.SIGTERM)
            assert list(stream)[-1].choices[0].finish_reason == "length"
        assert made.process.wait(60) == 0, made.log.read_text()
        counts = made.counts()
        assert counts["exchanges"] == counts["exchanges/ok"] == 5, counts
        eventually(lambda: not alive(pid))
        assert "Traceback" not in made.log.read_text()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_killed_service_leaves_an_abandoned_record_and_no_engine(tmp_path: Path, model: Path):
    folder = tmp_path / "killed"
    with service(folder, model) as made:
        engine = eventually(made.engine_pid)

        def ask() -> None:
            with made.client() as client, suppress(openai.OpenAIError):
                body = {"ignore_eos": True}
                client.chat.completions.create(model="helpdesk", messages=MESSAGES, max_tokens=1500, extra_body=body)

        asking = threading.Thread(target=ask)
        asking.start()
        eventually(lambda: "secondnature_in_flight_requests 1.0" in str(fetch(made.url + "/metrics")[1]))
        made.process.kill()
        made.process.wait()
        asking.join(WAIT_S)
        eventually(lambda: not alive(engine))
    with service(folder, model) as made:
        eventually(lambda: made.counts().get(f"exchanges/{Status.ABANDONED}") == 1)


def test_a_second_signal_ends_the_streams_at_once_and_each_is_recorded(tmp_path: Path, model: Path):
    with service(tmp_path, model) as made, made.client() as client:
        streams = [
            client.chat.completions.create(
                model="helpdesk", messages=MESSAGES, max_tokens=1900, stream=True, extra_body={"ignore_eos": True}
            )
            for _ in range(3)
        ]
        for stream in streams:
            next(stream)
        made.process.send_signal(signal.SIGTERM)
        eventually(lambda: "Shutting down" in made.log.read_text())
        made.process.send_signal(signal.SIGTERM)
        assert made.process.wait(60) == 0, made.log.read_text()
        for stream in streams:
            with pytest.raises(openai.APIConnectionError):
                list(stream)
        assert "Traceback" not in made.log.read_text()
        assert "Exception in ASGI" not in made.log.read_text()
    with closing(SqliteLog(tmp_path / "data" / "log.sqlite", "another")) as log:
        records = [parse(record) for record in log.poll(max_records=9, timeout_s=5)]
    assert [record.status for record in records if isinstance(record, Exchange)] == [Status.ABANDONED] * 3


def test_a_taken_port_is_said_before_anything_is_started(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = load(None, {"data_dir": tmp_path, "model": {"path": tmp_path}, "server": {"port": port}})
        child = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, json, daemon.config, daemon.lifecycle\n"
                "daemon.lifecycle.run(daemon.config.load(None, json.loads(sys.argv[1])))",
                settings.model_dump_json(by_alias=True, exclude_none=True),
            ],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert child.returncode != 0
        assert f"nothing can listen on 127.0.0.1:{port}".encode() in child.stderr
        assert b"choose another server.port" in child.stderr


def test_roles():
    assert roles_of(["all"]) == roles_of([]) == {"proxy", "worker"}
    assert roles_of(["proxy"]) == {"proxy"}
    with pytest.raises(ConfigError, match="no role 'prox'; choose among all, proxy, worker"):
        roles_of(["prox"])


def test_roles_that_cannot_be(tmp_path: Path):
    embedded = load(None, {"data_dir": tmp_path, "model": {"path": tmp_path}})
    with pytest.raises(ConfigError, match="belongs to the process that has all roles"):
        Daemon(embedded, roles_of(["proxy"]))
    remote = load(None, {"data_dir": tmp_path, "engine": {"kind": "vllm", "url": "http://h"}})
    Daemon(remote, roles_of(["proxy"]))
    with pytest.raises(ConfigError, match=r"model\.path is missing"):
        Daemon(remote, roles_of(["worker"]))


def test_one_folder_has_one_worker(tmp_path: Path) -> None:
    with only_worker(tmp_path), pytest.raises(ConfigError, match="another worker"), only_worker(tmp_path):
        pass
    with only_worker(tmp_path):
        pass
