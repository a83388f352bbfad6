"""Versions: a published checkpoint becomes `NAME@vN` with an immutable folder of its own, and proves its effect.

Same name or same path twice would meet stale prefix-cache blocks (vllm #42125), and changing weights in place would
change them under running requests (vllm #33791): so every version has a new name and a new path.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Protocol

from harness_adapters.errors import VersionError
from learner.manifest import read_manifest
from learner.probe import Probe, Probes

MIN_SHIFT_NATS = 0.02
"""Below this mean shift nothing can be told from the engine's rounding."""
MAX_DISTANCE = 0.5
"""How far the engine may stand from the student, in parts of the student's way from where it started."""
CHECKED_PROBES = 8
LARGEST_SHARE = 0.25
MIN_POSITIONS = 8


class Scorer(Protocol):
    """What an effect check asks of an engine."""

    async def score(self, model: str, ids: Sequence[int], start: int) -> Sequence[float]:
        """Return the log-probabilities of `ids[start:]`, in nats, each after all ids before it."""
        ...


class AdapterEngine(Scorer, Protocol):
    """What serving asks of one replica. All raise EngineError."""

    async def models(self) -> Sequence[str]:
        """Return the names of the base model and of every loaded adapter."""
        ...

    async def load_adapter(self, name: str, path: Path) -> None:
        """Load an adapter from a folder."""
        ...

    async def unload_adapter(self, name: str) -> None:
        """Forget an adapter. Requests already running on it go on."""
        ...


def publish(checkpoint: Path, folder: Path) -> bool:
    """Give a checkpoint its immutable place. Returns False, changing nothing, when `folder` is taken.

    Files are linked where the file system allows it. Raises CheckpointError when the checkpoint is not sound, OSError
    when it cannot be placed.
    """
    read_manifest(checkpoint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=".publishing-", dir=folder.parent))
    try:
        shutil.copytree(checkpoint, half, dirs_exist_ok=True, copy_function=_link)
        half.chmod(0o755)
        try:
            half.rename(folder)
        except OSError:
            if folder.exists():
                return False
            raise
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return True


async def check_effect(engine: Scorer, version: str, probes: Probes) -> float:
    """Check that the engine serves the student and not the base; returns the mean distance between them, in nats.

    An adapter whose module names do not match loads without a word and serves base output (vllm #34186). Read where
    the learner's own shift is largest. Raises VersionError when the engine does not follow it, or when it is too small
    to tell; EngineError when the engine cannot score it.
    """
    positions: list[tuple[float, float]] = []
    for probe in probes.probes[:CHECKED_PROBES]:
        positions += _positions(probe, await engine.score(version, probe.ids, probe.start))
    positions.sort(reverse=True)
    largest = positions[: max(MIN_POSITIONS, round(LARGEST_SHARE * len(positions)))]
    shift = fmean(position[0] for position in largest)
    distance = fmean(position[1] for position in largest)
    if shift < MIN_SHIFT_NATS:
        raise VersionError(
            f"{version} shifts its probes by {shift:.4f} nats a token, too little to tell from rounding; it is held"
        )
    if not distance < MAX_DISTANCE * shift:
        raise VersionError(
            f"the engine does not serve what was learnt: on its probes {version} is {distance:.3f} nats a token from"
            f" the student, whose own shift is {shift:.3f}; see whether the engine knows the adapter's module names"
        )
    return distance


def _positions(probe: Probe, scored: Sequence[float]) -> list[tuple[float, float]]:
    """Per token: how far the student moved, and how far the engine is from it."""
    if len(scored) != len(probe.after_logprobs):
        raise VersionError(f"the engine scored {len(scored)} tokens of a probe that has {len(probe.after_logprobs)}")
    rows = zip(probe.before_logprobs, probe.after_logprobs, scored, strict=True)
    return [(abs(after - before), abs(engine - after)) for before, after, engine in rows]


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
