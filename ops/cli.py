"""The `secondnature` command. Data goes to stdout, progress to stderr; `--json` prints one JSON value.

Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 the gate said no, 4 no daemon answers.
"""

import os
import signal
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from harness_adapters.errors import ConfigError, SecondNatureError
from ops.client import DaemonClient, DaemonUnreachableError, segment
from ops.output import ConfigOption, JsonOption, LimitOption, UrlOption, cell, err, mark, print_json, print_table, show
from ops.recorded import signals_app, traces_app

EXIT_FAILED, EXIT_USAGE, EXIT_GATE, EXIT_UNREACHABLE = 1, 2, 3, 4

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
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


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"secondnature {metadata.version('secondnature')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Second Nature: corrections in live agent traffic become a served LoRA adapter."""


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
        print_json(report)
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
        print_json(findings)
    else:
        print_table(("check", "ok", "what was found"), ((f["check"], mark(f["ok"]), f["found"]) for f in findings))
    if not all(f["ok"] for f in findings):
        raise typer.Exit(EXIT_FAILED)


@app.command()
def status(url: UrlOption = None, json: JsonOption = False) -> None:
    """Say what serves, what has been found, and what the next round waits for."""
    answer = DaemonClient(url).get("/api/status")
    if json:
        print_json(answer)
        return
    print_table(("", ""), ((k, v) for k, v in answer.items() if k != "counts"))
    print_table(("noun", "count"), answer["counts"].items())


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
        print_json(answer)
    else:
        typer.echo(f"serving {answer['current'] or 'the base model'} again (generation {answer['generation']})")


@hints_app.command("list")
def hints_list(
    url: UrlOption = None,
    json: JsonOption = False,
    limit: LimitOption = 50,
    state: Annotated[
        str | None, typer.Option(help="Only those that are `proposed`, `passed`, `failed` or `rejected`.")
    ] = None,
) -> None:
    """List hints with their pass rates, newest first."""
    found = DaemonClient(url).get("/api/hints", limit=limit, state=state)
    show(found, json, ("id", "state", "family", "baseline", "score", "text"))


@hints_app.command("show")
def hintsshow(hint_id: str, url: UrlOption = None, json: JsonOption = False) -> None:
    """Show one hint and every trial of it."""
    hint = DaemonClient(url).get(f"/api/hints/{segment(hint_id)}")
    if json:
        print_json(hint)
        return
    typer.echo(cell(hint["text"]))
    typer.echo(f"({hint['family']}, {hint['state']}, for turn {hint['target']} of {hint['trace_id']})")
    rows = ((mark(t["hinted"]), mark(t["passed"]), t["seed"], t["reply"]) for t in hint["trials"])
    print_table(("with the hint", "passed", "seed", "reply"), rows)


@rounds_app.command("list")
def rounds_list(url: UrlOption = None, json: JsonOption = False) -> None:
    """List rounds."""
    show(DaemonClient(url).get("/api/rounds"), json, ("id", "state", "parent", "directory"))


@rounds_app.command("show")
def roundsshow(round_id: str, url: UrlOption = None, json: JsonOption = False) -> None:
    """Show one round and what the learner measured."""
    row = DaemonClient(url).get(f"/api/rounds/{segment(round_id)}")
    if json:
        print_json(row)
        return
    typer.echo(cell(f"{row['id']}: {row['state']} {row['body'].get('reason', '')}"))
    rows = (
        (p["event"], p["step"], p["message"] or ", ".join(f"{k} {v:.4g}" for k, v in p["figures"].items()))
        for p in row["progress"]
    )
    print_table(("event", "step", "figures"), rows)


@rounds_app.command("start")
def rounds_start(url: UrlOption = None, json: JsonOption = False) -> None:
    """Start a round with what there is, whatever the thresholds say."""
    answer = DaemonClient(url).post("/api/rounds")
    print_json(answer) if json else typer.echo("a round was asked for; follow it with `secondnature rounds list`")


@adapters_app.command("list")
def adapters_list(url: UrlOption = None, json: JsonOption = False) -> None:
    """List versions with their verdicts."""
    found = DaemonClient(url).get("/api/adapters")
    if json:
        print_json(found)
        return
    rows = (
        (a["version"], a["state"], (a["verdict"] or {}).get("decision", ""), a["round_id"], a["path"]) for a in found
    )
    print_table(("version", "state", "verdict", "round", "path"), rows)


@adapters_app.command("promote")
def adapters_promote(version: str, url: UrlOption = None, json: JsonOption = False) -> None:
    """Serve a version on your own word, whatever its verdict."""
    answer = DaemonClient(url, timeout_s=300).post(f"/api/adapters/{segment(version)}/promote")
    if json:
        print_json(answer)
    else:
        typer.echo(f"serving {answer['current']} (generation {answer['generation']})")


def _exit(error: Exception, code: int) -> NoReturn:
    err.print(cell(str(error)), style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


def _stop_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
