"""Sessions found among exchanges that are at hand, without a store."""

from collections.abc import Iterable, Mapping, Sequence

from harness_adapters.exchange import Exchange
from harness_adapters.sessions import Assignment
from harness_adapters.stitch import Grouping
from harness_adapters.trace import Trace


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


def traces_of(exchanges: Iterable[Exchange]) -> list[Trace]:
    """Group exchanges, in the order given, into sessions, and make each session's trace."""
    with Grouping() as grouping:
        for exchange in exchanges:
            grouping.add(exchange)
        return list(grouping.traces())
