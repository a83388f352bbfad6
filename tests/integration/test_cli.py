"""The command line against a real daemon's control routes, and without one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from broker import free_port

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
    config.write_text(f'data_dir = "{tmp_path}/data"\n[model]\nname = "desk"\npath = "{tiny_base}"\n')
    done = run("doctor", "--config", str(config), "--json")
    assert done.returncode == 0, done.stdout
    assert {finding["check"] for finding in json.loads(done.stdout)} >= {"model files", "log", "store", "engine"}
    config.write_text(
        f'data_dir = "{tmp_path}/data"\n[model]\nname = "desk"\npath = "{tmp_path}/none"\n'
        f'[engine]\nkind = "vllm"\nurl = "{NOWHERE}"\n'
    )
    done = run("doctor", "--config", str(config), "--json")
    assert done.returncode == 1
    wrong = {finding["check"]: finding["found"] for finding in json.loads(done.stdout) if not finding["ok"]}
    assert set(wrong) == {"model files", "engine"}
    assert NOWHERE in wrong["engine"]


def test_the_daemons_process_never_loads_torch() -> None:
    code = (
        "import sys, daemon.lifecycle, daemon.gatekeeper, ops.cli, ops.demo.run\n"
        "print([m for m in ('torch', 'transformers', 'peft') if m in sys.modules], daemon.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] ")
    assert str(Path(__file__).parents[2] / "daemon") in done.stdout
