"""JSON as it goes into the log, the spool and the store: whatever a client sent, no record is lost over it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from harness_adapters.exchange import Exchange, Feedback


def encode(value: Any) -> bytes:
    """Return dataclasses, mappings and plain values as UTF-8 JSON.

    Clients do send half of a surrogate pair (a text cut in the middle of an emoji) and integers beyond 64 bits, which
    orjson refuses: the slower way round writes the first as `?` and the second in full.
    """
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        return json.dumps(value, default=_plain, ensure_ascii=False).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, Exchange | Feedback):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
