"""Install torch into this environment: the CPU build unless a GPU is there or was asked for.

    python scripts/install_torch.py auto|cpu|cuda

`auto` takes `cuda` where `nvidia-smi` runs and `cpu` elsewhere. For `cpu`, pip is asked first what it would install:
on macOS, on ARM, and where a CPU wheel is offered locally, that is a CPU build already. Otherwise uv fetches PyTorch's
own CPU build (`--torch-backend=cpu`), so that a laptop does not download gigabytes of CUDA libraries.
"""

import json
import shutil
import subprocess
import sys

VERSION = "torch==2.13.0"


def main(choice: str) -> None:
    """Install as chosen, or leave an installed torch alone."""
    if choice not in ("auto", "cpu", "cuda"):
        sys.exit(f"TORCH={choice} is not known; set it to auto, cpu or cuda")
    if choice == "auto":
        choice = "cuda" if shutil.which("nvidia-smi") else "cpu"
        say(f"TORCH=auto: {'an NVIDIA GPU answers' if choice == 'cuda' else 'no NVIDIA GPU'}, so the {choice} build")
    if run("-c", "import torch", quiet=True) == 0:
        say("torch is installed already; remove .venv to choose again")
        return
    if choice == "cuda" or pip_offers_cpu_build():
        sys.exit(run("-m", "pip", "install", "--quiet", VERSION))
    say("pip would fetch the CUDA build; taking PyTorch's CPU build through uv")
    run("-m", "pip", "install", "--quiet", "uv")
    sys.exit(run("-m", "uv", "pip", "install", "--python", sys.executable, "--torch-backend=cpu", VERSION))


def pip_offers_cpu_build() -> bool:
    """Ask pip, without installing, whether its torch depends on CUDA libraries."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--quiet", "--report", "-", VERSION]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        return False
    needs = json.loads(answer.stdout)["install"][0]["metadata"].get("requires_dist", [])
    return not any(need.startswith(("nvidia", "cuda")) and "extra ==" not in need for need in needs)


def run(*arguments: str, quiet: bool = False) -> int:
    """Run this Python with arguments and return the exit code."""
    return subprocess.run(
        [sys.executable, *arguments], check=False, stderr=subprocess.DEVNULL if quiet else None
    ).returncode


def say(text: str) -> None:
    """Tell the person, on stderr."""
    print(text, file=sys.stderr)  # noqa: T201 - this script talks to a person


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "auto")
