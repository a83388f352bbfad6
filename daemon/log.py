"""EventLog: the append-only record of everything that crossed the wire. This file is the port; beside it stand
`sqlite_log.py` (embedded) and `kafka_log.py`, which pass the same contract tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

POLL_BYTES = 16 * 1024 * 1024
"""What one poll returns at most, in bytes of values; a single record may be longer."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record to append. `key` is the route key: records of one key keep their order. `id` names it for the log's
    readers, who drop repeats; the log itself never compacts."""

    key: str
    id: str
    kind: str
    """`exchange`, `trace` or `feedback`."""
    value: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """Where a record stands in the log."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record as read back. `id` and `kind` are empty where a foreign producer left them out."""

    position: Position
    key: str
    id: str
    kind: str
    value: bytes


class EventLog(Protocol):
    """An append-only, partitioned log with one committed position per group and partition.

    Calls block and may be made from any one thread at a time; who appends and who reads each open their own. All but
    `poll`, which may also return nothing, raise LogUnavailableError while the log is away.
    """

    def append(self, records: Sequence[LogRecord]) -> None:
        """Append all, durably, in order per key. Either returns with all written or raises.

        After a LogUnavailableError some may have been written: append the same records again, in the same order.
        Raises RecordError, before anything is sent, when a record is larger than the log can hold.
        """
        ...

    def check(self, record: LogRecord) -> None:
        """Raise RecordError when a record is larger than the log can hold. Asks nobody; any thread may call it."""
        ...

    def poll(self, *, max_records: int, timeout_s: float, max_bytes: int = POLL_BYTES) -> list[StoredRecord]:
        """Return the records after the last poll (at first: after the committed position), oldest first.

        At least one if there is any, even where it alone has more than `max_bytes`.
        """
        ...

    def commit(self, records: Sequence[StoredRecord]) -> None:
        """Mark these, and all before them in their partitions, as durably handled. Never moves a position back."""
        ...

    def rewind(self) -> None:
        """Forget what was polled: the next poll starts at the committed position again."""
        ...

    def lag_records(self) -> int:
        """Return how many records stand after the committed position."""
        ...

    def close(self) -> None:
        """Release files and connections; committed positions stay."""
        ...
