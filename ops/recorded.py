"""The commands `secondnature traces` and `secondnature signals`: recorded sessions, here and in the daemon."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness_adapters.trace import Trace
from hinting.place import Finding
from hinting.signal import Signal
from ops.client import DaemonClient, segment
from ops.output import JsonOption, LimitOption, UrlOption, err, print_json, print_line, print_table, say, show
from ops.reading import FileReport, left_out

PathsArgument = Annotated[
    list[str], typer.Argument(help="Files, folders, patterns, or `-` for standard input.", metavar="PATH...")
]
FormatOption = Annotated[str | None, typer.Option("--format", help="The files' format; detected without.")]

COLUMNS = ("place", "session", "kind", "target", "fix", "fault", "confidence", "evidence")
ROWS_AT_ONCE = 100
"""Signals that a table shows at once: a long search shows what it finds."""


class ExportFormat(StrEnum):
    """What `traces export` writes."""

    OPENAI_CHAT = "openai_chat"
    ATIF = "atif"


class _PathsOrCommand(TyperGroup):
    """A group whose first argument may be a path: it then stands for the command `find`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = next((arg for arg in args if arg == "-" or not arg.startswith("-")), None)
        if first is not None and first not in self.commands:
            args = ["find", *args]
        return super().parse_args(ctx, args)


traces_app = typer.Typer(help="Sessions, and files of sessions.", no_args_is_help=True)
signals_app = typer.Typer(
    help="Moments that showed the agent was wrong: `signals PATH...` finds them in files, `list` asks the daemon.",
    no_args_is_help=True,
    cls=_PathsOrCommand,
)


