"""Files to the daemon and back: every harness's sessions through the log, into the store, and out again."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from adapter_files import jsonl, source_of, told, traces

from harness_adapters.base import ADAPTERS, adapter_named, detect_adapter
from harness_adapters.exchange import Exchange
from harness_adapters.export import to_atif, to_openai_chat
from harness_adapters.source import Source
from harness_adapters.trace import Outcome, Trace
from ops import reading, recorded
from ops.bench.sessions import FORMATS

LABELLED = sorted((Path(__file__).parents[1] / "labelled").glob("*/*.*"))
RECORDINGS = [path for path in LABELLED if path.name not in ("README.md", "labels.jsonl")]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.parent.name + "/" + path.name)
@pytest.mark.parametrize("write", [to_openai_chat, to_atif], ids=["openai_chat", "atif"])
def test_what_is_exported_reads_back_as_it_was(path: Path, write: object) -> None:
    body = path.read_bytes()
    before = traces(detect_adapter(source_of(body)), body, path.name)
    written = jsonl(*(orjson.loads(orjson.dumps(write(trace), default=dict)) for trace in before))  # type: ignore[operator]
    after = traces(detect_adapter(source_of(written)), written)
    assert [told(trace) for trace in after] == [told(trace) for trace in before]
    for one, other in zip(before, after, strict=True):
        assert [t.message for t in one.turns] == [t.message for t in other.turns]
        assert [t.outcome for t in one.turns] == [t.outcome for t in other.turns]
        assert [(c.id, c.name, c.arguments) for t in one.turns for c in t.tool_calls] == [
            (c.id, c.name, c.arguments) for t in other.turns for c in t.tool_calls
        ]
        assert (one.id, one.root, one.name, one.tools, one.complete) == (
            other.id,
            other.root,
            other.name,
            other.tools,
            other.complete,
        )


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "ops.cli", *arguments], input=stdin, capture_output=True, check=False)


def test_a_folder_of_all_formats_is_told_file_by_file(tmp_path: Path) -> None:
    for path in RECORDINGS:
        (tmp_path / f"{path.parent.name}-{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "notes.txt").write_text("not a trace")
    done = run("traces", "import", "--dry-run", "--json", str(tmp_path))
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    assert {f["format"] for f in files} == {"claude_code", "swe_agent", "tau_bench", "openai_chat", None}
    assert [f["path"].endswith("notes.txt") for f in files if f["format"] is None] == [True]
    assert all(f["sessions"] and f["turns"] and f["tool_calls"] and not f["skipped"] for f in files if f["format"])
    assert all(set(f["outcomes"]) <= {outcome.value for outcome in Outcome} for f in files)
    table = run("traces", "import", "--dry-run", str(tmp_path))
    assert table.returncode == 0, table.stderr
    assert b"notes.txt" not in table.stdout + table.stderr, "it is no recording, and nobody named it"
    assert b"1 files of no known format were left out" in table.stderr


def test_the_wrong_format_named_by_hand_is_said(tmp_path: Path) -> None:
    path = str(RECORDINGS[0])
    done = run("traces", "import", "--dry-run", "--json", "--format", "codex", path)
    assert done.returncode == 1
    (report,) = json.loads(done.stdout)["files"]
    assert "codex" in report["skipped"][0]["reason"]
    assert "tau_bench" in report["skipped"][0]["reason"]
    done = run("traces", "import", "--dry-run", "--format", "word_processor", path)
    assert done.returncode == 1
    assert b"claude_code" in done.stderr


def test_signals_come_a_line_each_and_a_path_may_stand_first() -> None:
    path = RECORDINGS[0]
    done = run("signals", str(path), "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows
    members = {"file", "session", "turn", "kind", "target", "fix", "fault", "confidence", "evidence"}
    assert all(set(row) == members and row["file"] == str(path) for row in rows)
    assert [json.loads(line) for line in run("signals", "--json", str(path)).stdout.splitlines()] == rows
    piped = [json.loads(line) for line in run("signals", "--json", "-", stdin=path.read_bytes()).stdout.splitlines()]
    assert [{**row, "file": str(path)} for row in piped] == rows


def test_scores_are_printed_as_a_table_and_as_json() -> None:
    folder = str(Path(__file__).parents[1] / "labelled")
    done = run("signals", "score", "--labels", folder, folder, "--json")
    assert done.returncode == 0, done.stderr
    wanted = {"kinds", "false_alarm_rate", "traps", "signals_per_100_turns", "target_exact", "fault_accuracy", "missed"}
    assert wanted <= set(json.loads(done.stdout))
    assert b"tool_error_retry" in run("signals", "score", "--labels", folder, folder).stdout


def test_every_adapter_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/recordings.md").read_text()
    for adapter in ADAPTERS:
        assert f"`{adapter.name}`" in page
        assert adapter_named(adapter.name) is adapter


def test_a_file_that_is_named_and_is_no_recording_is_said_once(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a trace")
    done = run("traces", "import", "--dry-run", str(file))
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"{file}: no adapter recognises")
    assert line.count("notes.txt") == 1


def test_an_empty_file_says_so_and_no_table_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.touch()
    done = run("signals", str(file))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().strip() == f"{file}: it is empty"


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/.hidden").touch()
    done = run("traces", "import", "--dry-run", str(tmp_path))
    assert done.returncode == 1
    assert f"{tmp_path}: this folder holds no file" in done.stderr.decode()


def test_names_that_are_not_utf_8_can_be_read_and_printed(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    Path(os.fsdecode(name)).write_bytes((LABELLED[0].parent.parent / "web_app/session-b39cfd4b.jsonl").read_bytes())
    for command in (["traces", "import", "--dry-run", "--json"], ["signals", "--json"], ["traces", "export"]):
        for path in (os.fsdecode(name), str(tmp_path)):
            done = run(*command, path)
            assert done.returncode == 0, done.stderr
            assert b"Traceback" not in done.stderr
            assert done.stdout.decode()
    report = json.loads(run("traces", "import", "--dry-run", "--json", os.fsdecode(name)).stdout)
    assert report["files"][0]["path"].endswith("caf\ufffd.jsonl")


def test_an_export_goes_on_past_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("not a trace")
    (tmp_path / "b.json").write_bytes(RECORDINGS[0].read_bytes())
    whole = run("traces", "export", str(tmp_path))
    assert whole.returncode == 0
    assert len(whole.stdout.splitlines()) == len(traces(detect_adapter(source_of(b := RECORDINGS[0].read_bytes())), b))
    assert b"1 files of no known format" in whole.stderr
    none = run("traces", "export", str(tmp_path / "a.txt"), str(tmp_path / "gone"))
    assert none.returncode == 1
    assert none.stdout == b""
    assert len(none.stderr.splitlines()) == 2


def test_signals_are_shown_as_they_are_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorded, "ROWS_AT_ONCE", 2)
    printed: list[int] = []
    show = recorded.print_table

    def counting(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], *, header: bool = True) -> None:
        printed.append(len(rows))
        show(columns, rows, header=header)

    monkeypatch.setattr(recorded, "print_table", counting)
    recorded.signals_find([str(RECORDINGS[0])])
    lines = capsys.readouterr().out.splitlines()
    assert len(printed) > 2
    assert max(printed) == 2
    assert lines[0].split() == list(recorded.COLUMNS)
    assert sum(line.split() == list(recorded.COLUMNS) for line in lines) == 1
    assert len(lines) == 1 + sum(printed)
    with pytest.raises(typer.Exit):
        recorded.signals_find([str(RECORDINGS[0].parent / "README.md")])


def test_progress_advances_with_every_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def shown(_source: Source, _console: object) -> AbstractContextManager[Callable[[int], None]]:
        return nullcontext(steps.append)

    monkeypatch.setattr(reading, "_shown", shown)
    (path,) = [path for path in RECORDINGS if path.name == "house-en.jsonl"]
    seen: list[Exchange | Trace] = []
    for _ in reading.read_files([str(path)], each=lambda _report: seen.append):
        pass
    assert len(seen) > 10
    assert len(steps) >= len(seen)


def test_the_benchmark_measures_every_format_in_one_run() -> None:
    command = [sys.executable, "-m", "ops.bench.importing", "--mb", "0.05", "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert [m["format"] for m in measured] == list(FORMATS)
    for m in measured:
        assert m["long"]["sessions"] > 2 * m["short"]["sessions"] > 2
        assert m["long"]["signals"] > m["short"]["signals"]
        assert 0.8 < m["ratio"] < 1.5
