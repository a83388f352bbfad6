"""Files of recorded traces, made up in memory or lying in the folder of recordings, as adapters read them."""

import io
import json
from pathlib import Path
from typing import Any

from harness_adapters.adapter import Adapter, Item, Skipped
from harness_adapters.base import read_traces
from harness_adapters.exchange import Exchange
from harness_adapters.records import first_values
from harness_adapters.source import HEAD_BYTES, Head, Source
from harness_adapters.trace import Trace

RECORDINGS = Path(__file__).parents[2] / "shared" / "traces"


def head_of(body: bytes) -> Head:
    """Return what adapters see of a file to recognise it."""
    return Head(body[:HEAD_BYTES], first_values(body[:HEAD_BYTES]))


def source_of(body: bytes, name: str = "file.jsonl") -> Source:
    """Return a source of these bytes."""
    return Source(name, io.BytesIO(body), head_of(body))


def jsonl(*records: Any) -> bytes:
    """Return records as JSON lines; bytes stand as they are."""
    return b"".join(r + b"\n" if isinstance(r, bytes) else json.dumps(r).encode() + b"\n" for r in records)


def items(adapter: Adapter, body: bytes, name: str = "file.jsonl") -> list[Item]:
    """Return all that an adapter yields of a file."""
    return list(adapter.read(source_of(body, name)))


def skipped(adapter: Adapter, body: bytes, name: str = "file.jsonl") -> list[Skipped]:
    """Return what an adapter could not read of a file."""
    return [item for item in items(adapter, body, name) if isinstance(item, Skipped)]


def exchanges(adapter: Adapter, body: bytes, name: str = "file.jsonl") -> list[Exchange]:
    """Return the exchanges of a file in which all can be read."""
    found = items(adapter, body, name)
    assert all(isinstance(item, Exchange) for item in found), found
    return [item for item in found if isinstance(item, Exchange)]


def traces(adapter: Adapter, body: bytes, name: str = "file.jsonl") -> list[Trace]:
    """Return the traces of a file in which all can be read."""
    found = list(read_traces(source_of(body, name), adapter))
    assert all(isinstance(item, Trace) for item in found), found
    return [item for item in found if isinstance(item, Trace)]


def told(trace: Trace) -> list[tuple[str, str]]:
    """Return author and text of each turn."""
    return [(turn.author.value, turn.text) for turn in trace.turns]
