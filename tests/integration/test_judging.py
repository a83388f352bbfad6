"""The judge at work: a model behind a real endpoint judges what the daemon, and the command, find."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from chat_server import Body, ChatServer, chat_server, said
from proxy_world import until
from traffic import exchange
from traffic import said as message

from daemon.config import Settings, load
from daemon.encoding import encode
from daemon.engine import EngineClient
from daemon.judging import open_judge
from daemon.lessons import Lessons
from daemon.lifecycle import ROLES, Daemon
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.store import Ingested, SignalRow, Store
from harness_adapters.exchange import Exchange
from harness_adapters.sessions import assign
from hinting.graders import RuleGraderConfig, load_graders
from hinting.judge import Cast, Decided
from hinting.signal import Fault

KEY = "sk-hunter2"
NEVER = {"kind": "rule", "clauses": [{"when_user_matches": "^nobody asks this$", "max_chars": 9}]}
# It abstains, so that the engine is asked for trials.
GRADERS = load_graders([RuleGraderConfig.model_validate(NEVER)])
COMPLAINT = "That is far too long, one sentence please."


def session(name: str) -> list[Exchange]:
    """Ask, complain."""
    messages = [message("user", f"How do I return order {name}?")]
    long = f"You go to page {name} and then you write a letter and wait."
    first = exchange(f"{name}-a", messages, long, sequence=1)
    messages = [*messages, message("assistant", long), message("user", COMPLAINT)]
    return [first, exchange(f"{name}-b", messages, f"On page {name}.", sequence=2)]


def goes_on(name: str) -> Exchange:
    """The session of that name, a turn later."""
    last = session(name)[-1]
    messages = [*last.request["messages"], message("assistant", f"On page {name}."), message("user", "Thank you!")]
    return exchange(f"{name}-c", messages, "Bye.", sequence=3)


async def verdict(body: Body) -> web.Response:
    """Judge by what is quoted: `fine` was not wrong, `broken` is not the agent's fault, `odd` is no verdict."""
    case = body["messages"][-1]["content"]
    assert f"| {COMPLAINT}" in case
    if "order odd" in case:
        return said("I cannot say.")
    fault = "environment" if "order broken" in case else "agent"
    told = {"wrong": "order fine" not in case, "fault": fault, "reason": "page 7 is right"}
    return said(f"Let me see. ```json\n{json.dumps(told)}\n```")


@dataclass
class Desk:
    """What stands between the store and the hints, with an engine that is away."""

    store: Store
    metrics: Metrics
    lessons: Lessons

    def ingest(self, *made: Exchange) -> None:
        for each in made:
            place = assign(each, self.store)
            self.store.ingest([Ingested(each, place.session_id, place.root, place.keys)])

    def row(self, name: str) -> SignalRow:
        rows = self.store.signal_rows()
        (found,) = [row for row in rows if f"{name}-a" in str(self.store.exchanges_of(row.signal.trace_id))]
        return found


def settings_for(folder: Path, url: str | None, **judge: Any) -> Settings:
    told = {"url": url, "model": "judge", "api_key": KEY, **judge} if url else {}
    return load(None, {"data_dir": folder, "model": {"path": folder}, "judge": told})


@asynccontextmanager
async def desk(settings: Settings) -> AsyncGenerator[Desk]:
    store, metrics = Store(settings.store_url), Metrics()
    async with aiohttp.ClientSession() as http, open_judge(settings.judge) as judge:
        engine = EngineClient("http://127.0.0.1:9", http)
        serving = Serving(settings, store, [engine], metrics)
        yield Desk(
            store, metrics, Lessons(settings, store, engine, serving, graders=GRADERS, metrics=metrics, judge=judge)
        )
    store.close()


