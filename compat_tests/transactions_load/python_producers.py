"""Producers that can be killed: each a Python process of its own, all of one producer group."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from compat_tests.environment import REPOSITORY
from compat_tests.transactions_load.producers import Entries, Work
from compat_tests.transactions_load.python_program import ENTRY

_STOP_S = 60.0


class PythonProducer:
    """A producer like ``producers.Producer``, without Java and Docker."""

    def __init__(self, work: Work, numbers: Iterator[int]) -> None:
        self._work = work
        self._numbers = numbers
        self._stack = ExitStack()
        self._directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="python-producer-")))
        self._process: subprocess.Popen[str] | None = None
        self._ledger = self._directory / "ledger"
        self._log = self._directory / "log"
        self._read = 0
        self.kills = 0

    def start(self) -> None:
        work = self._work
        command = [sys.executable, "-m", "compat_tests.transactions_load.python_program"]
        command += ["--namesrv", work.nameserver, "--topic", work.topic, "--run", work.run]
        command += ["--group", f"pg_{work.topic}", "--first", str(next(self._numbers)), "--ledger", str(self._ledger)]
        command += ["--epoch-ms", str(work.epoch_ms), "--threads", str(work.threads)]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, cwd=REPOSITORY
            )

    def look(self) -> Entries:
        """Return the notes since the last look.

        :raises AssertionError: it failed, or was killed by somebody else.
        """
        assert self._process is not None
        assert not self._process.poll(), self._log.read_text()[-4000:]  # it runs, or it was stopped
        return self._entries()

    def kill(self) -> Entries:
        """End the producer as `kill -9` does; return all its notes, because their file is still there."""
        assert self._process is not None
        self._process.kill()
        self._end()
        self.kills += 1
        return self._entries()

    def stop_sending(self) -> None:
        """From now on it only answers checks."""
        self._say("enough")

    def stop(self) -> None:
        """Orderly, when it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._say("end")
            code = self._process.wait(_STOP_S)
            self._end()
            assert code == 0, self._log.read_text()[-4000:]

    def close(self) -> None:
        """End it, and remove its files."""
        if self._process is not None:
            self._process.kill()
            self._end()
        self._stack.close()

    def _say(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _end(self) -> None:
        assert self._process is not None
        self._process.wait(_STOP_S)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _entries(self) -> Entries:
        if not self._ledger.exists():
            return []
        with self._ledger.open("rb") as ledger:
            ledger.seek(self._read)
            data = ledger.read()
        whole = len(data) - len(data) % ENTRY.size
        self._read += whole
        return list(ENTRY.iter_unpack(data[:whole]))
