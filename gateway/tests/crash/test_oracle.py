"""What the oracle allows to be there twice, and until when."""

from __future__ import annotations

from random import Random

import pytest

from gateway.tests.crash.disk.image import Crash, Moment
from gateway.tests.crash.exploration import FRESH
from gateway.tests.crash.ledger import Ledger
from gateway.tests.crash.oracle import Oracle, Recovered, Violation, recover
from gateway.tests.crash.small_broker import LEVELS, START_MS
from gateway.tests.crash.stage import Stage
from gateway.tests.crash.steps.delay_steps import DelaySteps
from gateway.tests.crash.workload import WORKLOADS
from wire.message.record import StoredMessage

WORKLOAD = WORKLOADS["cut-delay-async"]
PAUSE_S = 6
"""Longer than each delay."""
assert all(LEVELS.delay_ms(level) < PAUSE_S * 1_000 for level in range(1, LEVELS.last + 1))


def deliver(stage: Stage) -> None:
    stage.broker.threads.run()
    stage.let_pass(PAUSE_S * 1_000)
    stage.broker.reactor.advance(PAUSE_S)
    stage.broker.threads.run()


def delivered_twice() -> tuple[Stage, Ledger]:
    """A broker that was killed after a delivery, before it saved its level's offset, and delivered again."""
    stage = Stage(WORKLOAD, FRESH, Ledger(START_MS), Random(1), 0)
    DelaySteps(stage).delayed()
    deliver(stage)
    stage.begin()
    deliver(stage)
    ledger = Ledger(START_MS)
    for _, fact in stage.facts:
        fact(ledger)
    return stage, ledger


def after_a_kill(stage: Stage) -> Recovered:
    moment = Moment(FRESH)
    for change in stage.files.changes:
        moment.pass_over(change)
    return recover(moment.image(moment.choice(Crash.KILL, Random(0))), stage.clock(), WORKLOAD.settings)


def check(ledger: Ledger, found: Recovered) -> None:
    Oracle(ledger, WORKLOAD.settings, kill=True).check(found, Random(0))


def test_a_delayed_message_that_came_twice_may_be_there_twice_until_its_cut_ends() -> None:
    stage, ledger = delivered_twice()
    found = after_a_kill(stage)
    (waiting,) = ledger.waiting.values()
    delivered: list[StoredMessage] = found.seen[waiting.final]
    assert [message.body for message in delivered] == 2 * [waiting.shown.body]
    check(ledger, found)

    ledger.begin_cut(waiting.shown.place)
    check(ledger, found)  # the log is still the old one

    ledger.end_cut()  # from now on not even once
    with pytest.raises(Violation, match="was never sent there"):
        check(ledger, found)
