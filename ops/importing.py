"""`secondnature traces import`: files in, exchanges to the daemon's log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness_adapters.base import Skipped, detect_adapter
from harness_adapters.exchange import Exchange, exchange_json
from ops.client import DaemonClient

BATCH = 200


def import_files(files: Sequence[Path], client: DaemonClient | None) -> list[dict[str, Any]]:
    """Read files and append what they hold; without a client only read. Returns one report a file.

    Exchanges are named by their content, so importing a file twice changes nothing.
    """
    return [_import_file(path, client) for path in files]


def _import_file(path: Path, client: DaemonClient | None) -> dict[str, Any]:
    adapter = detect_adapter(path)
    skipped: list[dict[str, Any]] = []
    batch: list[Exchange] = []
    read = appended = 0
    for item in adapter.read(path):
        if isinstance(item, Skipped):
            skipped.append({"line": item.line, "reason": item.reason})
            continue
        read += 1
        batch.append(item)
        if client and len(batch) >= BATCH:
            appended += _send(client, batch)
            batch = []
    if client and batch:
        appended += _send(client, batch)
    return {"path": str(path), "format": adapter.name, "exchanges": read, "appended": appended, "skipped": skipped}


def _send(client: DaemonClient, batch: Sequence[Exchange]) -> int:
    answer = client.post("/api/exchanges", content=b"\n".join(exchange_json.dump_json(e) for e in batch))
    return int(answer["appended"])
