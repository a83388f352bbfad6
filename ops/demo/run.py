"""The demo's stages, from an empty folder to a table of before, after and rolled back."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from openai import AsyncOpenAI
from rich.console import Console
from rich.table import Table

from daemon.engine import EngineClient
from daemon.gatekeeper import kl_nats
from harness_adapters.errors import ConfigError
from harness_adapters.prompt import Prompt
from ops.client import DaemonClient
from ops.demo import scenario
from ops.demo.rules import HouseRule, config_for, house_rule
from ops.demo.service import DemoError, Service
from ops.demo.users import Desk, list_check, user

MODEL = "helpdesk"
AT_ONCE = 32
LEARN_S = 1800.0
KL_TOKENS = 24

PLAIN_EVERY_S = 10.0
PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}

err = Console(stderr=True)


def run_demo(*, rule: str, seed: int, keep: Path | None, plain: bool) -> dict[str, Any]:
    """Walk the whole loop and return its report. With `plain`, the closing table is left to the caller's JSON.

    Raises DemoError when a stage cannot go on; the service's folder is then kept and named.
    """
    chosen = house_rule(rule)
    folder = keep or Path(tempfile.mkdtemp(prefix="secondnature-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; --keep wants a new folder for the daemon's data")
    started = time.monotonic()
    with stage("model", "SmolLM2-135M-Instruct, fetched and converted once") as say:
        model = _model_folder(say)
    service = Service(folder, config_for(chosen, name=MODEL, model=model, data_dir=folder, seed=seed))
    try:
        with stage("service", "starting the proxy, the worker and the embedded engine") as say:
            service.start()
            say(f"serving at {service.url}, log in {service.log_file}")
        report = asyncio.run(_walk(service, chosen, seed))
    finally:
        service.stop()
    report["wall_s"] = round(time.monotonic() - started, 1)
    if not plain:
        _show(report, chosen, folder)
    return report


async def _walk(service: Service, rule: HouseRule, seed: int) -> dict[str, Any]:
    rng_seed = 1000 * (seed + 1)
    topics, held_out = scenario.split_topics(seed, rule.topics)
    lists, held_out_lists = scenario.split_lists(seed)
    client = AsyncOpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0, timeout=300)
    desk = Desk(client, MODEL, rule, AT_ONCE)
    with stage("before", f"asking {len(held_out)} held-out topics and {len(held_out_lists)} lists"):
        before = await desk.share(held_out, desk.holds, rng_seed)
        lists_before = await desk.share(held_out_lists, list_check, rng_seed, scenario.LIST_TOKENS)
    with stage("traffic", f"{len(topics)} users ask, complain and accept; {len(lists)} ask for lists") as say:
        sessions = asyncio.gather(
            *(desk.topic_session(question, rng_seed + 7 * n) for n, question in enumerate(topics)),
            *(desk.list_session(question, rng_seed + 7 * n) for n, question in enumerate(lists)),
            *(desk.side_session(question, rng_seed + 7 * n) for n, question in enumerate(scenario.OTHER_WORK)),
        )
        seen = desk.traffic
        while not sessions.done():
            await asyncio.wait([sessions], timeout=1)
            say(f"{seen.requests} requests, {seen.complaints} complaints, {seen.accepted} answers accepted")
        await sessions
    with stage("learning", "signals, hints, trials, training, gate, swap") as say:
        outcome = await _learn(service, desk, say)
    with stage("after", "asking the held-out topics and lists again"):
        after = await desk.share(held_out, desk.holds, rng_seed)
        lists_after = await desk.share(held_out_lists, list_check, rng_seed, scenario.LIST_TOKENS)
    with stage("drift", f"KL to the base on {len(scenario.UNRELATED)} unrelated prompts"):
        kl_unrelated = await drift(service, outcome["served"], rng_seed)
    after_rollback, rollback_s = None, None
    if outcome["verdict"] == "promote":
        with stage("rollback", "one command, then the held-out topics once more"):
            rollback_s = await asyncio.to_thread(_roll_back, service)
            after_rollback = await desk.share(held_out, desk.holds, rng_seed)
    await client.close()
    return {
        "heldout": {"before": before, "after": after, "after_rollback": after_rollback, "n": len(held_out)},
        "lists_ok": {"before": lists_before, "after": lists_after, "n": len(held_out_lists)},
        "kl_unrelated_nats": kl_unrelated,
        **outcome,
        "rollback_s": rollback_s,
        "failed_requests": desk.traffic.failed,
        "rule": rule.name,
        "seed": seed,
        "stages_s": dict(_stages),
    }


async def _learn(service: Service, desk: Desk, say: Callable[[str], None]) -> dict[str, Any]:
    """Watch the daemon until its first round has ended, asking small things meanwhile so that it swaps under load."""
    daemon = service.daemon
    deadline = time.monotonic() + LEARN_S
    stop = asyncio.Event()
    load: asyncio.Task[None] | None = None
    try:
        while time.monotonic() < deadline:
            status = await asyncio.to_thread(daemon.get, "/api/status")
            found = await asyncio.to_thread(daemon.get, "/api/rounds")
            if not found:
                hints = _hints(status)
                say(f"{_count(status, 'signals')} signals, {hints['tried']} hints tried, {hints['passed']} passed")
            else:
                row = await asyncio.to_thread(daemon.get, f"/api/rounds/{found[0]['id']}")
                say(_progress_line(row))
                if row["state"] == "published" and load is None:
                    load = asyncio.create_task(desk.keep_asking(scenario.SMALL_TALK, stop))
                if row["state"] not in ("running", "published"):
                    return _outcome(daemon, row)
            await asyncio.sleep(1)
    finally:
        stop.set()
        if load is not None:
            await load
    raise DemoError(f"no round came to an end within {LEARN_S:.0f} s; see {service.log_file}")


def _outcome(daemon: DaemonClient, row: dict[str, Any]) -> dict[str, Any]:
    status = daemon.get("/api/status")
    steps = [event["step"] for event in row["progress"] if event["event"] == "step"]
    verdicts = {a["version"]: a["verdict"] for a in daemon.get("/api/adapters") if a["verdict"]}
    verdict = verdicts.get(row["body"].get("candidate", ""))
    samples = row["body"]["samples"]
    return {
        "signals": _count(status, "signals"),
        "hints": _hints(status),
        "samples": {mode: samples.get(mode, 0) for mode in ("offline", "one_step", "preserve")},
        "steps": max(steps, default=0),
        "verdict": verdict["decision"] if verdict else row["state"],
        "reasons": verdict["body"]["reasons"] if verdict else [row["body"].get("reason", "")],
        "served": status["serving"],
        "swap_s": row["body"].get("swap_s"),
    }


async def drift(service: Service, served: str, seed: int) -> float:
    """Return the mean KL(served ‖ base) per token over the unrelated prompts, through the engine's own routes."""
    status = await asyncio.to_thread(service.daemon.get, "/api/status")
    async with aiohttp.ClientSession() as session:
        engine = EngineClient(status["engine"], session)
        base = engine.for_model(status["base"])

        async def one(number: int, question: str) -> float | None:
            prompt_ids = await base.render(Prompt(messages=(user(question),)))
            return await kl_nats(engine, served, status["base"], prompt_ids, seed=seed + number, max_tokens=KL_TOKENS)

        found = await asyncio.gather(*(one(n, question) for n, question in enumerate(scenario.UNRELATED)))
    values = [value for value in found if value is not None]
    return sum(values) / max(len(values), 1)


