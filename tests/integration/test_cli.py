"""The command line against a real daemon's control routes, and without one."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from chat_server import Body, chat_server
from chat_server import said as answered
from control_world import NOWHERE, control_routes, run

from daemon.embedded_process import EmbeddedEngine
from daemon.store import Store
from harness_adapters.errors import ConfigError
from ops.client import DaemonClient, DaemonUnreachableError

GRADER = '[[graders]]\nkind = "rule"\nclauses = [{ max_sentences = 1 }]\n'


async def test_a_missing_admin_token_is_said_with_where_the_command_takes_it_from(tmp_path: Path) -> None:
    async with control_routes(tmp_path, admin_token="s3cret") as (url, _, _):
        refused = await asyncio.to_thread(run, "signals", "list", "--url", url)
        given = await asyncio.to_thread(run, "signals", "list", "--url", url, SECONDNATURE_ADMIN_TOKEN="s3cret")
    assert refused.returncode == 1
    assert "SECONDNATURE_ADMIN_TOKEN" in refused.stderr
    assert given.returncode == 0, given.stderr


@pytest.mark.parametrize(("noun", "states"), [("signals", ("new", "set_aside")), ("hints", ("passed", "rejected"))])
async def test_a_state_there_is_none_of_is_refused_with_those_there_are(
    tmp_path: Path, noun: str, states: tuple[str, ...]
) -> None:
    async with control_routes(tmp_path) as (url, _, _):
        refused = await asyncio.to_thread(run, noun, "list", "--state", "bogus", "--url", url)
        known = await asyncio.to_thread(run, noun, "list", "--state", states[0], "--url", url)
    assert refused.returncode == 1
    assert all(state in refused.stderr for state in states)
    assert known.returncode == 0, known.stderr


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout.split() == ["secondnature", metadata.version("secondnature")]


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["rollback", "--yes"],
        ["signals", "list"],
        ["hints", "show", "hint-1"],
        ["rounds", "start"],
        ["adapters", "promote", "m@v1"],
    ],
)
def test_without_a_daemon_the_exit_code_is_4_and_the_message_says_what_to_do(command: list[str]) -> None:
    done = run(*command, "--url", NOWHERE)
    assert done.returncode == 4
    assert done.stdout == ""
    assert "secondnature serve" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_and_wrong_configuration_are_2(tmp_path: Path) -> None:
    assert run("adapters", "promote").returncode == 2
    config = tmp_path / "c.toml"
    config.write_text("[modle]\nname = 'x'\n")
    done = run("serve", "--config", str(config))
    assert done.returncode == 2
    assert "modle" in done.stderr
    assert "model" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_house_rule_names_those_there_are() -> None:
    done = run("demo", "--rule", "shouting")
    assert done.returncode == 2
    assert "brief" in done.stderr


def test_doctor_names_what_is_missing(tmp_path: Path, tiny_base: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'data_dir = "{tmp_path}/data"\n[model]\nname = "desk"\npath = "{tiny_base}"\n{GRADER}')
    done = run("doctor", "--config", str(config), "--json")
    assert done.returncode == 0, done.stdout
    assert {finding["check"] for finding in json.loads(done.stdout)} >= {"model files", "log", "store", "engine"}
    config.write_text(
        f'data_dir = "{tmp_path}/data"\n[model]\nname = "desk"\npath = "{tmp_path}/none"\n'
        f'[engine]\nkind = "vllm"\nurl = "{NOWHERE}"\n{GRADER}'
    )
    done = run("doctor", "--config", str(config), "--json")
    assert done.returncode == 1
    wrong = {finding["check"]: finding["found"] for finding in json.loads(done.stdout) if not finding["ok"]}
    assert set(wrong) == {"model files", "engine"}
    assert NOWHERE in wrong["engine"]
    config.write_text(f'data_dir = "{tmp_path}/data"\n[model]\nname = "desk"\npath = "{tiny_base}"\n')
    done = run("doctor", "--config", str(config), "--json")
    assert done.returncode == 1
    assert next(f["found"] for f in json.loads(done.stdout) if not f["ok"]).startswith("no grader is configured")


async def test_doctor_asks_a_proxy_alone_for_nothing_that_only_a_worker_needs(tmp_path: Path, tiny_base: Path) -> None:
    config = tmp_path / "c.toml"
    of_worker = {"model files", "learner", "graders"}
    engine = await EmbeddedEngine.start(tiny_base, threads=1)
    try:
        config.write_text(f'data_dir = "{tmp_path}/data"\n[engine]\nkind = "embedded"\nurl = "{engine.base_url}"\n')
        proxy, both = [
            await asyncio.to_thread(run, "doctor", "--config", str(config), "--roles", roles, "--json")
            for roles in ("proxy", "proxy,worker")
        ]
    finally:
        await engine.stop()
    assert proxy.returncode == 0, proxy.stdout
    found = {finding["check"]: finding["found"] for finding in json.loads(proxy.stdout)}
    assert not of_worker & found.keys()
    assert found["engine"].startswith("embedded ")
    assert engine.base_url in found["engine"]
    assert both.returncode == 1
    wrong = {finding["check"] for finding in json.loads(both.stdout) if not finding["ok"]}
    assert wrong == {"model files", "graders"}
    assert run("doctor", "--config", str(config), "--roles", "prosy").returncode == 2


def test_doctor_asks_an_embedded_engine_that_runs_elsewhere(tmp_path: Path, tiny_base: Path) -> None:
    config = tmp_path / "c.toml"
    head = f'data_dir = "{tmp_path}/data"\n[model]\nname = "desk"\npath = "{tiny_base}"\n{GRADER}'
    config.write_text(f'{head}[engine]\nkind = "embedded"\nurl = "{NOWHERE}"\n')
    done = run("doctor", "--config", str(config), "--json")
    assert done.returncode == 1
    (wrong,) = [finding for finding in json.loads(done.stdout) if not finding["ok"]]
    assert wrong["check"] == "engine"
    assert NOWHERE in wrong["found"]
    config.write_text(head)
    done = run("doctor", "--config", str(config), "--roles", "proxy", "--json")
    (wrong,) = [finding for finding in json.loads(done.stdout) if not finding["ok"]]
    assert wrong["check"] == "engine"
    assert "engine.url" in wrong["found"], "no role alone can have a child of its own"


async def test_doctor_asks_the_judge_where_there_is_to_be_one(tmp_path: Path, tiny_base: Path) -> None:
    async def says_yes(_body: Body) -> Any:
        return answered("Yes.")

    config = tmp_path / "c.toml"
    head = f'data_dir = "{tmp_path}/data"\n[model]\nname = "desk"\npath = "{tiny_base}"\n{GRADER}'
    async with chat_server(says_yes) as server:
        for url, code in ((server.url, 0), (NOWHERE, 1)):
            config.write_text(f'{head}[judge]\nurl = "{url}"\nmodel = "small"\n')
            done = await asyncio.to_thread(run, "doctor", "--config", str(config), "--json")
            assert done.returncode == code, done.stdout
            (judge,) = [finding for finding in json.loads(done.stdout) if finding["check"] == "judge"]
            assert judge["ok"] == (code == 0)
            assert url in judge["found"]


def test_without_its_driver_a_postgresql_store_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # what an import meets where it is not installed
    with pytest.raises(ConfigError, match=r"secondnature\[postgres\]"):
        Store("postgresql://secondnature@db/secondnature")


def test_an_address_that_is_none_is_wrong_usage() -> None:
    for address in ("localhost:8700", "http://[::1", "ftp://127.0.0.1"):
        done = run("status", "--url", address)
        assert done.returncode == 2, done.stderr
        assert "no address of a daemon" in done.stderr
        assert "Traceback" not in done.stderr


def test_another_service_at_the_address_is_named_as_such() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<h1>Welcome</h1>")

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base class's name

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # A proxy that leads out is not asked for what is on this machine.
        done = run("status", "--url", f"http://127.0.0.1:{server.server_port}", HTTP_PROXY=NOWHERE, http_proxy=NOWHERE)
        server.shutdown()
    assert done.returncode == 1
    assert "is this one?" in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path, tiny_base: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'data_dir = "{tmp_path}/data"\n[model]\nname = "desk"\npath = "{tiny_base}"\n{GRADER}')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", "--config", str(config), SECONDNATURE_SERVER__PORT=str(port))
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_daemons_process_never_loads_torch() -> None:
    code = (
        "import sys, daemon.lifecycle, daemon.gatekeeper, ops.cli, ops.demo.run\n"
        "print([m for m in ('torch', 'transformers', 'peft') if m in sys.modules], daemon.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] ")
    assert str(Path(__file__).parents[2] / "daemon") in done.stdout


@contextmanager
def stranger(status: int, body: bytes, **headers: str) -> Generator[str]:
    """Serve the same answer to every question."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the base class's names

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base class's name

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a command that failed has said."""
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("body", [b"[5]", b"null", b"{}", b"7", b"[" * 100_000, b"\xff"])
def test_json_of_another_service_is_named_as_such(body: bytes) -> None:
    with stranger(200, body, content_type="application/json") as url:
        for command in (["status"], ["rounds", "start"], ["traces", "list"], ["rollback", "--yes"]):
            done = run(*command, "--url", url)
            assert (done.returncode, "is this one?" in told(done)) == (1, True)


def test_an_answer_that_is_not_what_its_header_says() -> None:
    with stranger(200, b"no gzip at all", content_encoding="gzip") as url:
        done = run("status", "--url", url)
    assert (done.returncode, "is this one?" in told(done)) == (1, True)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"[1, 2]", "[1, 2]"),
        (500, b"null", "null"),
        (500, b"", "Internal Server Error"),
        (502, b"<h1>\nBad\x1b[2J gateway\n</h1>\n", r"<h1> Bad\x1b[2J gateway </h1>"),
        (409, b'{"detail": {"a": 1}}', "{'a': 1}"),
        (302, b"", "it leads to https://login.example/"),
    ],
)
def test_a_refusal_has_a_reason_in_one_line(status: int, body: bytes, reason: str) -> None:
    where = {"location": "https://login.example/"} if status == 302 else {}
    with stranger(status, body, **where) as url:
        done = run("status", "--url", url)
    assert done.returncode == 1
    assert f"was refused ({status}): {reason}" in told(done)


async def test_a_name_never_reaches_another_route(tmp_path: Path) -> None:
    async with control_routes(tmp_path) as (url, _, _):
        for name in ("../status", "..", ".", "a/b", "a?limit=1", "a#b", "%2e%2e/status", "\udcff"):
            for noun in ("traces", "hints", "rounds"):
                done = await asyncio.to_thread(run, noun, "show", name, "--url", url)
                assert (done.returncode, "was refused (404)" in told(done)) == (1, True)
        done = await asyncio.to_thread(run, "adapters", "promote", "../x/desk@v7", "--url", url)
        assert (done.returncode, "../x/desk@v7" in told(done)) == (1, True)


async def test_an_admin_token_that_is_not_ascii_is_sent_and_one_that_cannot_be_is_not_shown(tmp_path: Path) -> None:
    async with control_routes(tmp_path, admin_token="pässwörd") as (url, _, _):
        for token, code in (("pässwörd", 0), ("passwörd", 1), ("hunter2\n", 2), ("hunter2\udcff", 2)):
            done = await asyncio.to_thread(run, "traces", "list", "--url", url, SECONDNATURE_ADMIN_TOKEN=token)
            assert done.returncode == code, done.stderr
            if code:
                assert "SECONDNATURE_ADMIN_TOKEN" in told(done)
                assert "hunter2" not in done.stderr


def test_a_daemon_that_hangs_is_not_taken_for_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = DaemonClient(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2)
        with pytest.raises(DaemonUnreachableError, match="did not answer GET /api/status in time") as hung:
            client.get("/api/status")
        client.close()
    assert "no daemon" not in str(hung.value)


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path, tiny_base: Path) -> None:
    config, file = tmp_path / "c.toml", tmp_path / "data"
    file.write_text("x")
    for folder in (file, file / "below"):
        config.write_text(f'data_dir = "{folder}"\n[model]\npath = "{tiny_base}"\n[server]\nport = 0\n')
        done = run("serve", "--config", str(config))
        assert done.returncode == 2
        assert f"data_dir {folder} cannot be made" in done.stderr
        assert "Traceback" not in done.stderr
