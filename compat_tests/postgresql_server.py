"""A PostgreSQL server of the machine (Debian's ``postgresql``), started by tests, on a port and directory of its own.

PostgreSQL refuses to run as root: then it runs as ``postgres``, or else ``nobody``.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from gateway.client.testing.server import free_port

START_TIMEOUT_S = 30.0
_FAST = "-c", "shared_buffers=16MB", "-c", "max_connections=40", "-c", "max_wal_size=64MB"


def program(name: str) -> str:
    """Return the path of a program of PostgreSQL; Debian keeps the server's programs outside the PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))
    assert found is not None, f"{name} is missing: .ci/install-postgresql brings it"
    return found


class PostgresServer:
    """One server; ``stop`` removes its directory. As a context manager it is started, and stopped in any case."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="gateway-postgresql-"))
        self._user = _unprivileged()
        if self._user is not None:
            shutil.chown(self.directory, self._user)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self.directory / "log"
        self._run("initdb", "-D", str(self._data), "-U", "gateway", "--auth=trust", "--no-sync", "-E", "UTF8")

    def __enter__(self) -> PostgresServer:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def dsn(self, schema: str = "public") -> str:
        """Return the address in the form of ``gateway.transactionDatabase``."""
        return f"postgresql://gateway@127.0.0.1:{self.port}/postgres?options=-csearch_path%3D{schema}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program("postgres"), "-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1", "-k", "", *_FAST],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd="/",
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self._log.read_text()  # noqa: PT018
            time.sleep(0.05)  # noqa: TID251 - another process

    def kill(self) -> None:
        """End all processes of the server at once, as a power failure of its machine would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # "immediate": no checkpoint, recovery at the next start
        self._process.wait()

    def stop(self) -> None:
        """End it and remove its directory."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement; its rows, if it has some."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run([program(name), *arguments], capture_output=True, user=self._user, cwd="/", check=False)
        assert done.returncode == 0, done.stderr.decode()


def _unprivileged() -> str | None:
    if os.geteuid() != 0:
        return None
    users = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in users else "nobody"
