"""`progress.jsonl`: what a round did, one flushed line an event; and the lock that keeps two learners apart."""

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from harness_adapters.errors import LearnerError
from learner.config import PROGRESS_FILE, Event, Progress

_NONE: Mapping[str, float] = MappingProxyType({})


class ProgressLog:
    """Appends events to a round's progress file, which it holds locked while open.

    A line torn by a killed learner is cut off first, so that every line of the file can be read. Raises LearnerError
    when another learner works on the round.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / PROGRESS_FILE
        try:
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644), "r+b", buffering=0)
        except OSError as error:
            raise LearnerError(
                f"{path} cannot be written: {error.strerror}; give the round directory in full"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise LearnerError(f"another learner works on {directory}; wait for it or end it first") from None
        self._file.truncate(self._file.read().rfind(b"\n") + 1)

    def emit(self, event: Event, *, step: int = 0, message: str = "", figures: Mapping[str, float] = _NONE) -> None:
        """Append one event."""
        line = Progress(event=event, step=step, at=time.time(), figures=dict(figures), message=message)
        self._file.write(line.model_dump_json().encode() + b"\n")

    def failed(self, message: str) -> None:
        """Append a `failed` event, if the disk still takes one: it may be what failed."""
        with contextlib.suppress(OSError):
            self.emit("failed", message=message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
