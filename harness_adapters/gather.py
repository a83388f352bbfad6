"""Gather: records put together by group, on disk, so that memory does not grow with how many there are."""

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

_CACHE_KIB = 16 << 10


class Gather:
    """Records in groups, in a temporary file that is gone once this is closed. A record of the same key is kept once.

    Used as a context manager, by one thread. Every method raises OSError where the disk does not take what is gathered.
    """

    def __enter__(self) -> "Gather":
        self._folder = tempfile.TemporaryDirectory(prefix="secondnature-")
        try:
            self._db = sqlite3.connect(Path(self._folder.name) / "gather.db", isolation_level=None)
            self._db.executescript(f"""
            PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE_KIB};
            PRAGMA locking_mode = EXCLUSIVE;
            CREATE TABLE groups (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE records (id INTEGER PRIMARY KEY, of INTEGER, key TEXT, body BLOB, UNIQUE (of, key));
            CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
            BEGIN;
            """)
        except sqlite3.Error as error:
            self._folder.cleanup()
            raise _not_kept(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._folder.cleanup()

    def put(self, group: str, key: str, body: bytes) -> bool:
        """Add a record to a group; False where the group has one of this key already."""
        self._run("INSERT OR IGNORE INTO groups (name) VALUES (?)", group)
        insert = "INSERT OR IGNORE INTO records (of, key, body) SELECT id, ?, ? FROM groups WHERE name = ? RETURNING id"
        return bool(self._run(insert, key, body, group))

    def groups(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the groups in the order in which they began, each with its records in the order they came."""
        last = 0
        while found := self._run("SELECT id, name FROM groups WHERE id > ? ORDER BY id LIMIT 1", last):
            ((last, name),) = found
            yield name, self.of(name)

    def of(self, group: str) -> list[bytes]:
        """Return the records of a group in the order they came; none where there is no such group."""
        select = "SELECT body FROM records WHERE of = (SELECT id FROM groups WHERE name = ?) ORDER BY id"
        return [body for (body,) in self._run(select, group)]

    def note(self, key: str, value: str) -> None:
        """Keep a value under a key; the latest stays."""
        self._run("INSERT OR REPLACE INTO notes VALUES (?, ?)", key, value)

    def noted(self, key: str) -> str | None:
        """Return the value kept under a key."""
        found = self._run("SELECT value FROM notes WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def _run(self, statement: str, *values: object) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _not_kept(error) from error


def _not_kept(error: sqlite3.Error) -> OSError:
    where = tempfile.gettempdir()
    return OSError(f"what is read cannot be kept in {where}: {error}; make room there, or set TMPDIR")
