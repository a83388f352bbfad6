"""The trace that a session's exchanges make, and sessions found among exchanges without a store."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from harness_adapters.conversation import Conversation
from harness_adapters.exchange import Exchange, Status, exchange_json
from harness_adapters.gather import Gather
from harness_adapters.history import keys_of
from harness_adapters.ids import stable_id
from harness_adapters.messages import answer_of, refused_of
from harness_adapters.sessions import assign
from harness_adapters.trace import Author, Message, Trace, Turn

_ALWAYS, _WHERE_SAID = ("role", "content"), ("tool_calls", "reasoning_content")
_SERVER_HISTORY = ("previous_response_id", "conversation", "cut")


@dataclass(frozen=True, slots=True)
class _Link:
    """An exchange with the keys of its history."""

    exchange: Exchange
    messages: list[Message]
    chain: list[str]
    answered: str | None
    """The key of its messages and answer."""

    @property
    def is_answered(self) -> bool:
        return self.answered is not None and self.exchange.status is Status.OK


def _link(exchange: Exchange) -> _Link:
    return _Link(exchange, *keys_of(exchange))


def order(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Order a session's exchanges: one whose messages begin with another's comes after it; else by `sequence`."""
    return [link.exchange for link in _ordered(exchanges)]


def _ordered(exchanges: Iterable[Exchange]) -> list[_Link]:
    pending = [_link(e) for e in sorted(exchanges, key=lambda e: (e.sequence, e.id))]
    ends: dict[str, list[int]] = {}
    for at, link in enumerate(pending):
        if link.chain:
            ends.setdefault(link.chain[-1], []).append(at)
    followers: list[list[int]] = [[] for _ in pending]
    waits = [0] * len(pending)
    for at, link in enumerate(pending):
        # The nearest predecessor is enough: its own predecessors are prefixes of it.
        for before in next((ends[key] for key in reversed(link.chain[:-1]) if key in ends), ()):
            followers[before].append(at)
            waits[at] += 1
    ready = [at for at, count in enumerate(waits) if count == 0]
    ordered: list[_Link] = []
    while ready:
        at = heapq.heappop(ready)
        ordered.append(pending[at])
        for follower in followers[at]:
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, follower)
    return ordered


def trace_of(
    session_id: str, root: str, exchanges: Iterable[Exchange], user: str | None = None, name: str | None = None
) -> Trace:
    """Make the trace of one session. `user` is who opened its lineage; without one, who opened the session.

    Its turns are the messages of the latest request that nothing continued, as that request gave them, and its answer.
    Abandoned branches are dropped; a failed exchange brings its request's messages alone, and what the server refused
    to pass on, as turns the model was not shown again. Agent turns name the exchange that sampled them wherever one was
    recorded. Raises ValueError when there is no exchange.
    """
    links = _ordered(exchanges)
    if not links:
        raise ValueError(f"session {session_id} has no exchange; make a trace of at least one")
    leaf = _leaf(links)
    messages, keys = list(leaf.messages), list(leaf.chain)
    answer = answer_of(leaf.exchange.response)
    if answer and leaf.answered and leaf.is_answered:
        messages.append({k: v for k, v in answer.items() if k in _ALWAYS or (k in _WHERE_SAID and v)})
        keys.append(leaf.answered)
    tools = leaf.exchange.request.get("tools")
    exchanges = [link.exchange for link in links]
    conversation = _told(messages, keys, links)
    return Trace(
        id=session_id,
        harness=leaf.exchange.harness,
        tenant=leaf.exchange.tenant,
        turns=tuple(conversation.turns),
        root=root,
        user=user or exchanges[0].user,
        tools=tuple(t for t in tools if isinstance(t, Mapping)) if isinstance(tools, list) else (),
        complete=not conversation.is_compacted
        and not any(e.request.get(k) for e in exchanges for k in _SERVER_HISTORY),
        inherited=0 if root == session_id else _answered(links[0].messages),
        name=name or exchanges[0].session,
    )


