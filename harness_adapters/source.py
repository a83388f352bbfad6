"""Sources: files, folders, archives and standard input, opened one after another as streams of bytes."""

import glob
import gzip
import io
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from harness_adapters.errors import RecordError
from harness_adapters.jsontext import mended
from harness_adapters.records import READ_ERRORS, first_values

HEAD_BYTES = 1 << 18
"""How much of a source an adapter sees to recognise its format."""

STDIN = "-"
_HIDDEN = (".", "__MACOSX")
REJECTED_SUFFIX = ".rejected.jsonl"
"""Files that keep what could not be read; a folder's are not read again."""

_UNPACKABLE = (NotImplementedError, RuntimeError)
"""What zipfile raises for a compression it does not know, and for a member that wants a password."""


@dataclass(frozen=True, slots=True)
class Head:
    """How a source begins: its first bytes, and the first JSON values among them, the last perhaps cut off."""

    raw: bytes
    values: tuple[Any, ...]

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield those of the values that are objects."""
        return (value for value in self.values if isinstance(value, dict))


@dataclass(frozen=True, slots=True)
class Source:
    """An open stream of recorded traces."""

    name: str
    """As messages name it: a path, `PATH!MEMBER` of an archive, or `-`."""
    stream: BinaryIO
    head: Head
    position: Callable[[], int] = lambda: 0
    """How many bytes have been read so far, of the file as it is stored."""
    size: int | None = None
    """How many there are, where that is known."""
    file: str | None = None
    """The path of the file that holds it; None of standard input."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A path that could not be read, and why."""

    name: str
    reason: str


def open_sources(paths: Sequence[str]) -> Iterator[Source | Unreadable]:
    """Open what the paths name, one at a time: each source is closed when the next one is asked for.

    A path is a file, a folder (read with all below it, hidden files left out), a pattern such as `logs/*.jsonl`, or `-`
    for standard input. Files compressed with gzip or zstd are read through; a zip archive is read member by member, as
    a folder is. Each file is opened once, however many paths or links lead to it.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if path == STDIN:
            try:
                if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] -- so it is where it was closed
                    raise OSError("standard input is closed")
                source = _source(STDIN, sys.stdin.buffer)
            except READ_ERRORS as error:
                yield Unreadable(STDIN, _reason(error))
            else:
                yield source
            continue
        if not path:
            yield Unreadable(path, "an empty path names nothing")
            continue
        matched = [path] if Path(path).exists() or not glob.has_magic(path) else sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
        if not matched:
            yield Unreadable(mended(path), "nothing matches this pattern")
        for match in matched:
            yield from _below(Path(match), seen)


def _below(path: Path, seen: set[tuple[int, int]]) -> Iterator[Source | Unreadable]:
    try:
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        if key in seen:
            if path.is_symlink():
                yield Unreadable(
                    _named(path), "it is a link to what was read already, perhaps to a folder it stands in"
                )
            return
        seen.add(key)
        if not path.is_dir():
            yield from _file(path)
            return
        children = sorted(path.iterdir())
    except READ_ERRORS as error:
        yield Unreadable(_named(path), _reason(error))
        return
    for child in children:
        if not child.name.startswith(_HIDDEN) and not child.name.endswith(REJECTED_SUFFIX):
            yield from _below(child, seen)


_ZIP = b"PK\x03\x04"


def _file(path: Path) -> Iterator[Source | Unreadable]:
    if not path.is_file():
        yield Unreadable(_named(path), "it is neither a file nor a folder")
        return
    with path.open("rb") as stream:
        if zipfile.is_zipfile(stream):
            stream.seek(0)
            yield from _members(path, stream)
        else:
            stream.seek(0)
            if stream.read(len(_ZIP)) == _ZIP:
                raise zipfile.BadZipFile("it is a zip archive without a directory at its end: it was cut or damaged")
            stream.seek(0)
            yield _source(_named(path), stream, path.stat().st_size, str(path))


def _members(path: Path, stream: BinaryIO) -> Iterator[Source | Unreadable]:
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            if info.is_dir() or _is_hidden(info.filename):
                continue
            name = f"{_named(path)}!{mended(info.filename)}"
            try:
                with closing(archive.open(info)) as member:
                    yield _source(name, cast(BinaryIO, member), file=str(path))
            except (*READ_ERRORS, *_UNPACKABLE) as error:
                yield Unreadable(name, _reason(error))


def _is_hidden(member: str) -> bool:
    return any(part.startswith(_HIDDEN) and part not in (".", "..") for part in member.split("/"))


def _source(name: str, stored: BinaryIO, size: int | None = None, file: str | None = None) -> Source:
    start = _Prefixed(cast(io.BufferedIOBase, stored), 8)
    ahead = _Prefixed(_decompressed(start), HEAD_BYTES)
    stream = cast(BinaryIO, io.BufferedReader(ahead, 1 << 20))
    return Source(name, stream, Head(ahead.head, first_values(ahead.head)), lambda: start.served, size, file)


def _decompressed(stream: "_Prefixed") -> io.BufferedIOBase:
    whole = io.BufferedReader(stream)
    if stream.head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=whole)
    if stream.head.startswith(b"\x28\xb5\x2f\xfd"):
        return io.BufferedReader(_Unpacked(whole))
    return whole


class _Unpacked(io.RawIOBase):
    """What a zstd stream holds, frame after frame; the library's own reader ends without a word where one was cut."""

    _AT_ONCE = 1024
    """Packed bytes read in one step: four of them can unpack to 128 KiB, so these to 32 MiB at the most."""

    def __init__(self, packed: io.BufferedIOBase) -> None:
        self._packed = packed
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._ready = memoryview(b"")
        self._left = b""
        """What stood behind the last frame."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and (piece := self._left or self._packed.read(self._AT_ONCE)):
            self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._ready, self._left = memoryview(self._frame.decompress(piece)), b""
            if self._frame.eof:
                self._left, self._frame = self._frame.unused_data, None
        if not self._ready and self._frame:
            raise EOFError("the file ends inside a zstd frame: it was cut")
        taken = min(len(self._ready), len(buffer))
        buffer[:taken], self._ready = self._ready[:taken], self._ready[taken:]
        return taken


def _named(path: Path) -> str:
    """Return a path as a text; bytes of it that are no UTF-8 are the replacement character."""
    return os.fsencode(path).decode("utf-8", "replace")


class _Prefixed(io.RawIOBase):
    """A stream of which the beginning is known already; standard input cannot go back to it."""

    def __init__(self, rest: io.BufferedIOBase, length: int) -> None:
        self.head = b""
        self.served = 0
        self._rest = rest
        self._fault: BaseException | None = None
        try:
            while len(self.head) < length and (piece := rest.read1(length - len(self.head))):
                self.head += piece
        except READ_ERRORS as error:
            if not self.head:
                raise
            self._fault = error  # for when what was read before has been served
        self._pending = self.head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._fault and not self._pending:
            raise self._fault
        piece = self._pending[: len(buffer)] if self._pending else self._rest.read1(len(buffer))
        self._pending = self._pending[len(buffer) :]
        buffer[: len(piece)] = piece
        self.served += len(piece)
        return len(piece)


def _reason(error: BaseException) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def need(source: "Source | Unreadable") -> Source:
    """Return a source. Raises RecordError where it could not be opened."""
    if isinstance(source, Unreadable):
        raise RecordError(f"{source.name}: {source.reason}")
    return source
