"""Ordered pops of a master whose slave is promoted: closed queues, counts and offsets are found in the log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.broker.takeover import cut_directory
from gateway.replication.slave.rounds import TableRounds
from gateway.tests.broker.popping import CHANGE, Popped, ack, bodies, filled, pop, reset
from gateway.tests.broker.whole_broker import WholeBroker, small_settings
from gateway.tests.remoting.conversation import Peer
from gateway.tests.replication.slave.test_role import MASTER, SLAVE, Pair
from wire.codes import RequestCode, ResponseCode

SAVED_S = 6
"""Seconds after which a master has saved its offsets and ordered pops."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Return a master and a slave, which are stopped in the end."""
    made = Pair(tmp_path)
    yield made
    made.slave.stop()
    made.master.stop()


def in_order(broker: WholeBroker, client: Peer, count: int = 2, invisible_ms: int = 60_000) -> list[Popped]:
    return pop(broker, client, order=True, max_msg_nums=count, invisible_time=invisible_ms)


@pytest.mark.parametrize("waits_s", [0, SAVED_S], ids=["before-the-save", "after-the-save"])
def test_a_promoted_slave_keeps_a_queue_closed(pair: Pair, waits_s: int) -> None:
    client = filled(pair.master, "a", "b", "c")
    first, second = in_order(pair.master, client)
    pair.master.wait(waits_s)
    pair.carry()
    promoted = pair.promoted()
    again = promoted.connect()
    assert in_order(promoted, again) == []
    assert ack(promoted, again, first) == ResponseCode.SUCCESS
    assert in_order(promoted, again) == []
    assert ack(promoted, again, second) == ResponseCode.SUCCESS
    assert bodies(in_order(promoted, again)) == [b"c"]


def test_a_promoted_slave_knows_how_often_messages_came(pair: Pair) -> None:
    client = filled(pair.master, "a", "b")
    in_order(pair.master, client, invisible_ms=1_000)
    pair.master.wait(2)
    first, _ = in_order(pair.master, client)
    pair.master.wait(SAVED_S)
    pair.carry()
    promoted = pair.promoted()
    info = promoted.parts.pops.orders.get(("orders", "group", 0))
    assert info is not None
    assert info.counts == {0: 1, 1: 1}
    assert promoted.ask(promoted.connect(), CHANGE, first.changing(90_000)).code == ResponseCode.SUCCESS


def test_an_orderly_stop_of_the_master_leaves_its_ordered_pops_in_the_log(pair: Pair) -> None:
    client = filled(pair.master, "a", "b")
    in_order(pair.master, client)
    pair.master = pair.master.restart()
    pair.client = pair.master.connect()
    pair.master.wait(SAVED_S)
    pair.carry()
    promoted = pair.promoted()
    assert in_order(promoted, promoted.connect()) == []


def test_acknowledgements_that_are_newer_than_the_copied_offsets_count(pair: Pair) -> None:
    client = filled(pair.master, "a", "b", "c", "d")
    for message in in_order(pair.master, client, count=1):
        ack(pair.master, client, message)
    pair.carry()
    for message in in_order(pair.master, client, count=1):
        assert ack(pair.master, client, message) == ResponseCode.SUCCESS
    (third,) = pop(pair.master, client, max_msg_nums=1)
    assert third.record.body == b"c"
    pair.carry_log()
    promoted = pair.promoted()
    assert bodies(in_order(promoted, promoted.connect())) == [b"d"]


def test_offsets_that_were_set_after_a_pop_are_copied_and_stay(pair: Pair) -> None:
    """The record of the pop is older than the table, which says so."""
    client = filled(pair.master, "a", "b", "c")
    for message in in_order(pair.master, client):
        ack(pair.master, client, message)
    pair.master.parts.offsets.keep("group", "orders", 0, 1)
    pair.carry()
    promoted = pair.promoted()
    assert bodies(in_order(promoted, promoted.connect())) == [b"b", b"c"]


