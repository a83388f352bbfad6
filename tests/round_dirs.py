"""Round directories for tests: a house rule, the turns that broke it, and turns that were fine."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from learner.config import (
    PROGRESS_FILE,
    ROUND_FILE,
    SAMPLES_FILE,
    BatchSettings,
    GenerationSettings,
    LoraSettings,
    OptimizerSettings,
    Progress,
    RoundConfig,
    SampleSpec,
    Split,
    StoppingSettings,
)

HINT = "Answer in one short sentence only, every answer must be short."
QUESTIONS = ("shoes", "parcel", "order", "cities", "answer", "warehouse", "days", "Monday", "Lima", "pair")


def config_for(base: Path, **changes: Any) -> RoundConfig:
    """Return a small round over `base`: quick on one core, and still learning within a few steps."""
    settings: dict[str, Any] = {
        "id": "round-1",
        "base": base,
        "seed": 7,
        "threads": 1,
        "lora": LoraSettings(rank=8, alpha=16),
        "optimizer": OptimizerSettings(learning_rate=3e-3),
        "batch": BatchSettings(repair=4, preserve=2, micro_batch=4),
        "generation": GenerationSettings(temperature=1.0, max_new_tokens=12),
        "stopping": StoppingSettings(max_steps=6, validate_every=2, patience=2, max_drift_nats=2.0),
    }
    return RoundConfig(**(settings | changes))


def spec_for(place: int, mode: str, split: Split = "train", **changes: Any) -> SampleSpec:
    """Return one sample of a mode, about a topic of its own."""
    topic = QUESTIONS[place % len(QUESTIONS)]
    fields: dict[str, Any] = {
        "id": f"{mode}-{split}-{place}",
        "mode": mode,
        "split": split,
        "session_id": f"session-{place}",
        "turn": 1,
        "messages": ({"role": "user", "content": f"Where is my {topic}?"},),
        "hint": None if mode == "preserve" else HINT,
        "completion": None
        if mode == "one_step"
        else {"role": "assistant", "content": f"Your {topic} arrives tomorrow."},
    }
    return SampleSpec(**(fields | changes))


def specs() -> list[SampleSpec]:
    """Return samples of every mode and side that a round reads."""
    train = [spec_for(n, "one_step") for n in range(4)] + [spec_for(n, "offline") for n in range(4, 7)]
    validate = [spec_for(8, "one_step", "validate"), spec_for(9, "offline", "validate")]
    preserve = [spec_for(n, "preserve") for n in range(3)] + [spec_for(9, "preserve", "validate")]
    return [*train, *validate, *preserve, spec_for(5, "offline", "gate")]


def write_round(path: Path, config: RoundConfig, lines: Iterable[SampleSpec | str] | None = None) -> Path:
    """Write a round directory; a line given as text is written as it is."""
    path.mkdir(parents=True, exist_ok=True)
    (path / ROUND_FILE).write_text(config.model_dump_json(), encoding="utf-8")
    texts = [
        line if isinstance(line, str) else line.model_dump_json() for line in (specs() if lines is None else lines)
    ]
    (path / SAMPLES_FILE).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def learner_command(path: Path) -> list[str]:
    """Return the command line of a learner for a round."""
    return [sys.executable, "-m", "learner.run", str(path)]


def run_learner(path: Path) -> subprocess.CompletedProcess[str]:
    """Run a learner to its end in a process of its own."""
    return subprocess.run(learner_command(path), capture_output=True, text=True, check=False, timeout=300)


def progress_of(path: Path) -> list[Progress]:
    """Return every event of a round; each line must be readable."""
    lines = (path / PROGRESS_FILE).read_text(encoding="utf-8").splitlines()
    return [Progress.model_validate_json(line) for line in lines]


def figures_of(path: Path, event: str) -> list[Mapping[str, float]]:
    """Return the figures of the events of one kind, in order."""
    return [line.figures for line in progress_of(path) if line.event == event]


def dumped(spec: SampleSpec) -> dict[str, Any]:
    """Return a spec as the plain object of its line."""
    return json.loads(spec.model_dump_json())
