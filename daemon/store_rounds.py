"""The store's outgoing side: rounds and their samples, verdicts, adapters, and the alias that says what serves."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from daemon import tables
from daemon.store_base import StoreBase, body_of, decoded, must_be_one_of
from harness_adapters.errors import AliasMovedError, StoreError
from learner.config import SampleSpec

ROUND_STATES = ("running", "published", "finding", "failed", "promoted", "held", "rejected")
UNNAMED_STATES = ("candidate", "refused", "retired")
"""States of a version that the alias does not name: it may come to serve, an engine refused it, or it is over.

What the alias names is `serving` or `previous`; only a flip gives and takes these two.
"""

spec_json: TypeAdapter[SampleSpec] = TypeAdapter(SampleSpec)
body_json: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round. `parent` is the version that served when it started; None is the base."""

    id: str
    state: str
    parent: str | None
    directory: str
    created_at: float
    """Unix time in seconds."""
    body: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What the gate said of a checkpoint, which was measured as `version`. The latest word counts."""

    checkpoint_id: str
    round_id: str
    version: str
    decision: str
    created_at: float
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdapterRow:
    """One version of the adapter, `NAME@vN`: a published checkpoint."""

    version: str
    number: int
    checkpoint_id: str
    path: str
    round_id: str | None
    state: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Alias:
    """What a public model name stands for. `current` None is the base model; `generation` counts flips."""

    name: str
    generation: int
    current: str | None
    previous: str | None


class RoundStore(StoreBase):
    """Rounds, samples, verdicts, adapters and aliases."""

    def round(self, round_id: str) -> RoundRow | None:
        """Return a round by id."""
        return next(iter(self._rounds(round_id)), None)

    def rounds(self) -> list[RoundRow]:
        """Return all rounds, oldest first."""
        return self._rounds(None)

    def _rounds(self, round_id: str | None) -> list[RoundRow]:
        c = tables.rounds.c
        statement = select(c.id, c.state, c.parent, c.directory, c.created_at, c.body).order_by(c.position)
        with self._reading() as connection:
            rows = connection.execute(statement if round_id is None else statement.where(c.id == round_id)).all()
        return [RoundRow(r.id, r.state, r.parent, r.directory, r.created_at, decoded(body_json, r.body)) for r in rows]

    def set_round_state(self, round_id: str, state: str, body_update: Mapping[str, Any] | None = None) -> None:
        """Move a round on and add members to its body. Raises StoreError when there is no such round or state."""
        must_be_one_of("round", state, ROUND_STATES)
        c = tables.rounds.c
        with self._writing() as connection:
            # The lock keeps another's update from being written over; SQLite's writers hold theirs already.
            body = connection.execute(select(c.body).where(c.id == round_id).with_for_update()).scalar()
            if body is None:
                raise StoreError(f"there is no round {round_id}; its state was not set to {state}")
            merged = {**json.loads(body), **(body_update or {})}
            connection.execute(update(tables.rounds).where(c.id == round_id).values(state=state, body=body_of(merged)))

    def open_round(self, row: RoundRow, specs: Sequence[SampleSpec]) -> None:
        """Store a round with what it learns from in one transaction, so that none of its hints is taken twice."""
        with self._writing() as connection:
            self._put(connection, tables.rounds, {**asdict(row), "body": body_of(row.body)})
            for spec in specs:
                sample = {"round_id": row.id, "id": spec.id, "hint_id": spec.hint_id, "body": spec.model_dump_json()}
                self._put(connection, tables.samples, sample, by=("round_id", "id"))

    def samples(self, round_id: str) -> list[SampleSpec]:
        """Return what a round learnt from, by id."""
        c = tables.samples.c
        statement = select(c.body).where(c.round_id == round_id).order_by(c.id)
        with self._reading() as connection:
            return [decoded(spec_json, body) for body in connection.execute(statement).scalars()]

    def used_hints(self, round_ids: Collection[str]) -> set[str]:
        """Return the hints in samples of these rounds."""
        c = tables.samples.c
        statement = select(c.hint_id).where(c.hint_id.is_not(None), c.round_id.in_(round_ids)).distinct()
        with self._reading() as connection:
            return set(connection.execute(statement).scalars())

    def put_verdict(
        self, checkpoint_id: str, round_id: str, version: str, decision: str, body: Mapping[str, Any]
    ) -> None:
        """Store the gate's word on a checkpoint, or replace it."""
        row = {
            "checkpoint_id": checkpoint_id,
            "round_id": round_id,
            "version": version,
            "decision": decision,
            "created_at": time.time(),
            "body": body_of(body),
        }
        with self._writing() as connection:
            self._put(connection, tables.verdicts, row, by=("checkpoint_id",))

    def verdicts(self) -> list[VerdictRow]:
        """Return all verdicts, oldest first."""
        c = tables.verdicts.c
        columns = (c.checkpoint_id, c.round_id, c.version, c.decision, c.created_at, c.body)
        with self._reading() as connection:
            rows = connection.execute(select(*columns).order_by(c.position)).all()
        return [VerdictRow(*row[:-1], decoded(body_json, row.body)) for row in rows]

    def put_adapter(self, row: AdapterRow) -> None:
        """Store a new version, or replace one the alias never named. Raises StoreError when it has another state."""
        must_be_one_of("version without an alias", row.state, UNNAMED_STATES)
        with self._writing() as connection:
            self._put(connection, tables.adapters, asdict(row), by=("version",))

    def set_adapter_state(self, version: str, state: str) -> None:
        """Set the state of a version; one that the alias names keeps its own. Raises StoreError for any other state."""
        must_be_one_of("version without an alias", state, UNNAMED_STATES)
        c = tables.adapters.c
        here = (c.version == version) & c.state.in_(UNNAMED_STATES)
        with self._writing() as connection:
            connection.execute(update(tables.adapters).where(here).values(state=state))

    def adapters(self) -> list[AdapterRow]:
        """Return all versions by number."""
        c = tables.adapters.c
        columns = (c.version, c.number, c.checkpoint_id, c.path, c.round_id, c.state, c.created_at)
        with self._reading() as connection:
            rows = connection.execute(select(*columns).order_by(c.number, c.position)).all()
        return [AdapterRow(*row) for row in rows]

    def alias(self, name: str) -> Alias:
        """Return what a public name stands for; one that was never flipped stands for the base, at generation 0."""
        with self._reading() as connection:
            return _alias(connection, name)

    def flip(self, name: str, to: str | None, expected_generation: int) -> Alias:
        """Let a public name stand for version `to`, if it is still at `expected_generation`.

        The states of the versions concerned change in the same transaction. Raises AliasMovedError when the alias is
        at another generation; nothing was changed then.
        """
        c = tables.aliases.c
        with self._writing() as connection:
            before = _alias(connection, name)
            flipped = Alias(name, expected_generation + 1, to, before.current)
            if expected_generation == 0:
                done = self._add(connection, tables.aliases, asdict(flipped))
            else:
                here = (c.name == name) & (c.generation == expected_generation)
                done = connection.execute(update(tables.aliases).where(here).values(**asdict(flipped))).rowcount == 1
            if not done:
                raise moved(_alias(connection, name), expected_generation)
            # In this order: what was previous may serve now.
            for version, state in (
                (before.previous, "retired"),
                (flipped.previous, "previous"),
                (flipped.current, "serving"),
            ):
                this = tables.adapters.c.version == version
                connection.execute(update(tables.adapters).where(this).values(state=state))
        return flipped


def moved(now: Alias, expected_generation: int) -> AliasMovedError:
    """Return the error for an alias that is not where one looked last."""
    return AliasMovedError(
        f"{now.name} is at generation {now.generation}, not {expected_generation}: it was flipped to"
        f" {now.current or 'the base model'} meanwhile and stays so; look again, and repeat if still wanted"
    )


def _alias(connection: Connection, name: str) -> Alias:
    c = tables.aliases.c
    row = connection.execute(select(c.generation, c.current, c.previous).where(c.name == name)).one_or_none()
    return Alias(name, *row) if row else Alias(name, 0, None, None)
