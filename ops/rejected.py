"""What could not be read of imported files, kept beside them for a person to look at."""

import base64
import os
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.source import REJECTED_SUFFIX
from ops.reading import FileReport, printable


class Rejects:
    """Keeps the records of one file after the other in `FILE.rejected.jsonl`, those of an archive's members together.

    A file of which everything was read has none: what an earlier import left there is removed. A context manager.
    """

    def __init__(self) -> None:
        self._report: FileReport | None = None
        self._stream: BinaryIO | None = None
        self._fault = ""

    def __enter__(self) -> "Rejects":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(is_whole=kind is None)

    def begin(self, report: FileReport) -> None:
        """Keep what is skipped of a file that is about to be read."""
        if self._report is None or report.file is None or report.file != self._report.file:
            self._close(is_whole=True)
        self._report = report
        report.keep = lambda skipped: self._add(report, skipped)

    def _add(self, report: FileReport, skipped: Skipped) -> None:
        if not skipped.raw:
            return
        if report.file is None:
            report.fault = "standard input has no folder to keep it in"
            return
        path = report.file + REJECTED_SUFFIX
        try:
            if self._stream is None and not self._fault:
                self._stream = Path(path).open("wb")  # noqa: SIM115 - closed when the next file begins
            if self._stream is not None:
                self._stream.write(_line(report, skipped))
                report.rejected = printable(path)
        except OSError as error:
            self._fault = f"{printable(path)} cannot be written: {_reason(error)}"
        report.fault = self._fault

    def _close(self, *, is_whole: bool) -> None:
        report, stream, fault = self._report, self._stream, self._fault
        self._report, self._stream, self._fault = None, None, ""
        if report is None or report.file is None:
            return
        path = report.file + REJECTED_SUFFIX
        try:
            if stream is not None:
                stream.close()
            elif is_whole and not fault:
                Path(path).unlink(missing_ok=True)
        except OSError as error:
            report.fault = f"{printable(path)} cannot be written: {_reason(error)}"


def _line(report: FileReport, skipped: Skipped) -> bytes:
    line: dict[str, Any] = {"path": report.path, "line": skipped.line or None, "reason": skipped.reason}
    try:
        line["text"] = skipped.raw.decode()
    except UnicodeDecodeError:
        line["base64"] = base64.b64encode(skipped.raw).decode()
    return orjson.dumps(line) + b"\n"


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
