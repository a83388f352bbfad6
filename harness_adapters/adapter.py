"""The adapter protocol: a file some harness wrote, read as exchanges."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness_adapters.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that could not be read, by the number of its line (from 1); the rest of the file still is."""

    line: int
    reason: str


class Adapter(Protocol):
    """Reads one format."""

    @property
    def name(self) -> str:
        """The harness's name, as exchanges and traces carry it."""
        ...

    def recognises(self, head: bytes) -> bool:
        """Say whether a file that begins with `head` is of this format."""
        ...

    def read(self, path: Path) -> Iterator[Exchange | Skipped]:
        """Yield the file's exchanges in its order, and a Skipped for each record that cannot be read.

        Raises OSError when the file cannot be opened.
        """
        ...