def _roll_back(service: Service) -> float:
    """Roll back with the command and return its seconds, the start of its process included."""
    started = time.monotonic()
    service.command("rollback")
    return round(time.monotonic() - started, 3)


def _model_folder(say: Callable[[str], None]) -> Path:
    quiet = {**os.environ, "TQDM_DISABLE": "1"}
    command = [sys.executable, "-m", "ops.convert"]
    words: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=quiet) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for line in child.stderr:
            words.append(line.rstrip())
            say(words[-1].strip())
        folder = child.stdout.read().strip()
    if child.returncode:
        last = "\n".join(words[-12:])
        raise DemoError(f"the model could not be fetched or converted:\n{last}")
    return Path(folder)


_stages: dict[str, float] = {}


@contextmanager
def stage(name: str, what: str) -> Generator[Callable[[str], None]]:
    """Show a stage while it runs: a spinner on a terminal, a line at its start and end elsewhere."""
    started = said_at = time.monotonic()
    last = what
    if not err.is_terminal:
        err.print(f"{name:>9}  {what}", **PLAIN)
    with err.status(f"{name}: {what}") as status:

        def say(text: str) -> None:
            nonlocal last, said_at
            if text == last:
                return
            last = text
            if err.is_terminal:
                status.update(f"{name}: {text}")
            elif time.monotonic() - said_at >= PLAIN_EVERY_S:
                said_at = time.monotonic()
                err.print(f"{'':>9}  {text}", **PLAIN)

        yield say
    _stages[name] = round(time.monotonic() - started, 1)
    err.print(f"{name:>9}  {last}, {_stages[name]:.1f} s", **PLAIN)


