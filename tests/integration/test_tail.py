"""From the log into the store: once each, in order, whatever breaks on the way."""

import gc
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import street_children
from broker import Broker
from log_children import open_log
from postgres import running_postgres
from traffic import conversation, exchange, records, said

from daemon.log import LogRecord
from daemon.log_records import record_of
from daemon.sqlite_log import SqliteLog
from daemon.store import Store
from daemon.tail import DeadLetterLimits, Tail, TailState
from harness_adapters.exchange import Feedback, feedback_json
from harness_adapters.trace import Author, Trace, Turn

DEADLINE_S = 60.0


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    with closing(SqliteLog(tmp_path / "log.sqlite", "g", timeout_s=0.2)) as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(f"sqlite:///{tmp_path / 'store.sqlite'}", busy_timeout_s=0.2)) as opened:
        yield opened


@contextmanager
def running(tail: Tail) -> Generator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=tail.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def reader(tmp_path: Path, store: Store, **given: Any) -> Tail:
    log = SqliteLog(tmp_path / "log.sqlite", "g", timeout_s=0.2)
    return Tail(log, store, poll_s=0.05, **given)


def by_session(store: Store) -> set[tuple[str, ...]]:
    return {tuple(e.id for e in store.exchanges_of(row.id)) for row in store.dirty_sessions(1000)}


def test_exchanges_and_feedback_arrive_in_their_sessions(log: SqliteLog, store: Store) -> None:
    first, second = conversation("first", 3), conversation("second", 2)
    said_of = Feedback(id="fb", response_id="resp-second-0", tenant="default", created_at=1.0, comment="no")
    log.append(records([first[0], second[0], first[1]]))
    log.append([LogRecord("k", "fb", "feedback", feedback_json.dump_json(said_of))])
    log.append(records([second[1], first[2], first[2]]))
    tail = Tail(log, store, poll_s=0.01)
    assert tail.step() == 7
    status = tail.status()
    assert (status.records, status.duplicates, status.dead_letters) == (7, 1, 0)
    assert by_session(store) == {
        tuple(e.id for e in first),
        tuple(e.id for e in second),
    }
    assert store.feedback_for(["resp-second-0"], said_of.tenant) == [said_of]
    assert tail.step() == 0
    assert tail.lag_records() == 0


@pytest.mark.parametrize("max_records", [1, 2, 7, 500])
def test_the_size_of_a_batch_changes_no_session(log: SqliteLog, store: Store, max_records: int) -> None:
    chance = random.Random(3)
    waiting = [conversation(f"c{n}", 6, start=n * 10) for n in range(5)]
    expected = {tuple(e.id for e in c) for c in waiting}
    while any(waiting):
        own = chance.choice([c for c in waiting if c])
        log.append(records([own.pop(0)]))
    tail = Tail(log, store, max_records=max_records, poll_s=0.01)
    while tail.step():
        pass
    assert by_session(store) == expected


POISON = [
    (b"", "exchange", "cannot be read as exchange"),
    (b"\xff\xfe{", "exchange", "cannot be read as exchange"),
    (b'{"id": "my secret"}', "exchange", "endpoint Field required"),
    (b"[]", "feedback", "cannot be read as feedback"),
    (b'{"id": 1' + b"[" * 100_000, "", "cannot be read as exchange"),
    (b"{}", "odd", "none of exchange, trace and feedback"),
    (records([exchange("huge", [], "x", sequence=2**80)])[0].value, "exchange", "the store refuses it"),
]


@pytest.mark.parametrize(("raw", "kind", "reason"), POISON)
def test_what_cannot_be_read_is_kept_as_it_was_and_stops_nothing(
    log: SqliteLog, store: Store, raw: bytes, kind: str, reason: str
) -> None:
    before, after = conversation("a", 2)
    log.append([*records([before]), LogRecord("k", "poison", kind, raw), *records([after])])
    tail = Tail(log, store, poll_s=0.01)
    assert tail.step() == 3
    (letter,) = store.dead_letters(10)
    assert letter.raw == raw
    assert reason in letter.reason
    assert "my secret" not in letter.reason
    assert letter.place == "partition 0, offset 2"
    assert by_session(store) == {(before.id, after.id)}
    assert tail.status().dead_letters == 1
    assert log.lag_records() == 0


def test_rows_of_a_foreign_writer_are_set_aside_and_stop_nothing(tmp_path: Path, log: SqliteLog, store: Store) -> None:
    before, after = conversation("a", 2)
    log.append(records([before]))
    with closing(sqlite3.connect(tmp_path / "log.sqlite")) as db, db:
        insert = "INSERT INTO records (key, id, kind, value) VALUES"
        db.execute(f"{insert} ('k', 'text', 'exchange', 'no json')")
        db.execute(f"{insert} (CAST(X'6BFF' AS TEXT), 'key', 'exchange', X'00')")
    log.append(records([after]))
    Tail(log, store, poll_s=0.01).step()
    assert [letter.raw for letter in store.dead_letters(10)] == [b"\x00", b"no json"]
    assert by_session(store) == {(before.id, after.id)}
    assert log.lag_records() == 0


def test_text_that_postgres_cannot_hold_is_set_aside(log: SqliteLog) -> None:
    good = conversation("a", 2)
    log.append(records([good[0], replace(exchange("nul", [], "x", sequence=5), user="a\x00b"), good[1]]))
    with running_postgres() as server, closing(Store(server.new_database())) as store:
        Tail(log, store, poll_s=0.01).step()
        assert store.counts()["exchanges"] == 2
        assert "NUL" in store.dead_letters(10)[0].reason


