"""Claude Code's queue of messages that were typed while the agent worked: which of them it was given, and where."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from harness_adapters.fields import mapping
from harness_adapters.messages import text_of

_SHELL = re.compile(r"\A\s*<bash-input>(?P<line>.*?)</bash-input>", re.DOTALL)


class _Typed(NamedTuple):
    at: int
    key: str
    line: int
    value: Mapping[str, Any]


class Queue:
    """Follows the queue's records, so that each message counts once: where it was delivered or, where no record of its
    own says that, where it was typed."""

    def __init__(self, typed: Sequence[tuple[int, int, Mapping[str, Any]]], answers: Sequence[int]) -> None:
        """`typed` are the session's records that may be deliveries, by position, line and value; `answers` the
        positions of the model's responses."""
        self._deliveries = [_Typed(at, _key(value), line, value) for at, line, value in typed]
        self._answers = answers
        self._waiting: list[_Typed] = []

    def take(self, at: int, line: int, value: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
        """Take in a record of the queue; return the message that it gives to the agent, if no other record does."""
        operation, key = value.get("operation"), _key(value)
        if operation == "enqueue":
            if key:
                self._waiting.append(_Typed(at, key, line, value))
        elif operation == "popAll":  # back into the person's hands
            self._waiting = [w for w in self._waiting if key and w.key not in key]
        elif operation in ("dequeue", "remove"):
            named = [w for w in self._waiting if key in ("", w.key)]
            is_told = value.get("reason") in (None, "", "absorbed_mid_turn", "delivered_to_agent")
            for message in named:
                if self._delivered(message, at, operation == "remove"):
                    self._waiting.remove(message)
                    return []
            if named:
                self._waiting.remove(named[0])
                return [(named[0].line, named[0].value)] if is_told else []
        return []

    def left(self) -> list[tuple[int, Mapping[str, Any]]]:
        """Return the messages that the agent was not given before the log ends."""
        said = {d.key for d in self._deliveries}
        return [(w.line, w.value) for w in self._waiting if w.key not in said]

    def _delivered(self, message: _Typed, at: int, is_removed: bool) -> bool:
        """Say whether a record delivers a message that is taken out of the queue here, and use it up.

        What is removed was told to the agent while it worked: before it answers again. What is dequeued is the next
        thing that was typed.
        """
        end = next((answer for answer in self._answers if answer > at), None) if is_removed else None
        for delivery in self._deliveries:
            if delivery.at > message.at:
                if end is not None and delivery.at > end:
                    return False
                if delivery.key == message.key:
                    self._deliveries.remove(delivery)
                    return True
                if delivery.at > at and not is_removed:
                    return False
        return False


def content_of(value: Mapping[str, Any]) -> object:
    """Return the content of what a record says, wherever it stands."""
    attachment = mapping(value.get("attachment"))
    return (
        attachment.get("prompt") if attachment else value.get("content", mapping(value.get("message")).get("content"))
    )


def _key(value: Mapping[str, Any]) -> str:
    """Return what was typed, so that the queue's record of it and the message made of it are equal."""
    typed = text_of(content_of(value))
    if (command := _within(typed, "command-name")) is not None:
        typed = f"{command} {_within(typed, 'command-args') or ''}"
    elif shell := _SHELL.match(typed):
        typed = shell["line"]
    return " ".join(typed.split())


def _within(typed: str, tag: str) -> str | None:
    """Return what stands in the first block of a tag; None where there is none."""
    _, opener, behind = typed.partition(f"<{tag}>")
    words, closer, _ = behind.partition(f"</{tag}>")
    return words if opener and closer else None
