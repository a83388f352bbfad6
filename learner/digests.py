"""Digests of a base model's weights, tokenizer and chat template. Needs no torch.

An adapter means nothing without the exact base it was trained on, and ids mean nothing without their tokenizer.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness_adapters.errors import CheckpointError
from learner.manifest import Manifest, sha256_of

TOKENIZER_FILES = (
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """SHA-256 of what an adapter depends on, as hexadecimal digits."""

    base: str
    tokenizer: str
    template: str

    def check(self, manifest: Manifest, checkpoint: Path) -> None:
        """Raise CheckpointError when a checkpoint was trained on another base, tokenizer or chat template."""
        for what, ours, theirs in (
            ("base model", self.base, manifest.base_sha256),
            ("tokenizer", self.tokenizer, manifest.tokenizer_sha256),
            ("chat template", self.template, manifest.template_sha256),
        ):
            if ours != theirs:
                raise CheckpointError(
                    f"{checkpoint} was trained with another {what} (SHA-256 {theirs[:12]}, here {ours[:12]}); "
                    "start from the base, or point the round at the model the checkpoint belongs to"
                )


def _digest(files: Iterable[Path]) -> str:
    named = sorted((file.name, sha256_of(file)) for file in files)
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _template(base: Path) -> str:
    file = base / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    config = base / "tokenizer_config.json"
    return json.dumps(json.loads(config.read_bytes()).get("chat_template")) if config.is_file() else ""


def digests_of(base: Path) -> Digests:
    """Return the digests of a base model's directory.

    Raises CheckpointError when it holds no safetensors weights: other formats can run code and are never loaded.
    """
    weights = sorted(base.glob("*.safetensors"))
    if not weights or not (base / "config.json").is_file():
        raise CheckpointError(
            f"{base} holds no config.json with *.safetensors weights; convert the model to safetensors"
        )
    return Digests(
        base=_digest([*weights, base / "config.json"]),
        tokenizer=_digest(file for name in TOKENIZER_FILES if (file := base / name).is_file()),
        template=hashlib.sha256(_template(base).encode()).hexdigest(),
    )
