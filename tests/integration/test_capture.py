"""The recorder: one terminal record per request, whatever happens to the log, the disk or the process."""

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import street_children
from broker import Broker, running_broker
from log_children import open_log
from street_children import begun
from traffic import conversation, exchange, raw, records, said

from daemon.capture import Recorder
from daemon.health import Check, Health
from daemon.kafka_log import KafkaLog
from daemon.log import EventLog, LogRecord
from daemon.metrics import Metrics
from daemon.spool import Spool
from daemon.sqlite_log import SqliteLog
from harness_adapters.errors import ConfigError, LogUnavailableError, RecordError
from harness_adapters.exchange import Exchange, Feedback, Status, exchange_json

DEADLINE_S = 60.0


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)


def read_all(log: EventLog) -> list[Exchange]:
    """The log's exchanges, each where it came first, as its readers see them."""
    first: dict[str, Exchange] = {}
    while batch := log.poll(max_records=500, timeout_s=0.5):
        for record in batch:
            if record.kind == "exchange":
                first.setdefault(record.id, exchange_json.validate_json(record.value))
    return list(first.values())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    with closing(open_sqlite(tmp_path)) as opened:
        opened.lag_records()
        yield opened


def open_sqlite(tmp_path: Path, timeout_s: float = 0.1) -> SqliteLog:
    return SqliteLog(tmp_path / "log.sqlite", "g", timeout_s=timeout_s)


@contextmanager
def locked(path: Path) -> Generator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield


def spools(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "spool").iterdir())


def feedback(name: str) -> Feedback:
    return Feedback(id=name, response_id="resp", tenant="default", created_at=1.0, comment="no")


def test_an_exchange_goes_into_the_log_and_leaves_no_trace_on_disk(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    sent = conversation("a", 20)
    for e in sent:
        recorder.begin(begun(e))
        recorder.end_raw(raw(e))
    recorder.feedback(feedback("fb"))
    recorder.keep(conversation("imported", 3))
    recorder.close()
    assert [r for r in read_all(log) if r.id.startswith("a-")] == sent
    assert log.lag_records() == 24
    assert recorder.status().appended == 24
    assert spools(tmp_path) == []


def test_a_request_that_never_ended_is_abandoned_without_content(tmp_path: Path, log: SqliteLog) -> None:
    first = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    e = exchange("e", [said("user", "my secret")], "answer", sequence=3)
    first.begin(begun(e))
    first.close()
    Recorder(open_sqlite(tmp_path), tmp_path / "spool").close()
    (record,) = read_all(log)
    assert record.status is Status.ABANDONED
    assert (record.id, record.route_key, record.sequence, record.model) == ("e", e.route_key, 3, "agent")
    assert (record.request, record.response) == ({}, None)
    assert spools(tmp_path) == []


def test_nobody_abandons_the_running_requests_of_another(tmp_path: Path, log: SqliteLog) -> None:
    first = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    e = conversation("a", 1)[0]
    first.begin(begun(e))
    second = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    second.close()
    assert read_all(log) == []
    first.end_raw(raw(e))
    first.close()
    assert read_all(log) == [e]


def test_while_the_log_is_away_everything_waits_on_disk_and_keeps_its_order(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    sent = conversation("a", 60)
    with locked(tmp_path / "log.sqlite"):
        for e in sent[:40]:
            recorder.begin(begun(e))
            recorder.end_raw(raw(e))
        wait_until(lambda: recorder.status().spool_records == 40)
        assert not recorder.status().log_available
        wait_until(lambda: recorder.status().queue_records == 0)
        recorder.feedback(feedback("fb"))
    for e in sent[40:]:
        recorder.end_raw(raw(e))
    wait_until(lambda: recorder.status().appended == 61)
    assert recorder.status().log_available
    assert recorder.status().spool_bytes == recorder.status().spool_records == 0
    recorder.close()
    assert read_all(log) == sent


def test_what_the_log_never_took_is_taken_up_by_the_next_start(tmp_path: Path, log: SqliteLog) -> None:
    sent = conversation("a", 10)
    with locked(tmp_path / "log.sqlite"):
        recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
        for e in sent:
            recorder.end_raw(raw(e))
        recorder.close()
        again = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
        assert again.status().spool_records == 10
        again.close()
    Recorder(open_sqlite(tmp_path), tmp_path / "spool").close()
    assert read_all(log) == sent
    assert spools(tmp_path) == []


def test_memory_is_bounded_by_count_and_every_request_leaves_a_record(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path, timeout_s=DEADLINE_S), tmp_path / "spool", max_queue_records=10)
    sent = [exchange(f"e{n}", [said("user", "x" * 1000)], "y", sequence=n) for n in range(100)]
    with locked(tmp_path / "log.sqlite"):
        recorder.end_raw(raw(sent[0]))
        wait_until(lambda: recorder.status().queue_bytes == 0)
        for e in sent[1:]:
            recorder.begin(begun(e))
            recorder.end_raw(raw(e))
        status = recorder.status()
        assert status.queue_records == 1 + 40
        assert status.queue_bytes == sum(raw(e).size_bytes for e in sent[1:11])
        assert status.dropped == {"queue_full": 89}
    recorder.close()
    Recorder(open_sqlite(tmp_path), tmp_path / "spool").close()
    records = read_all(log)
    assert {r.id for r in records} == {e.id for e in sent}
    assert records[:11] == sent[:11]
    assert all(r.status is Status.OK and r.error == "content not recorded: queue_full" for r in records[11:41])
    assert all(r.status is Status.ABANDONED for r in records[41:])


def test_memory_is_bounded_by_bytes(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path, timeout_s=DEADLINE_S), tmp_path / "spool", max_queue_bytes=3000)
    sent = conversation("a", 5)
    with locked(tmp_path / "log.sqlite"):
        recorder.end_raw(raw(sent[0]))
        wait_until(lambda: recorder.status().queue_bytes == 0)
        for e in sent[1:]:
            recorder.end_raw(replace(raw(e), request_bytes=1400, body=b""))
        assert recorder.status().queue_bytes == 2800
    recorder.close()
    assert [r.error for r in read_all(log)] == [None, None, None, *["content not recorded: queue_full"] * 2]


