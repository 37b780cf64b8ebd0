"""A broker that is a slave: what it answers, what it leaves alone, and what it is once it becomes a master."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from gateway.replication.slave.rounds import TableRounds
from gateway.settings import Address
from gateway.settings.replication import BrokerRole
from gateway.settings.transaction import TransactionStateStore
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.replication.around import surroundings
from gateway.transaction.state_stores.database import ForeignDatabase
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode as Code
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.headers.offsets import UpdateConsumerOffsetRequest
from wire.headers.pull import QueryMessageRequest, ViewMessageRequest
from wire.message.flags import PullFlag, SysFlag
from wire.message.record import parse_records

QUERY = QueryMessageRequest(topic="orders", key="k", max_num=64, begin_timestamp=0, end_timestamp=1 << 62)
MASTER = Address("192.0.2.7", 10911)
SLAVE: dict[str, Any] = {"broker_role": BrokerRole.SLAVE, "broker_id": 1, "slave_read_enable": True}


class Pair:
    """A master, and a slave to which log and tables are carried by hand."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.master = WholeBroker(directory / "master")
        self.slave = WholeBroker(directory / "slave", **SLAVE)
        self.client = self.master.connect()
        self.reader = self.slave.connect()
        self.ends: int | None = None
        """The end of its log that the master tells, if it is another one."""
        self.around = surroundings(call=self._call)
        self.rounds = TableRounds(self.slave.parts, self.around, lambda: MASTER)

    async def _call(self, _address: Address, code: int, header: Header | None, /) -> RemotingCommand:
        answer = self.master.ask(self.client, code, header)
        if self.ends is not None and code == Code.GET_BROKER_RUNTIME_INFO:
            answer.body = KVTable({**KVTable.parse(answer.body).table, "commitLogMaxOffset": str(self.ends)}).build()
        return answer

    def carry(self) -> None:
        """Copy what the master has."""
        self.carry_log()
        self.carry_tables()

    def carry_log(self) -> None:
        """Copy the log."""
        ours, theirs = self.slave.parts.store, self.master.parts.store
        while (end := ours.max_commit_log_offset) < theirs.durable_end:
            records = ours.copied_records(theirs.log_bytes(end, 1 << 20) or b"")
            told: list[bool] = []
            ours.append_copied(records, told.append)
            self.slave.turn()
            assert told == [True]

    def carry_tables(self) -> None:
        """Copy the tables."""
        self.begin_tables()
        assert self.rounds.is_complete

    def begin_tables(self) -> None:
        """Copy the tables, of which offsets wait for the log."""
        ensureDeferred(self.rounds.round())
        self.slave.turn()

    def promoted(self) -> WholeBroker:
        """Stop the slave, and start its directory as a master."""
        self.slave.stop()
        self.slave = WholeBroker(self.directory / "slave", self.slave.clock())
        return self.slave


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Return a master and a slave, which are stopped in the end."""
    made = Pair(tmp_path)
    yield made
    made.slave.stop()
    made.master.stop()


def test_what_the_master_stored_is_read_from_the_slave(pair: Pair) -> None:
    sent = [f"message {number}".encode() for number in range(20)]
    for body in sent:
        assert pair.master.send(pair.client, body=body, properties={"KEYS": "k"}).code == ResponseCode.SUCCESS
    pair.master.subscribe(pair.client)
    pair.carry()
    pulled = pair.slave.ask(pair.reader, Code.PULL_MESSAGE, pulling())
    assert pulled.code == ResponseCode.SUCCESS
    assert [message.body for message in parse_records(pulled.body)] == sent
    found = pair.slave.ask(pair.reader, Code.QUERY_MESSAGE, QUERY)
    assert sorted(message.body for message in parse_records(found.body)) == sorted(sent)
    first = pair.slave.ask(pair.reader, Code.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=0))
    assert first.body == pair.master.ask(pair.client, Code.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=0)).body


def test_the_age_of_a_copied_message_does_not_count_as_a_wait(pair: Pair) -> None:
    pair.master.send(pair.client)
    pair.slave.wait(100)
    pair.carry()
    parts = pair.slave.parts
    found = parts.flows.into("orders")
    assert found is not None
    assert (found.messages, found.waited_ms, parts.traffic.longest_put_ms) == (1, 0, 0)


def test_a_pull_that_waits_at_the_slave_is_answered_when_the_next_message_is_copied(pair: Pair) -> None:
    pair.master.send(pair.client, body=b"first")
    pair.master.subscribe(pair.client)
    pair.carry()
    waiting = pulling(1, sys_flag=PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)
    assert pair.slave.ask_all(pair.reader, Code.PULL_MESSAGE, waiting) == []
    pair.master.send(pair.client, body=b"second")
    pair.carry()
    (pulled,) = pair.reader.received()
    assert [message.body for message in parse_records(pulled.body)] == [b"second"]


def test_neither_pulls_nor_heartbeats_change_what_is_the_masters(pair: Pair) -> None:
    pair.master.send(pair.client)
    pair.master.subscribe(pair.client)
    pair.master.parts.offsets.commit("group", "orders", 0, 1)
    pair.carry()
    parts = pair.slave.parts
    before = dict(parts.topics.table()), dict(parts.groups.table()), dict(parts.offsets.all())
    pair.slave.subscribe(pair.reader, group="group")
    pair.slave.subscribe(pair.reader, group="unknown-group")
    flags = PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET
    for group in ("group", "unknown-group"):
        pair.slave.ask(pair.reader, Code.PULL_MESSAGE, pulling(sys_flag=flags, commit_offset=77, consumer_group=group))
    assert (dict(parts.topics.table()), dict(parts.groups.table()), dict(parts.offsets.all())) == before
    assert parts.topics.data_version == pair.master.parts.topics.data_version
    assert parts.groups.data_version == pair.master.parts.groups.data_version


def test_senders_and_committers_are_told_to_go_to_the_master(pair: Pair) -> None:
    pair.master.send(pair.client)
    pair.carry()
    end = pair.slave.parts.store.max_commit_log_offset
    refused = [
        pair.slave.send(pair.reader),
        pair.slave.ask(
            pair.reader,
            Code.UPDATE_CONSUMER_OFFSET,
            UpdateConsumerOffsetRequest(consumer_group="group", topic="orders", queue_id=0, commit_offset=1),
        ),
        pair.slave.ask(pair.reader, Code.LOCK_BATCH_MQ, body=b"{}"),
    ]
    for answer in refused:
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert answer.remark == "this broker is a slave and takes no changes: its master is not known yet"
    assert pair.slave.parts.store.max_commit_log_offset == end


def test_pulls_are_refused_without_slave_read_enable(tmp_path: Path) -> None:
    slave = WholeBroker(tmp_path, **{**SLAVE, "slave_read_enable": False})
    answer = slave.ask(slave.connect(), Code.PULL_MESSAGE, pulling())
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert answer.remark is not None
    assert "slaveReadEnable is false" in answer.remark
    slave.stop()


def test_a_slave_delivers_and_checks_nothing_by_itself(pair: Pair) -> None:
    pair.master.send(pair.client, properties={"DELAY": "1"})
    half = {"TRAN_MSG": "true", "PGROUP": "producers"}
    pair.master.send(pair.client, properties=half, sys_flag=SysFlag.TRANSACTION_PREPARED)
    pair.carry()
    store = pair.slave.parts.store
    end = store.max_commit_log_offset
    assert end == pair.master.parts.store.max_commit_log_offset
    pair.slave.wait(120)
    assert store.max_commit_log_offset == end
    assert pair.slave.messages("orders") == []


def test_the_directory_of_a_slave_is_a_master_after_a_start_with_that_role(pair: Pair) -> None:
    for number in range(3):
        pair.master.send(pair.client, body=b"%d" % number)
    pair.master.send(pair.client, body=b"late", topic="later", properties={"DELAY": "1"})
    half = {"TRAN_MSG": "true", "PGROUP": "producers"}
    pair.master.send(pair.client, "paid", properties=half, sys_flag=SysFlag.TRANSACTION_PREPARED)
    pair.master.subscribe(pair.client)
    pair.master.parts.offsets.commit("group", "orders", 0, 2)
    pair.carry()
    promoted = pair.promoted()
    assert promoted.parts.transactions.pending.count == 1
    assert promoted.parts.offsets.query("group", "orders", 0) == 2
    client = promoted.connect()
    sent = promoted.send(client, body=b"3")
    assert sent.code == ResponseCode.SUCCESS
    assert sent.ext_fields["queueOffset"] == "3"
    promoted.wait(5)
    assert [message.body for message in promoted.messages("orders")] == [b"0", b"1", b"2", b"3"]
    assert [message.body for message in promoted.messages("later")] == [b"late"]


def test_messages_of_a_deleted_topic_that_are_copied_later_leave_no_queue(pair: Pair) -> None:
    pair.master.send(pair.client, "gone")
    pair.carry_log()
    pair.carry_tables()
    pair.master.send(pair.client, "gone")
    pair.master.parts.store.delete_topic("gone")
    pair.master.parts.topics.delete("gone")
    pair.begin_tables()
    store = pair.slave.parts.store
    assert "gone" not in dict(store.queues())
    pair.carry_log()
    assert "gone" in dict(store.queues())
    pair.around.reactor.advance(0.01)  # the round ends
    pair.carry_tables()
    assert "gone" not in dict(store.queues())

    pair.master.send(pair.client, "gone", body=b"new")
    pair.carry_log()
    pair.carry_tables()
    pair.carry_tables()
    assert [message.body for message in pair.slave.messages("gone")] == [b"new"]


def test_offsets_count_when_the_log_here_has_what_the_master_had_when_it_told_them(pair: Pair) -> None:
    pair.master.send(pair.client, "orders")
    pair.master.parts.offsets.commit("readers", "orders", 0, 1)
    pair.master.parts.delays.resume_from({1: 1})
    ours = pair.slave.parts
    pair.begin_tables()
    pair.around.reactor.advance(0.9)
    assert not pair.rounds.is_complete
    assert ours.offsets.query("readers", "orders", 0) == -1, "a promoted slave would pass over messages"
    assert ours.delays.offsets() == {}
    assert ours.topics.get("orders") is not None

    pair.carry_log()
    pair.around.reactor.advance(0.01)
    assert pair.rounds.is_complete
    assert ours.offsets.query("readers", "orders", 0) == 1
    assert ours.delays.offsets() == {1: 1}


def test_offsets_do_not_wait_for_a_filler_which_comes_with_the_next_message(pair: Pair) -> None:
    pair.master.send(pair.client, "orders")
    pair.carry_log()
    pair.master.parts.offsets.commit("readers", "orders", 0, 1)
    store, file_bytes = pair.master.parts.store, pair.master.parts.settings.mapped_file_size_commit_log
    end, query = store.max_commit_log_offset, pair.slave.parts.offsets.query
    pair.ends = end + 10
    pair.begin_tables()
    pair.around.reactor.advance(1.0)
    assert query("readers", "orders", 0) == -1, "there may be a message"
    pair.ends = file_bytes
    pair.rounds = TableRounds(pair.slave.parts, pair.around, lambda: MASTER)
    pair.begin_tables()
    pair.around.reactor.advance(0.99)
    assert query("readers", "orders", 0) == -1
    pair.around.reactor.advance(0.02)
    assert query("readers", "orders", 0) == 1


def test_offsets_that_wait_are_not_replaced_by_newer_ones_which_would_wait_longer(pair: Pair) -> None:
    pair.master.send(pair.client, "orders")
    pair.master.parts.offsets.commit("readers", "orders", 0, 1)
    pair.begin_tables()
    for _ in range(110):
        pair.around.reactor.advance(0.01)
    pair.carry_log()
    pair.master.send(pair.client, "orders")
    pair.master.parts.offsets.commit("readers", "orders", 0, 2)
    pair.carry_tables()
    assert pair.slave.parts.offsets.query("readers", "orders", 0) == 1
    pair.begin_tables()
    pair.carry_log()
    pair.around.reactor.advance(0.01)
    assert pair.slave.parts.offsets.query("readers", "orders", 0) == 2


def copied_from(pair: Pair) -> list[str | None]:
    """Begin the copy of a former master's tables; the result gets what failed, None if nothing did."""
    ended: list[str | None] = []
    ensureDeferred(pair.rounds.copy_from(MASTER)).addCallback(ended.append)
    pair.slave.turn()
    return ended


