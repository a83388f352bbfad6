"""Which session an exchange belongs to, in what order a session's exchanges stand, and the trace they make.

The chat API names no session. A client may name one in a header; where it does not, the next request of a session
repeats what was said, so its messages begin with an earlier request and that request's answer.
"""

import heapq
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness_adapters.authors import COMPACTION, author_of
from harness_adapters.exchange import Exchange, Status
from harness_adapters.ids import stable_id
from harness_adapters.messages import answer_of, calls_of, canonical, messages_of, text_of
from harness_adapters.outcome import command_of, error_flag, outcome_of
from harness_adapters.trace import Author, Message, ToolCall, Trace, Turn

_VENDOR_HEADER = re.compile(r"x-(?!litellm-|parent-)[a-z0-9-]+-session-id")
_CODEX_HEADERS = ("session-id", "session_id", "thread-id", "conversation_id")
_USER_ID_SESSION = re.compile(r"_session_([0-9A-Za-z-]{8,})$")
_SERVER_HISTORY = ("previous_response_id", "conversation")


def explicit_session(headers: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    """Return the session the client named, by the order in which LiteLLM reads the headers, then the body's
    metadata."""
    named = {name.lower(): value.strip() for name, value in headers.items() if value.strip()}
    vendor = [v for n, v in sorted(named.items()) if _VENDOR_HEADER.fullmatch(n) and len(v) >= 8]
    candidates = [named.get("x-litellm-trace-id"), named.get("x-litellm-session-id"), *vendor]
    candidates += [named.get(name) for name in (*_CODEX_HEADERS, "x-session-id")]
    if found := next((c for c in candidates if c), None):
        return found
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    session, user = metadata.get("session_id"), metadata.get("user_id")
    if isinstance(session, str) and session.strip():
        return session.strip()
    return _session_in_user_id(user) if isinstance(user, str) else None


def _session_in_user_id(user_id: str) -> str | None:
    # Claude Code writes `user_…_account_…_session_<uuid>`, newer versions a JSON object.
    if found := _USER_ID_SESSION.search(user_id):
        return found[1]
    try:
        session = json.loads(user_id).get("session_id")
    except (ValueError, AttributeError, RecursionError):
        return None
    return session if isinstance(session, str) and session else None


def route_key(tenant: str, request: Mapping[str, Any], *, session: str | None = None, user: str | None = None) -> str:
    """Return the key that keeps a session's records in order: the named session, else how the conversation opens."""
    if session:
        return stable_id("route", tenant, "session", session)
    opening = [next((canonical(m) for m in messages_of(request) if m.get("role") in r), "") for r in _OPENERS]
    return stable_id("route", tenant, user or "", *opening, "" if any(opening) else request.get("prompt"))


_OPENERS = (("system", "developer"), ("user",))


def history_keys(tenant: str, request: Mapping[str, Any]) -> list[str]:
    """Return one key for every prefix of the request's messages, longest first. The model has no part in them."""
    return _chain(tenant, request, messages_of(request))[::-1]


def answer_key(tenant: str, request: Mapping[str, Any], response: Mapping[str, Any] | None) -> str | None:
    """Return the key of the request's messages with the answer behind them, which the next request of the same session
    begins with; None where there is no answer."""
    answer = answer_of(response)
    return _chain(tenant, request, [*messages_of(request), answer])[-1] if answer else None


def _chain(tenant: str, request: Mapping[str, Any], messages: Sequence[Message]) -> list[str]:
    key, keys = stable_id("history", tenant, request.get("user") or request.get("safety_identifier") or ""), list[str]()
    for message in messages:
        key = stable_id("history", key, canonical(message))
        keys.append(key)
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Where an exchange belongs. `keys` are to be kept as names of `session_id` for the exchanges to come."""

    session_id: str
    root: str
    keys: tuple[str, ...]


class SessionLookup(Protocol):
    """Where earlier assignments are kept. The latest to claim a key has it."""

    def sessions_of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the session of each of `keys` that is known."""
        ...

    def root_of(self, session_id: str) -> str | None:
        """Return the root of a session; None where the session is not known."""
        ...


class MemoryLookup:
    """A SessionLookup in memory."""

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}
        self._roots: dict[str, str] = {}

    def sessions_of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the session of each of `keys` that is known."""
        return {key: self._sessions[key] for key in keys if key in self._sessions}

    def root_of(self, session_id: str) -> str | None:
        """Return the root of a session; None where the session is not known."""
        return self._roots.get(session_id)

    def remember(self, assignment: Assignment) -> None:
        """Keep an assignment."""
        self._sessions.update(dict.fromkeys(assignment.keys, assignment.session_id))
        self._roots.setdefault(assignment.session_id, assignment.root)


def assign(exchange: Exchange, lookup: SessionLookup) -> Assignment:
    """Say which session an exchange belongs to.

    A session only grows: a request joins the one whose latest request it begins with, or that has made it before. One
    that goes on from an earlier point (an edited message, a second regenerated answer, the other of two people who
    opened alike and were answered alike) opens a session of its own under the same root. So does, in a session the
    client names, whatever repeats nothing of it: titles, summaries, sub-agents, a compacted history.

    Anybody may open alike, so an opening request joins no other, unless the client names its session.
    """
    messages = messages_of(exchange.request)
    name = exchange.session and stable_id("named", exchange.tenant, exchange.session)
    scope = stable_id("scope", name, _kind(exchange.request)) if name else "open"
    chain = _chain(exchange.tenant, exchange.request, messages)
    answered = answer_key(exchange.tenant, exchange.request, exchange.response)
    opening = 0 if name else next((i for i, m in enumerate(messages) if m.get("role") == "assistant"), len(messages))
    # Of each point of the history: it stood in a request, a request went on behind it, it was the model's answer.
    stood, went_on, said = ([stable_id(what, scope, key) for key in chain] for what in ("stood", "on", "said"))
    known = lookup.sessions_of([*stood[opening:], *went_on, *said, *([name] if name else [])])
    at = next((i for i in reversed(range(opening, len(chain))) if stood[i] in known), None)
    if at is None:
        at = next((i for i in reversed(range(len(chain))) if said[i] in known), None)
        before = None if at is None else known[said[at]]
    else:
        before = known[stood[at]]
    forked = at is not None and went_on[at] in known
    main = known.get(name) if name else None
    if before is not None and not forked:
        session = before
    elif name and main is None:
        session = name
    else:
        session = stable_id("session", exchange.id)
    new = opening if at is None else max(at, opening)
    claims = [*stood[new:], *went_on[new:-1], *([stable_id("said", scope, answered)] if answered else [])]
    parent = before or main
    return Assignment(
        session_id=session,
        root=(lookup.root_of(parent) or parent) if parent else session,
        keys=tuple([*claims, name] if name and main is None else claims),
    )


def _kind(request: Mapping[str, Any]) -> str:
    system = [canonical(m) for m in messages_of(request)[:1] if m.get("role") in ("system", "developer")]
    tools = request.get("tools")
    return json.dumps([system, sorted(map(_tool_name, tools)) if isinstance(tools, list) else []])


def _tool_name(tool: object) -> str:
    if not isinstance(tool, Mapping):
        return ""
    function = tool.get("function")
    return str((function if isinstance(function, Mapping) else tool).get("name"))


def order(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Order a session's exchanges: one whose messages begin with another's comes after it; else by `sequence`."""
    pending = sorted(exchanges, key=lambda e: (e.sequence, e.id))
    chains = [_chain(e.tenant, e.request, messages_of(e.request)) for e in pending]
    ends: dict[str, list[int]] = {}
    for at, chain in enumerate(chains):
        if chain:
            ends.setdefault(chain[-1], []).append(at)
    followers: list[list[int]] = [[] for _ in pending]
    waits = [0] * len(pending)
    for at, chain in enumerate(chains):
        # The nearest predecessor is enough: its own predecessors are prefixes of it.
        for before in next((ends[key] for key in reversed(chain[:-1]) if key in ends), ()):
            followers[before].append(at)
            waits[at] += 1
    ready = [at for at, count in enumerate(waits) if count == 0]
    ordered: list[Exchange] = []
    while ready:
        at = heapq.heappop(ready)
        ordered.append(pending[at])
        for follower in followers[at]:
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, follower)
    return ordered


