"""Imports into a daemon that takes not everything, or not now; and what is kept of what it never gets."""

import asyncio
import json
import secrets
import sqlite3
import sys
import threading
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from adapter_files import jsonl
from control_world import PAIR, control_routes, lines, pair, run

from ops import importing, reading
from ops.client import DaemonClient, DaemonRefusedError
from ops.importing import import_files
from ops.reading import FileReport


async def test_an_import_is_sent_in_requests_of_few_megabytes(tmp_path: Path) -> None:
    file = lines(tmp_path / "chat.jsonl", *(pair(str(n) * (3 << 20)) for n in range(7)))
    async with control_routes(tmp_path, max_request_bytes=16 << 20) as (url, recorder, sizes):
        done = await asyncio.to_thread(run, "traces", "import", str(file), "--url", url, "--json")
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["files"]
    assert (report["sessions"], report["appended"], report["skipped"]) == (7, 7, [])
    assert recorder.status().appended == 7
    assert len(sizes) > 1
    assert max(sizes) <= 8 << 20


async def test_a_record_too_long_for_the_daemon_is_skipped_alone_and_its_place_named(tmp_path: Path) -> None:
    texts = ("a", "b", "c" * 200_000, "d", "e" * 900_000, "f")
    file = lines(tmp_path / "chat.jsonl", *map(pair, texts))
    async with control_routes(tmp_path, max_request_bytes=100_000) as (url, recorder, _):
        done = await asyncio.to_thread(run, "traces", "import", str(file), "--url", url)
    assert done.returncode == 0, done.stderr
    assert recorder.status().appended == 4
    assert len(kept_of(file)) == 2
    told = done.stderr.splitlines()
    assert [line.split(" was not taken: ")[0] for line in told] == [
        f"{file}: what begins at exchange {place}" for place in (2, 4)
    ]
    assert all("server.max_request_bytes" in line for line in told)


async def test_a_record_nested_too_deep_is_skipped_alone_and_its_line_named(tmp_path: Path) -> None:
    deep: Any = "bottom"
    for _ in range(150):
        deep = [deep]
    odd = {**PAIR, "request": {**PAIR["request"], "metadata": deep}}
    file = lines(tmp_path / "chat.jsonl", pair("a"), odd, pair("b"))
    async with control_routes(tmp_path) as (url, recorder, _):
        done = await asyncio.to_thread(run, "traces", "import", str(file), "--url", url)
    assert done.returncode == 0, done.stderr
    assert recorder.status().appended == 2
    assert done.stderr.startswith(f"{file}:2: ")


