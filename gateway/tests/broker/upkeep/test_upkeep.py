"""Periodic jobs run on time, never overlap themselves and survive their own failures."""

from collections.abc import Awaitable

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from gateway.broker.upkeep.upkeep import Job, Upkeep


def test_a_job_runs_every_interval_until_stopped() -> None:
    clock, runs = Clock(), []
    upkeep = Upkeep(clock, [Job(name="count", interval_ms=1_000, run=lambda: runs.append(clock.seconds()))])
    upkeep.start()
    clock.pump([0.5] * 7)
    assert runs == [1.0, 2.0, 3.0]
    ensureDeferred(upkeep.stop())
    clock.pump([1.0] * 5)
    assert len(runs) == 3
    assert clock.getDelayedCalls() == []


def test_it_is_told_by_how_much_a_job_is_called_late() -> None:
    clock, late = Clock(), list[float]()
    upkeep = Upkeep(clock, [Job(name="job", interval_ms=1_000, run=lambda: None)], late.append)
    upkeep.start()
    clock.advance(1.0)
    clock.advance(1.25)
    assert late == [0.0, 0.25]


def test_a_failing_round_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    clock, runs = Clock(), []

    def fail() -> None:
        runs.append(1)
        raise ValueError("no disk")

    Upkeep(clock, [Job(name="flush", interval_ms=1_000, run=fail)]).start()
    clock.pump([1.0] * 2)
    assert len(runs) == 2
    assert [record.getMessage() for record in caplog.records] == ["job failed", "job failed"]


def test_a_slow_job_is_not_started_again_and_stopping_waits_for_it() -> None:
    clock = Clock()
    waits: list[Deferred[None]] = []

    def slow() -> Awaitable[None]:
        waits.append(Deferred())
        return waits[-1]

    upkeep = Upkeep(clock, [Job(name="slow", interval_ms=1_000, run=slow)])
    upkeep.start()
    clock.pump([1.0] * 5)
    assert len(waits) == 1
    stopped: list[object] = []
    ensureDeferred(upkeep.stop()).addCallback(stopped.append)
    assert stopped == []
    waits[0].callback(None)
    assert stopped == [None]
    assert clock.getDelayedCalls() == []


def test_a_job_that_waits_for_time_to_pass_is_hurried_when_the_jobs_stop() -> None:
    clock = Clock()
    waits: list[Deferred[None]] = []
    ended: list[str] = []

    async def slow() -> None:
        waits.append(Deferred())
        await waits[-1]
        ended.append("run")

    upkeep = Upkeep(clock, [Job(name="slow", interval_ms=1_000, run=slow, hurry=lambda: waits[-1].callback(None))])
    upkeep.start()
    clock.advance(1)
    ensureDeferred(upkeep.stop()).addCallback(lambda _: ended.append("stopped"))
    assert ended == ["run", "stopped"]
