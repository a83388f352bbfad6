"""JSON as recorders write it: NaN, halves of surrogate pairs, documents cut off in the middle."""

import json
import re
from typing import Any, cast

import orjson

from harness_adapters.errors import RecordError

MAX_DEPTH = 100
"""How deep a value may be nested: what is read here is walked by functions that call themselves."""

# A string to its closing quote or, where that is missing, to the end; or a bracket or comma.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_CLOSERS = {ord("{"): b"}", ord("["): b"]"}
_HALF = re.compile("[\ud800-\udfff]")


def parse(raw: bytes, *, keep_halves: bool = False) -> Any:
    """Read one JSON value; NaN and infinities become null, halves of surrogate pairs the replacement character.

    With `keep_halves` these stay, for a text whose other half comes in another value: `mended` is for when it has come.
    Raises RecordError, whose message repeats nothing of the value.
    """
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise RecordError(f"it is nested more than {MAX_DEPTH} deep")
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    try:
        value = json.loads(raw.decode(), parse_constant=lambda _: None)
    except UnicodeDecodeError as error:
        raise RecordError(f"it is not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise RecordError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise RecordError(f"it is not JSON, or was cut off: {error.msg} at character {error.pos}") from error
    except ValueError as error:  # a number of more digits than Python reads
        raise RecordError(f"it is not JSON: {error}") from error
    return _numbered(value) if keep_halves else mended(_numbered(value))


def value_in(text: str) -> Any | None:
    """Return the value that a text holds as JSON; None where it holds none."""
    try:
        return parse(mended(text).encode())
    except RecordError:
        return None


def mended(value: Any) -> Any:
    """Return a value with the halves of surrogate pairs in its texts joined, or replaced where one is missing."""
    if isinstance(value, str):
        if _HALF.search(value) is None:
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [mended(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {mended(name): mended(item) for name, item in cast("dict[Any, Any]", value).items()}
    return value


def closed(raw: bytes) -> bytes | None:
    """Return a document without an end up to its last whole member or item, with what was open there closed.

    None where nothing whole comes before the end.
    """
    stack = bytearray()
    end, open_there = 0, b""
    for token in _TOKEN.finditer(raw):
        first = raw[token.start()]
        if first in b"{[":
            stack.append(first)
            if len(stack) > MAX_DEPTH:
                break
        elif first in b"}]":
            if not stack:
                break
            stack.pop()
            end, open_there = token.end(), bytes(stack)
        elif first == ord(","):
            end, open_there = token.start(), bytes(stack)
    return raw[:end] + b"".join(_CLOSERS[bracket] for bracket in reversed(open_there)) if end else None


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for token in _BRACKET.finditer(raw):
        first = raw[token.start()]
        if first in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"}]":
            depth -= 1
    return deepest


def _numbered(value: Any) -> Any:
    """Return a value whose numbers can all be written as JSON again."""
    if isinstance(value, list):
        return [_numbered(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _numbered(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None  # a number such as 1e999
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return float(value) if abs(value) < 1e308 else None  # as where nothing had to be mended
    return value
