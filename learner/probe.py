"""Probes: token sequences by which the serving side proves that a published adapter takes effect. Needs no torch.

An engine that cannot match an adapter's module names serves the base model without a word (vllm #34186), so that
loading it is no proof. Where the learner's own shift is largest, the engine's shift must have its sign and size.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from harness_adapters.errors import CheckpointError

PROBE_FILE = "probe.json"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Probe(_Model):
    """One sequence: `ids` is prompt and completion, scored from position `start` on, in nats at temperature 1.

    Both lists have `len(ids) - start` entries: entry i is the log-probability of `ids[start + i]` after all before it.
    """

    ids: tuple[int, ...]
    start: int
    before_logprobs: tuple[float, ...]
    """Under the policy at the start of the round."""
    after_logprobs: tuple[float, ...]
    """Under the published adapter."""


class Probes(_Model):
    """`probe.json` of a checkpoint, the largest shift first."""

    version: int = 1
    probes: tuple[Probe, ...]


def read_probes(checkpoint: Path) -> Probes:
    """Read a checkpoint's probes. Raises CheckpointError when there are none to read."""
    file = checkpoint / PROBE_FILE
    try:
        probes = Probes.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise CheckpointError(f"{file} cannot be read, so the version's effect cannot be checked: {error}") from error
    if not probes.probes:
        raise CheckpointError(f"{file} has no probe, so the version's effect cannot be checked; run the round again")
    return probes
