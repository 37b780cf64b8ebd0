from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from gateway.client.connect.worker_threads import WorkerThreads

_tenant: ContextVar[str] = ContextVar("_tenant")


def test_a_call_gives_its_result_or_what_it_raised() -> None:
    threads = WorkerThreads(2, "work")
    assert threads.submit(lambda: 7).result(5) == 7
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result(5)
    threads.close()


def test_there_are_no_more_threads_than_allowed_and_none_that_is_not_needed() -> None:
    threads = WorkerThreads(2, "work")
    names = {threads.submit(lambda: threading.current_thread().name).result(5) for _ in range(20)}
    assert names <= {"work-1", "work-2"}
    gate = threading.Event()
    running = [threads.submit(lambda: gate.wait(5)) for _ in range(2)]
    waiting = threads.submit(lambda: 3)
    assert not waiting.done()
    gate.set()
    assert ([future.result(5) for future in running], waiting.result(5)) == ([True, True], 3)
    threads.close()


def test_threads_are_daemons_so_that_a_call_that_never_returns_does_not_keep_the_process() -> None:
    threads = WorkerThreads(1, "work")
    assert threads.submit(lambda: threading.current_thread().daemon).result(5)
    threads.close()


def test_a_call_sees_the_context_variables_of_its_caller() -> None:
    threads = WorkerThreads(1, "work")
    _tenant.set("blue")
    assert threads.submit(_tenant.get).result(5) == "blue"
    threads.close()


def test_after_close_nothing_is_taken_and_what_was_taken_is_done() -> None:
    threads = WorkerThreads(1, "work")
    gate = threading.Event()
    threads.submit(lambda: gate.wait(5))
    last = threads.submit(lambda: "done")
    threads.close()
    threads.close()
    gate.set()
    assert last.result(5) == "done"
    with pytest.raises(RuntimeError, match="work is closed"):
        threads.submit(lambda: 1)


def test_where_no_thread_can_be_started_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a program, on Python 3.12."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    threads = WorkerThreads(1, "late")
    with monkeypatch.context() as ending:
        ending.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't create new thread"):
            threads.submit(threading.get_ident)
    assert threads.submit(threading.get_ident).result(10) != threading.get_ident()
    threads.close()
