"""The whole street with real parts: `secondnature serve` as a child process, a stock client, a learner, a swap.

Once with everything embedded, once over a real vLLM and a Kafka-protocol broker. The base model is random, so no hint
can make it right: the grader abstains, hints are allowed to train unverified, the gate holds, and a person promotes.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import tomli_w
from broker import Broker
from openai import NotFoundError, OpenAI
from vllm_server import VllmServer

from ops.demo.service import free_port

MODEL = "helpdesk"
SESSIONS = 12
WAIT_S = 240.0
COMPLAINTS = (
    "That is far too long. One sentence, please.",
    "Too wordy, keep it short.",
    "TL;DR please.",
    "I can't read all that, just the gist.",
)


@dataclass
class Service:
    """A running daemon and how to speak to it."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]

    def cli(self, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "ops.cli", *arguments, "--url", self.url, "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr or done.stdout}\n{self.log()}"
        return json.loads(done.stdout)

    def log(self) -> str:
        return (self.folder / "serve.log").read_text(errors="replace")[-6000:]

    def until(self, what: str, found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if answer := found():
                return answer
            assert self.process.poll() is None, f"the daemon ended while waiting for {what}:\n{self.log()}"
            time.sleep(0.3)
        pytest.fail(f"no {what} within {WAIT_S:.0f} s:\n{self.log()}")


def configuration(base: Path, folder: Path) -> dict[str, Any]:
    return {
        "data_dir": str(folder / "data"),
        "model": {"name": MODEL, "path": str(base)},
        "hints": {"rollouts": 1, "max_tokens": 16, "train_unverified": True},
        "rounds": {"min_hints": 2, "min_validate": 1, "min_gate": 1, "validate_share": 0.25, "gate_share": 0.25},
        "learner": {
            "optimizer": {"learning_rate": 0.01},
            "batch": {"repair": 4, "preserve": 2},
            "generation": {"max_new_tokens": 12},
            "stopping": {"max_steps": 4, "validate_every": 2},
        },
        "graders": [
            {"kind": "rule", "name": "never", "clauses": [{"when_user_matches": "^nobody asks this$", "max_chars": 9}]}
        ],
        "logging": {"json": True},
    }


@contextmanager
def serving(config: dict[str, Any], folder: Path) -> Generator[Service]:
    port = free_port()
    config_file = folder / "secondnature.toml"
    config_file.write_text(tomli_w.dumps({**config, "server": {"port": port}}))
    with (folder / "serve.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ops.cli", "serve", "--config", str(config_file)],
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    service = Service(f"http://127.0.0.1:{port}", folder, process)
    try:
        service.until("ready daemon", lambda: ready(service.url))
        yield service
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def say(client: OpenAI, messages: list[dict[str, str]], *, stream: bool) -> tuple[str, str, str]:
    """Return text, response id and version of one answer."""
    asked: dict[str, Any] = {"model": MODEL, "messages": messages, "max_tokens": 12, "temperature": 0.7}
    if not stream:
        raw = client.chat.completions.with_raw_response.create(**asked)
        whole = raw.parse()
        assert whole.model == raw.headers["x-secondnature-version"]
        assert "prompt_token_ids" not in raw.text
        return whole.choices[0].message.content or "", whole.id, whole.model
    chunks = list(client.chat.completions.create(**asked, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return text, chunks[0].id, chunks[0].model


def converse(client: OpenAI, number: int) -> str:
    """Ask, complain, be thankful; return the first response's id."""
    messages = [{"role": "user", "content": f"How do I return order {number}?"}]
    first, response_id, _ = say(client, messages, stream=number % 2 == 0)
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": COMPLAINTS[number % 4]}]
    second, _, _ = say(client, messages, stream=number % 3 == 0)
    messages += [{"role": "assistant", "content": second}, {"role": "user", "content": "Perfect, thank you!"}]
    say(client, messages, stream=False)
    return response_id


def walk(service: Service) -> None:
    """Take corrections to a served adapter, and back."""
    client = OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0, timeout=120)
    assert [model.id for model in client.models.list()] == [MODEL]
    with pytest.raises(NotFoundError, match="nobody"):
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "Hi"}])

    ids = [converse(client, number) for number in range(SESSIONS)]
    answer = httpx.post(f"{service.url}/v1/feedback", json={"response_id": ids[0], "rating": -1, "comment": "Too long"})
    assert answer.status_code == 202, answer.text

    signals = service.until("signals", lambda: len(found := service.cli("signals", "list")) > SESSIONS and found)
    assert {"user_correction", "feedback"} <= {signal["kind"] for signal in signals}
    traces = service.cli("traces", "list")
    assert len(traces) == SESSIONS, "every conversation is one session"
    assert all(trace["turns"] == 6 for trace in traces)

    more = itertools.count(SESSIONS)

    def ended() -> list[Any]:
        """Return the rounds that have ended; where chance left a side without a session, talk once more."""
        found = service.cli("rounds", "list")
        status = service.cli("status")
        if not found and not status["counts"].get("signals/new") and " side" in (status["waits_for"] or ""):
            converse(client, next(more))
        return [r for r in found if r["state"] not in ("running", "published")]

    (row,) = service.until("round's end", ended)
    assert row["state"] in ("held", "rejected"), f"{row}\n{service.log()}"
    shown = service.cli("rounds", "show", row["id"])
    assert {"started", "step", "validated", "published"} <= {event["event"] for event in shown["progress"]}
    (adapter,) = service.cli("adapters", "list")
    assert adapter["version"] == f"{MODEL}@v1"
    assert adapter["verdict"]["decision"] in ("hold", "reject")
    assert adapter["verdict"]["body"]["cases"]

    before = service.cli("status")
    assert before["serving"] == "base"
    question = [{"role": "user", "content": "Where is my parcel?"}]
    assert say(client, question, stream=True)[2] == "base"
    service.cli("adapters", "promote", f"{MODEL}@v1")
    assert say(client, question, stream=True)[2] == f"{MODEL}@v1"
    assert say(client, question, stream=False)[2] == f"{MODEL}@v1"
    service.cli("rollback")
    assert say(client, question, stream=True)[2] == "base"

    for hint in service.cli("hints", "list")[:3]:
        assert service.cli("hints", "show", hint["id"])["trials"] is not None
    assert "secondnature_requests_total" in httpx.get(f"{service.url}/metrics").text


