from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from gateway.client.errors import ConnectError, ConnectionLost, RocketMQError
from gateway.client.formats.transaction_outcome import Outcome
from gateway.client.message import Message
from gateway.client.tests.scripted_broker import run
from gateway.client.transact.outcome_sender import OutcomeSender
from gateway.client.transaction_state import TransactionState
from wire.headers.transaction import EndTransactionRequest

DOWN = ConnectError("10.0.0.1:10911", "refused")


def outcome(state: TransactionState = TransactionState.COMMIT, msg_id: str = "m1") -> Outcome:
    header = EndTransactionRequest(
        producer_group="pg",
        tran_state_table_offset=1,
        commit_log_offset=2,
        commit_or_rollback=state.value,
        msg_id=msg_id,
    )
    return Outcome(header=header, message=Message("t", b"x"), broker_name="broker-a")


class Wire:
    """The destination of outcomes; fails as often as the test asks."""

    def __init__(self, *failures: RocketMQError) -> None:
        self.failures = list(failures)
        self.sent: list[str] = []
        self.tries = 0

    async def send(self, outcome: Outcome) -> None:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append(outcome.transaction)


def sender(wire: Wire, *, timeout: float = 5.0, limit: int = 10) -> OutcomeSender:
    tasks: list[asyncio.Task[None]] = []
    return OutcomeSender(
        wire.send,
        spawn=lambda work: tasks.append(asyncio.ensure_future(work)),
        timeout=timeout,
        limit=limit,
        random=Random(1),
    )


def test_an_outcome_is_sent_at_once_when_its_broker_can_be_reached() -> None:
    async def scenario() -> None:
        wire = Wire()
        assert await sender(wire).tell(outcome())
        assert (wire.sent, wire.tries) == (["m1"], 1)

    run(scenario())


def test_an_outcome_is_sent_again_until_its_broker_can_be_reached() -> None:
    async def scenario() -> None:
        wire = Wire(DOWN, DOWN, DOWN)
        outcomes = sender(wire)
        assert not await outcomes.tell(outcome())
        assert outcomes.waiting == 1
        await outcomes.drain(5)
        assert (wire.sent, wire.tries, outcomes.waiting) == (["m1"], 4, 0)

    run(scenario())


def test_what_may_have_arrived_is_not_sent_twice(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        wire = Wire(ConnectionLost("10.0.0.1:10911", "reset"))
        outcomes = sender(wire)
        assert not await outcomes.tell(outcome())
        assert (wire.tries, outcomes.waiting) == (1, 0)

    run(scenario())
    assert "the outcome COMMIT of transaction m1 is left to the check" in caplog.text


def test_unknown_is_not_worth_another_try() -> None:
    async def scenario() -> None:
        wire = Wire(DOWN)
        outcomes = sender(wire)
        await outcomes.tell(outcome(TransactionState.UNKNOWN))
        assert (wire.tries, outcomes.waiting) == (1, 0)

    run(scenario())


def test_after_its_time_an_outcome_is_left_to_the_check(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        wire = Wire(*[DOWN] * 100)
        outcomes = sender(wire, timeout=0.15)
        await outcomes.tell(outcome())
        await outcomes.drain(5)
        assert not wire.sent
        assert 2 <= wire.tries <= 5

    run(scenario())
    assert "left to the check: cannot connect to 10.0.0.1:10911" in caplog.text


def test_no_more_than_the_limit_wait(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        outcomes = sender(Wire(*[DOWN] * 3), limit=2)
        for number in range(3):
            await outcomes.tell(outcome(msg_id=f"m{number}"))
        assert outcomes.waiting == 2
        await outcomes.drain(5)

    run(scenario())
    assert "transaction m2 is left to the check, 2 are waiting already (max_waiting_outcomes is 2" in caplog.text


def test_draining_does_not_wait_longer_than_asked(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        outcomes = sender(Wire(*[DOWN] * 100))
        await outcomes.tell(outcome())
        await outcomes.drain(0.01)
        assert outcomes.waiting == 1

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "closed while 1 outcomes" in caplog.text