def trace_of(session_id: str, root: str, exchanges: Iterable[Exchange], user: str | None = None) -> Trace:
    """Make the trace of one session. `user` is who opened its lineage; without one, who opened the session.

    Its turns are the messages of the latest request that nothing continued, as that request gave them, and its answer.
    Abandoned branches are dropped; a failed exchange brings its request's messages alone. Agent turns name the exchange
    that sampled them wherever one was recorded. Raises ValueError when there is no exchange.
    """
    ordered = order(exchanges)
    if not ordered:
        raise ValueError(f"session {session_id} has no exchange; make a trace of at least one")
    answers = {key: e for e in ordered if (key := answer_key(e.tenant, e.request, e.response))}
    leaf = _leaf(ordered)
    messages = messages_of(leaf.request)
    answer = answer_of(leaf.response)
    if answer and leaf.status is Status.OK:
        messages.append({k: v for k, v in answer.items() if k in ("role", "content") or (k == "tool_calls" and v)})
    keys = _chain(leaf.tenant, leaf.request, messages)
    turns = _turns(messages, [answers.get(key) for key in keys], leaf.place)
    compacted = any(author_of(m).reason == COMPACTION for m in messages)
    tools = leaf.request.get("tools")
    return Trace(
        id=session_id,
        harness=leaf.harness,
        tenant=leaf.tenant,
        turns=turns,
        root=root,
        user=user or ordered[0].user,
        tools=tuple(t for t in tools if isinstance(t, Mapping)) if isinstance(tools, list) else (),
        complete=not compacted and not any(e.request.get(k) for e in ordered for k in _SERVER_HISTORY),
        inherited=0 if root == session_id else _answered(messages_of(ordered[0].request)),
    )


