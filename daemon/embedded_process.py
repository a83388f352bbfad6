"""Start and stop the embedded engine as a child process. Loads no torch itself."""

import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from daemon.config import child_environment
from harness_adapters.errors import EngineError

TAIL_CHARS = 2000
STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class EmbeddedEngine:
    """A running embedded engine. It ends with this process, however this process ends."""

    base_url: str
    log: Path | None
    """Where its standard error goes; None is ours."""
    process: asyncio.subprocess.Process

    @classmethod
    async def start(
        cls,
        model_dir: Path,
        *,
        log: Path | None = None,
        name: str = "base",
        host: str = "127.0.0.1",
        port: int = 0,
        max_loras: int = 8,
        threads: int = 0,
        max_batch: int = 32,
        ready_s: float = 300.0,
    ) -> Self:
        """Start the engine on a model folder and wait until it serves; port 0 takes a free one.

        Raises EngineError, with the end of its log, when it ends first or is not ready within `ready_s`.
        """
        options = {
            "model": model_dir,
            "served-model-name": name,
            "host": host,
            "port": port,
            "max-loras": max_loras,
            "threads": threads,
            "max-batch": max_batch,
        }
        arguments = [f"--{key}={value}" for key, value in options.items()]
        # Waiting threads sleep instead of spinning, as the learner may share these cores.
        quiet = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
        environment = quiet | child_environment(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        if threads:
            environment["OMP_NUM_THREADS"] = str(threads)
        with log.open("ab") if log else contextlib.nullcontext() as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "daemon.embedded_engine", *arguments, "--exit-with-stdin"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                env=environment,
                cwd=Path(__file__).parent.parent,
            )
        engine = cls("", log, process)
        try:
            actual = await asyncio.wait_for(_ready_port(process), ready_s)
        except TimeoutError:
            await engine.stop()
            raise EngineError(f"the embedded engine was not ready within {ready_s:.0f} s; {_tail(log)}") from None
        except BaseException:
            await engine.stop()
            raise
        if actual is None:
            code = await process.wait()
            raise EngineError(f"the embedded engine ended with status {code} before it served; {_tail(log)}")
        return cls(f"http://{host}:{actual}", log, process)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.returncode is None

    async def wait(self) -> int:
        """Wait until the process ends; returns its exit status."""
        return await self.process.wait()

    async def stop(self) -> None:
        """End the process: by closing its standard input, then by force."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


async def _ready_port(process: asyncio.subprocess.Process) -> int | None:
    """Return the port the child says it serves on; None when it ends without saying so."""
    assert process.stdout
    while line := await process.stdout.readline():
        try:
            return int(json.loads(line)["port"])
        except (ValueError, KeyError, TypeError):
            continue  # a library wrote to standard output
    return None


def _tail(log: Path | None) -> str:
    if log is None:
        return "what it wrote to standard error says why"
    text = log.read_text(errors="replace")[-TAIL_CHARS:].strip()
    return f"the end of its log {log}:\n{text}"
