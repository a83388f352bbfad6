"""The adapters there are, and which of them a file asks for."""

from collections.abc import Sequence
from pathlib import Path

from harness_adapters.adapter import Adapter, Skipped
from harness_adapters.errors import RecordError
from harness_adapters.openai_chat import OpenAIChat

__all__ = ["ADAPTERS", "Adapter", "Skipped", "detect_adapter"]

ADAPTERS: tuple[Adapter, ...] = (OpenAIChat(),)
HEAD_BYTES = 1 << 16
"""How much of a file an adapter may see to recognise its format."""


def detect_adapter(path: Path, adapters: Sequence[Adapter] = ADAPTERS) -> Adapter:
    """Return the first adapter that recognises the file.

    Raises RecordError when none does, and OSError when the file cannot be opened.
    """
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    for adapter in adapters:
        if adapter.recognises(head):
            return adapter
    known = ", ".join(adapter.name for adapter in adapters)
    raise RecordError(f"{path}: no adapter recognises this file's first lines; the formats known are: {known}")