def _answered(messages: Sequence[Message]) -> int:
    """Return how many messages there are up to the last answer."""
    return max((i + 1 for i, message in enumerate(messages) if message.get("role") == "assistant"), default=0)


def _leaf(ordered: Sequence[Exchange]) -> Exchange:
    """Return the latest exchange that no other continues; one that was answered before one that was not."""
    histories: list[tuple[Exchange, list[str]]] = []
    for e in ordered:
        answered = answer_key(e.tenant, e.request, e.response) if e.status is Status.OK else None
        histories.append((e, [*_chain(e.tenant, e.request, messages_of(e.request)), *([answered] if answered else [])]))
    continued = {key for _, history in histories for key in history[:-1]}
    leaves = [e for e, history in histories if history and history[-1] not in continued]
    return max(
        leaves or ordered, key=lambda e: (e.status is Status.OK and answer_of(e.response) is not None, e.sequence)
    )


def _turns(messages: Sequence[Message], sampled_by: Sequence[Exchange | None], place: str | None) -> tuple[Turn, ...]:
    calls: dict[str, ToolCall] = {}
    turns: list[Turn] = []
    for index, (message, exchange) in enumerate(zip(messages, sampled_by, strict=True)):
        author, text, _ = author_of(message)
        own_calls = calls_of(message) if author is Author.AGENT else ()
        calls.update({call.id: call for call in own_calls})
        call_id = message.get("tool_call_id")
        call = calls.get(str(call_id))
        outcome = None
        if author is Author.TOOL:
            command = command_of(call.arguments) if call else ""
            outcome = outcome_of(text_of(message.get("content")), flag=error_flag(message), command=command)
        response_id = exchange.response.get("id") if exchange and exchange.response else None
        turns.append(
            Turn(
                index=index,
                author=author,
                text=text,
                message=message,
                tool_calls=own_calls,
                tool_call_id=str(call_id) if call_id else None,
                outcome=outcome,
                exchange_id=exchange.id if exchange else None,
                response_id=str(response_id) if response_id else None,
                version=exchange.version if exchange else None,
                place=f"{place}, message {index}" if place else f"message {index}",
            )
        )
    return tuple(turns)


def traces_of(exchanges: Iterable[Exchange]) -> list[Trace]:
    """Group exchanges, in the order given, into sessions, and make each session's trace. Holds all of them in
    memory."""
    lookup = MemoryLookup()
    roots: dict[str, str] = {}
    sessions: dict[str, list[Exchange]] = {}
    for exchange in exchanges:
        assignment = assign(exchange, lookup)
        lookup.remember(assignment)
        roots.setdefault(assignment.session_id, assignment.root)
        sessions.setdefault(assignment.session_id, []).append(exchange)
    return [trace_of(session, roots[session], members) for session, members in sessions.items()]
