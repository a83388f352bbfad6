"""Chains of responses: calls that name the response they go on from, put together as sessions.

The history stays with the server, so each call is kept once, on disk, and a session is read from the calls that lead to
its end. A chain that forks makes a trace for each way, which is all that is told twice.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from harness_adapters.conversation import Conversation
from harness_adapters.exchange import Exchange, Status, exchange_json
from harness_adapters.fields import mappings
from harness_adapters.gather import Gather
from harness_adapters.ids import stable_id
from harness_adapters.server_tools import each_answer
from harness_adapters.sessions import route_key
from harness_adapters.trace import Message, Trace

_NONE = -1


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a chain. `exchange` has in its request only what the call sent itself."""

    exchange: Exchange
    response: str
    parent: str
    conversation: str
    new: int
    """How many of the request's messages, from the last, are not its instructions."""
    said: list[dict[str, Any]]

    @property
    def is_answered(self) -> bool:
        return self.exchange.status is Status.OK and bool(self.said)

    def instructions(self) -> list[Message]:
        messages: list[Message] = self.exchange.request["messages"]
        return messages[: len(messages) - self.new]

    def told(self) -> list[Message]:
        messages: list[Message] = self.exchange.request["messages"]
        return messages[len(messages) - self.new :]


class Chains:
    """Collects the calls of a file. Memory grows by a few numbers a call. A context manager."""

    def __init__(self) -> None:
        self._gather = Gather()
        self._new = array("Q")
        """What each call says, as a number by which others that say the same are known."""
        self._children = array("q")
        """The first call that goes on from each, and the next one that goes on from the same."""
        self._next = array("q")
        self._latest = array("q")
        """The latest that goes on from each, so that the next one is put behind it."""

    def __enter__(self) -> "Chains":
        self._gather.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._gather.__exit__(*raised)

    def add(
        self,
        exchange: Exchange,
        *,
        response: str,
        parent: str,
        conversation: str,
        new: Sequence[Message],
        said: Sequence[Message],
    ) -> None:
        """Take in a call: the id of its response, that of the one it goes on from, its own messages, the answer's.

        A `conversation` is a chain whose links the client does not name. Those of `new` are the last of the request's.
        """
        note, noted = self._gather.note, self._gather.noted
        if noted(f"exchange {exchange.id}"):
            return
        note(f"exchange {exchange.id}", "known")
        parent = parent or (noted(f"conversation {conversation}") or "" if conversation else "")
        about = {"response": response, "parent": parent, "conversation": conversation, "new": len(new), "said": said}
        number = len(self._new)
        self._gather.put(f"{number}", "about", orjson.dumps(about))
        if parent:
            note(f"parent {number}", parent)
        self._gather.put(f"{number}", "exchange", exchange_json.dump_json(exchange))
        for numbers in (self._children, self._next, self._latest):
            numbers.append(_NONE)
        self._new.append(int(stable_id("", orjson.dumps(list(new)))[1:17], 16))
        if response:
            note(f"number {response}", str(number))
        if response and conversation:
            note(f"conversation {conversation}", response)

    def sessions(self) -> Iterator[Exchange | Trace]:
        """Yield the traces of the chains, and the exchanges of calls that are alone, in the order they began."""
        first = [number for number in range(len(self._new)) if not self._link(number)]
        reached = bytearray(len(self._new))
        for number in (*first, *range(len(self._new))):  # those of a circle have no first one
            if not reached[number]:
                yield from (
                    self._alone(number, reached) if self._children[number] == _NONE else self._ways(number, reached)
                )

    def _call(self, number: int) -> _Call:
        about, exchange = self._gather.of(f"{number}")
        return _Call(exchange_json.validate_json(exchange), **orjson.loads(about))

    def _link(self, number: int) -> bool:
        """Put a call behind the one it goes on from; False where that is not in the file."""
        parent = self._gather.noted(f"parent {number}")
        found = self._gather.noted(f"number {parent}") if parent else None
        if found is None or int(found) == number:
            return False
        before = int(found)
        if self._children[before] == _NONE:
            self._children[before] = number
        else:
            self._next[self._latest[before]] = number
        self._latest[before] = number
        return True

    def _alone(self, number: int, reached: bytearray) -> Iterator[Exchange]:
        reached[number] = True
        call = self._call(number)
        session = call.conversation or call.parent or call.exchange.session
        key = route_key(call.exchange.tenant, call.exchange.request, session=session, user=call.exchange.user)
        yield from each_answer(replace(call.exchange, session=session, route_key=key), call.said)

    def _ways(self, number: int, reached: bytearray) -> Iterator[Trace]:
        """Yield a trace for each way from a call to an end of its chain."""
        path: list[_Call] = []
        shared = 0
        waiting = [(number, 0)]
        while waiting:
            at, depth = waiting.pop()
            reached[at] = True
            shared = min(shared, depth)
            path[depth:] = [self._call(at)]
            following = self._following(at, reached)
            if following:
                waiting += [(child, depth + 1) for child in reversed(following)]
            else:
                yield _trace(path, shared)
                shared = len(path)

    def _following(self, number: int, reached: bytearray) -> list[int]:
        """Return the calls that go on from one. Those that came to nothing, as the same was asked once more, are only
        said to have been reached."""
        found: list[int] = []
        last: dict[int, int] = {}
        child = self._children[number]
        while child != _NONE:
            found.append(child)
            if self._children[child] == _NONE:
                last[self._new[child]] = child
            child = self._next[child]
        went_on = {self._new[child] for child in found if self._children[child] != _NONE}
        for child in found:
            asked = self._new[child]
            if self._children[child] == _NONE and (asked in went_on or last[asked] != child):
                reached[child] = True
        return [child for child in found if not reached[child]]


def _trace(path: Sequence[_Call], shared: int) -> Trace:
    """Return the trace of the calls on one way. Those it shares with a way before it are its first ones."""
    end = path[-1]
    conversation = Conversation()
    inherited = 0
    for message in end.instructions():
        conversation.add(message, place=path[0].exchange.place)
    for count, call in enumerate(path):
        answered = call.is_answered
        if count < shared:
            inherited = len(conversation.turns) + call.new + len(call.said) * answered
        for message in call.told():
            conversation.add(message, place=call.exchange.place)
        answers = [at for at, message in enumerate(call.said) if message.get("role") == "assistant"]
        for at, message in enumerate(call.said if answered or call is not end else ()):
            own = bool(answers) and at == answers[-1]
            conversation.add(message, place=call.exchange.place, response_id=call.response or None if own else None)
    first = path[0]
    name = first.conversation or first.parent or first.response or first.exchange.session
    is_hidden = any(call.exchange.request.get("conversation") for call in path)
    return conversation.trace(
        end.exchange.harness,
        name,
        parent=name if shared else None,
        user=next((call.exchange.user for call in path if call.exchange.user), None),
        tools=mappings(end.exchange.request.get("tools")),
        complete=not (first.parent or is_hidden or conversation.is_compacted),
        inherited=inherited,
        is_named=not shared,
    )
