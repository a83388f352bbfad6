"""A request's body: read within a limit, and parsed as the JSON object it has to be."""

import json
import math
from collections.abc import Mapping
from typing import Any, cast

import orjson
from starlette.types import Receive

from daemon.encoding import MAX_DEPTH, is_too_deep
from harness_adapters.errors import RecordError

DRAINED = 4
"""How many times the limit is read and thrown away, so that a client which is still sending gets to read its 413."""


class RequestTooLargeError(RecordError):
    """The body is longer than `server.max_request_bytes`."""


async def read_body(headers: Mapping[str, str], receive: Receive, limit: int) -> bytes | None:
    """Return the body, or None when the client left while sending it. Raises RequestTooLargeError."""
    announced = headers.get("content-length", "")
    text = f"the request's body is longer than the {limit} bytes that server.max_request_bytes allows"
    if announced.isdecimal() and int(announced) > DRAINED * limit:
        raise RequestTooLargeError(text)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        else:
            parts.clear()
        more = message.get("more_body", False)
        if size > limit and (not more or size > DRAINED * limit):
            raise RequestTooLargeError(text)
        if not more:
            return b"".join(parts)


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a body. Raises RecordError when it is not a JSON object, or one that nests deeper than MAX_DEPTH."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Half of a surrogate pair, which cut emoji leave behind, is refused by orjson and taken by most servers.
        try:
            parsed = json.loads(body, parse_constant=_finite, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"the request's body is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise RecordError("the request's body must be a JSON object")
    if is_too_deep(cast(object, parsed)):
        raise RecordError(f"the request's body nests more than {MAX_DEPTH} levels deep")
    return cast(dict[str, Any], parsed)


def encode_json(value: Mapping[str, Any]) -> bytes:
    """Return a parsed body as JSON again, whatever `json_object` let in."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def _finite(text: str) -> float:
    """Read a number. JSON has neither NaN nor infinities, and written again they would come out as null."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number
