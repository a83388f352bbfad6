"""The store's tables, alike in SQLite and PostgreSQL: a noun's body as JSON text, and beside it what is searched by."""

import sqlite3
import time
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    event,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, Connection, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from harness_adapters.errors import ConfigError
from harness_adapters.trace import Trace, trace_json

metadata = MetaData()


def _position() -> Column[Any]:
    """The order of first insertion, which lists go by. SQLite numbers rows only in a column of type INTEGER."""
    return Column("position", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


def _id() -> Column[Any]:
    return Column("id", Text, nullable=False, unique=True)


def _body() -> Column[Any]:
    return Column("body", Text, nullable=False)


sessions = Table(
    "sessions",
    metadata,
    _position(),
    _id(),
    Column("root", Text, nullable=False),
    Column("user", Text),
    Column("tenant", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("read_revision", Integer, nullable=False),
)
_dirty = text("revision > read_revision")
Index("sessions_dirty", sessions.c.position, sqlite_where=_dirty, postgresql_where=_dirty)

session_keys = Table(
    "session_keys",
    metadata,
    Column("key", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False, index=True),
)

exchanges = Table(
    "exchanges",
    metadata,
    _position(),
    _id(),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False, index=True),
    Column("response_id", Text, index=True),
    Column("status", Text, nullable=False, index=True),
    Column("sequence", BigInteger, nullable=False),
    _body(),
)

feedback = Table(
    "feedback", metadata, _position(), _id(), Column("response_id", Text, nullable=False, index=True), _body()
)

traces = Table(
    "traces",
    metadata,
    _position(),
    _id(),
    Column("harness", Text),
    Column("tenant", Text),
    Column("turns", Integer),
    Column("complete", Boolean),
    _body(),
)
"""What lists tell stands in columns: a body may be long."""

signals = Table(
    "signals",
    metadata,
    _position(),
    _id(),
    Column("trace_id", Text, nullable=False, index=True),
    Column("state", Text, nullable=False, index=True),
    Column("reason", Text, nullable=False),
    _body(),
)

judgements = Table(
    "judgements",
    metadata,
    _position(),
    Column("id", Text, ForeignKey("signals.id"), nullable=False, unique=True),
    _body(),
)

hints = Table(
    "hints",
    metadata,
    _position(),
    _id(),
    Column("trace_id", Text, nullable=False, index=True),
    Column("state", Text, nullable=False, index=True),
    _body(),
)

rounds = Table(
    "rounds",
    metadata,
    _position(),
    _id(),
    Column("state", Text, nullable=False),
    Column("parent", Text),
    Column("directory", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    _body(),
)

samples = Table(
    "samples",
    metadata,
    Column("round_id", Text, ForeignKey("rounds.id"), nullable=False),
    Column("id", Text, nullable=False),
    Column("hint_id", Text, index=True),
    _body(),
    PrimaryKeyConstraint("round_id", "id"),
)

verdicts = Table(
    "verdicts",
    metadata,
    _position(),
    Column("checkpoint_id", Text, nullable=False, unique=True),
    Column("round_id", Text, ForeignKey("rounds.id"), nullable=False),
    Column("version", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    _body(),
)

adapters = Table(
    "adapters",
    metadata,
    _position(),
    Column("version", Text, nullable=False, unique=True),
    Column("number", Integer, nullable=False),
    Column("checkpoint_id", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("round_id", Text),
    Column("state", Text, nullable=False),
    Column("created_at", Float, nullable=False),
)

aliases = Table(
    "aliases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("current", Text),
    Column("previous", Text),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    _position(),
    _id(),
    Column("place", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
)


def prepare(connection: Connection) -> None:
    """Create what tables there are not yet, and give stored traces the columns that an older version did not have."""
    metadata.create_all(connection)
    known = {column["name"] for column in inspect(connection).get_columns(traces.name)}
    missing = [column for column in traces.columns if column.name not in known]
    for column in missing:
        kind = column.type.compile(connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {traces.name} ADD COLUMN {column.name} {kind}")
    if missing:
        for (name,) in connection.execute(select(traces.c.id)).all():
            body = connection.execute(select(traces.c.body).where(traces.c.id == name)).scalar_one()
            facts = trace_facts(trace_json.validate_json(body))
            connection.execute(update(traces).where(traces.c.id == name).values(facts))


def trace_facts(trace: Trace) -> dict[str, Any]:
    """Return a trace's columns beside its id and body."""
    return {
        "harness": trace.harness,
        "tenant": trace.tenant,
        "turns": len(trace.turns),
        "complete": trace.complete,
    }


READ_ONLY = "secondnature_read_only"
"""Execution option of connections that only read."""


def open_engine(url: str, *, busy_timeout_s: float) -> Engine:
    """Return an engine for a SQLite or PostgreSQL URL. Raises ConfigError for any other, and without the driver."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(f"the store's URL cannot be read ({error}); give sqlite:///FILE or postgresql://…") from None
    kind = parsed.get_backend_name() if parsed.drivername != "postgres" else "postgresql"
    if kind == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return _sqlite(parsed, busy_timeout_s)
    if kind == "postgresql":
        timeouts = f"-c lock_timeout={int(busy_timeout_s * 1000)}"
        try:
            return create_engine(
                parsed.set(drivername="postgresql+psycopg"),
                pool_pre_ping=True,
                pool_timeout=busy_timeout_s,
                connect_args={"connect_timeout": max(int(busy_timeout_s), 2), "options": timeouts},
            )
        except ImportError as error:
            raise ConfigError(
                f"the driver of the PostgreSQL store cannot be imported ({error}); install secondnature[postgres]"
            ) from error
    raise ConfigError(f"the store cannot be kept in {parsed.drivername!r}; give sqlite:///FILE or postgresql://…")


def _patiently(connection: Any, statement: str, timeout_s: float) -> None:
    """Execute a statement for which SQLite itself does not wait: the change of a new file's journal mode."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _sqlite(url: URL, busy_timeout_s: float) -> Engine:
    engine = create_engine(url, connect_args={"timeout": busy_timeout_s}, pool_timeout=busy_timeout_s)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        # The driver must not begin transactions by itself: they begin below, the writing ones with their lock.
        connection.isolation_level = None
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            _patiently(connection, f"PRAGMA {pragma}", busy_timeout_s)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        # A reader that turns writer halfway is refused at once, whatever its time-out, so writers say so at the start.
        reads = connection.get_execution_options().get(READ_ONLY)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine
