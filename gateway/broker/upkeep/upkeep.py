"""The broker's periodic jobs: flushing, persisting, expiring.

A job is a name, an interval and a function. Jobs never overlap with themselves, a failing one is logged and
runs again next time, and stopping waits for those that are running. A job that is called late was kept waiting as
requests are: how late jobs are called tells of the pauses of the process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from gateway.telemetry.logs import EventLog

log = EventLog("upkeep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One periodic job.

    :param run: called on the reactor thread; may return something to wait for, like a write in a thread.
    :param hurry: called when the jobs stop, for a run that would wait for time to pass.
    """

    name: str
    interval_ms: int
    run: Callable[[], Awaitable[object] | None]
    hurry: Callable[[], None] | None = None


@dataclass(slots=True)
class _Running:
    job: Job
    due_s: float = 0.0
    call: IDelayedCall | None = None
    done: Deferred[None] | None = field(default=None)


class Upkeep:
    """Runs the jobs from ``start`` to ``stop``.

    :param late: told by how many seconds a job was called late, each time.
    """

    def __init__(
        self, reactor: IReactorTime, jobs: Sequence[Job], late: Callable[[float], None] = lambda _: None
    ) -> None:
        self._reactor = reactor
        self._late = late
        self._jobs = [_Running(job) for job in jobs]
        self._started = False

    def start(self) -> None:
        """Run every job for the first time after its interval."""
        self._started = True
        for running in self._jobs:
            self._schedule(running)

    async def stop(self) -> None:
        """Start no job any more and wait for those that run."""
        self._started = False
        for running in self._jobs:
            if running.call is not None and running.call.active():
                running.call.cancel()
            running.call = None
            if running.job.hurry is not None:
                running.job.hurry()
        await DeferredList([running.done for running in self._jobs if running.done is not None])

    def _schedule(self, running: _Running) -> None:
        if self._started:
            interval_s = running.job.interval_ms / 1000
            running.due_s = self._reactor.seconds() + interval_s
            running.call = self._reactor.callLater(interval_s, self._run, running)

    def _run(self, running: _Running) -> None:
        running.call = None
        self._late(max(self._reactor.seconds() - running.due_s, 0.0))
        done: Deferred[None] = Deferred()
        running.done = done

        def ended(_: object) -> None:
            running.done = None
            done.callback(None)
            self._schedule(running)

        ensureDeferred(_guarded(running.job)).addCallback(ended)


async def _guarded(job: Job) -> None:
    try:
        waiting = job.run()
        if waiting is not None:
            await waiting
    except Exception as error:  # noqa: BLE001 - a service loop: one failing round must not end the job
        log.error("job failed", job=job.name, error=repr(error))