@pytest.mark.parametrize("waits_s", [0, SAVED_S], ids=["before-the-save", "after-the-save"])
def test_a_reset_opens_the_queue_at_a_promoted_slave_too(pair: Pair, waits_s: int) -> None:
    """An unacknowledged pop keeps older records within what a start reads."""
    client = filled(pair.master, "a", "b", "c")
    for number in range(8):  # one for each revive queue
        pair.master.send(client, topic="others", body=b"%d" % number)
    for _ in range(8):
        assert len(pop(pair.master, client, topic="others", max_msg_nums=1, invisible_time=600_000)) == 1
    in_order(pair.master, client)
    pair.master.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(1))
    pair.master.wait(waits_s)
    pair.carry()
    promoted = pair.promoted()
    assert bodies(in_order(promoted, promoted.connect())) == [b"b", b"c"]


def test_a_reset_opens_the_queue_at_a_promoted_slave_also_after_a_change_of_revive_queue_num(pair: Pair) -> None:
    """The record of the pop is in another revive queue than that of the reset, and an older pop there is open."""
    client = filled(pair.master, "a", "b", "c")
    for number in range(8):
        pair.master.send(client, topic="others", body=b"%d" % number)
    for _ in range(8):  # one for each revive queue
        (other,) = pop(pair.master, client, topic="others", max_msg_nums=1, invisible_time=600_000)
        if other.words[3] == "5":  # that of the reset
            assert ack(pair.master, client, other, topic="others") == ResponseCode.SUCCESS
    in_order(pair.master, client)
    pair.master.stop()
    pair.master = WholeBroker(pair.master.directory, pair.master.clock(), revive_queue_num=7)
    pair.client = client = pair.master.connect()
    pair.master.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(1))
    pair.master.wait(2 * SAVED_S)
    pair.carry()
    promoted = pair.promoted()
    assert bodies(in_order(promoted, promoted.connect())) == [b"b", b"c"]


def again_from(broker: WholeBroker, pair: Pair) -> None:
    """Let the pair have copies of a stopped broker's directory: its former slave is the master now."""
    pair.slave.stop()
    pair.master.stop()
    for name in ("slave", "master"):
        shutil.rmtree(pair.directory / name)
        shutil.copytree(broker.directory, pair.directory / name)
    pair.master = WholeBroker(pair.directory / "master", broker.clock())
    pair.client = pair.master.connect()
    pair.slave = WholeBroker(pair.directory / "slave", broker.clock(), **SLAVE)
    pair.rounds = TableRounds(pair.slave.parts, pair.around, lambda: MASTER)


def test_a_former_master_that_is_promoted_again_does_not_use_its_old_file(pair: Pair, tmp_path: Path) -> None:
    former = WholeBroker(tmp_path / "former")
    held = in_order(former, filled(former, "a", "b", "c", "d"))
    former.stop()
    again_from(former, pair)
    for message in held:
        assert ack(pair.master, pair.client, message) == ResponseCode.SUCCESS
    (third,) = in_order(pair.master, pair.client, count=1, invisible_ms=1_000)
    assert ack(pair.master, pair.client, third) == ResponseCode.SUCCESS
    pair.master.wait(SAVED_S)
    pair.carry()
    promoted = pair.promoted()
    assert bodies(in_order(promoted, promoted.connect())) == [b"d"]


@pytest.mark.parametrize("waits_s", [0, SAVED_S], ids=["before-the-save", "after-the-save"])
def test_what_a_cut_took_away_is_not_believed_and_what_it_left_is(tmp_path: Path, waits_s: int) -> None:
    broker = WholeBroker(tmp_path / "cut")
    client = filled(broker, "a", "b", "c")
    (first,) = in_order(broker, client, count=1)
    place = broker.parts.store.stored_end
    assert ack(broker, client, first) == ResponseCode.SUCCESS
    in_order(broker, client)
    broker.wait(waits_s)
    broker.stop()
    cut_directory(small_settings(tmp_path / "cut"), place)
    slave = WholeBroker(tmp_path / "cut", broker.clock(), **SLAVE)
    slave.stop()
    promoted = WholeBroker(tmp_path / "cut", broker.clock())
    client = promoted.connect()
    assert in_order(promoted, client) == []
    assert ack(promoted, client, first) == ResponseCode.SUCCESS
    promoted.wait(60)
    assert bodies(in_order(promoted, client)) == [b"b", b"c"]
    promoted.stop()
