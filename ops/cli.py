"""The `secondnature` command. Data goes to stdout, progress to stderr; `--json` prints one JSON value.

Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 the gate said no, 4 no daemon answers.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness_adapters.errors import ConfigError, SecondNatureError
from ops.client import DaemonClient, DaemonUnreachableError, segment

EXIT_FAILED, EXIT_USAGE, EXIT_GATE, EXIT_UNREACHABLE = 1, 2, 3, 4

app = typer.Typer(
    help="Second Nature: corrections in live agent traffic become a served LoRA adapter.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
traces_app = typer.Typer(help="Sessions, and files of sessions.", no_args_is_help=True)
signals_app = typer.Typer(help="Moments that showed the agent was wrong.", no_args_is_help=True)
hints_app = typer.Typer(help="Hints and their trials.", no_args_is_help=True)
rounds_app = typer.Typer(help="Training rounds.", no_args_is_help=True)
adapters_app = typer.Typer(help="Versions of the adapter.", no_args_is_help=True)
for name, group in (
    ("traces", traces_app),
    ("signals", signals_app),
    ("hints", hints_app),
    ("rounds", rounds_app),
    ("adapters", adapters_app),
):
    app.add_typer(group, name=name)

PIPE_WIDTH = 10_000

err = Console(stderr=True)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The TOML file; without one, the environment.")
]
UrlOption = Annotated[str | None, typer.Option("--url", help="The daemon's address; SECONDNATURE_URL without.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON value.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000)]


def main() -> None:
    """Run the command; errors of ours become a message and an exit code."""
    try:
        app()
    except DaemonUnreachableError as error:
        _exit(error, EXIT_UNREACHABLE)
    except ConfigError as error:
        _exit(error, EXIT_USAGE)
    except (SecondNatureError, OSError) as error:
        _exit(error, EXIT_FAILED)


@app.command()
def serve(
    config: ConfigOption = None,
    roles: Annotated[str, typer.Option(help="`all`, or some of `proxy,worker`.")] = "all",
    exit_with_stdin: Annotated[
        bool,
        typer.Option("--exit-with-stdin", help="Stop when standard input closes."),
    ] = False,
) -> None:
    """Run the service until it is told to stop."""
    from daemon.config import load  # noqa: PLC0415 - keeps `--help` fast
    from daemon.lifecycle import run  # noqa: PLC0415

    if exit_with_stdin:
        threading.Thread(target=_stop_with_stdin, daemon=True).start()
    run(load(config), roles.split(","))


@app.command()
def demo(
    json: JsonOption = False,
    seed: Annotated[int, typer.Option(help="Seed of the topics, the traffic and the round.")] = 0,
    rule: Annotated[str, typer.Option(help="The house rule the simulated users hold the desk to.")] = "brief",
    keep: Annotated[Path | None, typer.Option(help="Keep the daemon's data in this folder.")] = None,
) -> None:
    """Walk the whole loop on this machine: traffic, corrections, hints, training, gate, swap, rollback."""
    try:
        from ops.demo import run_demo  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(f"the demo needs {error.name}; install secondnature[demo]") from error

    report = run_demo(rule=rule, seed=seed, keep=keep, plain=json)
    if json:
        _print_json(report)
    if report["verdict"] != "promote":
        raise typer.Exit(EXIT_GATE)


@app.command()
def doctor(
    config: ConfigOption = None,
    roles: Annotated[str, typer.Option(help="Check what these need: `all`, or some of `proxy,worker`.")] = "all",
    json: JsonOption = False,
) -> None:
    """Check that everything the configuration names is there and safe to use."""
    from ops.doctor import examine  # noqa: PLC0415

    findings = examine(config, roles.split(","))
    if json:
        _print_json(findings)
    else:
        _print_table(("check", "ok", "what was found"), ((f["check"], _mark(f["ok"]), f["found"]) for f in findings))
    if not all(f["ok"] for f in findings):
        raise typer.Exit(EXIT_FAILED)


@app.command()
def status(url: UrlOption = None, json: JsonOption = False) -> None:
    """Say what serves, what has been found, and what the next round waits for."""
    answer = DaemonClient(url).get("/api/status")
    if json:
        _print_json(answer)
        return
    _print_table(("", ""), ((k, v) for k, v in answer.items() if k != "counts"))
    _print_table(("noun", "count"), answer["counts"].items())


@app.command()
def rollback(
    url: UrlOption = None,
    json: JsonOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Serve the previous version again."""
    client = DaemonClient(url)
    now = client.get("/api/serving")
    if sys.stdin.isatty() and not (yes or json):
        back = now["previous"] or "the base model"
        typer.confirm(f"Roll back from {now['serving']} to {back}?", abort=True, err=True)
    # Naming what is to be left makes it safe to repeat: the answer may get lost after the deed.
    answer = client.post("/api/rollback", json={"leave": now["serving"]}, attempts=2)
    if json:
        _print_json(answer)
    else:
        typer.echo(f"serving {answer['current'] or 'the base model'} again (generation {answer['generation']})")


@traces_app.command("import")
def traces_import(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, readable=True)],
    url: UrlOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only read and report.")] = False,
    json: JsonOption = False,
) -> None:
    """Read recorded sessions from files and append them to the daemon's log."""
    from ops.importing import import_files  # noqa: PLC0415

    reports = import_files(files, None if dry_run else DaemonClient(url))
    if json:
        _print_json({"files": reports})
        return
    _print_table(
        ("file", "format", "exchanges", "appended", "skipped"),
        ((r["path"], r["format"], r["exchanges"], r["appended"], len(r["skipped"])) for r in reports),
    )
    for report in reports:
        for skipped in report["skipped"]:
            err.print(f"{report['path']}:{skipped['line']}: {skipped['reason']}", markup=False, highlight=False)


