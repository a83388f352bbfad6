"""Exchange: one model call as it crossed the wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import FiniteFloat, TypeAdapter


class Status(StrEnum):
    """How an exchange ended. Every request gets exactly one."""

    OK = "ok"
    UPSTREAM_ERROR = "upstream_error"
    CLIENT_CANCELLED = "client_cancelled"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Token ids as the server sampled them. Ids are never guessed: without them a turn is re-tokenised and marked.

    `logprobs` are kept only when the server reports them of the distribution it sampled from.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[FiniteFloat, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One model call: request, assembled response, sampled ids, who answered, when, and how it ended.

    `response` has the shape of a non-streamed answer even where the answer was streamed. `sequence` is the proxy's
    monotonic counter; together with history containment it orders a session, which wall clocks cannot.
    """

    id: str
    endpoint: str
    model: str
    tenant: str
    route_key: str
    sequence: int
    status: Status
    started_at: FiniteFloat
    """Unix time in seconds, for people; never used for order."""
    request: Mapping[str, Any]
    response: Mapping[str, Any] | None = None
    sampled: Sampled | None = None
    version: str | None = None
    """The engine's name for what answered: `NAME@vN`, or the base model's name."""
    session: str | None = None
    """The session the client named, if it named one."""
    user: str | None = None
    harness: str = "openai_chat"
    http_status: int | None = None
    error: str | None = None
    first_byte_s: FiniteFloat | None = None
    duration_s: FiniteFloat | None = None
    place: int | None = None
    """Where an imported exchange stands in its file, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What a person said of one response, by its response id, outside the conversation."""

    id: str
    response_id: str
    tenant: str
    created_at: FiniteFloat
    rating: FiniteFloat | None = None
    """From -1 (wrong) to 1 (right)."""
    comment: str | None = None
    accepted_edit: str | None = None
    """The text the person kept instead of the agent's."""


exchange_json: TypeAdapter[Exchange] = TypeAdapter(Exchange)
feedback_json: TypeAdapter[Feedback] = TypeAdapter(Feedback)
