"""Stable ids: the same content is given the same id, so that doing work twice changes nothing."""

import hashlib


def stable_id(prefix: str, *parts: object) -> str:
    """Return `prefix-` and 20 hexadecimal digits of the SHA-256 over `parts`, each set apart by its length.

    Bytes are taken as they are, everything else as the text it makes.
    """
    digest = hashlib.sha256()
    for part in parts:
        text = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        digest.update(f"{len(text)}:".encode())
        digest.update(text)
    return f"{prefix}-{digest.hexdigest()[:20]}"
