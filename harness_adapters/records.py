"""Records: the JSON values of a stream, each with its place, whether they stand one a line or in great documents.

A file of traces is JSON lines, a document, several documents behind each other, a list of many values, or an object
with a long list in it. All are read in memory that does not grow with the file, but for its longest value.
"""

import io
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, cast

from harness_adapters.errors import RecordError
from harness_adapters.jsontext import parse
from harness_adapters.scan import READ_ERRORS, Record, Unread, scan

__all__ = ["MAX_BYTES", "READ_ERRORS", "Record", "Unread", "first_values", "read_records"]

MAX_BYTES = 64 << 20
"""The longest line or value that is read."""

BOM = b"\xef\xbb\xbf"
_PEEK_BYTES = 1 << 18
_HEAD_VALUES = 50


def read_records(stream: BinaryIO, lists: Collection[str] = ()) -> Iterator[Record | Unread]:
    """Yield the values of a stream, with what could not be read between them.

    A list on the top level is read item by item, and so are the members of a top-level object that `lists` names.
    Reading goes on behind what cannot be read; of a document without an end, what can be read comes after its Unread.
    """
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream, 1 << 20)  # type: ignore[arg-type]
    line = 1
    try:
        for item in _lines(buffered) if _holds_lines(buffered.peek(_PEEK_BYTES)) else scan(buffered, lists, MAX_BYTES):
            line = item.line
            yield from _items(item, lists) if isinstance(item, Record) else (item,)
    except READ_ERRORS as error:
        yield Unread(line, f"nothing can be read behind this line: {error or type(error).__name__}", b"")


def _items(record: Record, lists: Collection[str]) -> Iterator[Record]:
    """Yield a record or, of one that stands whole on a line, the items that a scan would yield."""
    value, head, found = record.value, dict[str, Any](), list[list[Any]]()
    if isinstance(value, dict) and not record.cut:
        members = cast("dict[str, Any]", value)
        named = [name for name, held in members.items() if name in lists and isinstance(held, list)]
        found = [members[name] for name in named]
        head = {name: held for name, held in members.items() if name not in named}
    elif isinstance(value, list) and (not value or any(isinstance(item, dict | list) for item in value)):
        found = [cast("list[Any]", value)]
    if not found:
        yield record
    for items in found:
        for index, item in enumerate(items):
            yield Record(index, record.line, item, head=head)


def first_values(head: bytes) -> tuple[object, ...]:
    """Return the first values of a stream that begins with `head`, the last one perhaps without its end."""
    values: list[object] = []
    for record in read_records(io.BytesIO(head)):
        if isinstance(record, Record):
            values.append(record.value)
            if len(values) == _HEAD_VALUES:
                break
    return tuple(values)


def _holds_lines(head: bytes) -> bool:
    """Say whether each line is a value of its own, judged by the whole lines among the first."""
    *whole, _ = head.removeprefix(BOM).lstrip().split(b"\n", _HEAD_VALUES)
    if not whole or whole[0].startswith(b"["):
        return False
    if _is_object(whole[0], members=1):
        return True
    # A first line may be cut off or no JSON at all. An object over several lines has lines that are objects too,
    # though hardly one of two members.
    return any(_is_object(line, members=2) for line in whole[1:])


def _is_object(line: bytes, members: int) -> bool:
    if not line.strip().startswith(b"{"):
        return False
    try:
        value = parse(line)
    except RecordError:
        return False
    return isinstance(value, dict) and len(value) >= members


def _lines(stream: io.BufferedReader) -> Iterator[Record | Unread]:
    number = 0
    while line := stream.readline(MAX_BYTES + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(BOM)
        if len(line) > MAX_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_BYTES)
            yield Unread(number, f"the line is longer than {MAX_BYTES} bytes", b"")
        elif raw := line.strip():
            try:
                yield Record(number - 1, number, parse(raw), raw)
            except RecordError as error:
                yield Unread(number, str(error), raw)
