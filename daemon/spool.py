"""The spool: one small SQLite file per recording process, beside the proxy.

It holds a begin record for every request in flight, and the records that the event log could not take yet. Each process
has a file of its own, named by a UUID and guarded by an flock that dies with it; whoever starts next adopts the files
whose lock is free.
"""

import fcntl
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from daemon.log import LogRecord
from daemon.log_records import record_of
from harness_adapters.exchange import Exchange, Status

logger = structlog.get_logger()

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS pending (exchange_id TEXT PRIMARY KEY, begun BLOB, turn INTEGER, key TEXT, kind TEXT,"
    " ended BLOB)",
    "CREATE INDEX IF NOT EXISTS pending_turn ON pending (turn) WHERE turn IS NOT NULL",
)
_REMOVE = "DELETE FROM pending WHERE exchange_id = ? RETURNING turn, coalesce(length(ended), 0)"
BUSY_S = 0.05
"""How long the event loop may wait for the recorder's thread, whose transactions take about a millisecond."""
GAP_S = 0.02
"""Pause between parts; longer than SQLite's pauses between two tries within `BUSY_S`, so that one of them gets in."""
PART_RECORDS, PART_BYTES = 200, 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A request that is about to be forwarded. Holds no content: this file is written before redaction."""

    exchange_id: str
    route_key: str
    tenant: str
    started_at: float
    model: str
    endpoint: str
    sequence: int

    def abandoned(self) -> Exchange:
        """Return what is recorded when no end ever came."""
        return Exchange(
            id=self.exchange_id,
            endpoint=self.endpoint,
            model=self.model,
            tenant=self.tenant,
            route_key=self.route_key,
            sequence=self.sequence,
            status=Status.ABANDONED,
            started_at=self.started_at,
            request={},
            error="the proxy ended before the request did",
        )


class Spool:
    """One process's file in `directory`. `begin` belongs to the event loop, everything else may come from any thread.

    Raises sqlite3.Error or OSError where the disk does not let it work.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"{uuid.uuid4()}.sqlite"
        # Held before the file exists, so that nobody ever sees it without an owner.
        self._lock_fd = os.open(_lock_path(self.path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
        self._db = _connect(self.path)
        _sync_folder(directory)
        self._loop_db = _connect(self.path, timeout_s=BUSY_S)
        self._guard = threading.Lock()
        self._turn = 0
        self.records = 0
        self.bytes = 0
        for orphan in _orphans(directory):
            self._adopt(orphan)

    def begin(self, begun: Begun) -> None:
        """Note a request before it is forwarded."""
        self._loop_db.execute(
            "INSERT OR IGNORE INTO pending (exchange_id, begun) VALUES (?, ?)", (begun.exchange_id, orjson.dumps(begun))
        )

    def put(self, records: Sequence[LogRecord]) -> None:
        """Keep records until the log takes them, behind those kept before."""
        with self._guard:
            count, size = self.records, self.bytes
            with _transaction(self._db) as db:
                for record in records:
                    self._turn += 1
                    before = db.execute(_REMOVE, (record.id,)).fetchone() or (None, 0)
                    turn = self._turn if before[0] is None else before[0]
                    db.execute(
                        "INSERT INTO pending (exchange_id, turn, key, kind, ended) VALUES (?, ?, ?, ?, ?)",
                        (record.id, turn, record.key, record.kind, record.value),
                    )
                    count += before[0] is None
                    size += len(record.value) - before[1]
            self.records, self.bytes = count, size

    def put_synced(self, records: Sequence[LogRecord]) -> None:
        """Keep records and wait until the disk itself has them.

        For many records at once: they go in by parts, so that some may be kept when this raises, and neither they nor
        the disk ever hold up `begin`.
        """
        for part in _parts(records):
            self.put(part)
            time.sleep(GAP_S)
        # A checkpoint may have emptied the file meanwhile, having synced what it held.
        with Path(f"{self.path}-wal").open("rb") as log:
            os.fsync(log.fileno())

    def oldest(self, *, max_records: int, max_bytes: int) -> list[LogRecord]:
        """Return the records kept longest, in order; at least one if there is any."""
        chosen: list[LogRecord] = []
        size = 0
        with self._guard:
            rows = self._db.execute(
                "SELECT key, exchange_id, kind, ended FROM pending WHERE turn IS NOT NULL ORDER BY turn LIMIT ?",
                (max_records,),
            )
            for key, record_id, kind, value in rows:
                size += len(value)
                if chosen and size > max_bytes:
                    break
                chosen.append(LogRecord(key, record_id, kind, value))
            rows.close()
        return chosen

    def remove(self, record_ids: Sequence[str]) -> None:
        """Forget requests whose record the log has."""
        with self._guard:
            count, size = self.records, self.bytes
            with _transaction(self._db) as db:
                for record_id in record_ids:
                    before = db.execute(_REMOVE, (record_id,)).fetchone() or (None, 0)
                    count -= before[0] is not None
                    size -= before[1]
            self.records, self.bytes = count, size

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file. Syncs the disk, so it is for the recorder's thread alone."""
        with self._guard:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Give the file up: an empty one is deleted, any other is adopted by whoever starts next."""
        with self._guard:
            (left,) = self._db.execute("SELECT count(*) FROM pending").fetchone()
            self._loop_db.close()
            self._db.close()
            if left == 0:
                _delete(self.path)
            os.close(self._lock_fd)

    def _adopt(self, orphan: Path) -> None:
        """Take over the requests of a process that is gone. Done twice, it repeats records, whose readers drop them."""
        with _exclusive(orphan) as owned:
            if not owned:
                return
            try:
                for record in _records_in(orphan):
                    self.put([record])
            except (sqlite3.Error, OSError) as error:
                # A full disk, say. What was taken over already is repeated at the next start.
                logger.warning("spool_left_for_later", file=str(orphan), reason=str(error))
                return
            except _UnreadableError as error:
                broken = orphan.with_suffix(".broken")
                for suffix in ("", "-wal"):
                    with suppress(FileNotFoundError):
                        Path(f"{orphan}{suffix}").rename(f"{broken}{suffix}")
                logger.error("spool_unreadable", file=str(broken), reason=str(error))  # noqa: TRY400 - says it all
            _delete(orphan)


def _connect(path: Path, *, timeout_s: float = 10.0) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing that was written, synced or not; only a power cut could, and it would take the
        # request with it. Syncing each begin would put a disk's latency in front of every request.
        db.execute("PRAGMA synchronous = NORMAL")
        # Checkpoints do sync, so they must not happen by themselves within a statement of the event loop.
        db.execute("PRAGMA wal_autocheckpoint = 0")
        for statement in SCHEMA:
            db.execute(statement)
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


class _UnreadableError(Exception):
    """A file that no later start will read either."""


def _records_in(orphan: Path) -> Iterator[LogRecord]:
    """Yield what a file holds. Raises _UnreadableError where it is damaged, sqlite3.Error where it cannot be opened."""
    try:
        with closing(_connect(orphan)) as old:
            rows = old.execute("SELECT exchange_id, begun, key, kind, ended FROM pending ORDER BY turn IS NULL, turn")
            for record_id, begun, key, kind, ended in rows:
                if ended is None:
                    yield record_of(Begun(**orjson.loads(begun)).abandoned())
                else:
                    yield LogRecord(key, record_id, kind, ended)
    except sqlite3.OperationalError:
        raise
    except (sqlite3.DatabaseError, ValueError, TypeError) as error:
        raise _UnreadableError(str(error)) from error


def _parts(records: Sequence[LogRecord]) -> Iterator[list[LogRecord]]:
    part: list[LogRecord] = []
    size = 0
    for record in records:
        if part and (len(part) == PART_RECORDS or size + len(record.value) > PART_BYTES):
            yield part
            part, size = [], 0
        part.append(record)
        size += len(record.value)
    if part:
        yield part


@contextmanager
def _transaction(db: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _sync_folder(directory: Path) -> None:
    """Make the names of new files last: syncing a file alone does not."""
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _lock_path(path: Path) -> Path:
    # A file of its own: closing any descriptor of the database would drop SQLite's locks on it.
    return path.with_suffix(".lock")


def _orphans(directory: Path) -> list[Path]:
    """Return the files in the order of their last change; a process's own is skipped by its lock."""
    found: list[tuple[float, Path]] = []
    for path in directory.glob("*.sqlite"):
        with suppress(FileNotFoundError):
            found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found)]


@contextmanager
def _exclusive(path: Path) -> Generator[bool]:
    fd = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        yield False
        return
    try:
        # Another may have adopted and deleted it between the listing and the lock.
        yield path.exists()
    finally:
        _lock_path(path).unlink(missing_ok=True)
        os.close(fd)


def _delete(path: Path) -> None:
    # The lock goes last: whoever holds it may still find the file.
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm"), _lock_path(path)):
        name.unlink(missing_ok=True)
