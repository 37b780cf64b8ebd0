"""The broker's periodic jobs: flushing, persisting, expiring.

A job is a name, an interval and a function. A job never overlaps with itself. A job that fails is logged and runs again
next time. Stopping waits for running jobs. A job that is called late was delayed as requests are delayed: the lateness
of jobs therefore shows the pauses of the process.
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

    :param run: called on the reactor's thread; may return an awaitable, for example for a write in a thread.
    :param hurry: called when the jobs stop, to shorten a run that waits for time to pass.
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

    :param late: called each time a job starts, with the seconds by which the job was late.
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
        """Start no more jobs, and wait for the running ones."""
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
