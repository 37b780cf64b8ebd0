"""A planned switch: two masters are worse than none, so an order whose result is unclear is not followed by another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from gateway.cli.broker_call import BrokerRefused, BrokerUnreachable
from gateway.cli.broker_option import AskedBroker
from gateway.cli.failover import Group, Reached, Replica, RoleUnclear, _switch, lines_of_loss
from gateway.cli.main import cli
from gateway.cli.tls_options import TlsOptions
from gateway.errors import GatewayError
from wire.bodies.tools.failover import ReplicaState
from wire.codes import RequestCode

MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


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
    """A master and its slave in place of a ``Group``.

    :param failure: how the order to be the master ends at the slave; None: it becomes the master.
    :param failure_of_master: how each order ends at the old master, the first one last; None: it is carried out.
    """

    def __init__(
        self, failure: BaseException | None = None, failures_of_master: tuple[BaseException | None, ...] = ()
    ) -> None:
        self.failure = failure
        self.failures_of_master = list(failures_of_master)
        self.states = {MASTER: state("SYNC_MASTER", 0), SLAVE: state("SLAVE", 1)}
        self.orders: list[tuple[str, str, int]] = []

    def member(self, address: str) -> Replica:
        return Replica(address, self.states[address])

    def wait(self, address: str, is_there: Callable[[ReplicaState], bool], _patience_s: float) -> ReplicaState:
        assert is_there(self.states[address])
        return self.states[address]

    def change(self, address: str, _before: ReplicaState, role: str, broker_id: int, **_more: Any) -> ReplicaState:
        self.orders.append((address, role, broker_id))
        failure = self.failure
        if address == MASTER:
            failure = self.failures_of_master.pop() if self.failures_of_master else None
        if failure is not None:
            raise failure
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
    with pytest.raises(RoleUnclear, match=r"is not back\. See with `failover status mq-a` who is the master"):
        brokers.switch()
    assert brokers.orders[2:] == []


REMEDY = r"make 10\.0\.0\.1:10911 the master again: `failover promote mq-a --id 2 --role SYNC_MASTER --lost`"


@pytest.mark.parametrize(
    ("brokers", "orders"),
    [
        (Brokers(failures_of_master=(RoleUnclear("it may be SLAVE or not"),)), 1),
        (Brokers(failures_of_master=(KeyboardInterrupt(),)), 1),
        (Brokers(KeyboardInterrupt()), 2),
        (Brokers(RoleUnclear("it is not back")), 2),
        (Brokers(BrokerRefused(1, "no"), (RoleUnclear("it is not back"), None)), 3),
        (Brokers(BrokerRefused(1, "no"), (BrokerUnreachable("it does not answer"), None)), 3),
        (Brokers(BrokerRefused(1, "no"), (KeyboardInterrupt(), None)), 3),
    ],
    ids=["first-unclear", "first-cut", "second-cut", "second-unclear", "back-unclear", "back-failed", "back-cut"],
)
def test_a_switch_that_may_leave_two_slaves_says_how_one_becomes_the_master(brokers: Brokers, orders: int) -> None:
    with pytest.raises(RoleUnclear, match=REMEDY):
        brokers.switch()
    assert len(brokers.orders) == orders


def test_a_first_order_that_is_refused_leaves_everything_as_it_was() -> None:
    brokers = Brokers(failures_of_master=(BrokerRefused(1, "a controller decides"),))
    with pytest.raises(BrokerRefused, match="a controller decides"):
        brokers.switch()


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


class Restarted(Unheard):
    """A broker whose process took the order, and was then killed and started again."""

    def __init__(self, found: ReplicaState) -> None:
        self._taken = replace(state("SLAVE", 1), process="first", changes=7)
        self._found = replace(found, process="second")

    def ask(self, *asked: object) -> bytes:
        return (self._taken if asked[0] == RequestCode.GATEWAY_CHANGE_ROLE else self._found).build()


@pytest.mark.parametrize("before", [state("SLAVE", 1), replace(state("SLAVE", 1), process="first")])
def test_a_process_that_was_restarted_after_an_order_is_what_it_says_it_is(
    monkeypatch: pytest.MonkeyPatch, before: ReplicaState
) -> None:
    monkeypatch.setattr(Group.wait, "__defaults__", (0.0,))
    group = Group("10.0.0.9:9876", TlsOptions())
    broker = Restarted(state("SYNC_MASTER", 0))
    monkeypatch.setattr(AskedBroker, "calling", lambda _self: broker)
    assert group.change(SLAVE, before, "SYNC_MASTER", 0).role == "SYNC_MASTER"
    broker = Restarted(state("SLAVE", 1))
    with pytest.raises(GatewayError, match="was restarted meanwhile, and stayed SLAVE with id 1") as caught:
        group.change(SLAVE, before, "SYNC_MASTER", 0)
    assert not isinstance(caught.value, RoleUnclear)


def lost(
    monkeypatch: pytest.MonkeyPatch, states: Mapping[int, ReplicaState | None], *options: str
) -> tuple[Result, list[tuple[str, str]]]:
    """Promote the slave with id 1 without its master; return the result, and the orders that were given."""
    addresses = {0: MASTER, 1: SLAVE, 2: OTHER}
    members = {0: Replica(MASTER, None, "does not answer")} | {
        number: Replica(addresses[number], found, "" if found else "no answer within 3 s")
        for number, found in states.items()
    }
    orders: list[tuple[str, str]] = []

    def change(_self: Group, address: str, _before: ReplicaState, role: str, _broker_id: int) -> None:
        orders.append((address, role))

    monkeypatch.setattr(Group, "members", lambda _self, _name: members)
    monkeypatch.setattr(Group, "change", change)
    result = CliRunner().invoke(cli, ["failover", "promote", "mq-a", "--id", "1", "--lost", "--yes", *options])
    return result, orders


def slave(end: int, broker_id: int = 1, master_role: str = "SYNC_MASTER") -> ReplicaState:
    return replace(state("SLAVE", broker_id), log_end=end, durable_end=end, master_role=master_role)


@pytest.mark.parametrize("role", ["SYNC_MASTER", "ASYNC_MASTER"])
def test_a_slave_takes_the_role_that_its_lost_master_had(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    result, orders = lost(monkeypatch, {1: slave(500, master_role=role)})
    assert (result.exit_code, orders) == (0, [(SLAVE, role)])
    assert f"it becomes {role}: " in result.output


@pytest.mark.parametrize("known", ["", "SLAVE"])
def test_a_role_that_nobody_knows_has_to_be_named(monkeypatch: pytest.MonkeyPatch, known: str) -> None:
    result, orders = lost(monkeypatch, {1: slave(500, master_role=known)})
    assert (result.exit_code, orders) == (1, [])
    assert "add --role SYNC_MASTER" in result.output
    result, orders = lost(monkeypatch, {1: slave(500, master_role=known)}, "--role", "ASYNC_MASTER")
    assert (result.exit_code, orders) == (0, [(SLAVE, "ASYNC_MASTER")])


def test_a_slave_is_not_promoted_while_another_one_has_more(monkeypatch: pytest.MonkeyPatch) -> None:
    members = {1: slave(500), 2: slave(700, 2)}
    result, orders = lost(monkeypatch, members)
    assert (result.exit_code, orders) == (1, [])
    assert "the slave with id 2 at 10.0.0.3:10911 has 200 bytes more" in result.output
    result, orders = lost(monkeypatch, members, "--with-less")
    assert (result.exit_code, orders) == (0, [(SLAVE, "SYNC_MASTER")])
    assert "the slave with id 2 at 10.0.0.3:10911 has 200 bytes more" in result.output
    assert "every message" not in result.output


def test_slaves_that_cannot_be_asked_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    result, orders = lost(monkeypatch, {1: slave(500), 2: None})
    assert (result.exit_code, len(orders)) == (0, 1)
    assert "the slave with id 2 at 10.0.0.3:10911 may have more: no answer within 3 s" in result.output
    assert "every message" not in result.output


def test_a_slave_of_which_no_other_one_has_more_has_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    result, orders = lost(monkeypatch, {1: slave(700), 2: slave(700, 2)})
    assert (result.exit_code, len(orders)) == (0, 1)
    assert "if these are all slaves, it has every message" in result.output


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

    known, rest = told(900, 700, 12_345)
    assert known == "its master said last 12.3 s ago that its own log ends at 700: the slave has all of that"
    assert "since then, and the slave lacks, is not known" in rest
    assert "lacks 0" not in known + rest
    assert "the slave has all of that but the last 50 bytes" in told(650, 700, 0)[0]
    assert "does not tell" in told(900, 700, None)[0]
    (never,) = told(900, -1, None)
    assert "is not known" in never
