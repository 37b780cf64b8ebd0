"""A planned switch: two masters are worse than none, so an order whose result is unclear is not followed by another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from gateway.cli.broker_call import BrokerRefused, BrokerUnreachable
from gateway.cli.broker_option import AskedBroker
from gateway.cli.failover import Group, Reached, Replica, RoleUnclear, _switch, lines_of_loss
from gateway.cli.tls_options import TlsOptions
from gateway.errors import GatewayError
from wire.bodies.tools.failover import ReplicaState

MASTER, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911"


def state(role: str, broker_id: int) -> ReplicaState:
    """Return the state of a broker that has everything."""
    return ReplicaState(
        broker_name="mq-a",
        cluster="c",
        role=role,
        broker_id=broker_id,
        log_begin=0,
        log_end=700,
        durable_end=700,
        visible_end=700,
        is_changing=False,
        changes=0,
        master="",
        master_log_end=700,
        tables_age_ms=0,
    )


class Brokers:
    """A master and its slave in place of a ``Group``; the order to be the master ends with ``failure`` at the slave."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.states = {MASTER: state("SYNC_MASTER", 0), SLAVE: state("SLAVE", 1)}
        self.orders: list[tuple[str, str, int]] = []

    def member(self, address: str) -> Replica:
        return Replica(address, self.states[address])

    def wait(self, address: str, is_there: Callable[[ReplicaState], bool], _patience_s: float) -> ReplicaState:
        assert is_there(self.states[address])
        return self.states[address]

    def change(self, address: str, _before: ReplicaState, role: str, broker_id: int, **_more: Any) -> ReplicaState:
        self.orders.append((address, role, broker_id))
        if address == SLAVE and self.failure is not None:
            raise self.failure
        self.states[address] = state(role, broker_id)
        return self.states[address]

    def switch(self) -> None:
        """Make the slave the master."""
        slave, master = Reached(SLAVE, self.states[SLAVE]), Reached(MASTER, self.states[MASTER])
        _switch(cast(Group, self), slave, master, None, 2)


def test_the_master_is_a_slave_before_the_slave_is_the_master() -> None:
    brokers = Brokers()
    brokers.switch()
    assert brokers.orders == [(MASTER, "SLAVE", 2), (SLAVE, "SYNC_MASTER", 0)]


def test_the_old_master_goes_on_if_the_slave_refuses() -> None:
    brokers = Brokers(BrokerRefused(1, "the tables were not copied"))
    with pytest.raises(GatewayError, match=r"the master stays 10\.0\.0\.1:10911: the tables were not copied"):
        brokers.switch()
    assert brokers.orders[2:] == [(MASTER, "SYNC_MASTER", 0)]


def test_nobody_else_becomes_the_master_while_the_slave_may_become_it() -> None:
    brokers = Brokers(RoleUnclear("10.0.0.2:10911 took the order to be SYNC_MASTER, and is not back"))
    with pytest.raises(
        RoleUnclear, match=r"is not back\. 10\.0\.0\.1:10911 stays a slave with id 2: .*`failover status`"
    ):
        brokers.switch()
    assert brokers.orders[2:] == []


class Unheard:
    """A connection on which an order gets no answer."""

    def __enter__(self) -> Unheard:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    def ask(self, *_: object) -> bytes:
        raise BrokerUnreachable("the broker did not answer within 10 s")


def test_an_order_without_an_answer_is_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AskedBroker, "calling", lambda _self: Unheard())
    with pytest.raises(RoleUnclear, match=r"10\.0\.0\.2:10911 may be SYNC_MASTER or not: the broker did not answer"):
        Group("10.0.0.9:9876", TlsOptions()).change(SLAVE, state("SLAVE", 1), "SYNC_MASTER", 0)


def test_what_a_slave_knows_of_its_lost_master_is_told_with_its_age_and_the_rest_is_not_known() -> None:
    def told(durable_end: int, master_log_end: int, age_ms: int | None) -> list[str]:
        return lines_of_loss(
            ReplicaState(
                broker_name="mq-a",
                durable_end=durable_end,
                master_log_end=master_log_end,
                master_log_end_age_ms=age_ms,
            )
        )

    known, rest, _ = told(900, 700, 12_345)
    assert known == "its master said last 12.3 s ago that its own log ends at 700: the slave has all of that"
    assert "since then, and the slave lacks, is not known" in rest
    assert "lacks 0" not in known + rest
    assert "the slave has all of that but the last 50 bytes" in told(650, 700, 0)[0]
    assert "does not tell" in told(900, 700, None)[0]
    (never,) = told(900, -1, None)
    assert "is not known" in never
