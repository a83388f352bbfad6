"""Trace and Turn: one session of an agent, whatever harness recorded it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

Message = Mapping[str, Any]
"""One message in OpenAI's chat shape: `role`, `content`, and `tool_calls` or `tool_call_id` where they apply."""


class Author(StrEnum):
    """Who really wrote a turn; the wire's role says only who is held to have."""

    AGENT = "agent"
    HUMAN = "human"
    TOOL = "tool"
    SYSTEM = "system"
    FRAMEWORK = "framework"
    CLIENT = "client"
    SIMULATED_USER = "simulated_user"


class Outcome(StrEnum):
    """What became of a tool call."""

    OK = "ok"
    OK_EMPTY = "ok_empty"
    ERROR_AGENT = "error_agent"
    ERROR_ENV = "error_env"
    REJECTED_BY_HUMAN = "rejected_by_human"
    CANCELLED = "cancelled"
    STILL_RUNNING = "still_running"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call the agent made. `arguments` is the raw JSON text as sampled, which need not be valid."""

    id: str
    name: str
    arguments: str
    place: int | None = None
    """Where the call stands in its source, as `Turn.place` counts, where that is not its turn's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message with its author. `message` is what the model was shown, so that a prefix renders exactly."""

    index: int
    author: Author
    text: str
    message: Message
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    outcome: Outcome | None = None
    """Of tool turns only."""
    exchange_id: str | None = None
    """The exchange that sampled this agent turn, where one was recorded."""
    response_id: str | None = None
    version: str | None = None
    """The adapter that answered."""
    place: int | None = None
    """Where the turn stands in its source, from 0, in what its adapter counts: lines, messages, steps, exchanges."""
    shown: bool = True
    """False for what the model wrote and never saw again, such as a call that the server refused to pass on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One session: ordered turns, the tools declared in it, and where it came from.

    `root` is the first session of a fork or side call: splits and erasure go by it. `complete` is false when part of
    the history is known to be missing.
    """

    id: str
    harness: str
    tenant: str
    turns: tuple[Turn, ...]
    root: str
    user: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    complete: bool = True
    inherited: int = 0
    """How many turns, from the first, a fork shares with the session it left; what they show was seen there."""
    name: str | None = None
    """What the source calls the session."""

    def prefix(self, turn: int) -> list[Message]:
        """The messages the model was shown before it wrote `turn`."""
        return [t.message for t in self.turns[:turn] if t.shown]


trace_json: TypeAdapter[Trace] = TypeAdapter(Trace)