async def test_what_is_judged_is_stored_and_set_aside_where_it_must_not_train(tmp_path: Path) -> None:
    async with chat_server(verdict) as server, desk(settings_for(tmp_path, server.url)) as d:
        d.ingest(*session("fine"), *session("broken"), *session("odd"), *session("wrong"))
        await d.lessons.read_sessions()
        by_rule = {name: d.row(name).signal for name in ("fine", "broken", "odd", "wrong")}
        await d.lessons.write_hints()

        fine = d.row("fine")
        assert (fine.state, fine.reason) == ("set_aside", "judged not wrong by 3 of 3 votes: page 7 is right")
        assert (fine.signal.fault, fine.signal.confidence) == (Fault.AGENT, 0.0)
        assert fine.judged
        assert [(vote.cast, vote.reason) for vote in fine.judged.votes] == [(Cast.NOT_WRONG, "page 7 is right")] * 3

        broken = d.row("broken")
        assert (broken.state, broken.signal.fault) == ("set_aside", Fault.ENVIRONMENT)
        assert "environment's" in broken.reason

        # These two may teach. The engine is away, so they wait, and nobody is asked about them again.
        odd, wrong = d.row("odd"), d.row("wrong")
        assert (odd.state, odd.signal) == ("new", by_rule["odd"])
        assert odd.judged
        assert odd.judged.decided is Decided.OPEN
        assert (wrong.state, wrong.signal.fault) == ("new", Fault.AGENT)
        assert wrong.signal.confidence == (1 + by_rule["wrong"].confidence) / 2
        assert len(server.bodies) == 12
        await d.lessons.write_hints()
        assert len(server.bodies) == 12

        # A session that goes on is read again; what was judged stays.
        d.ingest(*(goes_on(name) for name in by_rule))
        assert await d.lessons.read_sessions()
        assert d.row("fine") == fine
        assert d.row("broken") == broken
        assert d.row("wrong").signal == wrong.signal

        told = d.metrics.render().decode()
        assert 'secondnature_judge_votes_total{outcome="not_wrong"} 3.0' in told
        assert 'secondnature_judge_votes_total{outcome="wrong"} 6.0' in told
        assert 'secondnature_judge_votes_total{outcome="unreadable"} 3.0' in told
        assert 'secondnature_stage_items_total{result="open",stage="judgement"} 1.0' in told
        assert {body["model"] for body in server.bodies} == {"judge"}
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


async def test_a_refuted_signal_never_trains_however_low_the_threshold(tmp_path: Path) -> None:
    async with chat_server(verdict) as server:
        settings = settings_for(tmp_path, server.url)
        lenient = settings.model_copy(update={"hints": settings.hints.model_copy(update={"min_confidence": 0.0})})
        async with desk(lenient) as d:
            d.ingest(*session("fine"))
            await d.lessons.read_sessions()
            await d.lessons.write_hints()
            assert d.row("fine").state == "set_aside"


async def test_nobody_is_asked_about_what_could_not_teach(tmp_path: Path) -> None:
    async with chat_server(verdict) as server:
        settings = settings_for(tmp_path, server.url)
        strict = settings.model_copy(update={"hints": settings.hints.model_copy(update={"min_confidence": 1.0})})
        async with desk(strict) as d:
            d.ingest(*session("fine"))
            await d.lessons.read_sessions()
            await d.lessons.write_hints()
            row = d.row("fine")
        assert (row.state, row.judged) == ("set_aside", None)
        assert "is below 1.00" in row.reason
        assert server.bodies == []


async def test_a_judge_that_is_away_loses_nothing(tmp_path: Path) -> None:
    async def fails(_body: Body) -> web.Response:
        return web.json_response({"error": {"message": f"{KEY} has no money left"}}, status=402)

    async with chat_server(fails) as server, desk(settings_for(tmp_path, server.url)) as d:
        d.ingest(*session("fine"))
        await d.lessons.read_sessions()
        by_rule = d.row("fine").signal
        await d.lessons.write_hints()
        row = d.row("fine")
        assert (row.state, row.signal) == ("new", by_rule), "it waits for the engine like any other"
        assert row.judged
        assert "*** has no money left" in row.judged.votes[0].reason
        assert KEY not in str(row)


@pytest.mark.parametrize("calls", [2, 5])
async def test_beyond_the_budget_signals_pass_unjudged(tmp_path: Path, calls: int) -> None:
    async with chat_server(verdict) as server, desk(settings_for(tmp_path, server.url, max_calls_per_day=calls)) as d:
        d.ingest(*session("fine"), *session("fine2"))
        await d.lessons.read_sessions()
        await d.lessons.write_hints()
        assert len(server.bodies) == calls // 3 * 3
        unasked = [row for row in d.store.signal_rows() if row.judged is None]
        assert len(unasked) == 2 - calls // 3
        assert {row.state for row in unasked} == {"new"}
        count = f'secondnature_stage_items_total{{result="unasked",stage="judgement"}} {len(unasked)}.0'
        assert count in d.metrics.render().decode()


async def test_without_a_url_nobody_judges(tmp_path: Path) -> None:
    async with desk(settings_for(tmp_path, None)) as d:
        d.ingest(*session("fine"))
        await d.lessons.read_sessions()
        await d.lessons.write_hints()
        assert d.row("fine").state == "new"
        assert d.row("fine").judged is None


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[str]:
    """A whole daemon in this process; yields its address."""
    servers: list[Any] = []
    task = asyncio.create_task(Daemon(settings, frozenset(ROLES)).run(servers.append))
    try:
        await until(lambda: task.done() or (servers and servers[0].started))
        assert not task.done(), task.exception()
        (listener,) = servers[0].servers[0].sockets
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for server in servers:
            server.should_exit = True
        await task