@traces_app.command("list")
def traces_list(url: UrlOption = None, json: JsonOption = False, limit: LimitOption = 50) -> None:
    """List sessions, newest first."""
    _show(DaemonClient(url).get("/api/traces", limit=limit), json, ("id", "harness", "tenant", "turns", "complete"))


@traces_app.command("show")
def traces_show(trace_id: str, url: UrlOption = None, json: JsonOption = False) -> None:
    """Show one session turn by turn."""
    trace = DaemonClient(url).get(f"/api/traces/{segment(trace_id)}")
    if json:
        _print_json(trace)
        return
    rows = ((t["index"], t["author"], t["version"] or "", t["text"]) for t in trace["turns"])
    _print_table(("turn", "author", "version", "text"), rows)


@signals_app.command("list")
def signals_list(
    url: UrlOption = None, json: JsonOption = False, limit: LimitOption = 50, state: str | None = None
) -> None:
    """List signals, newest first."""
    found = DaemonClient(url).get("/api/signals", limit=limit, state=state)
    if json:
        _print_json(found)
        return
    rows = ((s["id"], s["state"], s["kind"], f"{s['trace_id']}#{s['target']}", s["evidence"]) for s in found)
    _print_table(("id", "state", "kind", "turn", "evidence"), rows)


@hints_app.command("list")
def hints_list(
    url: UrlOption = None, json: JsonOption = False, limit: LimitOption = 50, state: str | None = None
) -> None:
    """List hints with their pass rates, newest first."""
    found = DaemonClient(url).get("/api/hints", limit=limit, state=state)
    _show(found, json, ("id", "state", "family", "baseline", "score", "text"))


@hints_app.command("show")
def hints_show(hint_id: str, url: UrlOption = None, json: JsonOption = False) -> None:
    """Show one hint and every trial of it."""
    hint = DaemonClient(url).get(f"/api/hints/{segment(hint_id)}")
    if json:
        _print_json(hint)
        return
    typer.echo(_cell(hint["text"]))
    typer.echo(f"({hint['family']}, {hint['state']}, for turn {hint['target']} of {hint['trace_id']})")
    rows = ((_mark(t["hinted"]), _mark(t["passed"]), t["seed"], t["reply"]) for t in hint["trials"])
    _print_table(("with the hint", "passed", "seed", "reply"), rows)


@rounds_app.command("list")
def rounds_list(url: UrlOption = None, json: JsonOption = False) -> None:
    """List rounds."""
    _show(DaemonClient(url).get("/api/rounds"), json, ("id", "state", "parent", "directory"))


@rounds_app.command("show")
def rounds_show(round_id: str, url: UrlOption = None, json: JsonOption = False) -> None:
    """Show one round and what the learner measured."""
    row = DaemonClient(url).get(f"/api/rounds/{segment(round_id)}")
    if json:
        _print_json(row)
        return
    typer.echo(_cell(f"{row['id']}: {row['state']} {row['body'].get('reason', '')}"))
    rows = (
        (p["event"], p["step"], p["message"] or ", ".join(f"{k} {v:.4g}" for k, v in p["figures"].items()))
        for p in row["progress"]
    )
    _print_table(("event", "step", "figures"), rows)


@rounds_app.command("start")
def rounds_start(url: UrlOption = None, json: JsonOption = False) -> None:
    """Start a round with what there is, whatever the thresholds say."""
    answer = DaemonClient(url).post("/api/rounds")
    _print_json(answer) if json else typer.echo("a round was asked for; follow it with `secondnature rounds list`")


@adapters_app.command("list")
def adapters_list(url: UrlOption = None, json: JsonOption = False) -> None:
    """List versions with their verdicts."""
    found = DaemonClient(url).get("/api/adapters")
    if json:
        _print_json(found)
        return
    rows = (
        (a["version"], a["state"], (a["verdict"] or {}).get("decision", ""), a["round_id"], a["path"]) for a in found
    )
    _print_table(("version", "state", "verdict", "round", "path"), rows)


@adapters_app.command("promote")
def adapters_promote(version: str, url: UrlOption = None, json: JsonOption = False) -> None:
    """Serve a version on your own word, whatever its verdict."""
    answer = DaemonClient(url, timeout_s=300).post(f"/api/adapters/{segment(version)}/promote")
    if json:
        _print_json(answer)
    else:
        typer.echo(f"serving {answer['current']} (generation {answer['generation']})")


def _exit(error: Exception, code: int) -> NoReturn:
    err.print(_cell(str(error)), style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


def _stop_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _show(rows: Sequence[dict[str, Any]], json: bool, columns: Sequence[str]) -> None:
    if json:
        _print_json(rows)
    else:
        _print_table(columns, ([row[column] for column in columns] for row in rows))


def _print_json(value: Any) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _print_table(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for column in columns:
        # Ids are for copying: the other columns give way.
        table.add_column(column, no_wrap=column in ("id", "version", "turn", "state", "kind"), overflow="fold")
    # Whoever reads from a pipe wants a row a line.
    piped = not sys.stdout.isatty()
    for row in rows:
        cells = (_cell(value) for value in row)
        table.add_row(*(Text(" ".join(cell.split()) if piped else cell) for cell in cells))
    Console(width=PIPE_WIDTH if piped else None).print(table, highlight=False)


def _cell(value: Any) -> str:
    """Return a cell's text. Recorded text is untrusted: control characters are shown, never sent to the terminal."""
    if value is None:
        return "-"
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def _mark(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "-"}[value]


if __name__ == "__main__":
    main()
