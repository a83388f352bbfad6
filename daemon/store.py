"""The store: everything the street has made so far, in SQLite or PostgreSQL by URL. One class, one file per part."""

from sqlalchemy import func, select

from daemon import tables
from daemon.store_lessons import LessonStore, SignalRow
from daemon.store_rounds import AdapterRow, Alias, RoundRow, RoundStore, VerdictRow
from daemon.store_traffic import DeadLetter, Ingested, SessionRow, TrafficStore

__all__ = [
    "AdapterRow",
    "Alias",
    "DeadLetter",
    "Ingested",
    "RoundRow",
    "SessionRow",
    "SignalRow",
    "Store",
    "VerdictRow",
]

_COUNTED = (
    (tables.sessions, None),
    (tables.exchanges, tables.exchanges.c.status),
    (tables.feedback, None),
    (tables.dead_letters, None),
    (tables.traces, None),
    (tables.signals, tables.signals.c.state),
    (tables.hints, tables.hints.c.state),
    (tables.samples, None),
    (tables.rounds, tables.rounds.c.state),
    (tables.verdicts, tables.verdicts.c.decision),
    (tables.adapters, tables.adapters.c.state),
)


class Store(TrafficStore, LessonStore, RoundStore):
    """Opened by URL: `sqlite:///FILE` or `postgresql://USER@HOST/NAME`. Calls block; any thread may make them.

    All raise StoreUnavailableError while the database is away or locked, and StoreError when it refuses a row.
    """

    def counts(self) -> dict[str, int]:
        """Return how many there are of each noun (`hints`), and of each in each state (`hints/passed`)."""
        counts: dict[str, int] = {}
        with self._reading() as connection:
            for table, state in _COUNTED:
                if state is None:
                    counts[table.name] = connection.execute(select(func.count()).select_from(table)).scalar_one()
                    continue
                by_state = connection.execute(select(state, func.count()).group_by(state)).all()
                counts[table.name] = sum(count for _, count in by_state)
                counts.update({f"{table.name}/{name}": count for name, count in by_state})
        return counts
