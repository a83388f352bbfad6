"""A real vLLM server as a child process, for the tests that speak to one. One runs per test session.

`SECONDNATURE_TEST_VLLM` names the Python that has vLLM installed; without it `.venv-vllm` beside the project is used.
"""

import os
import subprocess
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker import missing

from ops.demo.service import free_port

READY_S = 600.0
SERVED_NAME = "base"


@dataclass(frozen=True)
class VllmServer:
    """A running server: its URL, the model folder it serves as `base`, and its log."""

    base_url: str
    model_dir: Path
    log: Path


def vllm_python() -> Path | None:
    """Return the Python that has vLLM, or None where there is none."""
    named = os.environ.get("SECONDNATURE_TEST_VLLM")
    path = Path(named) if named else Path(__file__).parent.parent / ".venv-vllm" / "bin" / "python"
    return path if path.exists() else None


def require_vllm() -> Path:
    """Return the Python that has vLLM; without one skip the test, or fail it where `CI` is set."""
    python = vllm_python()
    if python is None:
        missing("vLLM is not installed: run `make setup-vllm`, or name its Python in SECONDNATURE_TEST_VLLM")
    return python


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


@contextmanager
def vllm_server(python: Path, model_dir: Path, log: Path, *, max_model_len: int = 2048) -> Generator[VllmServer]:
    """Start vLLM on `model_dir` with runtime adapter loading, wait until it answers, and stop it at the end."""
    port = free_port()
    # More slots than the tests fill: in a batch with adapters, the CPU build gives rows of the base the weights of the
    # last slot, and an unloaded adapter stays in its own.
    arguments = (
        f"--served-model-name {SERVED_NAME} --enable-lora --max-loras 16 --max-cpu-loras 16 --max-lora-rank 16 "
        f"--dtype float32 --enforce-eager --max-model-len {max_model_len} --max-num-seqs 16 "
        f"--host 127.0.0.1 --port {port}"
    )
    environment = {
        **os.environ,
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "2",
    }
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model_dir), *arguments.split()]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_S
        while not _answers(f"{url}/health"):
            tail = log.read_text(errors="replace")[-3000:]
            assert process.poll() is None, f"vLLM ended with {process.returncode} before it answered:\n{tail}"
            assert time.monotonic() < deadline, f"vLLM did not answer within {READY_S:.0f} s:\n{tail}"
            time.sleep(0.2)
        yield VllmServer(url, model_dir, log)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
