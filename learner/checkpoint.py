"""Checkpoints on disk: a plain PEFT adapter, the optimizer's state, probes and a manifest, published by one rename."""

import errno
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from harness_adapters.errors import CheckpointError, LearnerError
from harness_adapters.ids import stable_id
from learner.config import CHECKPOINT_DIR, RoundConfig
from learner.digests import Digests
from learner.manifest import MANIFEST_FILE, Manifest, sha256_of
from learner.model import ADAPTER_WEIGHTS, Policy, lora_config
from learner.probe import PROBE_FILE, Probe, Probes

OPTIMIZER_STATE = "optimizer.safetensors"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_TEMPORARY = "checkpoint.tmp-"


def optimizer_state(policy: Policy, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return copies of AdamW's moments and step counts, named `PARAMETER.exp_avg` and so on."""
    return {
        f"{name}.{moment}": optimizer.state[parameter][moment].detach().cpu().clone()
        for name, parameter in policy.trainable().items()
        for moment in _MOMENTS
    }


def load_optimizer_state(checkpoint: Path, policy: Policy, optimizer: torch.optim.Optimizer) -> None:
    """Continue with the parent's optimizer state. Raises CheckpointError when it belongs to another adapter shape."""
    path = checkpoint / OPTIMIZER_STATE
    state = load_file(path)
    for name, parameter in policy.trainable().items():
        try:
            moments = {moment: state[f"{name}.{moment}"] for moment in _MOMENTS}
        except KeyError as error:
            raise CheckpointError(f"{path} lacks {error}; give the round the rank and targets of its parent") from None
        if moments["exp_avg"].shape != parameter.shape:
            raise CheckpointError(
                f"{path} has another shape at {name}; give the round the rank and targets of its parent"
            )
        step = moments.pop("step")
        optimizer.state[parameter] = {"step": step} | {
            key: value.to(parameter.device) for key, value in moments.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a round publishes."""

    step: int
    adapter: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    probes: Sequence[Probe]
    sample_ids: tuple[str, ...]
    """The samples learnt from up to `step`."""
    parent_id: str | None
    figures: Mapping[str, float]


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _adapter_config(config: RoundConfig) -> bytes:
    peft = lora_config(config.lora)
    peft.base_model_name_or_path = str(config.base)
    peft.inference_mode = True
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in peft.to_dict().items()}
    return json.dumps(plain, indent=2, sort_keys=True).encode()


def remove_unfinished(directory: Path) -> None:
    """Remove what a killed learner left half-written."""
    for leftover in directory.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(leftover)


def publish(directory: Path, config: RoundConfig, digests: Digests, publication: Publication) -> Manifest:
    """Write a checkpoint beside its place, make it durable, and publish it by one rename.

    Raises LearnerError when the disk is full or fails; nothing half-written stays.
    """
    temporary = directory / f"{_TEMPORARY}{os.getpid()}"
    try:
        temporary.mkdir()
        for name, content in (
            (ADAPTER_WEIGHTS, save(dict(publication.adapter), metadata={"format": "pt"})),
            ("adapter_config.json", _adapter_config(config)),
            (OPTIMIZER_STATE, save(dict(publication.optimizer))),
            (PROBE_FILE, Probes(probes=tuple(publication.probes)).model_dump_json().encode()),
        ):
            _write(temporary / name, content)
        files = {file.name: sha256_of(file) for file in sorted(temporary.iterdir())}
        manifest = Manifest(
            id=stable_id("checkpoint", config.id, files[ADAPTER_WEIGHTS]),
            round_id=config.id,
            parent=publication.parent_id,
            step=publication.step,
            base_sha256=digests.base,
            tokenizer_sha256=digests.tokenizer,
            template_sha256=digests.template,
            sample_ids=publication.sample_ids,
            hyperparameters=config.model_dump(mode="json", exclude={"base", "parent", "id", "version"}),
            figures=dict(publication.figures),
            files=files,
        )
        _write(temporary / MANIFEST_FILE, manifest.model_dump_json(indent=2).encode())
        _sync_directory(temporary)
        temporary.rename(directory / CHECKPOINT_DIR)
        _sync_directory(directory)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        full = "the disk is full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else (error.strerror or str(error))
        raise LearnerError(
            f"the checkpoint could not be written to {directory}: {full}; nothing was published. "
            "Free some space and start the learner on this directory again"
        ) from error
    return manifest
