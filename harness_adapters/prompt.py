"""Prompt: all that the model was shown before it wrote a turn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness_adapters.errors import RenderError
from harness_adapters.exchange import Exchange
from harness_adapters.fields import mapping
from harness_adapters.trace import Message, Trace

_ONE_OFF = {"chat_template": None, "documents": None, "continue_final_message": False, "add_generation_prompt": True}
"""Members of a request, with their defaults, that make a prompt which nobody else renders from its messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Messages, tools, and what else the chat template was told."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Variables the client set for the chat template, such as `enable_thinking`."""
    ids: tuple[int, ...] | None = None
    """As the server answered from them, where it said so."""


def prompt_of(trace: Trace, turn: int, exchange: Exchange | None = None) -> Prompt:
    """Return what the model was shown before `turn`: as sent where the exchange was recorded, else as the trace has it.

    Raises RenderError when the request asked for a prompt that its messages and tools do not determine.
    """
    if exchange is None or not isinstance(exchange.request.get("messages"), list):
        return Prompt(messages=tuple(trace.prefix(turn)), tools=trace.tools)
    request = exchange.request
    for member, default in _ONE_OFF.items():
        if request.get(member) not in (None, default):
            raise RenderError(f"the request set {member}, so its prompt cannot be rendered again; set the turn aside")
    options = mapping(request.get("chat_template_kwargs"))
    if request.get("reasoning_effort") is not None:
        options = {"reasoning_effort": request["reasoning_effort"], **options}
    return Prompt(
        messages=tuple(request["messages"]),
        tools=tuple(request.get("tools") or ()),
        options=options,
        ids=exchange.sampled.prompt_ids if exchange.sampled else None,
    )