def test_a_full_spool_keeps_records_without_content(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool", max_spool_bytes=20_000)
    sent = [exchange(f"e{n}", [said("user", "x" * 5000)], "y", sequence=n) for n in range(30)]
    with locked(tmp_path / "log.sqlite"):
        for e in sent:
            recorder.begin(begun(e))
            recorder.end_raw(raw(e))
        wait_until(lambda: recorder.status().queue_records == 0)
        status = recorder.status()
        assert status.spool_bytes <= 22_000
        assert status.dropped["spool_full"] >= 26
        with pytest.raises(LogUnavailableError, match="nothing was recorded"):
            recorder.keep(sent)
    recorder.close()
    Recorder(open_sqlite(tmp_path), tmp_path / "spool").close()
    records = {r.id: r for r in read_all(log)}
    assert set(records) == {e.id for e in sent}
    assert sum(bool(r.request) for r in records.values()) == 3
    assert {r.status for r in records.values()} == {Status.OK, Status.ABANDONED}


def test_what_is_not_json_leaves_a_record_without_content(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    e = exchange("e", [said("user", "q")], "a", sequence=1)
    recorder.end_raw(raw(replace(e, request={"odd": object()})))
    recorder.end_raw(raw(replace(e, id="half", request={"text": "cut \ud83d"})))
    recorder.close()
    odd, half = read_all(log)
    assert odd.error == "content not recorded: not_json"
    assert half.request == {"text": "cut ?"}
    assert recorder.status().dropped == {"not_json": 1}


@pytest.mark.kafka
def test_what_is_too_large_for_kafka_leaves_a_record_without_content(tmp_path: Path, broker: Broker) -> None:
    topic = f"topic-{os.urandom(8).hex()}"
    with (
        closing(KafkaLog(broker.address, topic, "g", assignment="all", partitions=1)) as writer,
        closing(KafkaLog(broker.address, topic, "g", assignment="all")) as reader,
    ):
        recorder = Recorder(writer, tmp_path / "spool")
        small = conversation("a", 3)
        large = exchange("large", [said("user", os.urandom(1_100_000).hex())], "a", sequence=9)
        with pytest.raises(RecordError, match=r"record large .*message\.max\.bytes"):
            recorder.keep([small[0], large])
        for sent in (small[0], large, *small[1:]):
            recorder.end_raw(raw(sent))
        recorder.close()
        assert read_all(reader) == [
            small[0],
            replace(large, request={}, response=None, error="content not recorded: too_large"),
            *small[1:],
        ]
        assert recorder.status().dropped == {"too_large": 1}


def test_an_unreadable_spool_is_put_aside_and_the_recorder_starts(tmp_path: Path, log: SqliteLog) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "old.sqlite").write_bytes(b"power cut" * 1000)
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    sent = conversation("a", 2)
    for e in sent:
        recorder.end_raw(raw(e))
    recorder.close()
    assert read_all(log) == sent
    assert spools(tmp_path) == ["old.broken"]


@contextmanager
def small_disk(size: int) -> Generator[None]:
    """Let no file of this process grow beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_a_good_spool_for_the_next_start(tmp_path: Path, log: SqliteLog) -> None:
    sent = [exchange(f"e{n}", [said("user", "x" * 50_000)], "y", sequence=n) for n in range(10)]
    first = Spool(tmp_path / "spool")
    first.put(records(sent))
    first.close()
    with small_disk(200_000):
        full = Spool(tmp_path / "spool")
        assert full.records < 10
        full.close()
    assert not [name for name in spools(tmp_path) if name.endswith(".broken")]
    Recorder(open_sqlite(tmp_path), tmp_path / "spool").close()
    assert {e.id: e for e in read_all(log)} == {e.id: e for e in sent}
    assert spools(tmp_path) == []


class FullDisk:
    """Makes a recorder's spool fail as on a full disk until there is room."""

    def __init__(
        self, recorder: Recorder, patch: pytest.MonkeyPatch, fails: Sequence[str] = ("put", "checkpoint")
    ) -> None:
        self.room = False
        self.refused = 0
        spool = recorder._spool  # pyright: ignore[reportPrivateUsage] - the disk under it is what fails
        for name in fails:
            patch.setattr(spool, name, self._wrapped(getattr(spool, name)))

    def _wrapped(self, call: Callable[..., None]) -> Callable[..., None]:
        def write(*given: Any) -> None:
            if not self.room:
                self.refused += 1
                raise sqlite3.OperationalError("database or disk is full")
            call(*given)

        return write


def test_what_a_full_disk_refuses_waits_in_memory_and_keeps_its_order(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    health = Health(Metrics(), lambda: Check(ok=True), recorder, None, None)
    sent = conversation("a", 60)
    with locked(tmp_path / "log.sqlite"):
        for e in sent[:20]:
            recorder.end_raw(raw(e))
        wait_until(lambda: recorder.status().spool_records == 20)
        disk = FullDisk(recorder, monkeypatch)
        for e in sent[20:]:
            recorder.end_raw(raw(e))
        wait_until(lambda: disk.refused >= 3)
        assert recorder.status().queue_records == 40
        assert "disk is full" in health.checks()["capture"].reason
        disk.room = True
        wait_until(lambda: recorder.status().queue_records == 0)
        assert recorder.status().spool_fault == ""
    wait_until(lambda: recorder.status().appended == 60)
    recorder.close()
    assert read_all(log) == sent
    assert recorder.status().dropped == {}


def fills_up(
    recorder: Recorder, sent: list[Exchange], monkeypatch: pytest.MonkeyPatch, *refused: tuple[str, ...]
) -> FullDisk:
    """Send half, which goes to the spool as the log is away; then the disk is full, and the rest is sent."""
    half = len(sent) // 2
    for e in sent[:half]:
        recorder.end_raw(raw(e))
    wait_until(lambda: recorder.status().spool_records == half)
    disk = FullDisk(recorder, monkeypatch, *refused)
    for e in sent[half:]:
        recorder.end_raw(raw(e))
    return disk


def test_a_log_that_is_there_is_served_beside_a_full_disk(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    sent = conversation("a", 40)
    with locked(tmp_path / "log.sqlite"):
        disk = fills_up(recorder, sent, monkeypatch)
        wait_until(lambda: disk.refused > 0)
    wait_until(lambda: recorder.status().appended == 40)
    recorder.close()
    assert read_all(log) == sent


def test_a_spool_that_cannot_even_forget_repeats_records_and_loses_none(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    sent = conversation("a", 40)
    with locked(tmp_path / "log.sqlite"):
        disk = fills_up(recorder, sent, monkeypatch, ("put", "remove", "checkpoint"))
    wait_until(lambda: recorder.status().appended >= 40)
    assert recorder.status().queue_records == 20
    disk.room = True
    wait_until(lambda: recorder.status().spool_records == recorder.status().queue_records == 0)
    recorder.close()
    assert read_all(log) == sent
    assert recorder.status().dropped == {}


def test_beyond_the_queue_a_full_disk_costs_content_and_readiness_names_it(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool", max_queue_records=5)
    disk = FullDisk(recorder, monkeypatch)
    health = Health(Metrics(), lambda: Check(ok=True), recorder, None, None)
    sent = conversation("a", 10)
    with locked(tmp_path / "log.sqlite"):
        recorder.end_raw(raw(sent[0]))
        wait_until(lambda: disk.refused > 0)
        for e in sent[1:]:
            recorder.end_raw(raw(e))
        assert recorder.status().dropped == {"queue_full": 4}
        assert "queue_full 4" in health.checks()["capture"].reason
    recorder.close()
    records = read_all(log)
    assert records[:6] == sent[:6]
    assert [(r.id, r.error) for r in records[6:]] == [(e.id, "content not recorded: queue_full") for e in sent[6:]]


def test_what_a_full_disk_never_took_is_counted_at_the_end(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    FullDisk(recorder, monkeypatch)
    with locked(tmp_path / "log.sqlite"):
        for e in conversation("a", 5):
            recorder.end_raw(raw(e))
        recorder.close(timeout_s=0.5)
    assert recorder.status().dropped == {"spool_error": 5}


@contextmanager
def small_file_system(folder: Path, size: int) -> Generator[Path]:
    """Mount a file system of `size` bytes; needs to be root and the right to mount."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size}", "none"]
    if shutil.which("mount") is None or subprocess.run(["mount", *options, folder], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_file_system_that_fills_up_and_is_emptied_costs_no_record(tmp_path: Path) -> None:
    sent = [exchange(f"e{n}", [said("user", "x" * 20_000)], "y", sequence=n) for n in range(60)]
    with small_file_system(tmp_path / "data", 2_000_000) as data:
        recorder = Recorder(open_sqlite(data), data / "spool")
        ballast = data / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        for e in sent:
            recorder.begin(begun(e))
            recorder.end_raw(raw(e))
        wait_until(lambda: "disk" in recorder.status().spool_fault)
        assert recorder.status().appended < 60
        assert recorder.status().queue_records > 0
        ballast.unlink()
        recorder.close(timeout_s=DEADLINE_S)
        with closing(open_sqlite(data)) as log:
            assert read_all(log) == sent
        assert "spool_error" not in recorder.status().dropped


@pytest.mark.parametrize("depth", [90, 150, 250, 900])
def test_what_is_nested_too_deep_to_be_read_leaves_a_record_without_content(
    tmp_path: Path, log: SqliteLog, depth: int
) -> None:
    nested: Any = "]"
    for n in range(depth):
        nested = [nested, "]"] if n % 2 else {"}": nested}
    e = exchange("e", [said("user", "q")], "a", sequence=1)
    deep = replace(e, request={"odd": nested})
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    recorder.end_raw(raw(deep))
    recorder.close()
    if depth < 100:
        assert read_all(log) == [deep]
    else:
        assert [r.error for r in read_all(log)] == ["content not recorded: too_deep"]
        assert recorder.status().dropped == {"too_deep": 1}


def test_an_import_never_keeps_a_request_from_being_noted(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    imported = [exchange(f"i{n}", [said("user", "x" * 50_000)], "y", sequence=n) for n in range(1500)]
    with locked(tmp_path / "log.sqlite"):
        importing = threading.Thread(target=recorder.keep, args=(imported,))
        importing.start()
        noted = 0
        while importing.is_alive():
            recorder.begin(begun(exchange(f"b{noted}", [], "", sequence=noted)))
            noted += 1
            time.sleep(0.001)
        assert recorder.status().spool_records == 1500
    assert noted > 10
    assert "begin_not_written" not in recorder.status().dropped
    recorder.close(timeout_s=DEADLINE_S)
    Recorder(open_sqlite(tmp_path), tmp_path / "spool").close(timeout_s=DEADLINE_S)
    assert len(read_all(log)) == 1500 + noted


def test_an_exchange_that_cannot_be_encoded_costs_none_beside_it(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path, timeout_s=DEADLINE_S), tmp_path / "spool")
    first, *sent = conversation("a", 5)
    odd: Any = object()
    with locked(tmp_path / "log.sqlite"):
        recorder.end_raw(raw(first))
        wait_until(lambda: recorder.status().queue_bytes == 0)
        recorder.end_raw(replace(raw(first), id=odd))
        for e in sent:
            recorder.end_raw(raw(e))
    wait_until(lambda: recorder.status().appended == 5)
    assert recorder.status().running
    assert recorder.status().dropped["not_recorded"] == 1
    recorder.close()
    assert read_all(log) == [first, *sent]


class BrokenLog(SqliteLog):
    """A log that does not raise what a log may raise."""

    error: BaseException = RuntimeError("no log error")

    def append(self, records: Sequence[LogRecord]) -> None:
        raise self.error


def test_what_breaks_in_an_unforeseen_way_loses_nothing(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(BrokenLog(tmp_path / "log.sqlite", "g"), tmp_path / "spool")
    sent = conversation("a", 5)
    for e in sent:
        recorder.end_raw(raw(e))
    wait_until(lambda: recorder.status().spool_records == 5)
    recorder.close()
    Recorder(open_sqlite(tmp_path), tmp_path / "spool").close()
    assert read_all(log) == sent


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_recorder_that_has_ended_makes_the_service_unready(tmp_path: Path, log: SqliteLog) -> None:
    broken = BrokenLog(tmp_path / "log.sqlite", "g")
    broken.error = SystemExit()
    recorder = Recorder(broken, tmp_path / "spool")
    health = Health(Metrics(), lambda: Check(ok=True), recorder, None, None)
    assert health.checks()["capture"].ok
    (sent,) = conversation("a", 1)
    recorder.end_raw(raw(sent))
    wait_until(lambda: not health.checks()["capture"].ok)
    assert "restart" in health.checks()["capture"].reason
    recorder.close()
    Recorder(open_sqlite(tmp_path), tmp_path / "spool").close()
    assert read_all(log) == [sent]


def test_answers_without_ids_are_counted(tmp_path: Path, log: SqliteLog) -> None:
    recorder = Recorder(open_sqlite(tmp_path), tmp_path / "spool")
    without, with_ids, failed = conversation("a", 3)
    ids = {"prompt_token_ids": [1], "choices": [{"index": 0, "message": said("assistant", "a"), "token_ids": [2]}]}
    recorder.end_raw(raw(without))
    recorder.end_raw(raw(replace(with_ids, response=ids)))
    recorder.end_raw(raw(replace(failed, status=Status.UPSTREAM_ERROR)))
    recorder.close()
    assert len(read_all(log)) == 3
    metrics = Metrics()
    Health(metrics, lambda: Check(ok=True), recorder, None, None).observe()
    assert "secondnature_ids_missing_total 1.0" in metrics.render().decode()


def test_a_folder_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path, log: SqliteLog) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="give a writable data folder"):
        Recorder(log, tmp_path / "file" / "spool")


def test_a_recorder_that_is_stuck_gives_what_it_holds_to_the_next(tmp_path: Path, log: SqliteLog) -> None:
    writer = open_sqlite(tmp_path, timeout_s=DEADLINE_S)
    recorder = Recorder(writer, tmp_path / "spool")
    sent = conversation("a", 5)
    with locked(tmp_path / "log.sqlite"):
        for e in sent:
            recorder.end_raw(raw(e))
        wait_until(lambda: recorder.status().queue_bytes < sum(raw(e).size_bytes for e in sent))
        recorder.close(timeout_s=0.2)
        assert recorder.status().spool_records == 5
    wait_until(lambda: recorder.status().appended > 0)
    assert read_all(log) == sent[: recorder.status().appended]


def run_proxy(spec: str, spool: Path, name: str, *, timeout_s: float, lines: int, pause_s: float) -> list[str]:
    """Run a recording process, kill it after so many lines and a little more; returns the lines it said."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        street_children.__file__,
        "proxy",
        spec,
        str(spool),
        name,
        str(timeout_s),
    ]
    child = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    said_lines = [child.stdout.readline() for _ in range(lines)]
    time.sleep(pause_s)
    child.send_signal(signal.SIGKILL)
    said_lines += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    return [line.strip() for line in said_lines if line.endswith("\n")]


def check_records(log: EventLog, lines: list[str]) -> None:
    """Every begun request has a terminal record, every acknowledged feedback is there, keys kept their order."""
    kinds: dict[str, str] = {}
    statuses: dict[str, Status] = {}
    keys: dict[tuple[str, str], list[int]] = defaultdict(list)
    while batch := log.poll(max_records=500, timeout_s=1.0):
        for record in batch:
            kinds.setdefault(record.id, record.kind)
            if record.kind == "exchange" and record.id not in statuses:
                e = exchange_json.validate_json(record.value)
                statuses[e.id] = e.status
                if e.status is Status.OK:
                    keys[e.route_key, e.id.split("-")[0]].append(e.sequence)
                else:
                    assert e.request == {}
    begun_ids = [line.split()[1] for line in lines if line.startswith("begun")]
    assert set(begun_ids) <= set(statuses)
    assert {line.split()[1] for line in lines if line.startswith("feedback")} <= set(kinds)
    assert all(statuses[i] is Status.ABANDONED for i in begun_ids if i.endswith("9"))
    assert Counter(statuses.values())[Status.OK] > len(begun_ids) / 2
    assert all(numbers == sorted(numbers) for numbers in keys.values())


def test_a_proxy_killed_at_any_moment_leaves_a_record_of_every_request(tmp_path: Path, log: SqliteLog) -> None:
    chance = random.Random(5)
    spec, lines = f"sqlite:{tmp_path / 'log.sqlite'}", list[str]()
    for name in ("one", "two"):
        lines += run_proxy(spec, tmp_path / "spool", name, timeout_s=10.0, lines=50, pause_s=chance.uniform(0, 0.05))
    with locked(tmp_path / "log.sqlite"):
        for name in ("three", "four"):
            lines += run_proxy(
                spec, tmp_path / "spool", name, timeout_s=0.05, lines=50, pause_s=chance.uniform(0, 0.05)
            )
    Recorder(open_sqlite(tmp_path, 10.0), tmp_path / "spool").close()
    check_records(log, lines)
    assert spools(tmp_path) == []


@pytest.mark.kafka
def test_a_proxy_killed_during_an_outage_of_kafka_leaves_a_record_of_every_request(tmp_path: Path) -> None:
    with running_broker() as broker:
        spec = f"kafka:{broker.address}/traffic"
        with closing(open_log(spec)) as log:
            log.lag_records()
            lines = run_proxy(spec, tmp_path / "spool", "one", timeout_s=10.0, lines=60, pause_s=0.05)
            broker.pause()
            try:
                lines += run_proxy(spec, tmp_path / "spool", "two", timeout_s=0.7, lines=300, pause_s=0.05)
            finally:
                broker.resume()
            with closing(open_log(spec)) as writer:
                Recorder(writer, tmp_path / "spool").close(timeout_s=DEADLINE_S)
            check_records(log, lines)
    assert spools(tmp_path) == []
