"""The adapters there are, and which of them a file asks for."""

from collections.abc import Sequence
from pathlib import Path

from harness_adapters.adapter import Adapter, Skipped
from harness_adapters.errors import RecordError
from harness_adapters.openai_chat import OpenAIChat

__all__ = ["ADAPTERS", "Adapter", "Skipped", "detect_adapter"]

ADAPTERS: tuple[Adapter, ...] = (OpenAIChat(),)
HEAD_BYTES = 1 << 16
MAX_HEAD_BYTES = 1 << 26
"""An adapter sees the first 64 KiB of a file to recognise its format, and more where its first line is longer."""


def detect_adapter(path: Path, adapters: Sequence[Adapter] = ADAPTERS) -> Adapter:
    """Return the first adapter that recognises the file.

    Raises RecordError when none does, and OSError when the file cannot be opened.
    """
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
        if b"\n" not in head:
            head += stream.readline(MAX_HEAD_BYTES)
    for adapter in adapters:
        if adapter.recognises(head):
            return adapter
    known = ", ".join(adapter.name for adapter in adapters)
    raise RecordError(f"{path}: no adapter recognises this file's first lines; the formats known are: {known}")
