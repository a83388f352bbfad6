"""The store's incoming side: exchanges grouped into sessions, sessions recorded elsewhere, feedback, and records that
could not be read."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Update, select, update
from sqlalchemy.engine import Connection

from daemon import tables
from daemon.store_base import StoreBase, body_of, decoded
from harness_adapters.errors import StoreError
from harness_adapters.exchange import Exchange, Feedback, exchange_json, feedback_json
from harness_adapters.ids import stable_id
from harness_adapters.trace import Trace

VALUES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Ingested:
    """An exchange and where it belongs. `keys` name the session for the exchanges that will continue it."""

    exchange: Exchange
    session_id: str
    root: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session. `revision` counts what has come in since it began."""

    id: str
    root: str
    user: str | None
    tenant: str
    revision: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be read: where it stood, why, and its original bytes."""

    id: str
    place: str
    reason: str
    raw: bytes
    created_at: float


class TrafficStore(StoreBase):
    """Exchanges, sessions, feedback and dead letters."""

    def ingest(self, entries: Sequence[Ingested]) -> int:
        """Store exchanges in one transaction and mark their sessions as changed. Returns how many were new.

        An exchange whose id is known changes nothing. A key names the session that claimed it last.
        """
        new = 0
        with self._writing() as connection:
            known = _known(connection, [entry.exchange.id for entry in entries])
            for entry in entries:
                exchange = entry.exchange
                if exchange.id in known:
                    continue
                session = {
                    "id": entry.session_id,
                    "root": entry.root,
                    "user": exchange.user,
                    "tenant": exchange.tenant,
                    "revision": 0,
                    "read_revision": 0,
                }
                self._add(connection, tables.sessions, session)
                response_id = exchange.response.get("id") if exchange.response else None
                row = {
                    "id": exchange.id,
                    "session_id": entry.session_id,
                    "response_id": response_id if isinstance(response_id, str) else None,
                    "status": exchange.status.value,
                    "sequence": exchange.sequence,
                    "body": body_of(exchange),
                }
                if not self._add(connection, tables.exchanges, row):
                    continue
                new += 1
                connection.execute(_bump([entry.session_id]))
                for key in entry.keys:
                    self._put(
                        connection, tables.session_keys, {"key": key, "session_id": entry.session_id}, by=("key",)
                    )
        return new

    def put_recorded(self, trace: Trace) -> bool:
        """Store a session that was recorded elsewhere as a whole, and mark it as changed.

        Returns whether it is new, longer than what was stored of it, or as long and another. A shorter one is an
        earlier state of what is stored, and changes nothing. Raises StoreError for a session of another tenant.
        """
        c = tables.traces.c
        body = body_of(trace)
        stored = select(c.tenant, c.turns, (c.body == body).label("same")).where(c.id == trace.id)
        with self._writing() as connection:
            known = connection.execute(stored.with_for_update()).first()
            if known is not None and known.tenant != trace.tenant:
                raise StoreError(f"session {trace.id} is another tenant's; it was left as it is")
            if known is not None and (known.turns > len(trace.turns) or known.same):
                return False
            session = {
                "id": trace.id,
                "root": trace.root,
                "user": trace.user,
                "tenant": trace.tenant,
                "revision": 0,
                "read_revision": 0,
            }
            self._add(connection, tables.sessions, session)
            self._put(connection, tables.traces, {"id": trace.id, **tables.trace_facts(trace), "body": body})
            connection.execute(_bump([trace.id]))
        return True

    def known_exchanges(self, exchange_ids: Sequence[str]) -> set[str]:
        """Return those of these ids that are stored."""
        with self._reading() as connection:
            return _known(connection, exchange_ids)

    def sessions_of(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the session of each of `keys` that is known."""
        c = tables.session_keys.c
        known: dict[str, str] = {}
        if keys:
            with self._reading() as connection:
                for some in _chunks(keys):
                    rows = connection.execute(select(c.key, c.session_id).where(c.key.in_(some))).all()
                    known.update({row.key: row.session_id for row in rows})
        return known

    def root_of(self, session_id: str) -> str | None:
        """Return the root of a session; None where the session is not known."""
        c = tables.sessions.c
        with self._reading() as connection:
            return connection.execute(select(c.root).where(c.id == session_id)).scalar()

    def user_of(self, session_id: str) -> str | None:
        """Return who opened a session, where the client said so."""
        c = tables.sessions.c
        with self._reading() as connection:
            return connection.execute(select(c.user).where(c.id == session_id)).scalar()

    def exchanges_of(self, session_id: str) -> list[Exchange]:
        """Return a session's exchanges by the proxy's sequence; the trace orders them by history."""
        table = tables.exchanges
        statement = select(table.c.body).where(table.c.session_id == session_id).order_by(table.c.sequence, table.c.id)
        with self._reading() as connection:
            return [decoded(exchange_json, body) for body in connection.execute(statement).scalars()]

    def exchange(self, exchange_id: str) -> Exchange | None:
        """Return an exchange by id."""
        return self._one(tables.exchanges, exchange_json, tables.exchanges.c.id == exchange_id)

    def dirty_sessions(self, limit: int) -> list[SessionRow]:
        """Return sessions that have changed since they were last read, those that began first first."""
        c = tables.sessions.c
        statement = (
            select(c.id, c.root, c.user, c.tenant, c.revision)
            .where(c.revision > c.read_revision)
            .order_by(c.position)
            .limit(limit)
        )
        with self._reading() as connection:
            return [SessionRow(*row) for row in connection.execute(statement)]

    def mark_read(self, session_id: str, revision: int) -> None:
        """Say that a session was read as of `revision`; what came in since keeps it dirty."""
        c = tables.sessions.c
        older = (c.id == session_id) & (c.read_revision < revision)
        with self._writing() as connection:
            connection.execute(update(tables.sessions).where(older).values(read_revision=revision))

    def put_feedback(self, feedback: Feedback) -> bool:
        """Store feedback and mark the session of its tenant that holds its response as changed.

        Returns whether it is new.
        """
        row = {"id": feedback.id, "response_id": feedback.response_id, "body": body_of(feedback)}
        exchanges, sessions = tables.exchanges.c, tables.sessions.c
        holder = (
            select(exchanges.session_id)
            .join(tables.sessions, sessions.id == exchanges.session_id)
            .where(exchanges.response_id == feedback.response_id, sessions.tenant == feedback.tenant)
        )
        with self._writing() as connection:
            if not self._add(connection, tables.feedback, row):
                return False
            if session_ids := connection.execute(holder).scalars().all():
                connection.execute(_bump(session_ids))
        return True

    def feedback_for(self, response_ids: Sequence[str], tenant: str) -> list[Feedback]:
        """Return what this tenant said of these responses, oldest first."""
        if not response_ids:
            return []
        c = tables.feedback.c
        rows: list[tuple[int, str]] = []
        with self._reading() as connection:
            for some in _chunks(response_ids):
                found = connection.execute(select(c.position, c.body).where(c.response_id.in_(some)))
                rows += [(row.position, row.body) for row in found]
        said = [decoded(feedback_json, body) for _, body in sorted(rows)]
        return [feedback for feedback in said if feedback.tenant == tenant]

    def put_dead_letter(self, place: str, reason: str, raw: bytes) -> None:
        """Keep a record that could not be read; the same record of the same place is kept once."""
        row = {
            "id": stable_id("dead", place, raw.hex()),
            "place": place,
            "reason": reason,
            "raw": raw,
            "created_at": time.time(),
        }
        with self._writing() as connection:
            self._add(connection, tables.dead_letters, row)

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        """Return the records that could not be read, newest first."""
        c = tables.dead_letters.c
        statement = select(c.id, c.place, c.reason, c.raw, c.created_at).order_by(c.position.desc()).limit(limit)
        with self._reading() as connection:
            return [DeadLetter(*row) for row in connection.execute(statement)]


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut a list so that each part fits into one statement: databases bound how many parameters they take."""
    return (values[at : at + VALUES_AT_ONCE] for at in range(0, len(values), VALUES_AT_ONCE))


def _known(connection: Connection, exchange_ids: Sequence[str]) -> set[str]:
    table = tables.exchanges
    return set(connection.execute(select(table.c.id).where(table.c.id.in_(exchange_ids))).scalars())


def _bump(session_ids: Sequence[str]) -> Update:
    c = tables.sessions.c
    return update(tables.sessions).where(c.id.in_(session_ids)).values(revision=c.revision + 1)
