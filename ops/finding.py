"""`secondnature signals PATH` and `signals score`: signals found in files on this machine, without a daemon."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness_adapters.errors import RecordError
from harness_adapters.trace import Trace
from hinting.detect import detect
from hinting.place import Finding, finding
from hinting.score import FileFacts, read_labels, score
from hinting.signal import Signal
from ops.reading import FileReport, read_files


def find_signals(
    paths: Sequence[str],
    *,
    format_name: str | None = None,
    progress: Console | None = None,
    judge: Callable[[Trace, Sequence[Signal]], Sequence[Signal]] | None = None,
) -> Iterator[Finding | FileReport]:
    """Yield the signals of every session of the files and, when it has been read, the report of each file.

    `judge` returns what is to be told instead of the signals found in a session.
    """
    for report, trace in read_files(paths, format_name=format_name, progress=progress):
        if trace is None:
            yield report
        else:
            found = detect(trace)
            for signal in judge(trace, found) if judge else found:
                yield finding(report.path, trace, signal)


def score_signals(
    labels: Path, recordings: Path, min_confidence: float, progress: Console | None = None
) -> dict[str, Any]:
    """Find the signals of every labelled file and hold them against the labels.

    `recordings` is laid out as `labels` is; of an archive, labels name the archive itself, and its members' sessions.
    Raises RecordError where a labelled file is missing or cannot be read.
    """
    told = read_labels(labels)
    if not told:
        raise RecordError(f"there is no labels.jsonl with a label below {labels}")
    names = {str(recordings / file): file for file in dict.fromkeys(label.file for label in told)}
    for name in names:
        if Path(name).is_dir():
            raise RecordError(f"{name} is a folder; a label's `file` names a file")
        if not Path(name).exists():
            raise RecordError(f"{name}: there is no such file, and a label names it")
    facts = {file: FileFacts() for file in names.values()}
    findings: list[Finding] = []
    read = set[str]()
    unread: list[FileReport] = []
    for report, trace in read_files(list(names), progress=progress):
        file = names.get(report.file or "")
        if trace is not None and file is not None:
            facts[file].sessions.add(trace.name or trace.id)
            findings += [finding(file, trace, signal) for signal in detect(trace)]
        elif file is not None and report.format is not None:
            facts[file].agent_turns += report.agent_turns
            read.add(file)
        else:
            unread.append(report)
    if missing := [name for name, file in names.items() if file not in read]:
        reasons = [f"{report.path}: {report.skipped[0].reason}" for report in unread]
        raise RecordError("; ".join(reasons) or f"{missing[0]} is the same file as another that labels name")
    return score(told, findings, facts, min_confidence)
