"""The embedded event log: one SQLite file with one partition, safe with several processes appending."""

import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from daemon.log import POLL_BYTES, LogRecord, Position, StoredRecord
from harness_adapters.errors import LogUnavailableError, RecordError

SCHEMA = (
    # AUTOINCREMENT never hands out an offset twice, so a committed position stays true whatever happens to the rows.
    "CREATE TABLE IF NOT EXISTS records (offset INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, id TEXT NOT NULL,"
    " kind TEXT NOT NULL, value BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS positions (reader TEXT PRIMARY KEY, next INTEGER NOT NULL)",
)
POLL_PAUSE_S = 0.05
MAX_BYTES = 900_000_000
"""The longest record; SQLite holds rows of a thousand million bytes."""


class SqliteLog:
    """EventLog over one SQLite file. Offsets start at 1. Writers take turns, so offsets become visible in order."""

    def __init__(self, path: Path | str, group: str, *, timeout_s: float = 10.0) -> None:
        self._path = Path(path)
        self._group = group
        self._timeout_s = timeout_s
        self._db: sqlite3.Connection | None = None
        self._next: int | None = None

    def append(self, records: Sequence[LogRecord]) -> None:
        """Append all in one transaction that is on disk when this returns."""
        with self._reached("append") as db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "INSERT INTO records (key, id, kind, value) VALUES (?, ?, ?, ?)",
                [(_text(r.key), _text(r.id), _text(r.kind), r.value) for r in records],
            )
            db.execute("COMMIT")

    def check(self, record: LogRecord) -> None:
        """Raise RecordError for a record that no row can hold."""
        if len(record.value) > MAX_BYTES:
            raise RecordError(
                f"record {record.id} has {len(record.value)} bytes, more than the {MAX_BYTES} that the event log"
                f" {self._path} can hold"
            )

    def poll(self, *, max_records: int, timeout_s: float, max_bytes: int = POLL_BYTES) -> list[StoredRecord]:
        """Return the records after the last poll, waiting up to `timeout_s` seconds for the first."""
        deadline = time.monotonic() + timeout_s
        while True:
            with self._reached("poll") as db:
                start = self._committed(db) if self._next is None else self._next
                rows = db.execute(
                    "SELECT offset, CAST(key AS TEXT), CAST(id AS TEXT), CAST(kind AS TEXT), CAST(value AS BLOB)"
                    " FROM records WHERE offset >= ? ORDER BY offset LIMIT ?",
                    (start, max_records),
                )
                records: list[StoredRecord] = []
                size = 0
                for offset, key, record_id, kind, value in rows:
                    size += len(value)
                    if records and size > max_bytes:
                        break
                    records.append(StoredRecord(Position(0, offset), key, record_id, kind, value))
                rows.close()
            if records:
                self._next = records[-1].position.offset + 1
                return records
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return []
            time.sleep(min(POLL_PAUSE_S, remaining_s))

    def commit(self, records: Sequence[StoredRecord]) -> None:
        """Move the group's position behind the last of these records, unless it is there already."""
        if not records:
            return
        behind = max(record.position.offset for record in records) + 1
        with self._reached("commit") as db:
            db.execute(
                "INSERT INTO positions (reader, next) VALUES (?, ?)"
                " ON CONFLICT (reader) DO UPDATE SET next = max(next, excluded.next)",
                (self._group, behind),
            )

    def rewind(self) -> None:
        """Forget what was polled."""
        self._next = None

    def lag_records(self) -> int:
        """Return how many records stand after the committed position."""
        with self._reached("lag") as db:
            (last,) = db.execute("SELECT coalesce(max(offset), 0) FROM records").fetchone()
            return max(int(last) + 1 - self._committed(db), 0)

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _committed(self, db: sqlite3.Connection) -> int:
        row = db.execute("SELECT next FROM positions WHERE reader = ?", (self._group,)).fetchone()
        return int(row[0]) if row else 1

    @contextmanager
    def _reached(self, action: str) -> Generator[sqlite3.Connection]:
        db: sqlite3.Connection | None = None
        try:
            db = self._db = self._db or self._open()
            yield db
        except (sqlite3.DatabaseError, OSError) as error:
            if db is not None and db.in_transaction:
                db.execute("ROLLBACK")
            raise LogUnavailableError(
                f"the event log {self._path} refused to {action}: {error}; check that its disk has room and that"
                " no other program holds it, the record is kept meanwhile"
            ) from error

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # The port allows any one thread at a time, which SQLite's own serialised mode guards once more.
        db = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False)
        # SQLite holds a writer to no type and to no encoding: whatever a foreign one put there, it must be readable.
        db.text_factory = _read
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            for statement in SCHEMA:
                db.execute(statement)
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db


def _text(value: str) -> str:
    """Keys come from foreign headers and bodies; SQLite takes no half of a surrogate pair."""
    return value.encode("utf-8", "replace").decode()


def _read(text: bytes) -> str:
    return text.decode("utf-8", "replace")
