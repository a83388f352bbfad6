"""Records that have time: each is held against what the log can take before any is kept, and all are on disk after."""

import sqlite3
from collections.abc import Sequence

from daemon.log import EventLog, LogRecord
from daemon.log_records import record_of
from daemon.spool import Spool
from harness_adapters.errors import LogUnavailableError
from harness_adapters.exchange import Exchange, Feedback
from harness_adapters.trace import Trace


def checked(log: EventLog, noun: Exchange | Trace | Feedback) -> LogRecord:
    """Return the log's record of a noun. Raises RecordError where it nests too deep or is too long for the log."""
    record = record_of(noun)
    log.check(record)
    return record


def put(spool: Spool, records: Sequence[LogRecord], max_spool_bytes: int) -> None:
    """Write records to the spool, and wait for the disk. Raises LogUnavailableError when not all can be kept."""
    if not records:
        return
    if spool.bytes + sum(len(record.value) for record in records) > max_spool_bytes:
        raise LogUnavailableError(
            f"the event log is away or slow, and the spool holds {spool.bytes} bytes already: nothing was recorded;"
            " try again when the log has taken some, or raise capture.max_spool_bytes"
        )
    try:
        spool.put_synced(records)
    except (sqlite3.Error, OSError) as error:
        raise LogUnavailableError(
            f"the spool {spool.path} cannot be written: {error}; not all was recorded: make room on its disk and send"
            " it again"
        ) from error
