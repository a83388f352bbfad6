"""The tail: reads the log, assigns sessions, writes the store, and only then commits.

A crash at any moment repeats at most what was written and not yet committed, and the store ignores repeats.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import structlog
from pydantic import ValidationError

from daemon.log import EventLog, Position, StoredRecord
from daemon.store import Ingested, Store
from harness_adapters.errors import LogUnavailableError, RecordError, StoreError, StoreUnavailableError
from harness_adapters.exchange import Exchange, Feedback, exchange_json, feedback_json
from harness_adapters.sessions import SessionLookup, assign
from harness_adapters.trace import Trace, trace_json

logger = structlog.get_logger()

LAG_EVERY_S = 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
# What one record can do wrong, as against a database that cannot be used: integers of any size come in foreign JSON.
_POISON = (StoreError, ValueError, OverflowError)


class TailState(StrEnum):
    """What the tail is doing."""

    RUNNING = "running"
    WAITING_FOR_LOG = "waiting_for_log"
    WAITING_FOR_STORE = "waiting_for_store"
    FAILING = "failing"
    HALTED = "halted"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailStatus:
    """A look at the tail. `progress_at` is `time.monotonic()` when it last committed or found nothing to do."""

    state: TailState = TailState.STOPPED
    reason: str = ""
    records: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    lag_records: int = 0
    progress_at: float = 0.0


@dataclass(frozen=True, slots=True)
class DeadLetterLimits:
    """How much unreadable matter stops the tail instead of being set aside."""

    in_a_row: int = 100
    share: float = 0.05
    window: int = 1000
    """The records that `share` is taken of; it applies once so many have been read."""


class _HaltedError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Handled:
    """What became of one batch; it counts once the batch is committed, as a batch may be handled again before."""

    duplicates: int
    dead: frozenset[Position]


class Tail:
    """One reader of the log. `run` blocks; call it in a thread of its own."""

    def __init__(
        self,
        log: EventLog,
        store: Store,
        *,
        max_records: int = 200,
        poll_s: float = 0.5,
        limits: DeadLetterLimits | None = None,
    ) -> None:
        self._log = log
        self._store = store
        self._max_records = max_records
        self._poll_s = poll_s
        self._limits = limits or DeadLetterLimits()
        self._seen_dead: deque[bool] = deque(maxlen=self._limits.window)
        self._dead_in_a_row = 0
        self._must_rewind = False
        self._lag_at = 0.0
        self._status = TailStatus(progress_at=time.monotonic())

    def status(self) -> TailStatus:
        """Return what the tail is doing; any thread may ask."""
        return self._status

    def lag_records(self) -> int:
        """Return how many records stood uncommitted when the tail last looked, about a second ago."""
        return self._status.lag_records

    def run(self, stop: threading.Event) -> None:
        """Read until `stop` is set. Once too many records cannot be read, nothing is: only the lag is followed."""
        pause_s = FIRST_PAUSE_S
        while not stop.is_set():
            try:
                self.step()
            except _HaltedError as halt:
                self._set(TailState.HALTED, str(halt))
                logger.error("tail_halted", reason=str(halt))  # noqa: TRY400 - the reason says it all
                self._see_lag()
                while not stop.wait(LAG_EVERY_S):
                    self._see_lag()
                return
            except (LogUnavailableError, StoreUnavailableError) as error:
                of_log = isinstance(error, LogUnavailableError)
                self._set(TailState.WAITING_FOR_LOG if of_log else TailState.WAITING_FOR_STORE, str(error))
                logger.warning("tail_waits", reason=str(error), pause_s=pause_s)
                if not of_log:
                    self._see_lag()
            except Exception as error:
                # The edge of the loop: a reader that dies silently loses traffic once the log's retention ends.
                self._set(TailState.FAILING, f"{type(error).__name__}: {error}")
                logger.exception("tail_failing", pause_s=pause_s)
                self._see_lag()
            else:
                pause_s = FIRST_PAUSE_S
                continue
            stop.wait(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        self._set(TailState.STOPPED)

    def step(self) -> int:
        """Read one batch, store it, commit it. Returns how many records it had."""
        if self._must_rewind:
            # What was polled and not committed would be skipped otherwise, and lost with the next commit.
            self._log.rewind()
        self._must_rewind = True
        batch = self._log.poll(max_records=self._max_records, timeout_s=self._poll_s)
        if batch:
            handled = self._handle(batch)
            self._log.commit(batch)
            self._count(batch, handled)
        self._must_rewind = False
        now = time.monotonic()
        if not batch or now - self._lag_at >= LAG_EVERY_S:
            self._lag_at = now
            self._status = replace(self._status, lag_records=self._log.lag_records())
        self._status = replace(self._status, state=TailState.RUNNING, reason="", progress_at=time.monotonic())
        return len(batch)

    def _handle(self, batch: Sequence[StoredRecord]) -> _Handled:
        dead: list[tuple[StoredRecord, str]] = []
        duplicates = 0
        entries: list[tuple[StoredRecord, Ingested]] = []
        feedback: list[tuple[StoredRecord, Feedback]] = []
        exchanges: list[tuple[StoredRecord, Exchange]] = []
        for record in batch:
            try:
                noun = parse(record)
            except RecordError as error:
                dead.append((record, str(error)))
                continue
            if isinstance(noun, Feedback):
                feedback.append((record, noun))
            elif isinstance(noun, Trace):
                # At once, one by one: a recorded session may be long, and none waits in memory for the others.
                duplicates += self._write(record, dead, partial(self._recorded, noun))
            else:
                exchanges.append((record, noun))
        sessions = _Sessions(self._store, self._store.known_exchanges([e.id for _, e in exchanges]))
        for record, exchange in exchanges:
            try:
                entry = sessions.place(exchange)
            except StoreUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - no foreign content may stop the records behind it
                dead.append((record, f"it fits no session: {type(error).__name__}"))
                continue
            if entry is None:
                duplicates += 1
            else:
                entries.append((record, entry))
        duplicates += self._write_all(entries, dead)
        for record, said in feedback:
            duplicates += self._write(record, dead, lambda said=said: not self._store.put_feedback(said))
        positions = frozenset(record.position for record, _ in dead)
        self._check_limits(batch, positions)
        for record, reason in dead:
            place = f"partition {record.position.partition}, offset {record.position.offset}"
            self._store.put_dead_letter(place, reason, record.value)
            logger.warning("record_unreadable", place=place, id=record.id, reason=reason)
        return _Handled(duplicates, positions)

    def _recorded(self, trace: Trace) -> bool:
        return not self._store.put_recorded(trace)

    def _write_all(self, entries: list[tuple[StoredRecord, Ingested]], dead: list[tuple[StoredRecord, str]]) -> int:
        """Ingest in one transaction or, where the store refuses that, one by one. Returns how many were known."""
        try:
            return len(entries) - self._store.ingest([entry for _, entry in entries])
        except StoreUnavailableError:
            raise
        except _POISON:
            return sum(
                self._write(record, dead, lambda entry=entry: self._store.ingest([entry]) == 0)
                for record, entry in entries
            )

    def _write(self, record: StoredRecord, dead: list[tuple[StoredRecord, str]], write: Callable[[], bool]) -> bool:
        try:
            return write()
        except StoreUnavailableError:
            raise
        except _POISON as error:
            dead.append((record, f"the store refuses it: {type(error).__name__}: {error}"))
            return False

    def _check_limits(self, batch: Sequence[StoredRecord], dead: frozenset[Position]) -> None:
        limits, in_a_row, seen = self._limits, self._dead_in_a_row, self._seen_dead.copy()
        for record in batch:
            is_dead = record.position in dead
            in_a_row = in_a_row + 1 if is_dead else 0
            seen.append(is_dead)
            if not is_dead:
                continue
            too_many = len(seen) == limits.window and sum(seen) > limits.share * limits.window
            if too_many or in_a_row >= limits.in_a_row:
                raise _HaltedError(
                    f"{sum(seen)} of the last {len(seen)} records cannot be read, {in_a_row} of them in a row; the last"
                    f" stands in partition {record.position.partition} at offset {record.position.offset}. Its batch is"
                    " not committed: mend or stop whoever writes these, raise log.max_dead_in_a_row or"
                    " log.max_dead_share so that they are set aside as dead letters, and restart the worker"
                )

    def _count(self, batch: Sequence[StoredRecord], handled: _Handled) -> None:
        for record in batch:
            is_dead = record.position in handled.dead
            self._dead_in_a_row = self._dead_in_a_row + 1 if is_dead else 0
            self._seen_dead.append(is_dead)
        self._status = replace(
            self._status,
            records=self._status.records + len(batch),
            duplicates=self._status.duplicates + handled.duplicates,
            dead_letters=self._status.dead_letters + len(handled.dead),
        )

    def _see_lag(self) -> None:
        """Bring the lag up to date beside a failure. Where the log cannot say it, what was last seen stays."""
        with suppress(Exception):
            self._status = replace(self._status, lag_records=self._log.lag_records())

    def _set(self, state: TailState, reason: str = "") -> None:
        self._status = replace(self._status, state=state, reason=reason)


class _Sessions:
    """Assigns sessions within a batch: what its earlier exchanges claimed is not in the store yet."""

    def __init__(self, store: SessionLookup, known: set[str]) -> None:
        self._store = store
        self._known = known
        self._claimed: dict[str, str] = {}
        self._roots: dict[str, str] = {}

    def place(self, exchange: Exchange) -> Ingested | None:
        """Return where a new exchange belongs, None for one that is known."""
        if exchange.id in self._known:
            return None
        assignment = assign(exchange, self)
        self._known.add(exchange.id)
        self._claimed.update(dict.fromkeys(assignment.keys, assignment.session_id))
        self._roots[assignment.session_id] = assignment.root
        return Ingested(exchange, assignment.session_id, assignment.root, assignment.keys)

    def sessions_of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the session of each of `keys` that this batch or the store knows."""
        here = {key: self._claimed[key] for key in keys if key in self._claimed}
        return {**self._store.sessions_of([key for key in keys if key not in here]), **here}

    def root_of(self, session_id: str) -> str | None:
        """Return the root of a session of this batch or the store."""
        return self._roots.get(session_id) or self._store.root_of(session_id)


def parse(record: StoredRecord) -> Exchange | Trace | Feedback:
    """Read a record of the log; one without a kind is taken for an exchange.

    Raises RecordError, whose message repeats nothing of the record's content.
    """
    try:
        match record.kind:
            case "exchange" | "":
                return exchange_json.validate_json(record.value)
            case "trace":
                return trace_json.validate_json(record.value)
            case "feedback":
                return feedback_json.validate_json(record.value)
            case _:
                raise RecordError(
                    "its kind is none of exchange, trace and feedback; a newer writer may need a newer worker"
                )
    except ValidationError as error:
        flaws = [f"{'.'.join(map(str, e['loc']))} {e['msg']}".strip() for e in error.errors(include_input=False)[:3]]
        raise RecordError(f"it cannot be read as {record.kind or 'exchange'}: {'; '.join(flaws)}") from error
