"""The demo's users and its service, over the tiny model: everything but the learning, which `make demo` shows."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from openai import AsyncOpenAI

from hinting import write
from ops.demo import scenario
from ops.demo.rules import HOUSE_RULES, HouseRule, config_for, house_rule
from ops.demo.run import drift
from ops.demo.service import DemoError, Service
from ops.demo.users import Desk, list_check

GONE_S = 60.0
STARTS_A_SERVICE = """
import sys, time
from pathlib import Path
from ops.demo.rules import config_for, house_rule
from ops.demo.service import Service

folder, model = map(Path, sys.argv[1:])
Service(folder, config_for(house_rule("brief"), name="desk", model=model, data_dir=folder, seed=0)).start()
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture
def service(tiny_base: Path, tmp_path: Path) -> Iterator[Service]:
    rule = house_rule("brief")
    started = Service(tmp_path, config_for(rule, name="desk", model=tiny_base, data_dir=tmp_path, seed=0))
    started.start()
    yield started
    started.stop()


async def test_users_complain_where_the_rule_is_broken_and_the_daemon_reads_it(service: Service) -> None:
    rule = house_rule("brief")
    client = AsyncOpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0)
    desk = Desk(client, "desk", rule, 4)
    await asyncio.gather(
        *(desk.topic_session(question, n) for n, question in enumerate(scenario.TOPICS[:4])),
        *(desk.list_session(question, n) for n, question in enumerate(scenario.LISTS[:2])),
        desk.side_session(scenario.OTHER_WORK[0], 0),
    )
    assert await desk.share(scenario.TOPICS[:2], desk.holds, 1) <= 1
    assert await desk.share(scenario.LISTS[:2], list_check, 1) <= 1
    seen = desk.traffic
    assert seen.failed == 0
    assert seen.complaints + seen.accepted >= 5
    counts: dict[str, int] = {}
    for _ in range(300):
        counts = service.daemon.get("/api/status")["counts"]
        # A complaint is read with its session, a moment after it.
        if counts["exchanges"] == seen.requests and counts["traces"] >= 7 and counts["signals"] >= seen.complaints // 2:
            break
        await asyncio.sleep(0.1)
    assert counts["exchanges"] == seen.requests
    assert await drift(service, "base", 0) == pytest.approx(0, abs=1e-6)
    with pytest.raises(DemoError, match="nothing to roll back to"):
        service.command("rollback")
    await client.close()


def test_a_killed_demo_leaves_nothing_behind(tiny_base: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_A_SERVICE, str(tmp_path), str(tiny_base)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == b"started\n"
        children = psutil.Process(demo.pid).children(recursive=True)
        assert len(children) >= 2, "the service and its engine"
        demo.kill()
    _, alive = psutil.wait_procs(children, timeout=GONE_S)
    assert not alive


@pytest.mark.parametrize("rule", HOUSE_RULES, ids=lambda rule: rule.name)
def test_a_rule_stands_in_the_grader_and_in_what_users_say_alone(rule: HouseRule) -> None:
    """Neither the summary of a rule nor what its users say is a text of the hint writer."""
    written = "".join(file.read_text(encoding="utf-8") for file in Path(write.__file__).parent.glob("*.py"))
    assert rule.summary not in written
    assert not [said for said in rule.complaints if said in written]


def test_topics_and_lists_are_split_by_seed_and_never_overlap() -> None:
    for split in (partial(scenario.split_topics, most=72), scenario.split_lists):
        asked, held_out = split(0)
        assert len(held_out) == scenario.HELD_OUT
        assert not {*asked} & {*held_out}
        assert split(0) == (asked, held_out)
        assert split(1) != (asked, held_out)