def _told(messages: Sequence[Message], keys: Sequence[str], links: Sequence[_Link]) -> Conversation:
    answers = {link.answered: link.exchange for link in links if link.answered}
    first: dict[str, int] = {}
    refused: dict[str, _Link] = {}
    for at, link in enumerate(links):
        for key in link.chain:
            first.setdefault(key, at)
        if link.chain and not link.is_answered and refused_of(link.exchange.response):
            refused[link.chain[-1]] = link
    conversation = Conversation()
    for index, (message, key) in enumerate(zip(messages, keys, strict=True)):
        exchange = answers.get(key)
        seen = first.get(key)
        place = None if seen is None else links[seen].exchange.place
        if exchange is not None:
            place = exchange.place
        elif seen and message.get("role") == "assistant":
            place = links[seen - 1].exchange.place  # it was said before it stood in a request
        response_id = exchange.response.get("id") if exchange and exchange.response else None
        conversation.add(
            message,
            place=place,
            exchange_id=exchange.id if exchange else None,
            response_id=str(response_id) if response_id else None,
            version=exchange.version if exchange else None,
        )
        following = index + 1 < len(messages) and messages[index + 1].get("role") == "assistant"
        if key in refused and not (following and keys[index + 1] not in answers):  # unless the client put it there
            _add_refused(conversation, refused[key].exchange)
    return conversation


def _add_refused(conversation: Conversation, exchange: Exchange) -> None:
    written = refused_of(exchange.response)
    if written is not None:
        conversation.add(written, place=exchange.place, exchange_id=exchange.id, version=exchange.version, shown=False)
        said = {"role": "user", "content": exchange.error or "the server refused it"}
        conversation.add(said, place=exchange.place, author=Author.FRAMEWORK, shown=False)


def _answered(messages: Sequence[Message]) -> int:
    """Return how many messages there are up to the last answer."""
    return max((i + 1 for i, message in enumerate(messages) if message.get("role") == "assistant"), default=0)


def _leaf(links: Sequence[_Link]) -> _Link:
    """Return the latest exchange that no other continues; one that was answered before one that was not."""
    histories = [[*link.chain, *([link.answered] if link.is_answered and link.answered else [])] for link in links]
    continued = {key for history in histories for key in history[:-1]}
    leaves = [link for link, history in zip(links, histories, strict=True) if history and history[-1] not in continued]
    return max(leaves or links, key=lambda link: (link.is_answered, link.exchange.sequence))


def _said(turns: Sequence[Turn]) -> str:
    """Return a text that begins with that of any turns with which these begin, wherever they stand."""
    said = ((t.author, t.text, t.tool_call_id, [(c.id, c.name, c.arguments) for c in t.tool_calls]) for t in turns)
    return "".join(stable_id("turn", turn) for turn in said)


class Grouping:
    """Sessions among the exchanges of one source, kept on disk. A context manager, and its own SessionLookup."""

    def __init__(self) -> None:
        self._gather = Gather()

    def __enter__(self) -> "Grouping":
        self._gather.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._gather.__exit__(*raised)

    def sessions_of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the session of each of `keys` that is known."""
        found = {key: self._gather.noted(key) for key in keys}
        return {key: session for key, session in found.items() if session is not None}

    def root_of(self, session_id: str) -> str | None:
        """Return the root of a session; None where the session is not known."""
        return self._gather.noted(f"root {session_id}")

    def add(self, exchange: Exchange) -> bool:
        """Take in an exchange; False where one of its id was taken in before."""
        if self._gather.noted(f"exchange {exchange.id}"):
            return False
        self._gather.note(f"exchange {exchange.id}", "known")
        assignment = assign(exchange, self)
        for key in assignment.keys:
            self._gather.note(key, assignment.session_id)
        if self.root_of(assignment.session_id) is None:
            self._gather.note(f"root {assignment.session_id}", assignment.root)
        return self._gather.put(assignment.session_id, exchange.id, orjson.dumps(exchange))

    def is_new(self, trace: Trace) -> bool | None:
        """Say whether a trace goes on from what was asked about by its id before; None where it says something else."""
        key, said = f"trace {trace.id}", _said(trace.turns)
        known = self._gather.noted(key)
        if known is None or (said.startswith(known) and said != known):
            self._gather.note(key, said)
            return True
        return False if known.startswith(said) else None

    def traces(self) -> Iterator[Trace]:
        """Yield the traces of the sessions, in the order in which these began."""
        for session_id, bodies in self._gather.groups():
            exchanges = [exchange_json.validate_json(body) for body in bodies]
            places = [e.place for e in exchanges if e.place is not None]
            name = f"exchanges-{min(places)}-{max(places)}" if places else None
            root = self.root_of(session_id) or session_id
            yield trace_of(session_id, root, exchanges, name=exchanges[0].session or name)
