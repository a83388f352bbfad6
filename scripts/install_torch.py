"""Install torch into this environment: the CPU build unless a GPU is there or was asked for.

    python scripts/install_torch.py auto|cpu|cuda

`auto` leaves an installed torch alone; without one it takes `cuda` where `nvidia-smi` lists a GPU and `cpu` elsewhere.
`cpu` and `cuda` replace the other build. For `cpu`, pip is asked first what it would install: on macOS, on ARM, and
where a CPU wheel is offered locally, that is a CPU build already. Otherwise uv fetches PyTorch's own CPU build
(`--torch-backend=cpu`), so that a laptop does not download gigabytes of CUDA libraries.
"""

import json
import shutil
import subprocess
import sys

VERSION = "torch==2.13.0"
BUILD = "import torch; print('cuda' if torch.version.cuda else 'cpu')"


def main(choice: str) -> None:
    """Install as chosen."""
    if choice not in ("auto", "cpu", "cuda"):
        sys.exit(f"TORCH={choice} is not known; set it to auto, cpu or cuda")
    installed = installed_build()
    if installed is not None and choice in ("auto", installed):
        say(f"torch is installed already, its {installed} build; TORCH=cpu or TORCH=cuda says which it shall be")
        return
    if choice == "auto":
        choice = "cuda" if lists_gpu() else "cpu"
        say(f"TORCH=auto: {'an NVIDIA GPU answers' if choice == 'cuda' else 'no NVIDIA GPU'}, so the {choice} build")
    if installed is not None:
        # To pip both builds are the same version, which it would find installed.
        run("-m", "pip", "uninstall", "--quiet", "--yes", "torch")
    if choice == "cuda" or pip_offers_cpu_build():
        sys.exit(run("-m", "pip", "install", "--quiet", VERSION))
    say("pip would fetch the CUDA build; taking PyTorch's CPU build through uv")
    run("-m", "pip", "install", "--quiet", "uv")
    sys.exit(run("-m", "uv", "pip", "install", "--python", sys.executable, "--torch-backend=cpu", VERSION))


def installed_build() -> str | None:
    """Return `cpu` or `cuda`; None where torch cannot be imported."""
    answer = subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None


def lists_gpu(timeout_s: float = 10.0) -> bool:
    """Ask `nvidia-smi`: the program may be there without a driver, or without a GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    try:
        answer = subprocess.run([program, "-L"], capture_output=True, text=True, check=False, timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and any(line.startswith("GPU ") for line in answer.stdout.splitlines())


def pip_offers_cpu_build() -> bool:
    """Ask pip, without installing, whether its torch depends on CUDA libraries."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--quiet", "--report", "-", VERSION]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        return False
    needs = json.loads(answer.stdout)["install"][0]["metadata"].get("requires_dist", [])
    return not any(need.startswith(("nvidia", "cuda")) and "extra ==" not in need for need in needs)


def run(*arguments: str) -> int:
    """Run this Python with arguments and return the exit code."""
    return subprocess.run([sys.executable, *arguments], check=False).returncode


def say(text: str) -> None:
    """Tell the person, on stderr."""
    print(text, file=sys.stderr)  # noqa: T201 - this script talks to a person


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "auto")
