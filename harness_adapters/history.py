"""Keys of what was said so far, by which a request is known to go on from another."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness_adapters.exchange import Exchange
from harness_adapters.ids import stable_id
from harness_adapters.messages import answer_of, canonical, messages_of
from harness_adapters.trace import Message


def history_keys(tenant: str, request: Mapping[str, Any]) -> list[str]:
    """Return one key for every prefix of the request's messages, longest first. The model has no part in them."""
    return _chain(tenant, request, messages_of(request))[::-1]


def answer_key(tenant: str, request: Mapping[str, Any], response: Mapping[str, Any] | None) -> str | None:
    """Return the key of the request's messages with the answer behind them, which the next request of the same session
    begins with; None where there is no answer."""
    answer = answer_of(response)
    return None if answer is None else _chain(tenant, request, [*messages_of(request), answer])[-1]


def keys_of(exchange: Exchange) -> tuple[list[Message], list[str], str | None]:
    """Return the request's messages, a key for every prefix of them, shortest first, and the key that their answer adds
    to these; None where there is no answer."""
    messages, answer = messages_of(exchange.request), answer_of(exchange.response)
    keys = _chain(exchange.tenant, exchange.request, [*messages, *([answer] if answer else [])])
    return messages, keys[: len(messages)], keys[-1] if answer else None


def _chain(tenant: str, request: Mapping[str, Any], messages: Sequence[Message]) -> list[str]:
    key, keys = stable_id("history", tenant, request.get("user") or request.get("safety_identifier") or ""), list[str]()
    for message in messages:
        key = stable_id("history", key, canonical(message))
        keys.append(key)
    return keys