@pytest.mark.parametrize("seconds", [0.5, 1.5], ids=["during-a-round", "between-rounds"])
def test_the_last_offsets_of_a_former_master_count_although_earlier_ones_wait(pair: Pair, seconds: float) -> None:
    pair.master.send(pair.client, "orders")
    pair.master.parts.offsets.commit("readers", "orders", 0, 0)
    pair.begin_tables()
    pair.around.reactor.pump([0.01] * round(seconds * 100))
    assert not pair.rounds.is_complete
    pair.master.parts.offsets.commit("readers", "orders", 0, 1)
    pair.carry_log()
    ended = copied_from(pair)
    pair.around.reactor.pump([0.01] * 100)
    assert ended == [None]
    assert pair.slave.parts.offsets.query("readers", "orders", 0) == 1


def test_a_slave_remembers_the_role_of_its_master(pair: Pair) -> None:
    assert pair.rounds.master_role == ""
    pair.carry_tables()
    assert pair.rounds.master_role == "ASYNC_MASTER"
    object.__setattr__(pair.master.parts.settings, "broker_role", BrokerRole.SLAVE)  # as it tells after a switch
    ended = copied_from(pair)
    pair.around.reactor.pump([0.01] * 100)
    assert ended == [None]
    pair.master.stop()
    assert pair.rounds.master_role == "ASYNC_MASTER"


