"""The base of the blocking clients: a private loop thread, start, close, and the checks around a call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from gateway.client import process
from gateway.client.connect.lifetime import Lifetime
from gateway.client.connect.settings import ClientSettings

if TYPE_CHECKING:
    from gateway.client.connect.client import Client
    from gateway.client.consume.group_consumer import GroupConsumer
    from gateway.client.send.producer import Producer

T = TypeVar("T")

GRACE: Final = 5.0
"""The seconds beyond its own timeout after which a call no longer waits for the loop's thread."""


class Face(Lifetime):
    """Runs an asyncio client on a thread of its own; usable from many threads, not in forked children."""

    _core: Client

    def __init__(self, core: Client) -> None:
        from gateway.client.blocking.loop_thread import LoopThread  # loads asyncio, which an import does without
        from gateway.client.lock import Lock

        super().__init__(core.name)
        self._core = core
        self._thread = LoopThread(core.name)
        self._lock = Lock()  # reentrant: a signal's handler may close what its thread is starting or closing

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _kind: object, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the client. Idempotent. The errors are those of the asyncio class's ``start``."""
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
        """Close the client. Idempotent. ``timeout``, in seconds, is that of the asyncio class's ``close``."""
        wait = self._core.CLOSE_TIMEOUT if timeout is None else timeout
        self._end(lambda: self._core.close(wait), wait)

    def _started(self) -> None:
        """React to the start of the core, before ``start`` returns."""

    def _end(self, close: Callable[[], Coroutine[Any, Any, None]], timeout: float) -> None:
        """Run the core's ``close`` and end the thread, once."""
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
        """Call a function on the loop's thread; without a running thread call it here."""
        if not self._thread.is_running:
            return act()

        async def on_loop() -> T:
            return act()

        return self._run(on_loop())

    def _let_go(self) -> None:
        self._thread.leave(self._core.drop)


class GroupFace(Face):
    """The ``Face`` of a producer or consumer."""

    _core: Producer | GroupConsumer
    settings: ClientSettings
    """The settings in force."""

    def __init__(self, core: Producer | GroupConsumer) -> None:
        super().__init__(core)
        self.settings = core.settings

    @property
    def group(self) -> str:
        """The name of the group; for a consumer with its namespace."""
        return self._core.group

    @property
    def client_id(self) -> str:
        """The name of this client at brokers and in tools: ``ip@instance``."""
        return self._core.client_id
