"""The recorder between the proxy and the event log. It never fails, delays or reorders traffic, and never grows without
bound: what the log cannot take waits on disk, and what cannot be kept is counted by reason and leaves a record without
content."""

import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import structlog

from daemon.assemble import exchange_of
from daemon.encoding import encode
from daemon.exchange_raw import RawExchange
from daemon.log import EventLog, LogRecord
from daemon.spool import Begun, Spool, exchange_record
from harness_adapters.errors import ConfigError, LogUnavailableError, RecordError
from harness_adapters.exchange import Exchange, Feedback, exchange_json

__all__ = ["Begun", "CaptureStatus", "Recorder"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureStatus:
    """A look at the recorder. `dropped` counts contents that could not be kept, by reason."""

    queue_records: int
    queue_bytes: int
    spool_records: int
    spool_bytes: int
    appended: int
    dropped: Mapping[str, int]
    log_available: bool


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
        self._appended = 0
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

    def end(self, exchange: Exchange, *, size_bytes: int | None = None) -> None:
        """Hand over an exchange that has ended, however it did. Never waits and never raises.

        `size_bytes` is roughly what it takes in memory; the bytes of request and response together are a fair guess.
        """
        self._hand_over(exchange, rough_bytes(exchange) if size_bytes is None else size_bytes)

    def end_raw(self, raw: RawExchange) -> None:
        """Hand over an exchange whose response is still bytes; they are read in the recorder's thread."""
        self._hand_over(raw, raw.size_bytes)

    def _hand_over(self, exchange: Exchange | RawExchange, size: int) -> None:
        with self._changed:
            waiting = len(self._queue)
            if waiting and (waiting >= self._max_queue_records or self._queue_bytes + size > self._max_queue_bytes):
                self._dropped["queue_full"] += 1
                if waiting >= self._max_queue_records * STUBS_PER_RECORD:
                    return
                exchange, size = without_content(exchange, "queue_full"), 0
            self._queue.append((exchange, size))
            self._queue_bytes += size
            self._changed.notify()

    def feedback(self, feedback: Feedback) -> None:
        """Record feedback; it is on disk when this returns. Blocks for the disk: call it from a thread.

        Raises LogUnavailableError when it cannot be kept.
        """
        self._keep([LogRecord(feedback.response_id, feedback.id, "feedback", encode(feedback))])

    def keep(self, exchanges: Sequence[Exchange]) -> None:
        """Record exchanges that have time, such as imported ones; they are on disk when this returns, or none is.

        Blocks for the disk. Raises LogUnavailableError when they cannot be kept.
        """
        self._keep([exchange_record(exchange) for exchange in exchanges])

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
                log_available=self._available,
            )

    def close(self, timeout_s: float = 15.0) -> None:
        """Append what waits, for `timeout_s` seconds at most; the rest stays in the spool for the next start."""
        with self._changed:
            self._close_by = time.monotonic() + timeout_s
            self._changed.notify()
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._spool.close()
            return
        # It is caught in a call to the log. The spool's lock dies with this process.
        with self._changed:
            left = [*self._in_hand, *(exchange for exchange, _ in self._queue)]
            self._queue.clear()
        logger.warning("recorder_stuck", spooled=len(left))
        self._to_spool([self._encoded(exchange) for exchange in left])

    def _run(self) -> None:
        checkpoint_at = 0.0
        while True:
            batch = self._take()
            records: list[LogRecord] = []
            try:
                records = [self._encoded(exchange) for exchange in batch]
                if records and (self._spool.records or not self._deliver(records)):
                    self._to_spool(records)
                closing = self._close_by is not None
                if self._spool.records and (closing or time.monotonic() >= self._retry_at):
                    self._deliver(self._spool.oldest(max_records=DRAIN_RECORDS, max_bytes=DRAIN_BYTES))
                if time.monotonic() >= checkpoint_at:
                    checkpoint_at = time.monotonic() + CHECKPOINT_EVERY_S
                    self._spool.checkpoint()
            except Exception:
                # The edge of the thread: whatever broke, the records in hand are not lost over it.
                logger.exception("recorder_failed")
                self._to_spool(records)
                self._retry_later()
            self._in_hand = []
            if self._close_by is not None and self._done(self._close_by):
                return

    def _done(self, close_by: float) -> bool:
        if time.monotonic() >= close_by:
            return True
        return not self._queue and (not self._spool.records or not self._available)

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
            self._retry_later()
            return False
        except RecordError as error:
            if len(records) > 1:
                return all(self._deliver([record]) for record in records)
            logger.warning("record_too_large", id=records[0].id, reason=str(error))
            self._drop("too_large")
            stub = _stub(records[0], "too_large")
            if len(stub.value) < len(records[0].value):
                return self._deliver([stub])
            # Nothing can be taken away from it: the log will never have it.
            self._forget(records)
            return True
        if not self._available:
            logger.info("log_back", spooled=self._spool.records)
        self._available, self._pause_s = True, FIRST_PAUSE_S
        with self._changed:
            self._appended += len(records)
        self._forget(records)
        return True

    def _forget(self, records: Sequence[LogRecord]) -> None:
        try:
            self._spool.remove([record.id for record in records])
        except sqlite3.Error as error:
            # They are recorded again by whoever adopts the file, and known by then.
            logger.warning("spool_not_cleared", reason=str(error))

    def _retry_later(self) -> None:
        self._available = False
        self._retry_at = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _to_spool(self, records: Sequence[LogRecord]) -> None:
        kept: list[LogRecord] = []
        size = self._spool.bytes
        for given in records:
            record = given
            if size + len(record.value) > self._max_spool_bytes:
                self._drop("spool_full")
                record = _stub(record, "spool_full")
                if size + len(record.value) > self._max_spool_bytes * STUB_ROOM:
                    continue
            size += len(record.value)
            kept.append(record)
        try:
            self._spool.put(kept)
        except sqlite3.Error as error:
            self._drop("spool_error", len(kept))
            logger.error("spool_failed", lost=len(kept), reason=str(error))  # noqa: TRY400 - the reason says it all

    def _keep(self, records: Sequence[LogRecord]) -> None:
        if self._spool.bytes + sum(len(record.value) for record in records) > self._max_spool_bytes:
            raise LogUnavailableError(
                f"the event log is away and the spool holds {self._spool.bytes} bytes already: nothing was recorded;"
                " bring the log back, or raise max_spool_bytes"
            )
        try:
            self._spool.put(records, synced=True)
        except sqlite3.Error as error:
            raise LogUnavailableError(
                f"the spool {self._spool.path} cannot be written: {error}; nothing was recorded; make room on its disk"
            ) from error
        with self._changed:
            self._changed.notify()

    def _encoded(self, ended: Exchange | RawExchange) -> LogRecord:
        try:
            return exchange_record(exchange_of(ended) if isinstance(ended, RawExchange) else ended)
        except Exception as error:  # noqa: BLE001 - no content, whatever it is, may cost the records beside it
            self._drop("not_json")
            logger.warning("exchange_not_json", exchange=ended.id, reason=type(error).__name__)
            return exchange_record(without_content(ended, "not_json"))

    def _drop(self, reason: str, count: int = 1) -> None:
        with self._changed:
            self._dropped[reason] += count


