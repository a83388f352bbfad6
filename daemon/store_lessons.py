"""The store's middle: traces, the signals found in them, and the hints written for those."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from pydantic import TypeAdapter
from sqlalchemy import select, update

from daemon import tables
from daemon.store_base import StoreBase, body_of, decoded, must_be_one_of
from harness_adapters.errors import StoreError
from harness_adapters.trace import Trace, trace_json
from hinting.hint import Hint, HintState, merged
from hinting.judge import Decided, Judged, blamed
from hinting.signal import Signal

SignalState = Literal["new", "hinted", "set_aside"]
SIGNAL_STATES: tuple[SignalState, ...] = get_args(SignalState)
GONE = "the session was recorded anew, and does not show it any more"

signal_json: TypeAdapter[Signal] = TypeAdapter(Signal)
judged_json: TypeAdapter[Judged] = TypeAdapter(Judged)
hint_json: TypeAdapter[Hint] = TypeAdapter(Hint)


@dataclass(frozen=True, slots=True)
class TraceRow:
    """What lists tell of a trace. `turns` is how many there are."""

    id: str
    harness: str
    tenant: str
    turns: int
    complete: bool


@dataclass(frozen=True, slots=True)
class SignalRow:
    """A signal, what became of it, and why; and what a judge said of it, if one was asked."""

    signal: Signal
    state: str
    reason: str
    judged: Judged | None = None


class LessonStore(StoreBase):
    """Traces, signals and hints."""

    def put_trace(self, trace: Trace) -> None:
        """Store a trace, or replace it by its longer self."""
        with self._writing() as connection:
            row = {"id": trace.id, **tables.trace_facts(trace), "body": body_of(trace)}
            self._put(connection, tables.traces, row)

    def trace(self, trace_id: str) -> Trace | None:
        """Return a trace by id."""
        return self._one(tables.traces, trace_json, tables.traces.c.id == trace_id)

    def traces(self, limit: int, after: str | None = None) -> list[Trace]:
        """Return traces, those that began last first; `after` is the id of the last one of the page before."""
        c = tables.traces.c
        before = select(c.position).where(c.id == after).scalar_subquery()
        return self._newest(tables.traces, trace_json, limit, None if after is None else c.position < before)

    def trace_rows(self, limit: int, after: str | None = None) -> list[TraceRow]:
        """Return the same page of traces without their turns, none of which is read."""
        c = tables.traces.c
        before = select(c.position).where(c.id == after).scalar_subquery()
        statement = select(c.id, c.harness, c.tenant, c.turns, c.complete).order_by(c.position.desc()).limit(limit)
        with self._reading() as connection:
            rows = connection.execute(statement if after is None else statement.where(c.position < before)).all()
        return [TraceRow(*row) for row in rows]

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
        c, votes = tables.signals.c, tables.judgements.c
        both = tables.signals.outerjoin(tables.judgements)
        statement = select(c.body, c.state, c.reason, votes.body).select_from(both)
        statement = statement.order_by(c.position.desc()).limit(limit)
        with self._reading() as connection:
            rows = connection.execute(statement if state is None else statement.where(c.state == state)).all()
        return [
            SignalRow(decoded(signal_json, body), is_now, reason, judged and decoded(judged_json, judged))
            for body, is_now, reason, judged in rows
        ]

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

    def retire(self, trace_id: str, found: Sequence[str]) -> int:
        """Set aside the signals of a trace that are not among those found in it now; return how many.

        Hints that stand on such signals alone are rejected: their turn may be another now.
        """
        signals, hints = tables.signals.c, tables.hints.c
        with self._writing() as connection:
            open_ones = select(signals.id).where(signals.trace_id == trace_id, signals.state != "set_aside")
            gone = set(connection.execute(open_ones).scalars()) - set(found)
            for signal_id in gone:
                statement = update(tables.signals).where(signals.id == signal_id)
                connection.execute(statement.values(state="set_aside", reason=GONE))
            written = select(hints.body).where(hints.trace_id == trace_id)
            for body in connection.execute(written).scalars().all() if gone else ():
                hint = decoded(hint_json, body)
                if set(hint.signal_ids).isdisjoint(found):
                    hint = replace(hint, state=HintState.REJECTED, reason=GONE)
                    row = {"id": hint.id, "trace_id": trace_id, "state": hint.state.value, "body": body_of(hint)}
                    self._put(connection, tables.hints, row)
        return len(gone)

    def put_judged(self, judged: Judged) -> None:
        """Store what a judge said of a known signal, and the signal as it is judged."""
        signal = judged.signal
        with self._writing() as connection:
            self._put(connection, tables.judgements, {"id": signal.id, "body": body_of(judged)})
            statement = update(tables.signals).where(tables.signals.c.id == signal.id)
            connection.execute(statement.values(body=body_of(signal)))

    def judged(self, signal_id: str) -> Judged | None:
        """Return what a judge said of a signal, if one was asked."""
        return self._one(tables.judgements, judged_json, tables.judgements.c.id == signal_id)

    def as_judged(self, signals: Sequence[Signal]) -> list[Signal]:
        """Return signals that may have been found before, with the fault and the confidence that a judge gave them."""
        c = tables.judgements.c
        with self._reading() as connection:
            bodies = connection.execute(select(c.body).where(c.id.in_([s.id for s in signals]))).scalars().all()
        judged = (decoded(judged_json, body) for body in bodies)
        told = {each.signal.id: each.signal for each in judged if each.decided is not Decided.OPEN}
        return [
            replace(s, fault=blamed(s, told[s.id].fault), confidence=told[s.id].confidence) if s.id in told else s
            for s in signals
        ]

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