def test_dry_run_reads_without_a_daemon_and_reports_what_it_skipped(tmp_path: Path) -> None:
    file = lines(tmp_path / "chat.jsonl", PAIR)
    with file.open("ab") as more:
        more.write(b'{"request": {"messages": [\n\xff\xfe not json\n')
    done = run("traces", "import", str(file), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["files"]
    assert (report["format"], report["sessions"], report["turns"], report["appended"]) == ("openai_chat", 1, 2, 0)
    assert [skipped["line"] for skipped in report["skipped"]] == [2, 3]
    assert all(skipped["reason"] for skipped in report["skipped"])


def kept_of(file: Path) -> list[dict[str, Any]]:
    """What an import kept of a file, each record without what stood in it."""
    kept = Path(f"{file}.rejected.jsonl")
    return [json.loads(line) for line in kept.read_bytes().splitlines()] if kept.exists() else []


async def imported(url: str, *paths: Path | str, **given: Any) -> list[FileReport]:
    with closing(DaemonClient(url)) as client:
        return await asyncio.to_thread(import_files, [str(path) for path in paths], client, **given)


async def test_what_the_log_can_never_take_is_skipped_with_its_reason_and_never_dropped(tmp_path: Path) -> None:
    file = lines(tmp_path / "chat.jsonl", pair("a"), pair(secrets.token_hex(40_000)), pair("c"))
    async with control_routes(tmp_path, of_kafka=True) as (url, recorder, _):
        (report,) = await imported(url, file)
        status = recorder.status()
    assert report.appended == 2
    (skipped,) = report.skipped
    assert "log.max_request_bytes" in skipped.reason
    assert "exchange 1" in skipped.reason
    assert (status.spool_records + status.queue_records, status.dropped) == (2, {})
    (kept,) = kept_of(file)
    assert kept["line"] is None


async def test_a_daemon_that_takes_nothing_now_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = lines(tmp_path / "chat.jsonl", *(pair(f"{n} " + "x" * 3000) for n in range(4)))
    monkeypatch.setattr(importing, "BATCH_RECORDS", 1)
    monkeypatch.setattr(importing, "PAUSES_S", (0.2,) * 100)
    async with control_routes(tmp_path, max_spool_bytes=5000) as (url, recorder, sizes):
        await imported(url, lines(tmp_path / "first.jsonl", pair("first")))
        with closing(sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(1.0, lambda: other.execute("ROLLBACK")).start()
            (report,) = await imported(url, file)
    assert (report.appended, report.skipped) == (4, [])
    assert len(sizes) > 5, "it was asked again"
    assert recorder.status().appended == 5


async def test_a_daemon_that_takes_nothing_for_long_ends_the_import_with_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = lines(tmp_path / "chat.jsonl", *(pair(f"{n} " + "x" * 3000) for n in range(4)))
    monkeypatch.setattr(importing, "BATCH_RECORDS", 1)
    monkeypatch.setattr(importing, "PAUSES_S", (0.01,) * 2)
    async with control_routes(tmp_path, max_spool_bytes=5000) as (url, _, _):
        await imported(url, lines(tmp_path / "first.jsonl", pair("first")))
        with closing(sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DaemonRefusedError, match=r"1 records had been appended, reading .*chat.jsonl") as error:
                await imported(url, file)
            other.execute("ROLLBACK")
    assert error.value.status == 503


BROKEN = b'{"request": \n\xff\n'


async def test_what_was_not_read_is_kept_beside_its_file_until_all_of_it_is(tmp_path: Path) -> None:
    odd = tmp_path / "a!b.jsonl"
    odd.write_bytes(jsonl(PAIR) + BROKEN)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("x.jsonl", jsonl(pair("x")) + BROKEN)
        archive.writestr("y.jsonl", jsonl(pair("y")) + BROKEN)
        archive.writestr("z.txt", "no recording")
    async with control_routes(tmp_path / "data") as (url, _, _):
        await imported(url, odd, tmp_path / "all.zip", keep_rejected=False)
        assert not kept_of(odd)
        assert not kept_of(tmp_path / "all.zip")
        reports = await imported(url, odd, tmp_path / "all.zip")
        first = kept_of(odd)
        assert [(row["path"], row["line"]) for row in first] == [(str(odd), 2), (str(odd), 3)]
        assert [row.get("text", row.get("base64")) for row in first] == ['{"request":', "/w=="]
        members = [(row["path"].partition("!")[2], row["line"]) for row in kept_of(tmp_path / "all.zip")]
        assert members == [("x.jsonl", 2), ("x.jsonl", 3), ("y.jsonl", 2), ("y.jsonl", 3)]
        assert [r.rejected for r in reports if r.format] == [f"{odd}.rejected.jsonl"] + [
            f"{tmp_path}/all.zip.rejected.jsonl"
        ] * 2
        assert all(not skipped.raw for report in reports for skipped in report.skipped)
        odd.write_bytes(jsonl(PAIR))
        await imported(url, tmp_path)
    assert not kept_of(odd)
    assert len(kept_of(tmp_path / "all.zip")) == 4


async def test_all_of_it_is_kept_however_few_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_SKIPPED", 2)
    file = tmp_path / "chat.jsonl"
    file.write_bytes(jsonl(PAIR) + b"broken\n" * 5)
    async with control_routes(tmp_path) as (url, _, _):
        (report,) = await imported(url, file)
    assert (len(report.skipped), report.more_skipped, len(kept_of(file))) == (2, 3, 5)


async def test_what_cannot_be_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_bytes(jsonl(PAIR) + BROKEN)
    (tmp_path / "chat.jsonl.rejected.jsonl").mkdir()  # which no file can be written over
    with file.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        async with control_routes(tmp_path / "data") as (url, _, _):
            beside, piped = await imported(url, file, "-")
    assert "cannot be written" in beside.fault
    assert "standard input" in piped.fault
    assert (beside.rejected, piped.rejected, beside.appended) == (None, None, 1)
