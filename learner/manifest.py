"""Checkpoint: what a published adapter is made of, and how its files are proved unchanged. Needs no torch."""

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from harness_adapters.errors import CheckpointError

MANIFEST_FILE = "manifest.json"


class Manifest(BaseModel):
    """`manifest.json` of a checkpoint; immutable once published."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    id: str
    round_id: str
    parent: str | None
    """Id of the parent checkpoint; None for the base."""
    step: int
    """The optimizer step published: the best on *validate*."""
    base_sha256: str
    tokenizer_sha256: str
    template_sha256: str
    sample_ids: tuple[str, ...]
    hyperparameters: dict[str, object]
    figures: dict[str, float] = {}
    """What was measured of the published step on *validate*, in the units the names carry."""
    files: dict[str, str]
    """SHA-256 of every file beside this one, by relative path."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(checkpoint: Path) -> Manifest:
    """Read and check a checkpoint's manifest against its files.

    Raises CheckpointError when it is missing, unreadable, or a file differs from what it says.
    """
    path = checkpoint / MANIFEST_FILE
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(
            f"{checkpoint} has no {MANIFEST_FILE}: it was never published; run the round again"
        ) from None
    except ValidationError as error:
        raise CheckpointError(f"{path} cannot be read: {error}; restore the checkpoint from a copy") from error
    for name, expected in manifest.files.items():
        file = checkpoint / name
        if not file.is_file():
            raise CheckpointError(f"{file} is missing though {MANIFEST_FILE} lists it; restore it from a copy")
        if sha256_of(file) != expected:
            raise CheckpointError(f"{file} differs from its SHA-256 in {MANIFEST_FILE}; restore it from a copy")
    return manifest
