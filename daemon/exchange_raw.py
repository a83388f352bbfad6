"""RawExchange: an exchange as the proxy saw it, in bytes. Reading them is the recorder's work, not the event loop's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness_adapters.exchange import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RawExchange:
    """One model call, its response still as bytes off the wire. `daemon.assemble.exchange_of` reads it.

    Fields are those of Exchange but for `body`, which is what the upstream sent (id members included), `streamed`,
    which says whether it is server-sent events, and `truncated`, which says that `body` was longer than may be kept.
    """

    id: str
    endpoint: str
    model: str
    tenant: str
    route_key: str
    sequence: int
    status: Status
    started_at: float
    request: Mapping[str, Any]
    request_bytes: int
    """Length of the request's body, for whoever has to bound what waits."""
    body: bytes = b""
    streamed: bool = False
    truncated: bool = False
    asked_for_ids: bool = False
    version: str | None = None
    session: str | None = None
    user: str | None = None
    http_status: int | None = None
    error: str | None = None
    first_byte_s: float | None = None
    duration_s: float | None = None

    @property
    def size_bytes(self) -> int:
        """What this exchange holds of the recorder's memory."""
        return self.request_bytes + len(self.body)
