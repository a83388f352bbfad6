"""Which session an exchange belongs to.

The chat API names no session. A client may name one in a header; where it does not, the next request of a session
repeats what was said, so its messages begin with an earlier request and that request's answer.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness_adapters.exchange import Exchange
from harness_adapters.fields import mapping, text
from harness_adapters.history import keys_of
from harness_adapters.ids import stable_id
from harness_adapters.jsontext import value_in
from harness_adapters.messages import calls_of, canonical, messages_of, refused_of
from harness_adapters.trace import Message

_VENDOR_HEADER = re.compile(r"x-(?!litellm-|parent-)[a-z0-9-]+-session-id")
_CODEX_HEADERS = ("session-id", "session_id", "thread-id", "conversation_id")
_USER_ID_SESSION = re.compile(r"_session_([0-9A-Za-z-]{8,})$")


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
    return text(mapping(value_in(user_id)).get("session_id")) or None


def route_key(tenant: str, request: Mapping[str, Any], *, session: str | None = None, user: str | None = None) -> str:
    """Return the key that keeps a session's records in order: the named session, else how the conversation opens."""
    if session:
        return stable_id("route", tenant, "session", session)
    opening = [next((canonical(m) for m in messages_of(request) if m.get("role") in r), "") for r in _OPENERS]
    return stable_id("route", tenant, user or "", *opening, "" if any(opening) else request.get("prompt"))


_OPENERS = (("system", "developer"), ("user",))


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


def assign(exchange: Exchange, lookup: SessionLookup) -> Assignment:
    """Say which session an exchange belongs to.

    A session only grows: a request joins the one whose latest request it begins with, or that has made it before. One
    that goes on from an earlier point (an edited message, a second regenerated answer, the other of two people who
    opened alike and were answered alike) opens a session of its own under the same root. So does, in a session the
    client names, whatever repeats nothing of it: titles, summaries, sub-agents, a compacted history.

    Anybody may open alike, so an opening request joins no other, unless the client names its session.
    """
    messages, chain, answered = keys_of(exchange)
    name = exchange.session and stable_id("named", exchange.tenant, exchange.session)
    scope = stable_id("scope", name, _kind(exchange.request)) if name else "open"
    opening = 0 if name else next((i for i, m in enumerate(messages) if m.get("role") == "assistant"), len(messages))
    # Of each point of the history: it stood in a request, a request went on behind it, it was the model's answer.
    stood, went_on, said = ([stable_id(what, scope, key) for key in chain] for what in ("stood", "on", "said"))
    tried = _refusals(scope, chain, messages)
    known = lookup.sessions_of([*stood[opening:], *went_on, *said, *tried.values(), *([name] if name else [])])
    at = next((i for i in reversed(range(opening, len(chain))) if stood[i] in known), None)
    if at is None:
        said = [tried[i] if tried.get(i) in known else key for i, key in enumerate(said)]
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
    if refused := refused_of(exchange.response):
        claims += _refusals(scope, [*chain, ""], [*messages, refused]).values()
    parent = before or main
    return Assignment(
        session_id=session,
        root=(lookup.root_of(parent) or parent) if parent else session,
        keys=tuple([*claims, name] if name and main is None else claims),
    )


def _refusals(scope: str, chain: Sequence[str], messages: Sequence[Message]) -> dict[int, str]:
    """Return, by its index, a key for each message of calls, by which a client's copy of one that the server refused is
    known: it has the same names and arguments, though another id and other white space."""
    keys: dict[int, str] = {}
    for index, message in enumerate(messages):
        if index and message.get("role") == "assistant" and (calls := calls_of(message)):
            said = json.dumps([[c.name, _read(c.arguments)] for c in calls], sort_keys=True)
            keys[index] = stable_id("refused", scope, chain[index - 1], said)
    return keys


def _read(arguments: str) -> object:
    found = value_in(arguments)
    return arguments if found is None else found


def _kind(request: Mapping[str, Any]) -> str:
    system = [canonical(m) for m in messages_of(request)[:1] if m.get("role") in ("system", "developer")]
    tools = request.get("tools")
    return json.dumps([system, sorted(map(_tool_name, tools)) if isinstance(tools, list) else []])


def _tool_name(tool: object) -> str:
    if not isinstance(tool, Mapping):
        return ""
    function = tool.get("function")
    return str((function if isinstance(function, Mapping) else tool).get("name"))
