"""The recorder between the proxy and the event log. It never fails, delays or reorders traffic, and never grows without
bound: what the log cannot take waits on disk, and what cannot be kept is counted by reason and leaves a record without
content."""

import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

import structlog

from daemon import durable
from daemon.assemble import recorded, stub_of, without_content
from daemon.capture_status import CaptureStatus
from daemon.exchange_raw import RawExchange
from daemon.log import EventLog, LogRecord
from daemon.spool import Begun, Spool
from harness_adapters.errors import ConfigError, LogUnavailableError, RecordError
from harness_adapters.exchange import Exchange, Feedback, Status
from harness_adapters.trace import Trace

__all__ = ["Begun", "Recorder"]

logger = structlog.get_logger()

MIB = 1024 * 1024
BATCH_RECORDS, BATCH_BYTES = 200, 4 * MIB
# The spool is emptied in larger steps than it is filled, so that it does become empty under load.
DRAIN_RECORDS, DRAIN_BYTES = 1000, 8 * MIB
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
CHECKPOINT_EVERY_S = 5.0
STUBS_PER_RECORD = 4
"""How many records without content may wait in memory for each one with content."""
STUB_ROOM = 1.1
"""The spool takes records without content up to this multiple of its limit."""


class Recorder:
    """Takes ended exchanges from the event loop and appends them to the log from a thread of its own.

    Raises ConfigError when the spool's directory cannot be used.
    """

    def __init__(
        self,
        log: EventLog,
        spool_dir: Path,
        *,
        max_queue_records: int = 4096,
        max_queue_bytes: int = 256 * MIB,
        max_spool_bytes: int = 4096 * MIB,
    ) -> None:
        self._log = log
        self._max_queue_records = max_queue_records
        self._max_queue_bytes = max_queue_bytes
        self._max_spool_bytes = max_spool_bytes
        try:
            self._spool = Spool(spool_dir)
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(
                f"the spool cannot be kept in {spool_dir}: {error}; give a writable data folder on a local disk"
            ) from error
        self._queue: deque[tuple[Exchange | RawExchange, int]] = deque()
        self._queue_bytes = 0
        self._in_hand: list[Exchange | RawExchange] = []
        self._changed = threading.Condition()
        self._dropped: Counter[str] = Counter()
        self._dropped_at: dict[str, float] = {}
        self._spool_fault = ""
        self._appended = 0
        self._ids_missing = 0
        self._available = True
        self._retry_at = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._close_by: float | None = None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def begin(self, begun: Begun) -> None:
        """Note a request before it is forwarded, so that a killed proxy leaves an `abandoned` record. Never raises."""
        try:
            self._spool.begin(begun)
        except (sqlite3.Error, OSError) as error:
            self._drop("begin_not_written")
            logger.warning("begin_not_written", exchange=begun.exchange_id, reason=str(error))

    def end_raw(self, raw: RawExchange) -> None:
        """Hand over an exchange that has ended, however it did. Never waits and never raises.

        Its response is still bytes; they are read in the recorder's thread.
        """
        kept: Exchange | RawExchange = raw
        size = raw.size_bytes
        with self._changed:
            waiting = len(self._queue)
            if waiting and (waiting >= self._max_queue_records or self._queue_bytes + size > self._max_queue_bytes):
                self._drop("queue_full")
                if waiting >= self._max_queue_records * STUBS_PER_RECORD:
                    return
                kept, size = without_content(raw, "queue_full"), 0
            self._queue.append((kept, size))
            self._queue_bytes += size
            self._changed.notify()

    def feedback(self, feedback: Feedback) -> None:
        """Record feedback; it is on disk when this returns. Blocks for the disk: call it from a thread.

        Raises LogUnavailableError when it cannot be kept.
        """
        self._keep([durable.checked(self._log, feedback)])

    def keep(self, recorded: Sequence[Exchange | Trace]) -> None:
        """Record what has time, such as what is imported; it is on disk when this returns.

        Blocks for the disk. Raises RecordError, before any is kept, when the log can never take one of them, and
        LogUnavailableError when not all of them can be kept now; recording them again is safe.
        """
        self._keep([durable.checked(self._log, noun) for noun in recorded])

    def keep_possible(self, recorded: Sequence[Exchange | Trace]) -> list[str]:
        """Do the same, leaving out what the log can never take. Returns why, once for each of those."""
        records: list[LogRecord] = []
        refused: list[str] = []
        for noun in recorded:
            try:
                records.append(durable.checked(self._log, noun))
            except RecordError as error:
                refused.append(str(error))
        self._keep(records)
        return refused

    def status(self) -> CaptureStatus:
        """Return what waits, what was appended and what was dropped."""
        with self._changed:
            return CaptureStatus(
                queue_records=len(self._queue) + len(self._in_hand),
                queue_bytes=self._queue_bytes,
                spool_records=self._spool.records,
                spool_bytes=self._spool.bytes,
                appended=self._appended,
                dropped=dict(self._dropped),
                dropped_at=dict(self._dropped_at),
                ids_missing=self._ids_missing,
                log_available=self._available,
                spool_fault=self._spool_fault,
                running=self._thread.is_alive(),
            )

    def close(self, timeout_s: float = 15.0) -> None:
        """Append what waits, for `timeout_s` seconds at most; the rest stays in the spool for the next start."""
        with self._changed:
            self._close_by = time.monotonic() + timeout_s
            self._changed.notify()
        self._thread.join(timeout_s)
        with self._changed:
            left = [*self._in_hand, *(exchange for exchange, _ in self._queue)]
            self._queue.clear()
        if left:
            logger.warning("recorder_stuck", left=len(left))
            self._save(self._encoded(left))
        # A thread that is caught in a call to the log still uses the spool, whose lock dies with this process.
        if not self._thread.is_alive():
            self._spool.close()

    def _run(self) -> None:
        checkpoint_at = 0.0
        held: list[LogRecord] = []
        while True:
            if held:
                self._await_room()
            else:
                held = self._encoded(self._take())
            refused = False
            try:
                if held and (self._spool.records or not self._deliver(held)):
                    held = self._to_spool(held)
                    refused = bool(held)
                else:
                    held = []
                closing = self._close_by is not None
                # What the log takes from the spool makes room there, so a full disk is no reason to wait.
                if self._spool.records and (refused or closing or time.monotonic() >= self._retry_at):
                    self._drain()
                if time.monotonic() >= checkpoint_at:
                    checkpoint_at = time.monotonic() + CHECKPOINT_EVERY_S
                    self._checkpoint()
            except Exception:
                # The edge of the thread: whatever broke, the records in hand are not lost over it.
                logger.exception("recorder_failed")
                held = self._to_spool(held)
                self._pause(away=True)
            if not held:
                self._in_hand = []
            if self._close_by is not None and self._done(self._close_by):
                return

    def _done(self, close_by: float) -> bool:
        if time.monotonic() >= close_by:
            return True
        return not self._queue and not self._in_hand and (not self._spool.records or not self._available)

    def _await_room(self) -> None:
        """Wait until what is in hand may be tried again. Nothing is taken meanwhile: the queue's bounds hold for it."""
        with self._changed:
            closing = self._close_by is not None
            longest_s = FIRST_PAUSE_S if closing else LONGEST_PAUSE_S
            pause_s = min(self._retry_at - time.monotonic(), longest_s)
            self._changed.wait_for(lambda: (self._close_by is not None) != closing, pause_s)

    def _take(self) -> list[Exchange | RawExchange]:
        """Wait for exchanges; return early, with none, when the spool may be tried again or the recorder closes."""
        batch: list[Exchange | RawExchange] = []
        size = 0
        with self._changed:
            if not self._queue and self._close_by is None:
                spooled_s = max(self._retry_at - time.monotonic(), 0.0) if self._spool.records else CHECKPOINT_EVERY_S
                self._changed.wait(min(spooled_s, CHECKPOINT_EVERY_S))
            while self._queue and len(batch) < BATCH_RECORDS and (not batch or size < BATCH_BYTES):
                exchange, exchange_bytes = self._queue.popleft()
                batch.append(exchange)
                size += exchange_bytes
            self._queue_bytes -= size
            self._in_hand = batch
        return batch

    def _deliver(self, records: Sequence[LogRecord]) -> bool:
        """Append records and forget that they were pending. Returns False when the log is away."""
        try:
            self._log.append(records)
        except LogUnavailableError as error:
            if self._available:
                logger.warning("log_away", reason=str(error), spooled=self._spool.records)
            self._pause(away=True)
            return False
        except RecordError as error:
            if len(records) > 1:
                return all(self._deliver([record]) for record in records)
            logger.warning("record_too_large", id=records[0].id, reason=str(error))
            self._drop("too_large")
            stub = stub_of(records[0], "too_large")
            if len(stub.value) < len(records[0].value):
                return self._deliver([stub])
            # Nothing can be taken away from it: the log will never have it.
            self._forget(records)
            return True
        if not self._available:
            logger.info("log_back", spooled=self._spool.records)
        self._available = True
        with self._changed:
            self._appended += len(records)
        self._forget(records)
        return True

    def _drain(self) -> None:
        try:
            oldest = self._spool.oldest(max_records=DRAIN_RECORDS, max_bytes=DRAIN_BYTES)
        except sqlite3.Error as error:
            logger.warning("spool_unread", reason=str(error))
            self._pause()
            return
        self._deliver(oldest)

    def _forget(self, records: Sequence[LogRecord]) -> None:
        try:
            self._spool.remove([record.id for record in records])
        except sqlite3.Error as error:
            # They are recorded again, by this process or by whoever adopts the file, and known by then.
            logger.warning("spool_not_cleared", reason=str(error))
            self._pause()
        else:
            self._retry_at, self._pause_s = 0.0, FIRST_PAUSE_S

    def _checkpoint(self) -> None:
        try:
            self._spool.checkpoint()
        except sqlite3.Error as error:
            # What was not moved stays in the write-ahead log, which is read just as well.
            logger.warning("spool_not_checkpointed", reason=str(error))

    def _pause(self, *, away: bool = False) -> None:
        self._available = self._available and not away
        self._retry_at = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _to_spool(self, records: Sequence[LogRecord]) -> list[LogRecord]:
        """Keep records on disk, beyond the spool's limit without content. Returns what it refuses: all or none."""
        kept: list[LogRecord] = []
        size, full = self._spool.bytes, 0
        for given in records:
            record = given
            if size + len(record.value) > self._max_spool_bytes:
                full += 1
                record = stub_of(record, "spool_full")
                if size + len(record.value) > self._max_spool_bytes * STUB_ROOM:
                    continue
            size += len(record.value)
            kept.append(record)
        if kept:
            try:
                self._spool.put(kept)
            except (sqlite3.Error, OSError) as error:
                if not self._spool_fault:
                    logger.warning("spool_refuses", waiting=len(kept), reason=str(error))
                self._spool_fault = str(error)
                return list(records)
            self._spool_fault = ""
        if full:
            self._drop("spool_full", full)
        return []

    def _save(self, records: Sequence[LogRecord]) -> None:
        """Keep records at the last moment, one by one: of a disk's last bytes a smaller one may still make use."""
        lost = 0
        for record in records:
            if self._to_spool([record]):
                self._drop("spool_error")
                lost += len(self._to_spool([stub_of(record, "spool_error")]))
        if lost:
            logger.error("records_lost", lost=lost, reason=self._spool_fault)

    def _keep(self, records: Sequence[LogRecord]) -> None:
        durable.put(self._spool, records, self._max_spool_bytes)
        with self._changed:
            self._changed.notify()

    def _encoded(self, batch: Sequence[Exchange | RawExchange]) -> list[LogRecord]:
        """Encode what can be encoded. Never raises: no exchange, whatever it is, may cost the records beside it."""
        records: list[LogRecord] = []
        for ended in batch:
            try:
                exchange, record, reason = recorded(ended)
            except Exception:
                self._drop("not_recorded")
                logger.exception("exchange_not_recorded")
                continue
            records.append(record)
            if reason:
                self._drop(reason)
            elif exchange.status is Status.OK and exchange.response is not None and exchange.sampled is None:
                with self._changed:
                    self._ids_missing += 1
        return records

    def _drop(self, reason: str, count: int = 1) -> None:
        with self._changed:
            self._dropped[reason] += count
            self._dropped_at[reason] = time.monotonic()
