"""What the blocking clients have in common: a private loop thread, start, close, and the checks around a call."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

from gateway.client import process
from gateway.client.connect.lifetime import Lifetime
from gateway.client.connect.settings import ClientSettings

T = TypeVar("T")

GRACE: Final = 5.0
"""Seconds beyond its own timeout after which a call gives up on the loop's thread."""


class Core(Protocol):
    """An asyncio client."""

    name: str
    CLOSE_TIMEOUT: ClassVar[float]

    async def start(self) -> None:
        """Begin."""

    async def close(self, timeout: float) -> None:
        """End."""

    def abandon(self) -> None:
        """Its loop is gone."""

    def unwatch(self) -> None:
        """Another client warns when it is not closed."""

    async def drop(self) -> None:
        """Close the connections and do nothing else."""


class GroupCore(Core, Protocol):
    """An asyncio client that belongs to a group."""

    @property
    def settings(self) -> ClientSettings:
        """As they are in force."""

    @property
    def group(self) -> str:
        """The group's name."""

    @property
    def client_id(self) -> str:
        """``ip@instance``."""


class Face(Lifetime):
    """Runs an asyncio client on a thread of its own; usable from many threads, not in forked children."""

    _core: Core

    def __init__(self, core: Core) -> None:
        from gateway.client.blocking.loop_thread import (
            LoopThread,  # loads asyncio, which whoever only imports does without
        )

        super().__init__(core.name)
        self._core = core
        self._thread = LoopThread(core.name)
        self._lock = threading.RLock()  # a signal's handler may close what its thread is starting or closing

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin; idempotent. What it raises is said at the asyncio class's ``start``."""
        self._check_process()
        with self._lock:
            if self._thread.is_running:
                return
            self._check_usable()
            try:
                self._thread.start()
                self._thread.run(self._core.start())
                self._started()
                self._core.unwatch()
                self._watch()
            except BaseException:
                self._is_closed = True
                self._core.abandon()
                self._thread.stop()
                raise

    def close(self, timeout: float | None = None) -> None:
        """End; idempotent. ``timeout`` in seconds is that of the asyncio class's ``close``."""
        wait = self._core.CLOSE_TIMEOUT if timeout is None else timeout
        self._end(lambda: self._core.close(wait), wait)

    def _started(self) -> None:
        """The core runs."""

    def _end(self, close: Callable[[], Coroutine[Any, Any, None]], timeout: float) -> None:
        """Run the core's ``close`` and end the thread; once."""
        self._check_process()
        if sys.is_finalizing():  # its thread is frozen or gone, perhaps with the lock
            self._is_closed = True
            return
        with self._lock:
            is_over = self._is_closed or not self._thread.is_running
            self._is_closed = True
            if is_over:
                return
            try:
                self._thread.run(close(), timeout + GRACE)
            finally:
                self._core.abandon()
                self._thread.stop()

    def _run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        if self._pid != process.number:
            work.close()
        self._check_process()
        return self._thread.run(work, timeout)

    def _do(self, act: Callable[[], T]) -> T:
        """Act on the loop's thread when there is one."""
        if not self._thread.is_running:
            return act()

        async def on_loop() -> T:
            return act()

        return self._run(on_loop())

    def _let_go(self) -> None:
        self._thread.leave(self._core.drop)


class GroupFace(Face):
    """A ``Face`` of a producer or consumer."""

    _core: GroupCore
    settings: ClientSettings
    """As they are in force."""

    def __init__(self, core: GroupCore) -> None:
        super().__init__(core)
        self.settings = core.settings

    @property
    def group(self) -> str:
        """The name of the group; a consumer's with its namespace."""
        return self._core.group

    @property
    def client_id(self) -> str:
        """``ip@instance``, as brokers and tools list this client."""
        return self._core.client_id
