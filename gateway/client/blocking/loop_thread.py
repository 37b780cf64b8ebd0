"""A private thread with an event loop, for the blocking clients.

The thread is a daemon: a program that forgets to close a client can still end.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Generic, TypeVar

from gateway.client.blocking.waiting import Gate, ThreadFuture, start
from gateway.client.connect.worker_threads import WorkerThreads
from gateway.client.errors import ClientClosed, RequestTimeout
from gateway.client.lock import Lock

T = TypeVar("T")

HELPERS: Final = 4
"""The most threads in which a loop looks up host names and writes files; most of the time no such thread exists."""


class LoopThread:
    """An event loop in a thread, started by ``start`` and ended by ``stop``; usable from any number of threads.

    A signal may interrupt a calling thread at any moment (see ``gateway.client.blocking.waiting``).

    :param name: the name of the thread, for people.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._over = Gate()  # open when the thread ends
        # What was submitted before the loop was told to stop is there when it stops, and is cancelled then. Reentrant,
        # since the garbage collector may call ``leave`` in a thread that submits something.
        self._ending = Lock()

    @property
    def is_running(self) -> bool:
        """True if coroutines can be run."""
        return self._loop is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop.

        :raises ClientClosed: the loop does not run.
        """
        if self._loop is None:
            raise ClientClosed(self._name)
        return self._loop

    @property
    def is_current(self) -> bool:
        """True if the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def refuse_current(self) -> None:
        """Refuse a blocking call that is made in this thread, which would wait for itself.

        :raises ClientClosed: the caller runs in this thread.
        """
        if self.is_current:
            reason = "cannot be used with blocking calls from callbacks that run on its own loop"
            raise ClientClosed(self._name, reason)

    def start(self) -> None:
        """Start the thread. Does nothing if the thread already runs.

        :raises RuntimeError: the system gives no thread.
        """
        if self._loop is not None:
            return
        ready: ThreadFuture[asyncio.AbstractEventLoop] = ThreadFuture()
        self._over = Gate()
        self._thread = threading.Thread(target=_run, args=(ready, self._over), name=self._name, daemon=True)
        try:
            start(self._thread)
            self._loop = ready.result()
        except BaseException:
            ready.add_done_callback(_stop)  # the thread may run all the same
            raise

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        An exception from a signal's handler, such as ``KeyboardInterrupt``, ends the wait and cancels the coroutine.

        :param timeout: seconds to wait, after which the coroutine is cancelled; None: without limit.
        :raises RequestTimeout: the coroutine took longer than ``timeout``.
        :raises ClientClosed: the loop does not run, or another thread stopped the loop during the call. Also raised in
            the loop's own thread, which would wait for itself.
        """
        call = _Call(coroutine)
        try:
            try:
                return self._result(call, timeout)
            finally:
                call.cancel()
        finally:
            call.cancel()  # a signal may have interrupted the first try

    def _result(self, call: _Call[T], timeout: float | None) -> T:
        if sys.is_finalizing():
            raise ClientClosed(self._name, "has no thread any more, since the interpreter ends")
        self.refuse_current()
        with self._ending:
            call.begin(self.loop)
        try:
            return call.future.result(timeout)
        except concurrent.futures.TimeoutError as error:
            if call.future.done():
                raise
            assert timeout is not None, "without a timeout nothing times out"
            raise RequestTimeout("call", self._name, timeout) from error
        except concurrent.futures.CancelledError as error:
            if self._loop is not None:
                raise
            raise ClientClosed(self._name) from error

    def stop(self) -> None:
        """Cancel running coroutines, close the loop and wait for the thread. Does nothing if the loop does not run."""
        thread = self._thread
        with self._ending:
            loop = self._loop
            if loop is None or thread is None:
                return
            try:
                self._loop = None
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(loop.stop)
            except BaseException:
                self._loop = loop  # to be stopped again
                raise
        # The threads of an interpreter that ends are frozen (from Python 3.13 on) or gone.
        if not self.is_current and not sys.is_finalizing():
            self._over.wait()
            thread.join()

    def leave(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last coroutine on the loop and close the loop, without waiting.

        Does nothing if the loop does not run.
        """
        with self._ending:
            loop, self._loop = self._loop, None
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_end_after, loop, last)


class _Call(Generic[T]):
    """A coroutine that a loop runs for a thread; the thread waits for the future."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.future: ThreadFuture[T] = ThreadFuture()
        self._coroutine = coroutine
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[T] | None = None
        self._is_cancelled = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the loop run the coroutine.

        :raises RuntimeError: the loop is closed.
        """
        self._loop = loop
        loop.call_soon_threadsafe(self._start)

    def cancel(self) -> None:
        """Keep the coroutine from starting, or cancel the running coroutine.

        May be called at any stage of ``begin``. Does nothing after the end of the coroutine.
        """
        if self._loop is None:
            self._coroutine.close()
        elif not (self._is_cancelled or self.future.done()):
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._stop)
            self._is_cancelled = True

    def _start(self) -> None:
        assert self._loop is not None, "it runs this"
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._end)

    def _stop(self) -> None:
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.cancel()
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())


class _Helpers(ThreadPoolExecutor):
    """Daemon threads for the loop, which work until the interpreter ends and which nobody waits for.

    The threads of the base class take no work after the end of the main thread. With them, a client that is closed by
    ``atexit`` could neither store offsets in a file nor find a server by its name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(1)  # it never starts a thread
        self._daemons = WorkerThreads(HELPERS, f"{name} helper")

    def submit(self, function: Callable[..., T], /, *args: Any, **keywords: Any) -> concurrent.futures.Future[T]:
        """Run a function in one of the threads, or in this thread if no other thread is available."""
        call = partial(function, *args, **keywords)
        try:
            return self._daemons.submit(call)
        except RuntimeError:  # Python 3.12 starts no thread any more when the main one is over
            future: concurrent.futures.Future[T] = concurrent.futures.Future()
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it belongs to who waits
                future.set_exception(error)
            return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - nothing waits
        """Take no more work."""
        self._daemons.close()


def _end_after(loop: asyncio.AbstractEventLoop, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # nobody waits for it; asyncio would complain
        loop.stop()

    loop.create_task(last()).add_done_callback(ended)


def _run(ready: ThreadFuture[asyncio.AbstractEventLoop], over: Gate) -> None:
    try:
        loop = asyncio.new_event_loop()
    except BaseException as error:  # noqa: BLE001 - it belongs to who waits
        ready.set_exception(error)
        return
    loop.set_default_executor(_Helpers(threading.current_thread().name))
    asyncio.set_event_loop(loop)
    ready.set_result(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        over.open()


def _stop(ready: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
    if ready.exception() is None:
        loop = ready.result()
        loop.call_soon_threadsafe(loop.stop)
