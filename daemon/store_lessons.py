"""The store's middle: traces, the signals found in them, and the hints written for those."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter
from sqlalchemy import select, update

from daemon import tables
from daemon.store_base import StoreBase, body_of, decoded, must_be_one_of
from harness_adapters.errors import StoreError
from harness_adapters.trace import Trace
from hinting.hint import Hint, merged
from hinting.signal import Signal

SIGNAL_STATES = ("new", "hinted", "set_aside")

trace_json: TypeAdapter[Trace] = TypeAdapter(Trace)
signal_json: TypeAdapter[Signal] = TypeAdapter(Signal)
hint_json: TypeAdapter[Hint] = TypeAdapter(Hint)


@dataclass(frozen=True, slots=True)
class SignalRow:
    """A signal, what became of it, and why."""

    signal: Signal
    state: str
    reason: str


class LessonStore(StoreBase):
    """Traces, signals and hints."""

    def put_trace(self, trace: Trace) -> None:
        """Store a trace, or replace it by its longer self."""
        with self._writing() as connection:
            self._put(connection, tables.traces, {"id": trace.id, "body": body_of(trace)})

    def trace(self, trace_id: str) -> Trace | None:
        """Return a trace by id."""
        return self._one(tables.traces, trace_json, tables.traces.c.id == trace_id)

    def traces(self, limit: int, after: str | None = None) -> list[Trace]:
        """Return traces, those that began last first; `after` is the id of the last one of the page before."""
        c = tables.traces.c
        before = select(c.position).where(c.id == after).scalar_subquery()
        return self._newest(tables.traces, trace_json, limit, None if after is None else c.position < before)

    def put_signals(self, signals: Sequence[Signal]) -> list[Signal]:
        """Store signals and return those that are new. A known one is updated and keeps its state."""
        new: list[Signal] = []
        with self._writing() as connection:
            for signal in signals:
                body = body_of(signal)
                row = {"id": signal.id, "trace_id": signal.trace_id, "state": "new", "reason": "", "body": body}
                if self._add(connection, tables.signals, row):
                    new.append(signal)
                else:
                    c = tables.signals.c
                    changed = (c.id == signal.id) & (c.body != body)
                    connection.execute(update(tables.signals).where(changed).values(body=body))
        return new

    def signals(self, state: str | None = None, limit: int = 100) -> list[Signal]:
        """Return signals, newest first."""
        return [row.signal for row in self.signal_rows(state, limit)]

    def signal_rows(self, state: str | None = None, limit: int = 100) -> list[SignalRow]:
        """Return signals with what became of them, newest first."""
        c = tables.signals.c
        statement = select(c.body, c.state, c.reason).order_by(c.position.desc()).limit(limit)
        with self._reading() as connection:
            rows = connection.execute(statement if state is None else statement.where(c.state == state)).all()
        return [SignalRow(decoded(signal_json, body), is_now, reason) for body, is_now, reason in rows]

    def oldest_signals(self, state: str, limit: int = 100) -> list[Signal]:
        """Return signals in a state, oldest first."""
        c = tables.signals.c
        statement = select(c.body).where(c.state == state).order_by(c.position).limit(limit)
        with self._reading() as connection:
            return [decoded(signal_json, body) for body in connection.execute(statement).scalars()]

    def signals_by_id(self, ids: Sequence[str]) -> list[Signal]:
        """Return the signals of these ids that are known."""
        found = (self._one(tables.signals, signal_json, tables.signals.c.id == signal_id) for signal_id in ids)
        return [signal for signal in found if signal is not None]

    def set_signal_state(self, signal_id: str, state: str, reason: str = "") -> None:
        """Say what became of a signal. Raises StoreError when there is no such signal or no such state."""
        must_be_one_of("signal", state, SIGNAL_STATES)
        statement = update(tables.signals).where(tables.signals.c.id == signal_id)
        with self._writing() as connection:
            if connection.execute(statement.values(state=state, reason=reason)).rowcount == 0:
                raise StoreError(f"there is no signal {signal_id}; its state was not set")

    def put_hint(self, hint: Hint) -> None:
        """Store a hint with what its trials made of it.

        Two signals on one turn may call for one hint: it then carries both, and once passed it stays passed.
        """
        with self._writing() as connection:
            c = tables.hints.c
            stored = connection.execute(select(c.body).where(c.id == hint.id).with_for_update()).scalar()
            if stored is not None:
                hint = merged(decoded(hint_json, stored), hint)
            row = {"id": hint.id, "trace_id": hint.trace_id, "state": hint.state.value, "body": body_of(hint)}
            self._put(connection, tables.hints, row)

    def hint(self, hint_id: str) -> Hint | None:
        """Return a hint by id."""
        return self._one(tables.hints, hint_json, tables.hints.c.id == hint_id)

    def hints(self, state: str | None = None, limit: int = 100) -> list[Hint]:
        """Return hints, newest first."""
        return self._newest(tables.hints, hint_json, limit, None if state is None else tables.hints.c.state == state)
