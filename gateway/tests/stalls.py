"""The time for which the machine itself made everybody wait, for tests that judge how late something was."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

INTERVAL_S = 0.01


class Stalls:
    """Writes a byte to the disk again and again, in a thread; a context manager.

    A server cannot be quicker than that: who waits for the same disk and the same processors waits as long.

    :param directory: on the disk that is asked.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stalls", daemon=True)
        self.longest_ms = 0
        """Of all writes that ended so far, with the pause before it in which a thread should have slept 10 ms."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        with TemporaryFile(dir=self._directory, buffering=0) as file:
            while not self._ended.is_set():
                began = time.monotonic()
                self._ended.wait(INTERVAL_S)
                file.write(b".")
                os.fsync(file.fileno())
                self.longest_ms = max(self.longest_ms, round((time.monotonic() - began) * 1000))