@traces_app.command("import")
def traces_import(  # noqa: PLR0917 - typer calls it by name
    paths: PathsArgument,
    url: UrlOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read and report.")] = False,
    format_name: FormatOption = None,
    rejected: Annotated[
        bool, typer.Option(help="Keep what could not be read beside each file, with the reason.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Read recorded sessions and append them to the daemon's log. Formats are detected; importing twice is harmless."""
    from ops.importing import import_files  # noqa: PLC0415 - keeps `--help` fast

    client = None if dry_run else DaemonClient(url)
    reports = import_files(paths, client, format_name=format_name, keep_rejected=rejected, progress=err)
    if json:
        print_json({"files": [report.as_json() for report in reports]})
    else:
        print_table(
            ("file", "format", "sessions", "turns", "calls", "errors", "appended", "skipped"),
            (
                (
                    *(r.path, r.format, r.sessions, r.turns, r.tool_calls, r.tool_errors, r.appended),
                    len(r.skipped) + r.more_skipped,
                )
                for r in left_out(reports, paths)[0]
            ),
        )
        _say_skipped(reports, paths)
    for report in reports:
        if report.fault:
            say(f"{report.path}: what was not read is not kept: {report.fault}")
    if all(report.format is None for report in reports):
        raise typer.Exit(1)


@traces_app.command("export")
def traces_export(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Files to export from; without any, the daemon's sessions.", metavar="[PATH...]"),
    ] = None,
    format_name: Annotated[ExportFormat, typer.Option("--format", help="What to write.")] = ExportFormat.OPENAI_CHAT,
    url: UrlOption = None,
) -> None:
    """Write sessions to standard output, one JSON object a line; `traces import` reads them back as they were."""
    from ops.exporting import exported  # noqa: PLC0415

    reports: list[FileReport] = []
    for item in exported(paths or (), format_name, None if paths else DaemonClient(url)):
        if isinstance(item, FileReport):
            reports.append(item)
        else:
            typer.echo(item)
    _say_skipped(reports, paths or ())
    if paths and all(report.format is None for report in reports):
        raise typer.Exit(1)


@traces_app.command("list")
def traces_list(url: UrlOption = None, json: JsonOption = False, limit: LimitOption = 50) -> None:
    """List sessions, newest first."""
    show(DaemonClient(url).get("/api/traces", limit=limit), json, ("id", "harness", "tenant", "turns", "complete"))


@traces_app.command("show")
def traces_show(trace_id: str, url: UrlOption = None, json: JsonOption = False) -> None:
    """Show one session turn by turn."""
    trace = DaemonClient(url).get(f"/api/traces/{segment(trace_id)}")
    if json:
        print_json(trace)
        return
    rows = ((t["index"], t["author"], t["version"] or "", t["text"]) for t in trace["turns"])
    print_table(("turn", "author", "version", "text"), rows)


@signals_app.command("find")
def signals_find(
    paths: PathsArgument,
    *,
    format_name: FormatOption = None,
    judge: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible endpoint whose model judges what is found; recorded text is sent there."),
    ] = None,
    judge_model: Annotated[str | None, typer.Option(help="The model's name there.")] = None,
    judge_key_env: Annotated[str | None, typer.Option(help="The variable that holds its key.", metavar="VAR")] = None,
    json: JsonOption = False,
) -> None:
    """Find signals in files by rule, here, without a daemon. With --json, one line a signal."""
    if (judge is None) != (judge_model is None) or (judge_key_env and judge is None):
        raise typer.BadParameter("--judge and --judge-model go together, and --judge-key-env goes with them")
    if judge is None or judge_model is None:
        _show_signals(paths, format_name, json)
        return
    from ops.judging import judging  # noqa: PLC0415 - without a judge, nothing that speaks over a network is loaded

    with judging(judge, judge_model, judge_key_env) as judged:
        _show_signals(paths, format_name, json, judged)
        say(judged.told())


def _show_signals(
    paths: list[str],
    format_name: str | None,
    json: bool,
    judge: Callable[[Trace, Sequence[Signal]], Sequence[Signal]] | None = None,
) -> None:
    from ops.finding import find_signals  # noqa: PLC0415

    reports: list[FileReport] = []
    rows: list[tuple[Any, ...]] = []
    shown = 0

    def show_rows() -> None:
        nonlocal shown
        if rows or (not shown and any(report.format for report in reports)):
            print_table(COLUMNS, rows, header=not shown)
            shown += 1
            rows.clear()

    for item in find_signals(paths, format_name=format_name, progress=err, judge=judge):
        if isinstance(item, FileReport):
            reports.append(item)
        elif json:
            print_line(item)
        else:
            rows.append(_row(item))
            if len(rows) == ROWS_AT_ONCE:
                show_rows()
    if not json:
        show_rows()
    _say_skipped(reports, paths)
    if all(report.format is None for report in reports):
        raise typer.Exit(1)


def _row(found: Finding) -> tuple[Any, ...]:
    where = f"{found.file}#{found.turn}"
    return (
        where,
        found.session,
        found.kind,
        found.target,
        found.fix,
        found.fault,
        found.confidence,
        found.evidence[:300],
    )


@signals_app.command("score")
def signals_score(
    recordings: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The recordings, laid out as DIR.")],
    labels: Annotated[Path, typer.Option(exists=True, file_okay=False, help="Where the labels.jsonl files are.")],
    min_confidence: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="What a signal needs to train; without, as --config says, else 0.5."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The TOML file whose hints.min_confidence is taken.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Hold the signals found by rule against hand labels."""
    from daemon.config import load  # noqa: PLC0415
    from daemon.config_sections import HintSettings  # noqa: PLC0415
    from ops.finding import score_signals  # noqa: PLC0415

    hints = load(config).hints if config else HintSettings()
    threshold = hints.min_confidence if min_confidence is None else min_confidence
    report = score_signals(labels, recordings, threshold, progress=err)
    if json:
        print_json(report)
        return
    print_table(
        ("kind", "precision", "recall", "F1", "labels"),
        ((kind, k["p"], k["r"], k["f1"], k["n"]) for kind, k in report["kinds"].items()),
    )
    alarms, faults = report["false_alarm_counts"], report["fault_counts"]
    print_table(
        ("", ""),
        (
            ("false alarms", f"{alarms['alarms']} of {alarms['n']} places without a signal"),
            ("targets exact", report["target_exact"]),
            ("faults right", f"{faults['right']} of {faults['n']}"),
        ),
    )
    print_table(("trap", "alarms", "labels"), ((trap, t["alarms"], t["n"]) for trap, t in report["traps"].items()))
    print_table(("folder", "signals per 100 agent turns"), report["signals_per_100_turns"].items())


@signals_app.command("list")
def signals_list(
    url: UrlOption = None,
    json: JsonOption = False,
    limit: LimitOption = 50,
    state: Annotated[str | None, typer.Option(help="Only those that are `new`, `hinted` or `set_aside`.")] = None,
) -> None:
    """List the daemon's signals, newest first."""
    found = DaemonClient(url).get("/api/signals", limit=limit, state=state)
    if json:
        print_json(found)
        return
    rows = ((s["id"], s["state"], s["kind"], f"{s['trace_id']}#{s['target']}", s["evidence"]) for s in found)
    print_table(("id", "state", "kind", "turn", "evidence"), rows)


def _say_skipped(reports: Sequence[FileReport], paths: Sequence[str]) -> None:
    """Say what was not read, where, and why. Files found in folders that are no recordings are only counted."""
    told, foreign = left_out(reports, paths)
    for report in told:
        for skipped in report.skipped:
            place = f"{report.path}:{skipped.line}" if skipped.line else report.path
            say(f"{place}: {skipped.reason}")
        if report.more_skipped:
            say(f"{report.path}: {report.more_skipped} more")
    if foreign:
        say(f"{foreign} files of no known format were left out; name one by itself to see why")
