"""The command line against a real daemon's control routes, and without one."""

import json
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ops.demo.service import free_port

GRADER = '[[graders]]\nkind = "rule"\nclauses = [{ max_sentences = 1 }]\n'
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


def test_dry_run_reads_without_a_daemon_and_reports_what_it_skipped(tmp_path: Path) -> None:
    file = lines(tmp_path / "chat.jsonl", PAIR)
    with file.open("ab") as more:
        more.write(b'{"request": {"messages": [\n\xff\xfe not json\n')
    done = run("traces", "import", str(file), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["files"]
    assert (report["format"], report["exchanges"], report["appended"]) == ("openai_chat", 1, 0)
    assert [skipped["line"] for skipped in report["skipped"]] == [2, 3]
    assert all(skipped["reason"] for skipped in report["skipped"])


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
