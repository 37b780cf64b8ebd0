"""What the blocking consumers have in common: a private loop thread, start, close, and the checks around a call."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from gateway.client.errors import ClientClosed, UsedAfterFork
from gateway.client.loop_thread import LoopThread

T = TypeVar("T")

_GRACE: Final = 5.0
"""Seconds beyond its own timeout after which a call gives up on the loop's thread."""


class Core(Protocol):
    """An asyncio consumer."""

    @property
    def group(self) -> str:
        """The group's name with its namespace."""

    @property
    def client_id(self) -> str:
        """``ip@instance``."""

    async def start(self) -> None:
        """Begin."""

    async def close(self, timeout: float) -> None:
        """End."""


class ConsumerFace:
    """Runs an asyncio consumer on a thread of its own; usable from many threads, not in forked children."""

    _CLOSE_TIMEOUT: float = 10.0

    def __init__(self, core: Core, kind: str) -> None:
        self._face_of = core
        self._name = f"{kind} {core.group}"
        self._thread = LoopThread(self._name)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._is_closed = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.is_running and self._pid == os.getpid():
            _warn(f"{self._name} was not closed", ResourceWarning, source=self, stacklevel=1)
            thread.stop()

    @property
    def group(self) -> str:
        """The group's name with its namespace."""
        return self._face_of.group

    @property
    def client_id(self) -> str:
        """``ip@instance``, as brokers and tools list this client."""
        return self._face_of.client_id

    def start(self) -> None:
        """Begin; idempotent. What it raises is said at the asyncio class's ``start``."""
        self._check_process()
        with self._lock:
            if self._thread.is_running:
                return
            if self._is_closed:
                raise ClientClosed(self._name, "was closed")
            self._thread.start()
            try:
                self._thread.run(self._face_of.start())
            except BaseException:
                self._is_closed = True
                self._thread.stop()
                raise

    def close(self, timeout: float | None = None) -> None:
        """End; idempotent. ``timeout`` in seconds is that of the asyncio class's ``close``."""
        wait = self._CLOSE_TIMEOUT if timeout is None else timeout
        self._end(self._face_of.close(wait), wait)

    def _end(self, closing: Coroutine[Any, Any, None], timeout: float) -> None:
        """Run the core's ``close`` and end the thread; once."""
        if self._pid != os.getpid() or not self._thread.is_running:
            closing.close()
        self._check_process()
        with self._lock:
            self._is_closed = True
            if not self._thread.is_running:
                return
            try:
                self._thread.run(closing, timeout + _GRACE)
            finally:
                self._thread.stop()

    def _run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        if self._pid != os.getpid():
            work.close()
        self._check_process()
        return self._thread.run(work, timeout)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise UsedAfterFork(self._name)