def test_embedded_street(tiny_base: Path, tmp_path: Path) -> None:
    config = configuration(tiny_base, tmp_path)
    with serving(config, tmp_path) as service:
        walk(service)
        version = service.cli("adapters", "promote", f"{MODEL}@v1")["current"]
        service.process.kill()
        service.process.wait()
    with serving(config, tmp_path) as again:
        client = OpenAI(base_url=f"{again.url}/v1", api_key="unused", max_retries=0, timeout=120)
        assert say(client, [{"role": "user", "content": "Hello?"}], stream=False)[2] == version, "a restart forgot"
        counts = again.cli("status")["counts"]
        assert counts["rounds"] == 1


@pytest.mark.vllm
@pytest.mark.kafka
def test_street_on_vllm_and_kafka(vllm: VllmServer, broker: Broker, tmp_path: Path) -> None:
    config = configuration(vllm.model_dir, tmp_path)
    config["engine"] = {"kind": "vllm", "url": vllm.base_url}
    config["log"] = {
        "kind": "kafka",
        "bootstrap_servers": [broker.address],
        "topic": f"street-{time.time_ns()}",
        "assignment": "all",
    }
    try:
        with serving(config, tmp_path) as service:
            walk(service)
    finally:
        # Other tests share this vLLM.
        for model in httpx.get(f"{vllm.base_url}/v1/models").json()["data"]:
            if model["id"] != "base":
                httpx.post(f"{vllm.base_url}/v1/unload_lora_adapter", json={"lora_name": model["id"]})
