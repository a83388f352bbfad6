"""The adapter protocol: what some harness wrote, read as traces, or as exchanges where it recorded the wire."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from harness_adapters.exchange import Exchange
from harness_adapters.source import Head, Source
from harness_adapters.trace import Trace


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that could not be read, by the number of its line (from 1); the rest of the file still is."""

    line: int
    reason: str
    raw: bytes = b""
    """The record as it stands in the file; empty where it was too long to hold."""


Item = Trace | Exchange | Skipped


class Adapter(Protocol):
    """Reads one format."""

    @property
    def name(self) -> str:
        """The format's name, which exchanges and traces carry as their harness."""
        ...

    @property
    def unit(self) -> str:
        """What the places of this format count, in the singular: `line`, `message`, `step`, `event`, `exchange`, ..."""
        ...

    def recognises(self, head: Head) -> bool:
        """Say whether a file that begins like this is of this format."""
        ...

    def read(self, source: Source) -> Iterator[Item]:
        """Yield what the source holds, in its order where that can be told, and a Skipped for what cannot be read.

        Memory does not grow with the source, but for its longest session. Raises OSError where it cannot be read on.
        """
        ...
