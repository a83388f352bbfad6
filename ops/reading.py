"""Files of recorded sessions, read on this machine: what every local command begins with."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from harness_adapters.adapter import Adapter, Skipped
from harness_adapters.base import adapter_named, detect_adapter, read_traces
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange
from harness_adapters.source import REJECTED_SUFFIX, STDIN, Source, Unreadable, open_sources
from harness_adapters.trace import Author, Outcome, Trace

FAILED = (Outcome.ERROR_AGENT, Outcome.ERROR_ENV, Outcome.REJECTED_BY_HUMAN)
MAX_SKIPPED = 10_000
"""Skipped records that a report lists; more are counted."""


@dataclass(slots=True)
class FileReport:
    """What was found in one file."""

    path: str
    """As it is printed: of a name that is not UTF-8, the replacement character stands for the bytes that are not."""
    file: str | None = None
    """The file that holds it, as it is opened; None of standard input and of what could not be opened."""
    format: str | None = None
    unit: str = "line"
    """What the places of its format count."""
    is_foreign: bool = False
    """Whether it was opened, and is of no format that is read."""
    sessions: int = 0
    turns: int = 0
    agent_turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    """Results of tools that failed or were refused, and model calls that the server answered with an error."""
    outcomes: Counter[str] = field(default_factory=Counter[str])
    appended: int = 0
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    more_skipped: int = 0
    rejected: str | None = None
    """Where records that were not read are kept."""
    fault: str = ""
    """Why they are not kept, where they should be."""
    keep: Callable[[Skipped], None] | None = None
    """Called with each record that was not read."""

    def skip(self, skipped: Skipped) -> None:
        """Note a record that was not read: its place and the reason, never what stands there."""
        if self.keep is not None:
            self.keep(skipped)
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(Skipped(skipped.line, skipped.reason))
        else:
            self.more_skipped += 1

    def count(self, trace: Trace) -> None:
        """Count a session."""
        recorded = any(turn.exchange_id for turn in trace.turns)
        self.sessions += 1
        self.turns += len(trace.turns)
        for turn in trace.turns:
            self.agent_turns += turn.author is Author.AGENT
            # Where the wire was recorded, a call that stands in the history alone was refused or made elsewhere.
            self.tool_calls += len(turn.tool_calls) if turn.exchange_id or not recorded else 0
            if turn.outcome is not None:
                self.outcomes[turn.outcome.value] += 1
                self.tool_errors += turn.outcome in FAILED

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command prints it."""
        return {
            "path": self.path,
            "format": self.format,
            "sessions": self.sessions,
            "turns": self.turns,
            "agent_turns": self.agent_turns,
            "tool_calls": self.tool_calls,
            "tool_errors": self.tool_errors,
            "outcomes": dict(sorted(self.outcomes.items())),
            "appended": self.appended,
            "skipped": [{"line": s.line or None, "reason": s.reason} for s in self.skipped],
            "more_skipped": self.more_skipped,
            "rejected": self.rejected,
        }


Each = Callable[[Exchange | Trace], None]


def printable(path: str) -> str:
    """Return a path as text that can be printed, whatever bytes it has."""
    return os.fsencode(path).decode("utf-8", "replace")


def left_out(reports: Iterable[FileReport], paths: Sequence[str]) -> tuple[list[FileReport], int]:
    """Return the reports of what was read or was named itself, and how many other files are of no known format."""
    named = {str(Path(path)) for path in paths}
    told = list(reports)
    shown = [report for report in told if not report.is_foreign or report.file is None or report.file in named]
    return shown, len(told) - len(shown)


def read_files(
    paths: Sequence[str],
    *,
    format_name: str | None = None,
    each: Callable[[FileReport], Each] | None = None,
    progress: Console | None = None,
) -> Iterator[tuple[FileReport, Trace | None]]:
    """Yield every session of the files, with the report of its file, and once, with None, every report that is done.

    `each` makes, for a file, what is called with the exchanges and traces as they stand in it. Without `format_name`
    the formats are detected. Raises RecordError for a format there is none of.
    """
    adapter = adapter_named(format_name) if format_name else None
    for path in paths:
        if path != STDIN and Path(path).is_dir() and _is_empty(path):
            yield _unread(FileReport(printable(path)), "this folder holds no file; hidden ones are not read"), None
    for source in open_sources(paths):
        if isinstance(source, Unreadable):
            yield _unread(FileReport(source.name), source.reason), None
            continue
        report = FileReport(source.name, source.file)
        try:
            chosen = _chosen(source, adapter)
        except RecordError as error:
            report.is_foreign = True
            yield _unread(report, str(error).removeprefix(f"{source.name}: ")), None
            continue
        report.format, report.unit = chosen.name, chosen.unit
        with _shown(source, progress) as advance:
            for item in read_traces(source, chosen, _tapped(report, source, advance, each(report) if each else None)):
                if isinstance(item, Skipped):
                    advance(source.position())
                    report.skip(item)
                else:
                    report.count(item)
                    yield report, item
        yield report, None


def _unread(report: FileReport, reason: str) -> FileReport:
    report.skip(Skipped(0, reason))
    return report


def _is_empty(folder: str) -> bool:
    for _, below, files in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        if any(not name.startswith(".") and not name.endswith(REJECTED_SUFFIX) for name in files):
            return False
    return True


def _chosen(source: Source, adapter: Adapter | None) -> Adapter:
    if adapter is None:
        return detect_adapter(source)
    if not adapter.recognises(source.head):
        try:
            looks = f"looks like {detect_adapter(source).name}"
        except RecordError:
            looks = "looks like none that is known"
        raise RecordError(f"it does not look like {adapter.name}, it {looks}; leave --format out to detect it")
    return adapter


def _tapped(report: FileReport, source: Source, advance: Callable[[int], None], each: Each | None) -> Each:
    def tap(item: Exchange | Trace) -> None:
        advance(source.position())
        if isinstance(item, Exchange) and (item.http_status or 0) >= 400:
            report.tool_errors += 1
        if each is not None:
            each(item)

    return tap


def _shown(source: Source, console: Console | None) -> AbstractContextManager[Callable[[int], None]]:
    if console is None or not console.is_terminal:
        return nullcontext(lambda _: None)
    return _Shown(source, console)


class _Shown(AbstractContextManager[Callable[[int], None]]):
    def __init__(self, source: Source, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task = self._progress.add_task(source.name[-60:].replace("[", "\\["), total=source.size)

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        return lambda position: self._progress.update(self._task, completed=position)

    def __exit__(self, *raised: object) -> None:
        self._progress.stop()
