"""What every part of the store stands on: transactions, and a row put, read and listed alike for all nouns."""

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, Table, literal_column, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from daemon.encoding import encode
from daemon.tables import READ_ONLY, open_engine, prepare
from harness_adapters.errors import StoreError, StoreUnavailableError

T = TypeVar("T")


class StoreBase:
    """Opens the database on first use, so that a service starts while it is away. Safe from several threads."""

    def __init__(self, url: str, *, busy_timeout_s: float = 10.0) -> None:
        self._engine = open_engine(url, busy_timeout_s=busy_timeout_s)
        self._sqlite = self._engine.dialect.name == "sqlite"
        self._shown_url = self._engine.url.render_as_string(hide_password=True)
        self._ready = False
        self._opening = threading.Lock()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _writing(self) -> Generator[Connection]:
        with self._reached():
            self._ensure_tables()
            with self._engine.begin() as connection:
                yield connection

    @contextmanager
    def _reading(self) -> Generator[Connection]:
        with self._reached():
            self._ensure_tables()
            with self._engine.connect().execution_options(**{READ_ONLY: True}) as connection:
                yield connection

    def _ensure_tables(self) -> None:
        with self._opening:
            if self._ready:
                return
            if self._sqlite and self._engine.url.database:
                Path(self._engine.url.database).parent.mkdir(parents=True, exist_ok=True)
            with self._engine.begin() as connection:
                if not self._sqlite:
                    # Two processes that start together would both create: the second waits here.
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7300417)")
                prepare(connection)
            self._ready = True

    @contextmanager
    def _reached(self) -> Generator[None]:
        try:
            yield
        except (OperationalError, InterfaceError, PoolTimeoutError, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise StoreUnavailableError(
                f"the store {self._shown_url} cannot be used now: {cause}; check that the database runs, has room and"
                " is not locked by another program, nothing was written"
            ) from error
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise StoreError(
                f"the store {self._shown_url} refused a statement: {cause}; nothing was written"
            ) from error

    def _insert(self, table: Table) -> sqlite.Insert:
        # Both dialects spell ON CONFLICT alike.
        return sqlite.insert(table) if self._sqlite else cast(sqlite.Insert, postgresql.insert(table))

    def _add(self, connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
        """Insert a row unless its id is known. Returns whether it is new."""
        statement = self._insert(table).values(**row).on_conflict_do_nothing().returning(literal_column("1"))
        return connection.execute(statement).first() is not None

    def _put(
        self, connection: Connection, table: Table, row: Mapping[str, Any], *, by: Sequence[str] = ("id",)
    ) -> None:
        """Insert a row, or replace the one of the same name."""
        changed = {name: value for name, value in row.items() if name not in by}
        statement = self._insert(table).values(**row)
        connection.execute(statement.on_conflict_do_update(index_elements=list(by), set_=changed))

    def _one(self, table: Table, adapter: TypeAdapter[T], where: ColumnElement[bool]) -> T | None:
        with self._reading() as connection:
            body = connection.execute(select(table.c.body).where(where).limit(1)).scalar()
        return None if body is None else decoded(adapter, body)

    def _newest(
        self, table: Table, adapter: TypeAdapter[T], limit: int, where: ColumnElement[bool] | None = None
    ) -> list[T]:
        statement = select(table.c.body).order_by(table.c.position.desc()).limit(limit)
        with self._reading() as connection:
            bodies = connection.execute(statement if where is None else statement.where(where)).scalars().all()
        return [decoded(adapter, body) for body in bodies]


def must_be_one_of(noun: str, state: str, states: Sequence[str]) -> None:
    """Raise StoreError for a state that no reader would know."""
    if state not in states:
        raise StoreError(f"a {noun} cannot be {state!r}; it is one of {', '.join(states)}")


def body_of(noun: object) -> str:
    """Return a noun as JSON text."""
    return encode(noun).decode()


def decoded(adapter: TypeAdapter[T], body: str) -> T:
    """Read a noun back. Raises StoreError when a row was written by an incompatible version."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise StoreError(
            f"a row of the store cannot be read by this version: {error}; upgrade or restore it"
        ) from error
