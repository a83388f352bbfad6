"""One contract for every EventLog: the embedded one and Kafka's."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import log_children
import pytest
from broker import Broker, running_broker
from log_children import numbered, open_log

from daemon.kafka_log import UNPACKED_AT_ONCE, KafkaLog
from daemon.log import EventLog, LogRecord, StoredRecord
from daemon.sqlite_log import SqliteLog
from harness_adapters.errors import LogUnavailableError, RecordError

DEADLINE_S = 60.0


@dataclass
class Place:
    """Where one test keeps its log, and how to make that unreachable for a while."""

    spec: str
    outage: Callable[[], AbstractContextManager[None]]
    opened: list[EventLog] = field(default_factory=list[EventLog])

    def open(self, group: str = "g", timeout_s: float = 10.0) -> EventLog:
        self.opened.append(open_log(self.spec, group, timeout_s))
        return self.opened[-1]


@contextmanager
def sqlite_place(folder: Path) -> Generator[Place]:
    path = folder / "log.sqlite"

    @contextmanager
    def locked() -> Generator[None]:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            yield

    yield Place(f"sqlite:{path}", locked)


@contextmanager
def kafka_place(running: Broker) -> Generator[Place]:
    @contextmanager
    def paused() -> Generator[None]:
        running.pause()
        try:
            yield
        finally:
            running.resume()

    yield Place(f"kafka:{running.address}/topic-{uuid.uuid4().hex}", paused)


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kafka = request.param == "kafka"
    with kafka_place(request.getfixturevalue("broker")) if kafka else sqlite_place(tmp_path) as place:
        yield place
        for log in place.opened:
            log.close()


def read(log: EventLog, count: int) -> list[StoredRecord]:
    """Poll until `count` records have come, and then once more to see that there are no others."""
    records: list[StoredRecord] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(records) < count and time.monotonic() < deadline:
        records += log.poll(max_records=100, timeout_s=0.5)
    records += log.poll(max_records=100, timeout_s=0.2)
    assert len(records) == count
    return records


def read_all(log: EventLog) -> list[StoredRecord]:
    """Poll until nothing comes."""
    records: list[StoredRecord] = []
    while batch := log.poll(max_records=100, timeout_s=1.0):
        records += batch
    return records


def numbers_by_key(records: list[StoredRecord]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for record in records:
        numbers[record.key].append(json.loads(record.value)["n"])
    return numbers


def test_what_goes_in_comes_out_in_order_per_key(place: Place) -> None:
    log = place.open()
    sent = [numbered(n) for n in range(200)]
    for at in range(0, 200, 17):
        log.append(sent[at : at + 17])
    got = read(log, 200)
    assert {r.id: (r.key, r.kind, r.value) for r in got} == {r.id: (r.key, r.kind, r.value) for r in sent}
    assert all(numbers == sorted(numbers) for numbers in numbers_by_key(got).values())


def test_keys_of_any_text_and_empty_values(place: Place) -> None:
    log = place.open()
    sent = [LogRecord("ключ \U0001f511", "id\x00\n", "feedback", b""), LogRecord("", "", "", b"\xff\x00")]
    log.append(sent)
    assert sorted((r.key, r.id, r.kind, r.value) for r in read(log, 2)) == sorted(
        (r.key, r.id, r.kind, r.value) for r in sent
    )
    log.append([LogRecord("half \ud83d", "half \ud83d", "exchange", b"{}")])
    assert [r.id for r in read(log, 1)] == ["half ?"]


def test_a_reader_starts_at_the_committed_position(place: Place) -> None:
    log = place.open()
    log.append([numbered(n) for n in range(50)])
    first = log.poll(max_records=20, timeout_s=10)
    log.commit(first)
    rest = {f"id-{n}" for n in range(50)} - {r.id for r in first}
    log.poll(max_records=5, timeout_s=10)
    log.rewind()
    assert {r.id for r in read(log, len(rest))} == rest
    assert {r.id for r in read(place.open(), len(rest))} == rest
    assert len(read(place.open(group="another"), 50)) == 50


def test_a_commit_never_moves_back(place: Place) -> None:
    log = place.open()
    log.append([numbered(n) for n in range(30)])
    records = read(log, 30)
    log.commit(records)
    log.commit(records[:3])
    place.open().commit(records[:1])
    log.commit([])
    log.rewind()
    read(log, 0)
    read(place.open(), 0)


def test_rewind_before_any_commit_starts_over(place: Place) -> None:
    log = place.open()
    log.append([numbered(n) for n in range(10)])
    read(log, 10)
    log.rewind()
    read(log, 10)


def test_lag_counts_what_is_not_committed(place: Place) -> None:
    log = place.open()
    assert log.lag_records() == 0
    for n in range(10):
        log.append([numbered(n)])
    assert log.lag_records() == 10
    got = log.poll(max_records=4, timeout_s=10)
    assert log.lag_records() == 10
    log.commit(got)
    assert log.lag_records() == 10 - len(got)
    assert place.open(group="another").lag_records() == 10


def test_records_of_900_kilobytes(place: Place) -> None:
    log = place.open()
    big = [LogRecord("k", f"big-{n}", "exchange", os.urandom(900_000)) for n in range(3)]
    log.append(big)
    assert [r.value for r in read(log, 3)] == [r.value for r in big]


def test_several_open_logs_append_together(place: Place) -> None:
    for at in range(4):
        place.open().append([numbered(at)])
    assert len(read(place.open(), 4)) == 4


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", log_children.__file__, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def lines_until_killed(child: subprocess.Popen[str], lines: int, pause_s: float) -> list[str]:
    """Kill the child a little after it has said so many lines; returns all it said."""
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(lines)]
    time.sleep(pause_s)
    child.send_signal(signal.SIGKILL)
    said += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    return [line for line in said if line.endswith("\n")]


def test_an_appender_killed_at_any_moment_loses_nothing_it_was_told_is_written(place: Place) -> None:
    chance = random.Random(1)
    told, next_number = [0], 0
    for _ in range(3):
        child = start("append", place.spec, str(next_number), "1000000")
        told += [int(line) for line in lines_until_killed(child, 3, chance.uniform(0, 0.05))]
        next_number = told[-1]
    numbers = numbers_by_key(read_all(place.open()))
    assert {n for own in numbers.values() for n in own} >= set(range(told[-1]))
    for own in numbers.values():
        firsts = list(dict.fromkeys(own))
        assert firsts == sorted(firsts)


def test_a_reader_killed_at_any_moment_loses_nothing_and_repeats_nothing_committed(
    place: Place, tmp_path: Path
) -> None:
    total = 600
    log = place.open()
    log.append([numbered(n) for n in range(total)])
    chance = random.Random(2)
    results = str(tmp_path / "results.sqlite")
    committed: dict[int, int] = defaultdict(int)
    last_row = 0
    deadline = time.monotonic() + DEADLINE_S
    while sum(committed.values()) < total and time.monotonic() < deadline:
        child = start("consume", place.spec, results)
        said = lines_until_killed(child, 10, chance.uniform(0, 0.03))
        with closing(sqlite3.connect(results)) as db:
            rows = db.execute("SELECT rowid, partition, offset FROM seen WHERE rowid > ?", (last_row,)).fetchall()
        for row, partition, offset in rows:
            assert offset >= committed[partition], "a committed record was read again"
            last_row = row
        for partition, offset in (p for line in said for p in json.loads(line)):
            committed[partition] = max(committed[partition], offset + 1)
    with closing(sqlite3.connect(results)) as db:
        assert {r for (r,) in db.execute("SELECT id FROM seen")} == {f"id-{n}" for n in range(total)}
        for key in range(5):
            values = db.execute("SELECT value FROM seen WHERE key = ? ORDER BY rowid", (f"key-{key}",))
            firsts = list(dict.fromkeys(json.loads(value)["n"] for (value,) in values))
            assert firsts == sorted(firsts)


def check_outage(place: Place) -> None:
    log = place.open(timeout_s=1.0)
    log.append([numbered(n) for n in range(10)])
    reader = place.open(timeout_s=1.0)
    seen = read(reader, 10)
    with place.outage():
        for _ in range(2):
            with pytest.raises(LogUnavailableError, match="kept meanwhile"):
                log.append([numbered(n) for n in range(10, 20)])
        with pytest.raises(LogUnavailableError):
            reader.commit(seen)
    log.append([numbered(n) for n in range(10, 30)])
    reader.commit(seen)
    numbers = numbers_by_key(read_all(reader))
    assert {n for own in numbers.values() for n in own} == set(range(10, 30))
    for own in numbers.values():
        firsts = list(dict.fromkeys(own))
        assert firsts == sorted(firsts)


def test_an_outage_of_sqlite_is_told_and_passes(tmp_path: Path) -> None:
    with sqlite_place(tmp_path) as place:
        check_outage(place)
        for log in place.opened:
            log.close()


@pytest.mark.kafka
def test_an_outage_of_kafka_is_told_and_passes() -> None:
    with running_broker() as broker, kafka_place(broker) as place:
        check_outage(place)
        with place.outage(), pytest.raises(LogUnavailableError, match="could not"):
            place.open(timeout_s=1.0).lag_records()
        for log in place.opened:
            log.close()


def test_sqlite_says_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(LogUnavailableError, match=r"log\.sqlite refused to append"):
        SqliteLog(path, "g").append([numbered(1)])
    (tmp_path / "file").touch()
    with pytest.raises(LogUnavailableError):
        SqliteLog(tmp_path / "file" / "log.sqlite", "g").lag_records()


def test_sqlite_reads_what_a_foreign_writer_put_there_in_another_type_or_encoding(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.sqlite", "g")) as log:
        log.append([numbered(1)])
        with closing(sqlite3.connect(tmp_path / "log.sqlite")) as db, db:
            insert = "INSERT INTO records (key, id, kind, value) VALUES"
            db.execute(f"{insert} ('k', 'text', 'exchange', CAST(X'7BFF' AS TEXT))")
            db.execute(f"{insert} (CAST(X'6BFF' AS TEXT), X'6964', 'exchange', 7)")
        log.append([numbered(2)])
        got = read(log, 4)
    assert [(r.key, r.id, r.value) for r in got[1:3]] == [("k", "text", b"{\xff"), ("k\ufffd", "id", b"7")]
    assert [r.id for r in got] == ["id-1", "text", "id", "id-2"]


@pytest.mark.kafka
def test_kafka_takes_what_compresses_below_its_limit_and_refuses_the_rest(broker: Broker) -> None:
    topic = f"topic-{uuid.uuid4().hex}"
    with closing(KafkaLog(broker.address, topic, "g", assignment="all", partitions=1)) as log:
        long = LogRecord("k", "long", "exchange", b"many words " * 500_000)
        log.append([long])
        with pytest.raises(RecordError, match="record random has"):
            log.append([numbered(1), LogRecord("k", "random", "exchange", os.urandom(1_100_000))])
        (got,) = read(log, 1)
        assert got.value == long.value


@pytest.mark.kafka
def test_a_kafka_that_is_not_there(free_address: str) -> None:
    with closing(KafkaLog(free_address, "t", "g", timeout_s=1.0)) as log:
        with pytest.raises(LogUnavailableError, match=free_address):
            log.append([numbered(1)])
        with pytest.raises(LogUnavailableError):
            log.poll(max_records=1, timeout_s=0.1)


@pytest.fixture
def free_address() -> str:
    from ops.demo.service import free_port

    return f"127.0.0.1:{free_port()}"


@pytest.mark.kafka
def test_workers_of_one_group_share_the_partitions(broker: Broker) -> None:
    topic = f"topic-{uuid.uuid4().hex}"
    with (
        closing(KafkaLog(broker.address, topic, "g", partitions=4)) as first,
        closing(KafkaLog(broker.address, topic, "g", partitions=4)) as second,
    ):
        first.append([LogRecord(f"key-{n}", f"id-{n}", "exchange", b"{}") for n in range(100)])
        assert first.lag_records() > 0
        got: dict[str, KafkaLog] = {}
        both = threading.Barrier(2)

        def work(log: KafkaLog) -> None:
            both.wait(DEADLINE_S)
            deadline = time.monotonic() + DEADLINE_S
            while len(got) < 100 and time.monotonic() < deadline:
                batch = log.poll(max_records=10, timeout_s=0.2)
                log.commit(batch)
                got.update({r.id: log for r in batch})

        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(work, first), pool.submit(work, second)]:
                done.result()
        assert len(got) == 100
        assert set(got.values()) == {first, second}
        first.rewind()
        assert first.poll(max_records=10, timeout_s=1.0) == []
        assert first.lag_records() == 0


def test_polls_bounded_by_bytes_bring_everything_in_its_order(place: Place) -> None:
    log = place.open()
    log.append([LogRecord("k", f"r{n}", "exchange", b"x" * 1000) for n in range(40)])
    read: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(read) < 40:
        assert time.monotonic() < deadline
        batch = log.poll(max_records=100, timeout_s=1.0, max_bytes=5000)
        assert len(batch) <= 5 + UNPACKED_AT_ONCE
        log.commit(batch)
        read += [record.id for record in batch]
    assert read == [f"r{n}" for n in range(40)]
    assert log.lag_records() == 0