def test_too_many_in_a_row_stop_the_tail_and_nothing_of_them_is_eaten(
    tmp_path: Path, log: SqliteLog, store: Store
) -> None:
    log.append(records(conversation("a", 2)))
    log.append([LogRecord("k", f"p{n}", "exchange", b"poison") for n in range(100)])
    log.append(records(conversation("b", 2)))
    tail = reader(tmp_path, store, max_records=60)
    with running(tail):
        wait_until(lambda: tail.status().state is TailState.HALTED)
        wait_until(lambda: tail.lag_records() == 104 - 60)
        log.append(records(conversation("c", 1)))
        wait_until(lambda: tail.lag_records() == 105 - 60)
    assert tail.status().state is TailState.HALTED
    assert "100 of them in a row" in tail.status().reason
    assert log.lag_records() == 105 - 60
    allowed = reader(tmp_path, store, limits=DeadLetterLimits(in_a_row=1000, share=1.0))
    with running(allowed):
        wait_until(lambda: log.lag_records() == 0)
    assert len(store.dead_letters(1000)) == 100
    assert store.counts()["exchanges"] == 5


def test_too_large_a_share_stops_the_tail(tmp_path: Path, log: SqliteLog, store: Store) -> None:
    limits = DeadLetterLimits(in_a_row=100, share=0.1, window=50)
    for n in range(60):
        poison = LogRecord("k", f"p{n}", "exchange", b"poison")
        log.append([poison if n % 8 == 0 else records([exchange(f"e{n}", [said("user", "q")], "a", sequence=n)])[0]])
    tail = reader(tmp_path, store, limits=limits, max_records=4)
    with running(tail):
        wait_until(lambda: tail.status().state is TailState.HALTED)
    assert "of the last 50 records cannot be read" in tail.status().reason
    assert 0 < log.lag_records() <= 12


def test_a_locked_store_is_waited_for_and_nothing_is_committed(tmp_path: Path, log: SqliteLog, store: Store) -> None:
    store.counts()
    tail = reader(tmp_path, store)
    with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as other, running(tail):
        other.execute("BEGIN IMMEDIATE")
        log.append(records(conversation("a", 5)))
        wait_until(lambda: tail.status().state is TailState.WAITING_FOR_STORE)
        assert "locked" in tail.status().reason
        wait_until(lambda: tail.lag_records() == 5)
        assert log.lag_records() == 5
        other.execute("ROLLBACK")
        wait_until(lambda: log.lag_records() == 0)
        wait_until(lambda: tail.status().state is TailState.RUNNING)
    assert store.counts()["exchanges"] == 5
    assert tail.status().state is TailState.STOPPED


def test_a_log_that_cannot_commit_is_waited_for_and_nothing_is_skipped(
    tmp_path: Path, log: SqliteLog, store: Store
) -> None:
    log.append(records(conversation("a", 50)))
    tail = reader(tmp_path, store, max_records=10)
    with closing(sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None)) as other, running(tail):
        other.execute("BEGIN IMMEDIATE")
        wait_until(lambda: tail.status().state is TailState.WAITING_FOR_LOG)
        other.execute("ROLLBACK")
        wait_until(lambda: log.lag_records() == 0)
    assert store.counts()["exchanges"] == 50


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_a_tail_killed_at_any_moment_stores_everything_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "sqlite":
        spec = f"sqlite:{tmp_path / 'log.sqlite'}"
    else:
        broker: Broker = request.getfixturevalue("broker")
        spec = f"kafka:{broker.address}/topic-{uuid.uuid4().hex}"
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    chance = random.Random(4)
    conversations = [conversation(f"c{n}", 40, start=n * 100) for n in range(6)]
    command = [sys.executable, "-W", "ignore", street_children.__file__, "tail", spec, url]
    with closing(open_log(spec)) as log, closing(Store(url)) as store:
        log.append(records([e for turn in zip(*conversations, strict=True) for e in turn]))
        stored = 0
        while stored < 240:
            child = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL)
            before = stored
            deadline = time.monotonic() + DEADLINE_S
            while (stored := store.counts()["exchanges"]) in range(before, min(before + 60, 240)):
                assert time.monotonic() < deadline
                time.sleep(chance.uniform(0.001, 0.01))
            child.send_signal(signal.SIGKILL)
            child.wait()
            stored = store.counts()["exchanges"]
        assert store.counts()["exchanges"] == 240
        assert store.counts()["dead_letters"] == 0
        assert by_session(store) == {tuple(e.id for e in c) for c in conversations}


def test_of_recorded_sessions_only_one_is_in_memory(
    log: SqliteLog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn(index=0, author=Author.HUMAN, text="hi", message={"role": "user", "content": "hi"})
    for n in range(20):
        log.append([record_of(Trace(id=f"t{n}", harness="h", tenant="t", turns=(turn,), root=f"t{n}"))])
    most: list[int] = []
    put = store.put_recorded

    def counting(trace: Trace) -> bool:
        most.append(sum(type(found) is Trace for found in gc.get_objects()))
        return put(trace)

    monkeypatch.setattr(store, "put_recorded", counting)
    before = sum(type(found) is Trace for found in gc.get_objects())
    assert Tail(log, store, poll_s=0.01).step() == 20
    assert store.counts()["traces"] == 20
    assert max(most) <= before + 2, "the one before may not be gone yet"


def test_a_poll_is_bounded_by_bytes_and_brings_at_least_one(log: SqliteLog) -> None:
    log.append([LogRecord("k", f"r{n}", "exchange", b"x" * size) for n, size in enumerate((10, 10, 500, 10, 10))])
    batches = [[r.id for r in log.poll(max_records=100, timeout_s=0.1, max_bytes=25)] for _ in range(4)]
    assert batches == [["r0", "r1"], ["r2"], ["r3", "r4"], []]
