"""The three-way split of sessions: train, validate, gate. One function, so that no turn is ever on two sides."""

import hashlib

from learner.config import Split


def split_of(root: str, user: str | None, *, validate_share: float, gate_share: float) -> Split:
    """Return the side of a session by hash of the user who opened its lineage, or of the lineage's root without one.

    Forks and side calls share a root, and a user's sessions repeat one another. The split needs no state and never
    changes for a session.
    """
    digest = hashlib.sha256((user or root).encode("utf-8", "surrogatepass")).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < gate_share:
        return "gate"
    if place < gate_share + validate_share:
        return "validate"
    return "train"
