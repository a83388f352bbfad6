"""A PostgreSQL server for tests, from Debian's binaries, as an unprivileged user: it refuses to run as root."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from broker import START_S, missing, wait_for_port

from ops.demo.service import free_port


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        missing("no PostgreSQL server: apt-get install postgresql")
    return found[-1].parent if found else Path(str(on_path)).parent


def _user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {user.pw_name for user in pwd.getpwall()}
    found = [name for name in ("postgres", "nobody") if name in known]
    if not found:
        missing("no unprivileged user to run PostgreSQL as")
    return found[0]


class Postgres:
    def __init__(self, binaries: Path, user: str | None) -> None:
        self._binaries = binaries
        self._user = user
        self._port = free_port()
        self._admin_url = f"postgresql://tester@127.0.0.1:{self._port}/postgres"
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-test-"))
        self._process: subprocess.Popen[bytes] | None = None
        if user:
            shutil.chown(self._folder, user)
        self._run(
            "initdb", "--pgdata", str(self._folder / "data"), "--username", "tester", "--auth", "trust", "--no-sync"
        )

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        subprocess.run(command, user=self._user, cwd=self._folder, check=True, capture_output=True)

    def start(self) -> None:
        command = [str(self._binaries / "postgres"), "-D", str(self._folder / "data"), "-p", str(self._port)]
        options = ["-h", "127.0.0.1", "-k", str(self._folder), "-F"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            [*command, *options], user=self._user, cwd=self._folder, stdout=quiet, stderr=quiet
        )
        wait_for_port(self._port, self._process, "PostgreSQL")
        # The port is open before a recovery has ended.
        deadline = time.monotonic() + START_S
        while not self._accepts() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _accepts(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self._admin_url):
            return True
        return False

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._run("pg_ctl", "--pgdata", str(self._folder / "data"), "--mode", "immediate", "--wait", "stop")
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def new_database(self) -> str:
        """Make an empty database; returns its URL."""
        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self._admin_url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://tester@127.0.0.1:{self._port}/{name}"


@contextmanager
def running_postgres() -> Generator[Postgres]:
    server = Postgres(_binaries(), _user())
    try:
        server.start()
        yield server
    finally:
        server.remove()
