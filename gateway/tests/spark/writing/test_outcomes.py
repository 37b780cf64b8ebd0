"""Outcomes are sent to brokers again until each is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.client.errors import BrokerError, ConnectionLost
from gateway.spark.options import write_options
from gateway.spark.writing import outcomes as module
from gateway.spark.writing.decisions import Half, Halves
from gateway.spark.writing.outcomes import tell_outcomes
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.transaction import EndTransactionRequest

OPTIONS = write_options({"nameServer": "a:1", "topic": "orders", "producerGroup": "g"})


class Brokers:
    """Take outcomes, unless a test has a fault ready for the next call."""

    def __init__(self) -> None:
        self.told: list[tuple[str, EndTransactionRequest]] = []
        self.faults: list[Exception | int] = []
        self.forgotten = 0
        self.address = "10.0.0.7:10911"
        self._name = ""

    def broker(self, broker_name: str, topic: str, *, fresh: bool = False) -> Brokers:
        self._name = broker_name
        return self

    def forget(self, broker_name: str) -> None:
        self.forgotten += 1

    def call_all(self, commands: Sequence[RemotingCommand], timeout_s: float) -> list[RemotingCommand]:
        fault = self.faults.pop(0) if self.faults else ResponseCode.SUCCESS
        if isinstance(fault, Exception):
            raise fault
        self.told += [(self._name, parse_header(EndTransactionRequest, command.ext_fields)) for command in commands]
        return [RemotingCommand(fault, flag=1) for _ in commands]


def halves(count: int) -> Halves:
    found = Halves()
    for number in range(count):
        found.add(f"broker-{'ab'[number % 2]}", "orders", Half(number, 100 + number, f"{number:032X}"))
    return found


def tell(brokers: Brokers, found: Halves, *, is_commit: bool = True) -> None:
    cluster: Any = brokers
    clock = [0.0]
    tell_outcomes(
        cluster,
        OPTIONS,
        found,
        is_commit=is_commit,
        wait=lambda s: clock.__setitem__(0, clock[0] + s),
        now=lambda: clock[0],
    )


def test_each_half_message_is_told_of_at_its_broker() -> None:
    brokers = Brokers()
    tell(brokers, halves(3))
    assert [(name, told.tran_state_table_offset, told.commit_log_offset) for name, told in brokers.told] == [
        ("broker-a", 0, 100),
        ("broker-a", 2, 102),
        ("broker-b", 1, 101),
    ]
    assert {(told.producer_group, told.commit_or_rollback) for _, told in brokers.told} == {("g", 8)}


def test_a_batch_that_is_taken_back_is_rolled_back() -> None:
    brokers = Brokers()
    tell(brokers, halves(1), is_commit=False)
    assert [told.commit_or_rollback for _, told in brokers.told] == [12]


def test_what_was_not_answered_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 2)
    brokers = Brokers()
    brokers.faults = [ResponseCode.SUCCESS, ConnectionLost("a", "reset"), ResponseCode.SYSTEM_BUSY]
    tell(brokers, halves(8))
    assert brokers.forgotten == 2
    assert {(name, told.tran_state_table_offset) for name, told in brokers.told} == {
        ("broker-" + "ab"[number % 2], number) for number in range(8)
    }


def test_a_broker_that_stays_away_or_refuses_is_an_error() -> None:
    brokers = Brokers()
    brokers.faults = [ConnectionLost("a", "reset")] * 1000
    with pytest.raises(ConnectionLost):
        tell(brokers, halves(1))
    brokers.faults = [ResponseCode.INVALID_PARAMETER]
    with pytest.raises(BrokerError):
        tell(brokers, halves(1))