async def test_the_daemon_judges_what_its_rules_find(tmp_path: Path, tiny_base: Path) -> None:
    async with chat_server(verdict) as server:
        settings = load(
            None,
            {
                "data_dir": tmp_path,
                "model": {"name": "desk", "path": tiny_base},
                "engine": {"threads": 1},
                "server": {"port": 0},
                "rounds": {"auto": False, "poll_s": 0.05},
                "judge": {"url": server.url + "/v1", "model": "judge", "votes": 5},
            },
        )
        async with running(settings) as url, aiohttp.ClientSession() as http:
            lines = b"\n".join(encode(made) for made in session("fine"))
            async with http.post(f"{url}/api/exchanges", data=lines) as answer:
                assert answer.status == 200, await answer.text()

            async def settled() -> list[Any]:
                async with http.get(f"{url}/api/signals", params={"state": "set_aside"}) as answer:
                    return await answer.json()

            (signal,) = await eventually(settled)
            assert signal["reason"] == "judged not wrong by 5 of 5 votes: page 7 is right"
            assert signal["judged"]["decided"] == "not_wrong"
            assert [vote["cast"] for vote in signal["judged"]["votes"]] == ["not_wrong"] * 5
            async with http.get(f"{url}/metrics") as answer:
                assert 'secondnature_judge_votes_total{outcome="not_wrong"} 5.0' in await answer.text()
        assert len(server.bodies) == 5


async def eventually(found: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
    async with asyncio.timeout(60):
        while not (answer := await found()):  # noqa: ASYNC110 - what is waited for is behind a route
            await asyncio.sleep(0.05)
    return answer


def recording(folder: Path, *names: str) -> str:
    file = folder / "sessions.jsonl"
    whole = [session(name)[-1] for name in names]
    conversations = [[*e.request["messages"], message("assistant", f"On page {e.id}.")] for e in whole]
    file.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in conversations))
    return str(file)


async def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "ops.cli", "signals", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath, "NO_COLOR": "1", **environment},
    )


def judge_options(server: ChatServer) -> list[str]:
    return ["--judge", server.url, "--judge-model", "judge", "--judge-key-env", "JUDGE_KEY"]


async def test_the_command_prints_what_it_finds_as_judged(tmp_path: Path) -> None:
    file = recording(tmp_path, "fine", "broken", "odd")
    async with chat_server(verdict) as server:
        done = await run(file, *judge_options(server), "--json", JUDGE_KEY=KEY)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(f["kind"], f["fault"], f["confidence"]) for f in found] == [
        ("user_correction", "agent", 0.0),
        ("user_correction", "environment", pytest.approx((1 + found[2]["confidence"]) / 2)),
        ("user_correction", "agent", found[2]["confidence"]),
    ]
    assert "judged: 1 wrong, 1 not wrong, 1 open, 0 unasked; a vote was lost: no vote can be read" in done.stderr
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


async def test_a_command_whose_judge_is_away_prints_what_the_rules_say_and_why(tmp_path: Path) -> None:
    file = recording(tmp_path, "fine")
    by_rule = await run(file, "--json")
    judged = await run(file, "--json", "--judge", "http://127.0.0.1:9", "--judge-model", "judge")
    assert by_rule.returncode == judged.returncode == 0
    assert by_rule.stdout == judged.stdout
    assert "1 open" in judged.stderr
    assert "127.0.0.1:9" in judged.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--judge", "http://127.0.0.1:9"], "--judge-model go together"),
        (["--judge-model", "judge"], "go together"),
        (["--judge-key-env", "JUDGE_KEY"], "go together"),
        (["--judge", "http://u:p@h", "--judge-model", "judge"], "--judge"),
        (["--judge", "ftp://h", "--judge-model", "judge"], "--judge"),
        (["--judge", "http://h", "--judge-model", "judge", "--judge-key-env", "NO_SUCH"], "has no NO_SUCH"),
    ],
)
async def test_a_judge_that_is_half_said_is_wrong_usage(tmp_path: Path, options: list[str], told: str) -> None:
    done = await run(recording(tmp_path, "fine"), *options)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
    assert "u:p@" not in done.stderr


async def test_without_a_judge_nothing_that_could_ask_one_is_loaded(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom ops.cli import app\n"
        "try:\n    app(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "assert 'aiohttp' not in sys.modules and 'daemon.endpoint' not in sys.modules"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", script, "signals", recording(tmp_path, "fine"), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "user_correction" in done.stdout
