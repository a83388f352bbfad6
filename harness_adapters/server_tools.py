"""Tools that the server ran itself: one recorded call is then as many exchanges as the model was asked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from harness_adapters.exchange import Exchange, Status
from harness_adapters.ids import stable_id
from harness_adapters.trace import Message


def last_answer(said: Sequence[Message]) -> Message | None:
    """Return the last message of the model among those that a response holds."""
    return next((message for message in reversed(said) if message.get("role") == "assistant"), None)


def each_answer(exchange: Exchange, said: Sequence[Message]) -> Iterator[Exchange]:
    """Yield an exchange for each time the model wrote, with what the server's tools answered in the next one's request.

    `said` is all that the response of `exchange` holds, in chat shape: the model's messages and, between and behind
    them, results of tools. Only the exchange of the last answer keeps the id, the response's id and its usage.
    """
    answers = [at for at, message in enumerate(said) if message.get("role") == "assistant"]
    if exchange.status is not Status.OK or not answers or len(said) == 1:
        yield exchange
        return
    for at in answers[:-1]:
        choice = {"index": 0, "message": said[at], "finish_reason": "tool_calls"}
        yield _at(exchange, said, at, response={"choices": [choice]})
    yield replace(_at(exchange, said, answers[-1]), id=exchange.id)
    if answers[-1] != len(said) - 1:  # the model was to go on in another call
        yield _at(exchange, said, len(said), response=None, status=Status.ABANDONED)


def _at(exchange: Exchange, said: Sequence[Message], at: int, **changes: Any) -> Exchange:
    """Return the exchange as it would be had the model been asked behind the first `at` messages."""
    request = {**exchange.request, "messages": [*exchange.request.get("messages", ()), *said[:at]]}
    return replace(exchange, id=stable_id("exchange", exchange.id, at), request=request, **changes)
