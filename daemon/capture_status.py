"""What the recorder tells of itself."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureStatus:
    """A look at the recorder. `dropped` counts contents that could not be kept, by reason."""

    queue_records: int
    queue_bytes: int
    spool_records: int
    spool_bytes: int
    appended: int
    dropped: Mapping[str, int]
    dropped_at: Mapping[str, float]
    """`time.monotonic()` of the last of each."""
    ids_missing: int
    """Answers recorded without token ids."""
    log_available: bool
    spool_fault: str
    """What the spool's disk last answered to a write; empty when it took it."""
    running: bool
    """Whether the recorder's thread lives; without it nothing is recorded any more."""
