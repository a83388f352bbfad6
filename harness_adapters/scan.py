"""Documents found in a stream by their brackets, so that one that cannot be read does not take the next ones along."""

import lzma
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

import orjson
import zstandard

from harness_adapters.errors import RecordError
from harness_adapters.jsontext import MAX_DEPTH, closed, parse

READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, zstandard.ZstdError)
"""What a damaged archive or disk raises while a stream is read."""

QUOTE = ord('"')
FIRST_PIECE, LARGEST_PIECE = 1 << 18, 1 << 23
_KEY_BYTES = 200
_LONG = 1 << 18
_AGAIN = 8
"""How many times what a stream holds may be looked through again, all told, for documents in values that are none."""


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a stream."""

    index: int
    """From 0: the number of the line on which it begins or, of an item of a list, the number of the item."""
    line: int
    """From 1: the line on which it begins."""
    value: Any
    written: bytes | None = None
    """As it stands in the stream; None where it stands in a greater value."""
    head: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of an item of an object's list: the members before the list."""
    cut: bool = False
    """Whether its end is missing."""

    @property
    def raw(self) -> bytes:
        """The value as JSON, as it was written if it stands by itself."""
        return orjson.dumps(self.value) if self.written is None else self.written


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a stream that is not a JSON value, and why."""

    line: int
    reason: str
    raw: bytes


# A string, closed or not, or a bracket.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[\[\]{}]', re.DOTALL)
_NEXT_DOCUMENT = re.compile(rb"\n[{\[]")
_KEY = re.compile(rb'"((?:[^"\\]++|\\.)*+)"\s*:\s*\Z', re.DOTALL)
_FILLING = b" \t\r\n,\xef\xbb\xbf"


def scan(stream: BufferedReader, lists: Collection[str], max_bytes: int) -> Iterator[Record | Unread]:
    """Yield the documents of a stream; items of top-level lists, and of the members `lists` names, by themselves.

    The time it takes grows as the stream does, whatever stands in it. Raises one of READ_ERRORS.
    """
    return _Scan(stream, frozenset(name.encode() for name in lists), max_bytes).run()


class _Scan:
    def __init__(self, stream: BufferedReader, lists: frozenset[bytes], max_bytes: int) -> None:
        self._stream = stream
        self._lists = lists
        self._max_bytes = max_bytes
        self._piece = FIRST_PIECE
        self._buffer = b""
        self._at = 0
        """Where the next token is looked for."""
        self._kept = 0
        """What comes before has been dealt with."""
        self._line = 1
        """The line of `_kept`."""
        self._depth = 0
        self._level = 0
        """The depth at which values are yielded: 0, or that of the list that is read item by item."""
        self._index = 0
        self._head: Mapping[str, Any] = {}
        self._start: int | None = None
        self._fault = ""
        """Why the value that is being passed over is not read."""
        self._is_forgotten = False
        self._served = 0
        """How many bytes have been read, and how many of them are looked through again."""
        self._again = 0
        self._error: BaseException | None = None
        """Why the stream cannot be read to its end."""

    def run(self) -> Iterator[Record | Unread]:
        while True:
            found = self._next()
            if found is not None:
                at, bracket = found
                yield from self._opened(at, bracket) if bracket in b"{[" else self._shut(at + 1)
                continue
            yield from self._let_go()
            if not self._more() and not (yield from self._cut_off()):
                if self._error is not None:
                    raise self._error
                return

    def _next(self) -> tuple[int, int] | None:
        """Return the next bracket that begins or ends a value or a list; None where more has to be read."""
        buffer, level, watched = self._buffer, self._level, bool(self._lists) and self._level == 0
        depth = self._depth
        for token in _TOKEN.finditer(buffer, self._at):
            at = token.start()
            first = buffer[at]
            if first == QUOTE:
                if not token[1]:
                    self._at, self._depth = at, depth
                    return None
            elif first in b"{[":
                if depth <= level or (watched and depth == 1) or depth - level >= MAX_DEPTH:
                    self._at, self._depth = at + 1, depth
                    return at, first
                depth += 1
            else:
                if depth <= level + 1:
                    self._at, self._depth = at + 1, depth
                    return at, first
                depth -= 1
        self._at, self._depth = len(buffer), depth
        return None

    def _opened(self, at: int, bracket: int) -> Iterator[Record | Unread]:
        if self._depth == self._level:
            yield from self._between(at)
            if self._level == 0 and bracket == ord("["):
                self._level, self._index, self._head = 1, 0, {}
                self._keep(at + 1)
            else:
                self._start = at
        elif self._depth == 1 and self._level == 0 and bracket == ord("[") and not self._fault:
            yield from self._open_list(at)
        elif self._depth - self._level >= MAX_DEPTH and self._start is not None and not self._fault:
            self._fault = f"it is nested more than {MAX_DEPTH} deep"
            if self._level == 0:
                yield from self._give_up(at)
                return
        self._depth += 1

    def _open_list(self, at: int) -> Iterator[Unread]:
        first = self._kept if self._start is None else self._start
        tail = max(first, at - _KEY_BYTES)
        key = _KEY.search(self._buffer[tail:at])
        if key is None or key[1] not in self._lists:
            return
        if self._start is not None:  # else it stands behind another list, and so behind what they both have before them
            before = self._buffer[first : tail + key.start()]
            try:
                self._head = parse(before.rstrip().rstrip(b",") + b"}")
            except RecordError as error:
                self._head = {}
                yield Unread(self._line_of(first), f"what stands before a list cannot be read: {error}", before)
        self._level, self._index, self._start = 2, 0, None
        self._keep(at + 1)

    def _give_up(self, at: int) -> Iterator[Unread]:
        """Leave a document without looking for its end, and go on with the next one."""
        start, line = self._start or 0, self._line_of(self._start or 0)
        following = _NEXT_DOCUMENT.search(self._buffer, at)
        yield Unread(line, self._fault, self._buffer[start : following.start() + 1 if following else None])
        self._start, self._depth, self._fault = None, 0, ""
        while following is None:
            self._keep(max(self._kept, len(self._buffer) - 1))
            self._at = self._kept
            if not self._more():
                self._keep(len(self._buffer))
                self._at = self._kept
                return
            following = _NEXT_DOCUMENT.search(self._buffer, self._kept)
        self._keep(following.start() + 1)
        self._at = self._kept

    def _shut(self, end: int) -> Iterator[Record | Unread]:
        if self._depth == 0:
            return  # a bracket too many: what it stands in is said to be no value
        self._depth -= 1
        if self._depth == self._level and self._start is not None:
            yield from self._value(end)
        elif self._depth < self._level:
            yield from self._between(end - 1)
            # A list has ended. Of what comes behind it in its object other lists are read, and the rest is passed over.
            self._level = 0
            self._keep(end)
        elif self._depth == 0:
            self._keep(end)
        if self._depth == 0:
            self._head = {}

    def _value(self, end: int) -> Iterator[Record | Unread]:
        start = self._start or 0
        line = self._line_of(start)
        self._start = None
        raw = b"" if self._is_forgotten else self._buffer[start:end]
        if self._fault:
            yield Unread(line, self._fault, raw)
            self._fault, self._is_forgotten = "", False
            self._index += 1
            self._keep(end)
            return
        try:
            record = Record(self._index if self._level else line - 1, line, parse(raw), raw, self._head)
        except RecordError as error:
            # A quote too many turns strings inside out, so that the value seems to swallow those behind it.
            following = self._following(raw)
            if following:
                end = self._at = start + following
            yield Unread(line, str(error), self._buffer[start:end])
        else:
            yield record
        self._index += 1
        self._keep(end)

    def _between(self, at: int) -> Iterator[Unread]:
        """Say what stands between two values and is none. Scalars in a list of values are none either."""
        part = self._buffer[self._kept : at].lstrip(_FILLING)
        if part and not (self._level == 0 and self._depth > 0):
            yield Unread(self._line_of(at - len(part)), "it is not a JSON object or list", part.rstrip(_FILLING))
        self._keep(at)

    def _let_go(self) -> Iterator[Unread]:
        """Say what stands between two values, if it is long, so that it is not held."""
        if self._start is None and len(self._buffer) - self._kept > self._max_bytes:  # a text that does not end
            yield Unread(self._line, f"what stands here is longer than {self._max_bytes} bytes", b"")
            self._forget()
            self._start = None
        elif self._start is None and (self._level or not self._depth) and self._at - self._kept > _LONG:
            yield from self._between(self._at)

    def _cut_off(self) -> Iterator[Record | Unread]:
        """Deal with what is left at the end. Returns whether there is a document to go on with."""
        start = self._start
        if start is None:
            if self._depth == 0 or self._level:
                self._level = max(self._level, self._depth)
                yield from self._between(len(self._buffer))
            if self._depth:
                yield Unread(self._line_of(len(self._buffer)), "the end of what its items stand in is missing", b"")
            return False
        line = self._line_of(start)
        raw = self._buffer[start:]
        following = None if self._fault else self._following(raw)
        raw = b"" if self._is_forgotten else raw[:following]
        yield Unread(line, self._fault or "its end is missing", raw)
        whole = None if self._fault else closed(raw)
        if whole is not None:
            with suppress(RecordError):
                yield Record(self._index if self._level else line - 1, line, parse(whole), raw, self._head, cut=True)
        self._start, self._depth, self._fault, self._is_forgotten = None, self._level, "", False
        if following is None:
            return False
        self._keep(start + len(raw))
        self._at = self._kept
        return True

    def _following(self, raw: bytes) -> int | None:
        """Return where in a value that cannot be read the next document begins; None where it may not be looked for."""
        found = None if self._level else _NEXT_DOCUMENT.search(raw)
        if found is None or self._again + len(raw) > _AGAIN * self._served:
            return None
        self._again += len(raw) - found.start() - 1
        return found.start() + 1

    def _more(self) -> bool:
        """Read on; False at the end. What has been dealt with is let go, and so is a value that is too long."""
        if self._start is None:
            if self._depth and not self._level:  # but for what may be a list's name
                self._keep(max(self._kept, self._at - _KEY_BYTES))
        elif len(self._buffer) - self._start > self._max_bytes:
            self._fault, self._is_forgotten = f"the value is longer than {self._max_bytes} bytes", True
            self._forget()
        piece = self._read()
        if not piece:
            return False
        self._served += len(piece)
        # Twice as much every time a value does not end, as each time it is put together anew.
        is_open = self._start is not None or self._at < len(self._buffer)
        self._piece = min(self._piece * 2, LARGEST_PIECE) if is_open else FIRST_PIECE
        kept = self._kept
        self._buffer = self._buffer[kept:] + piece
        self._at -= kept
        self._kept = 0
        if self._start is not None:
            self._start -= kept
        return True

    def _read(self) -> bytes:
        """Return the next piece; empty at the end, or where no more can be read."""
        pieces: list[bytes] = []
        left = self._piece
        try:
            while self._error is None and left > 0 and (piece := self._stream.read1(left)):
                pieces.append(piece)
                left -= len(piece)
        except READ_ERRORS as error:
            self._error = error
        return b"".join(pieces)

    def _forget(self) -> None:
        """Drop what has been read of a value that is too long, but for a string that has not ended."""
        rest = self._buffer[self._at :]
        self._keep(self._at)
        if rest:
            escapes = len(rest) - len(rest.rstrip(b"\\"))
            self._line += rest.count(b"\n")
            rest = rest[:1] + (b"\\" if escapes % 2 else b"")
        self._buffer, self._at, self._kept, self._start = rest, 0, 0, 0

    def _line_of(self, at: int) -> int:
        return self._line + self._buffer.count(b"\n", self._kept, at)

    def _keep(self, at: int) -> None:
        self._line = self._line_of(at)
        self._kept = at
