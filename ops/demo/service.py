"""The real service as a child process, in a folder of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from harness_adapters.errors import SecondNatureError
from ops.client import DaemonClient

START_S = 180.0
STOP_S = 60.0


class DemoError(SecondNatureError):
    """The demo cannot go on."""


class Service:
    """`secondnature serve` over a configuration file; its log goes to `serve.log` beside it."""

    def __init__(self, folder: Path, config: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = folder / "serve.log"
        self.config_file = folder / "secondnature.toml"
        self.config_file.write_text(config, encoding="utf-8")
        self.daemon = DaemonClient(self.url)
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start, wait until it is ready, and return the seconds that took. Raises DemoError with the log's end."""
        started = time.monotonic()
        # Settings of another service in the environment must not reach this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SECONDNATURE_")}
        environment["SECONDNATURE_SERVER__PORT"] = str(self.port)
        with self.log_file.open("ab") as log:
            self._child = subprocess.Popen(
                # Its standard input closes with this process, however that ends, and so does the service.
                [sys.executable, "-m", "ops.cli", "serve", "--exit-with-stdin", "--config", str(self.config_file)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
            )
        while time.monotonic() - started < START_S:
            if self._child.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200:
                    return time.monotonic() - started
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        tail = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-15:])
        self.stop()
        raise DemoError(f"the service did not become ready; the end of {self.log_file}:\n{tail}")

    def stop(self) -> None:
        """Ask it to drain and end; end it if it does not."""
        self.daemon.close()
        if self._child is None:
            return
        # Leaving the block closes its standard input and waits for it.
        with self._child as child:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()

    def command(self, *arguments: str) -> Any:
        """Run one `secondnature` command against it and return its JSON. Raises DemoError with what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "ops.cli", *arguments, "--url", self.url, "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DemoError(
                f"`secondnature {' '.join(arguments)}` failed: {done.stderr.strip() or done.stdout.strip()}"
            )
        return json.loads(done.stdout)


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
