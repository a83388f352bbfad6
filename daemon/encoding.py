"""JSON as it goes into the log, the spool and the store: whatever a client sent, no record is lost over it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import orjson

from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange

MAX_DEPTH = 100
"""How deep a request or a response may nest. Readers give up at 200 levels, those around it included."""

_CONTAINERS = frozenset((dict, list))


class TooDeepError(RecordError, ValueError):
    """Content nests deeper than MAX_DEPTH."""


def is_too_deep(value: object) -> bool:
    """Say whether parsed JSON nests objects and arrays more than MAX_DEPTH levels deep."""
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in _CONTAINERS
        ]
    return bool(level)


def encode(value: Any) -> bytes:
    """Return dataclasses, mappings and plain values as UTF-8 JSON.

    Clients do send half of a surrogate pair (a text cut in the middle of an emoji) and integers beyond 64 bits, which
    orjson refuses: the slower way round writes the first as `?` and the second in full. Raises TooDeepError for an
    exchange that no reader could read again.
    """
    if isinstance(value, Exchange) and (is_too_deep(value.request) or is_too_deep(value.response)):
        raise TooDeepError(f"exchange {value.id} nests its content more than {MAX_DEPTH} levels deep")
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        return json.dumps(value, default=_plain, ensure_ascii=False).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
