"""`secondnature traces import`: files in, exchanges to the daemon's log."""

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from harness_adapters.base import Skipped, detect_adapter
from harness_adapters.exchange import Exchange, exchange_json
from ops.client import DaemonClient, DaemonRefusedError

BATCH_RECORDS, BATCH_BYTES = 200, 8 << 20
"""What one request carries at most; a single record may be longer."""

Record = tuple[Exchange, bytes]
"""An exchange, and its JSON."""


def import_files(files: Sequence[Path], client: DaemonClient | None) -> list[dict[str, Any]]:
    """Read files and append what they hold; without a client only read. Returns one report a file.

    Exchanges are named by their content, so importing a file twice changes nothing.
    """
    return [_import_file(path, client) for path in files]


def _import_file(path: Path, client: DaemonClient | None) -> dict[str, Any]:
    adapter = detect_adapter(path)
    skipped: list[Skipped] = []
    read = appended = 0

    def exchanges() -> Iterator[Exchange]:
        nonlocal read
        for item in adapter.read(path):
            if isinstance(item, Skipped):
                skipped.append(item)
            else:
                read += 1
                yield item

    if client is None:
        for _ in exchanges():
            pass
    else:
        for batch in _batches(exchanges()):
            appended += _send(client, batch, skipped)
    return {
        "path": str(path),
        "format": adapter.name,
        "exchanges": read,
        "appended": appended,
        "skipped": [{"line": s.line, "reason": s.reason} for s in sorted(skipped, key=lambda s: s.line)],
    }


def _batches(exchanges: Iterator[Exchange]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for exchange in exchanges:
        line = exchange_json.dump_json(exchange)
        if batch and (len(batch) >= BATCH_RECORDS or size + len(line) >= BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((exchange, line))
        size += len(line) + 1
    if batch:
        yield batch


def _send(client: DaemonClient, batch: Sequence[Record], skipped: list[Skipped]) -> int:
    """Append a batch and return how many were; a record the daemon does not take goes to `skipped` with its reason."""
    try:
        answer = client.post("/api/exchanges", content=b"\n".join(line for _, line in batch))
    except DaemonRefusedError as error:
        if error.status not in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY):
            raise
        # What a daemon takes is its own affair, so the record that it refuses is found by halving.
        if half := len(batch) // 2:
            return _send(client, batch[:half], skipped) + _send(client, batch[half:], skipped)
        ((exchange, line),) = batch
        reason = str(error)
        if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            reason = f"{len(line)} bytes are more than the daemon takes; raise server.max_request_bytes there"
        # An adapter numbers the exchanges of a file by their lines.
        skipped.append(Skipped(exchange.sequence, reason))
        return 0
    return int(answer["appended"])