def _count(status: dict[str, Any], noun: str) -> int:
    return int(status["counts"].get(noun, 0))


def _hints(status: dict[str, Any]) -> dict[str, int]:
    """Count hints: written, tried (until one of a turn passed every trial), and passed."""
    passed = _count(status, "hints/passed")
    return {
        "proposed": _count(status, "hints"),
        "tried": passed + _count(status, "hints/failed"),
        "passed": passed,
    }


def _progress_line(row: dict[str, Any]) -> str:
    if row["state"] == "published":
        return f"{row['id']}: the gate asks candidate and base the held-out turns"
    if not row["progress"]:
        return f"{row['id']}: {row['state']}"
    last = row["progress"][-1]
    figures = last["figures"]
    shown = ", ".join(f"{k} {figures[k]:.3f}" for k in ("loss", "gap_nats", "drift_nats") if k in figures)
    return f"{row['id']}: {row['state']}, step {last['step']} {last['event']} {shown}".rstrip()


def _show(report: dict[str, Any], rule: HouseRule, folder: Path) -> None:
    heldout, lists = report["heldout"], report["lists_ok"]

    def share(value: float | None, n: int) -> str:
        return "-" if value is None else f"{round(value * n)} of {n}"

    table = Table("", "before", "after", "rolled back", title=f"House rule: {rule.summary}", title_justify="left")
    table.add_row(
        "held-out topics within the rule",
        *(share(heldout[k], heldout["n"]) for k in ("before", "after", "after_rollback")),
    )
    table.add_row("lists still lists", *(share(lists[k], lists["n"]) for k in ("before", "after")), "not asked")
    console = Console()
    console.print(table)
    hints, samples = report["hints"], report["samples"]
    program = Path(sys.executable).parent / "secondnature"
    lines = [
        f"{report['signals']} signals, {hints['proposed']} hints written, {hints['passed']} of {hints['tried']} tried"
        " passed,",
        f"{samples['offline']} offline, {samples['one_step']} one-step and {samples['preserve']} preservation samples,"
        f" {report['steps']} steps.",
        f"Verdict: {report['verdict']}. {' '.join(report['reasons'])}",
        f"KL to the base on unrelated prompts: {report['kl_unrelated_nats']:.3f} nats a token."
        f" Failed requests: {report['failed_requests']}.",
        f"{report['wall_s']:.0f} s in all: " + ", ".join(f"{k} {v:.0f}" for k, v in report["stages_s"].items()) + ".",
        "",
        f"Everything is kept in {folder}. To look around, serve it again (Ctrl-C ends it):",
        f"  {program} serve --config {folder}/secondnature.toml",
        "and in another terminal:",
        f"  {program} hints list",
        f"  {program} rounds show round-0001",
    ]
    for line in lines:
        console.print(line, **PLAIN)