def test_a_deleted_topic_of_the_master_is_none_of_the_promoted_slave(pair: Pair) -> None:
    pair.master.send(pair.client, "gone")
    pair.carry()
    pair.master.parts.topics.delete("gone")
    pair.carry()
    assert pair.promoted().parts.topics.get("gone") is None


SHARED = "give each broker a database or a schema of its own"


def test_a_slave_with_its_masters_database_of_transactions_does_not_start(tmp_path: Path) -> None:
    """As a master it would not start."""
    database = TransactionStateStore.DATABASE
    shared: dict[str, Any] = {"transaction_state_store": database, "transaction_database": f"sqlite:{tmp_path}/db"}
    master = WholeBroker(tmp_path / "master", **shared)
    with pytest.raises(ForeignDatabase, match=SHARED):
        WholeBroker(tmp_path / "slave", **shared, **SLAVE)
    master.stop()
    own = WholeBroker(tmp_path / "own", **{**shared, "transaction_database": ""}, **SLAVE)
    own.restart().stop()
    assert not (tmp_path / "own" / "transaction").exists()


def test_the_log_is_kept_from_where_the_masters_begins(pair: Pair) -> None:
    keep_from = pair.slave.parts.store.deletion.keep_from
    assert keep_from is not None
    assert keep_from() == 0


def test_timer_messages_that_the_master_delivered_do_not_come_again_and_the_others_come_once(pair: Pair) -> None:
    pair.master.send(pair.client, body=b"soon", properties={"TIMER_DELAY_MS": "2000"})
    pair.master.send(pair.client, body=b"late", properties={"TIMER_DELAY_MS": "60000"})
    pair.master.wait(5)
    assert [message.body for message in pair.master.messages("orders")] == [b"soon"]
    pair.carry()
    promoted = pair.promoted()
    promoted.wait(10)
    assert [message.body for message in promoted.messages("orders")] == [b"soon"]
    promoted.wait(70)
    assert [message.body for message in promoted.messages("orders")] == [b"soon", b"late"]


def test_delayed_messages_that_the_master_released_do_not_come_again(pair: Pair) -> None:
    for number in range(3):
        pair.master.send(pair.client, body=b"%d" % number, properties={"DELAY": "1"})
    pair.master.wait(5)
    assert len(pair.master.messages("orders")) == 3
    pair.carry()
    promoted = pair.promoted()
    promoted.wait(10)
    assert len(promoted.messages("orders")) == 3
