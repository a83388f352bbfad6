"""Programs that tests start as processes of their own and kill: `python log_children.py append|consume LOG …`."""

import json
import sqlite3
import sys
from pathlib import Path

from daemon.kafka_log import KafkaLog
from daemon.log import EventLog, LogRecord
from daemon.sqlite_log import SqliteLog


def open_log(spec: str, group: str = "g", timeout_s: float = 10.0) -> EventLog:
    """`sqlite:PATH` or `kafka:ADDRESS/TOPIC`."""
    kind, _, where = spec.partition(":")
    if kind == "sqlite":
        return SqliteLog(Path(where), group, timeout_s=timeout_s)
    address, _, topic = where.rpartition("/")
    return KafkaLog(address, topic, group, assignment="all", partitions=3, timeout_s=timeout_s)


def numbered(number: int, size: int = 0) -> LogRecord:
    return LogRecord(f"key-{number % 5}", f"id-{number}", "exchange", json.dumps({"n": number}).encode() + b" " * size)


def append(spec: str, start: int, end: int) -> None:
    """Append batches of three and say the number behind the last one that is in the log."""
    log = open_log(spec)
    for number in range(start, end, 3):
        log.append([numbered(n) for n in range(number, min(number + 3, end))])
        print(min(number + 3, end), flush=True)  # noqa: T201 - the parent reads it


def consume(spec: str, results: str) -> None:
    """Write every record to a database, then commit, and say what was committed."""
    log = open_log(spec)
    db = sqlite3.connect(results, isolation_level=None)
    db.execute("CREATE TABLE IF NOT EXISTS seen (partition INTEGER, offset INTEGER, id TEXT, key TEXT, value BLOB)")
    while True:
        batch = log.poll(max_records=7, timeout_s=0.2)
        db.execute("BEGIN")
        for r in batch:
            row = (r.position.partition, r.position.offset, r.id, r.key, r.value)
            db.execute("INSERT INTO seen VALUES (?, ?, ?, ?, ?)", row)
        db.execute("COMMIT")
        log.commit(batch)
        print(json.dumps([[r.position.partition, r.position.offset] for r in batch]), flush=True)  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1] == "append":
        append(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        consume(sys.argv[2], sys.argv[3])
