"""Notes: what is left out of a file, each reason told once."""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from harness_adapters.adapter import Skipped

_MAX_REASONS = 1000
_MORE = "there are too many kinds of records that are not known to this version to name them all"


class _Held(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def raw(self) -> bytes: ...


class Notes:
    """Tells a reason where it is met first, or at the end with how often it was."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._first: dict[str, _Held] = {}

    def once(self, reason: str, held: _Held) -> Iterator[Skipped]:
        """Yield what says that something is left out, unless the same was said before."""
        reason = self._counted(reason)
        if self._counts[reason] == 1:
            yield Skipped(held.line, reason, held.raw)

    def add(self, reason: str, held: _Held) -> None:
        """Count something that is left out."""
        self._first.setdefault(self._counted(reason), held)

    def told(self) -> Iterator[Skipped]:
        """Yield one Skipped for each reason of what was counted."""
        for reason, held in self._first.items():
            yield Skipped(held.line, f"{reason} ({self._counts[reason]} in this file)", held.raw)

    def _counted(self, reason: str) -> str:
        if len(self._counts) >= _MAX_REASONS and reason not in self._counts:
            reason = _MORE
        self._counts[reason] += 1
        return reason