def without_content(ended: Exchange | RawExchange, reason: str) -> Exchange:
    """Return the terminal record of an exchange whose content cannot be kept."""
    exchange = exchange_of(replace(ended, body=b"")) if isinstance(ended, RawExchange) else ended
    return replace(exchange, request={}, response=None, sampled=None, error=f"content not recorded: {reason}")


def rough_bytes(exchange: Exchange) -> int:
    """Return about how many bytes of memory an exchange holds, without encoding it."""
    total = 0
    waiting: list[object] = [exchange.request, exchange.response, exchange.error]
    if exchange.sampled is not None:
        waiting += [exchange.sampled.prompt_ids, exchange.sampled.completion_ids, exchange.sampled.logprobs]
    while waiting:
        value = waiting.pop()
        total += 64
        if isinstance(value, str | bytes):
            total += len(value)
        elif isinstance(value, Mapping):
            waiting.extend(cast(Mapping[str, Any], value).values())
        elif isinstance(value, list | tuple):
            items = cast(Sequence[Any], value)
            if items and isinstance(items[0], int | float):
                total += 36 * len(items)
            else:
                waiting.extend(items)
    return total


def _stub(record: LogRecord, reason: str) -> LogRecord:
    if record.kind != "exchange":
        return record
    return exchange_record(without_content(exchange_json.validate_json(record.value), reason))
