"""Bytes of model APIs: framing of server-sent events, and removal of the members that the proxy asked for itself."""

import re
from typing import Any, cast

import orjson

ID_MEMBERS = ("prompt_token_ids", "token_ids")

# Inside a JSON string every quote is escaped, so these bytes are a member and never part of a text.
_VALUE = rb'(?<!\\)"(?:prompt_)?token_ids"\s*:\s*(?:null|\[[\d\s,]*\])'
# Begins with no blanks: looking behind each of a run of them for the comma would take quadratic time.
_MEMBER = re.compile(rb",\s*(?:" + _VALUE + rb")|(?:" + _VALUE + rb")(?:\s*,\s*)?")
_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_BOUNDARY = 4
_NAME = b'token_ids"'


class EventFramer:
    """Cuts a byte stream after whole events, so that no client ever holds half of one when the upstream dies.

    What goes in comes out, byte for byte and in order; only the places where it is cut change.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: bytes) -> bytes:
        """Return every event that `chunk` completes, as one piece; empty when it completes none."""
        seen = max(0, len(self._held) - _LONGEST_BOUNDARY + 1)
        self._held += chunk
        end = 0
        for boundary in _BOUNDARY.finditer(self._held, seen):
            end = boundary.end()
        if not end:
            return b""
        ready = bytes(self._held[:end])
        del self._held[:end]
        return ready

    def rest(self) -> bytes:
        """Return what stands behind the last whole event."""
        return bytes(self._held)


def without_ids_in_events(events: bytes) -> bytes:
    """Return whole events with the id members removed from their data lines and every other byte as it was."""
    if _NAME not in events:
        return events
    return b"".join(_without_ids_in_line(line) for line in events.splitlines(keepends=True))


def without_ids(body: bytes) -> bytes:
    """Return a JSON body without the id members of its top level and its choices.

    The members are cut out of the bytes. Only where the same names occur elsewhere too is the body encoded anew. A
    body that is not a JSON object is returned as it is.
    """
    if _NAME not in body:
        return body
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body
    carriers = holders(parsed)
    members = sum(name in carrier for carrier in carriers for name in ID_MEMBERS)
    if not members:
        return body
    cut, count = _MEMBER.subn(b"", body)
    if count == members:
        return cut
    for carrier in carriers:
        for name in ID_MEMBERS:
            carrier.pop(name, None)
    return orjson.dumps(parsed)


def _without_ids_in_line(line: bytes) -> bytes:
    if not line.startswith(b"data:") or _NAME not in line:
        return line
    content = line[5:].strip()
    start = line.index(content, 5)
    return line[:start] + without_ids(content) + line[start + len(content) :]


def holders(parsed: object) -> list[dict[str, Any]]:
    """The objects of a completion, or of a chunk of one, that carry ids."""
    if not isinstance(parsed, dict):
        return []
    body = cast(dict[str, Any], parsed)
    choices = body.get("choices")
    found = [body]
    if isinstance(choices, list):
        found += [cast(dict[str, Any], choice) for choice in cast(list[Any], choices) if isinstance(choice, dict)]
    return found
