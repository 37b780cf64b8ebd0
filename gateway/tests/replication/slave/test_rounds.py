"""A slave's tables after rounds with a master: equal to the master's, saved, and never half of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from gateway.broker.takeover import CopyMark
from gateway.in_thread import in_this_thread
from gateway.remoting.pending import CallFailed
from gateway.replication.slave.rounds import TAKE_AGAIN_MS, TAKE_S, TableRounds
from gateway.settings import Address
from gateway.tests.broker.whole_broker import WholeBroker, sending
from gateway.tests.metadata.saved.test_write_behind import HeldThread
from gateway.tests.replication.around import surroundings
from wire.bodies.pop import MessageRequestMode
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.tools.statistics import ReplicationState
from wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from wire.codes import RequestCode as Code
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header

MASTER = Address("192.0.2.7", 10911)


class Pair:
    """A master and a broker that copies its tables.

    ``answer`` may put another answer, or a failure, in the place of the master's.
    """

    def __init__(self, directory: Path) -> None:
        self.master = WholeBroker(directory / "master")
        self.slave = WholeBroker(directory / "slave")
        self.asked: list[int] = []
        self.address: Address | None = MASTER
        self.answer: Callable[[int, RemotingCommand], RemotingCommand] = lambda _, answer: answer
        self._peer = self.master.connect()
        self._around = surroundings(call=self._call)
        self.rounds = TableRounds(self.slave.parts, self._around, lambda: self.address)

    async def _call(self, address: Address, code: int, header: Header | None, /) -> RemotingCommand:
        assert address == self.address
        self.asked.append(code)
        return self.answer(code, self.master.ask(self._peer, code, header))

    def round(self) -> None:
        """Copy every table once."""
        ended: list[object] = []
        ensureDeferred(self.rounds.round()).addCallback(ended.append)
        self.slave.turn()
        for _ in range(round(TAKE_S * 1_000 / TAKE_AGAIN_MS) + 1 if not ended else 0):
            self._around.reactor.advance(TAKE_AGAIN_MS / 1_000)
        self.slave.turn()
        assert ended == [None]

    def assert_equal(self) -> None:
        """Compare every table of the two brokers."""
        ours, theirs = self.slave.parts, self.master.parts
        assert ours.topics.table() == theirs.topics.table()
        assert ours.topics.data_version == theirs.topics.data_version
        assert ours.groups.table() == theirs.groups.table()
        assert ours.groups.data_version == theirs.groups.data_version
        assert ours.groups.forbidden() == theirs.groups.forbidden()
        assert ours.offsets.all() == theirs.offsets.all()
        assert ours.modes.all() == theirs.modes.all()
        assert ours.delays.offsets() == theirs.delays.offsets()

    def fill(self) -> None:
        """Give the master something of every kind, and the slave what the master does not have."""
        theirs, ours = self.master.parts, self.slave.parts
        theirs.topics.put_all([TopicConfig(f"topic-{number}", 4, 4, 6) for number in range(5)])
        theirs.groups.put_all([SubscriptionGroupConfig(group_name=f"group-{number}") for number in range(5)])
        theirs.groups.set_readable("group-1", "topic-1", False)
        for queue_id in range(4):
            theirs.offsets.commit("group-1", "topic-1", queue_id, 100 + queue_id)
        theirs.modes.put(MessageRequestMode("topic-1", "group-1", "POP"))
        theirs.delays.resume_from({1: 17, 3: 4})
        ours.topics.put(TopicConfig("of-the-slave", 1, 1, 6))
        ours.topics.put(TopicConfig("topic-1", 1, 1, 2))
        ours.groups.put(SubscriptionGroupConfig(group_name="of-the-slave"))
        ours.offsets.commit("of-the-slave", "topic-1", 0, 1)
        ours.offsets.commit("group-1", "topic-1", 0, 999)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Return a master and a slave, which are stopped in the end."""
    made = Pair(tmp_path)
    yield made
    made.slave.stop()
    made.master.stop()


@pytest.mark.parametrize("page_names", [1, 3, 2_000])
def test_every_table_becomes_the_masters_in_one_round(
    pair: Pair, page_names: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.replication.slave.rounds.PAGE_NAMES", page_names)
    pair.fill()
    pair.round()
    pair.assert_equal()
    assert pair.rounds.is_complete


def test_the_copy_is_there_after_a_restart_of_the_slave(pair: Pair) -> None:
    pair.fill()
    pair.round()
    pair.slave = pair.slave.restart()
    ours, theirs = pair.slave.parts, pair.master.parts
    assert ours.topics.table() == theirs.topics.table()
    assert ours.groups.table() == theirs.groups.table()
    assert ours.groups.forbidden() == theirs.groups.forbidden()
    assert ours.offsets.of_topic("group-1", "topic-1") == theirs.offsets.of_topic("group-1", "topic-1")
    assert ours.offsets.of_topic("of-the-slave", "topic-1") == {}
    assert ours.modes.all() == theirs.modes.all()


def test_what_is_equal_already_is_left_alone(pair: Pair) -> None:
    pair.fill()
    pair.round()
    told: list[int] = []
    pair.slave.parts.topics.on_change(lambda: told.append(1))
    configs = dict(pair.slave.parts.topics.table())
    pair.asked.clear()
    pair.round()
    assert sorted(pair.asked) == sorted(
        [
            *(Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ALL_CONSUMER_OFFSET),
            *(Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.GET_ALL_DELAY_OFFSET, Code.GET_BROKER_RUNTIME_INFO),
            Code.GET_BROKER_HA_STATUS,
        ]
    )
    assert not told
    assert all(pair.slave.parts.topics.table()[name] is config for name, config in configs.items())


def test_each_change_at_the_master_is_followed(pair: Pair) -> None:
    pair.fill()
    pair.round()
    theirs = pair.master.parts
    told: list[int] = []
    pair.slave.parts.topics.on_change(lambda: told.append(1))
    theirs.topics.delete("topic-2")
    theirs.topics.put(TopicConfig("new", 2, 2, 6))
    theirs.groups.delete("group-2")
    theirs.groups.set_readable("group-1", "topic-1", True)
    theirs.offsets.commit("group-1", "topic-1", 2, 50)
    theirs.offsets.remove("group-1", "topic-1")
    theirs.offsets.commit("group-3", "topic-1", 1, 0)
    theirs.modes.put(MessageRequestMode("topic-1", "group-1", "PULL"))
    theirs.delays.resume_from({1: 18})
    pair.round()
    pair.assert_equal()
    assert told, "the name servers hear of the changed topics"


@pytest.mark.parametrize(
    "properties", [{"DELAY": "2"}, {"TIMER_DELAY_MS": "1500"}, {"TRAN_MSG": "true", "PGROUP": "producers"}], ids=str
)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_promoted_slave_does_not_make_a_topic_that_its_master_deleted(
    pair: Pair, properties: dict[str, str], is_late: bool
) -> None:
    pair.master.parts.topics.put(TopicConfig("gone", 1, 1, 6))
    pair.round()
    slave = pair.slave
    peer = slave.connect()
    if not is_late:
        slave.send(peer, "gone", properties=properties)
    pair.master.parts.topics.delete("gone")
    pair.round()
    if is_late:
        slave.parts.topics.ensure("gone", 1, 6)
        slave.send(peer, "gone", properties=properties)
        slave.parts.topics.delete("gone")
        pair.round()
    end = slave.parts.log_end
    slave.stop()
    CopyMark(slave.directory).set()
    again = pair.slave = WholeBroker(slave.directory, slave.clock())
    assert again.parts.store.deletion.deleted_topics.offsets["gone"] == end, "the note is on disk"
    again.wait(10)
    assert again.parts.topics.get("gone") is None


def test_queues_of_a_topic_that_is_gone_do_not_bring_it_back_at_the_next_start(pair: Pair) -> None:
    pair.master.parts.topics.put(TopicConfig("gone", 1, 1, 6))
    pair.round()
    pair.slave.send(pair.slave.connect(), "gone")
    assert ("gone", 0) in pair.slave.parts.store.queues()
    pair.master.parts.topics.delete("gone")
    pair.round()
    assert ("gone", 0) not in pair.slave.parts.store.queues()
    pair.slave = pair.slave.restart()
    assert pair.slave.parts.topics.get("gone") is None


def test_queues_of_a_topic_that_a_new_master_never_had_stay(pair: Pair) -> None:
    pair.slave.send(pair.slave.connect(), "unknown")
    for _ in range(2):
        pair.round()
        assert pair.slave.parts.topics.get("unknown") is None
        assert ("unknown", 0) in pair.slave.parts.store.queues()


def deleted_at_master(pair: Pair, topic: str) -> WholeBroker:
    """Let the master delete a topic, whose messages may come to the slave's shorter log; return the slave."""
    pair.master.parts.topics.put(TopicConfig(topic, 1, 1, 6))
    for _ in range(3):
        pair.master.send(pair.master.connect(), topic)
    pair.round()
    pair.master.parts.topics.delete(topic)
    pair.round()
    return pair.slave


def arrive(slave: WholeBroker, topic: str) -> None:
    """Store a message as if it came from the master: the table of topics stays as it is."""
    slave.parts.topics.ensure(topic, 1, 6)
    slave.send(slave.connect(), topic)
    slave.parts.topics.delete(topic)


def test_a_deletion_is_noted_until_the_log_has_what_the_master_had_then(pair: Pair) -> None:
    slave = deleted_at_master(pair, "gone")
    noted = slave.parts.store.deletion.deleted_topics.offsets
    arrive(slave, "gone")
    pair.round()
    assert ("gone", 0) not in slave.parts.store.queues()
    assert 0 < noted["gone"] == slave.parts.log_end < pair.master.parts.log_end
    while slave.parts.log_end < pair.master.parts.log_end:
        arrive(slave, "gone")
    pair.round()
    assert ("gone", 0) not in slave.parts.store.queues()
    end = slave.parts.log_end
    assert noted["gone"] == end
    arrive(slave, "another")
    pair.round()
    assert noted["gone"] == end


def test_a_new_master_keeps_the_queues_of_a_topic_that_the_former_one_deleted(pair: Pair) -> None:
    slave = deleted_at_master(pair, "gone")
    pair.address = Address("192.0.2.8", 10911)
    arrive(slave, "gone")
    pair.round()
    assert ("gone", 0) in slave.parts.store.queues()


def test_a_table_that_is_not_whole_deletes_no_queues(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    slave = deleted_at_master(pair, "gone")
    pair.master.parts.topics.put(TopicConfig("gone", 1, 1, 6))
    arrive(slave, "gone")
    monkeypatch.setattr("gateway.replication.slave.rounds.PAGE_NAMES", 1)
    monkeypatch.setattr("gateway.replication.slave.pages.MAX_PAGES", 1)
    pair.round()
    assert ("gone", 0) in slave.parts.store.queues()


def test_messages_of_a_topic_that_is_made_again_stay_if_they_come_while_its_old_queues_are_deleted(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave = deleted_at_master(pair, "gone")
    arrive(slave, "gone")
    honest = slave.parts.store.deletion.note_deleted

    def late(topics: Any, *more: Any) -> None:
        arrive(slave, "gone")
        honest(topics, *more)

    monkeypatch.setattr(slave.parts.store.deletion, "note_deleted", late)
    pair.round()
    assert ("gone", 0) in slave.parts.store.queues()


def test_a_table_that_changes_between_its_pages_is_copied_as_it_is_in_the_end(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.replication.slave.rounds.PAGE_NAMES", 3)
    pair.fill()
    left = [1, 2]

    def change(code: int, answer: RemotingCommand) -> RemotingCommand:
        if code == Code.GET_ALL_TOPIC_CONFIG and left:
            pair.master.parts.topics.delete(f"topic-{left.pop()}")
        return answer

    pair.answer = change
    pair.round()
    pair.assert_equal()


def test_a_master_that_nobody_named_is_not_asked(pair: Pair) -> None:
    pair.address = None
    pair.round()
    assert pair.asked == []


def changed(answer: RemotingCommand, *, code: int = ResponseCode.SUCCESS, **members: Any) -> RemotingCommand:
    """Put other members into an answer."""
    answer.code = code
    for name, value in members.items():
        setattr(answer, name, value)
    return answer


def failing(_code: int, _answer: RemotingCommand) -> RemotingCommand:
    raise CallFailed("no answer within 3 s")


def nonsense(code: int, answer: RemotingCommand) -> RemotingCommand:
    return changed(answer, body=b"{nonsense")


def refused(_code: int, answer: RemotingCommand) -> RemotingCommand:
    return changed(answer, code=ResponseCode.SYSTEM_ERROR, remark="No topic in this broker")


def but_the_role(answer: Any) -> Any:
    """Leave the answer about the role as it is."""
    return lambda code, honest: honest if code == Code.GET_BROKER_HA_STATUS else answer(code, honest)


TABLES = ["topics", "groups", "consumer offsets", "request modes", "delay levels", "begin of the log"]


@pytest.mark.parametrize(
    ("answer", "said", "tables"),
    [
        (failing, "no answer within 3 s", ["role"]),
        (nonsense, "JSON", ["role"]),
        (refused, "SYSTEM_ERROR: No topic in this broker", ["role"]),
        (but_the_role(failing), "no answer within 3 s", ["topics"]),
        (but_the_role(nonsense), "JSON", TABLES),
        (but_the_role(refused), "SYSTEM_ERROR: No topic in this broker", TABLES),
    ],
)
def test_a_master_that_cannot_be_asked_changes_nothing_and_is_told_once(
    pair: Pair, answer: Any, said: str, tables: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    pair.fill()
    before = dict(pair.slave.parts.topics.table()), dict(pair.slave.parts.offsets.all())
    pair.answer = answer
    with caplog.at_level("INFO"):
        for _ in range(3):
            pair.round()
    assert not pair.rounds.is_complete
    assert (dict(pair.slave.parts.topics.table()), dict(pair.slave.parts.offsets.all())) == before
    told = [record.facts for record in caplog.records if "not copied" in record.message]  # type: ignore[attr-defined]
    assert [facts["table"] for facts in told] == tables
    assert all(said in facts["reason"] for facts in told)
    pair.answer = lambda _, answer: answer
    pair.round()
    pair.assert_equal()


def test_the_tables_of_a_slave_are_not_copied(pair: Pair) -> None:
    """The old master came back as a slave with an empty directory, and the name servers still name it."""
    pair.fill()
    topics, offsets = dict(pair.slave.parts.topics.table()), dict(pair.slave.parts.offsets.all())

    def of_a_slave(code: int, answer: RemotingCommand) -> RemotingCommand:
        if code == Code.GET_BROKER_HA_STATUS:
            return changed(answer, body=ReplicationState(master=False).build())
        return answer

    pair.answer = of_a_slave
    pair.round()
    assert not pair.rounds.is_complete
    assert (dict(pair.slave.parts.topics.table()), dict(pair.slave.parts.offsets.all())) == (topics, offsets)


def test_one_table_that_cannot_be_copied_keeps_the_others_from_nothing(pair: Pair) -> None:
    pair.fill()

    def too_many_queues(code: int, answer: RemotingCommand) -> RemotingCommand:
        if code != Code.GET_ALL_TOPIC_CONFIG:
            return answer
        table = TopicConfigTable({"huge": TopicConfig("huge", 1 << 30, 1 << 30, 6)}, DataVersion(9, 9))
        return changed(answer, body=table.build())

    pair.answer = too_many_queues
    pair.round()
    assert pair.slave.parts.topics.get("huge") is None
    assert pair.slave.parts.topics.get("of-the-slave") is not None
    assert pair.slave.parts.groups.table() == pair.master.parts.groups.table()
    assert pair.slave.parts.offsets.all() == pair.master.parts.offsets.all()


def test_offsets_are_taken_though_the_delay_levels_cannot_be_copied(pair: Pair) -> None:
    pair.fill()
    levels = dict(pair.slave.parts.delays.offsets())

    def no_levels(code: int, answer: RemotingCommand) -> RemotingCommand:
        return changed(answer, body=b"{") if code == Code.GET_ALL_DELAY_OFFSET else answer

    pair.answer = no_levels
    pair.round()
    assert not pair.rounds.is_complete
    assert pair.slave.parts.offsets.all() == pair.master.parts.offsets.all()
    assert dict(pair.slave.parts.delays.offsets()) == levels


def test_a_power_failure_leaves_a_slave_no_offsets_ahead_of_its_log(pair: Pair, tmp_path: Path) -> None:
    master, slave = pair.master, pair.slave
    for broker in (master, slave):
        broker.send(broker.connect())
    pair.round()
    held = HeldThread()
    slave.in_log_thread = held
    master.send(master.connect())
    slave.ask_all(slave.connect(), Code.SEND_MESSAGE, sending(), b"hello")
    assert slave.parts.log_end == master.parts.log_end > slave.parts.store.durable_end
    master.parts.offsets.commit("group", "orders", 0, 2)
    pair.round()
    slave.parts.offsets.persist()
    left = after_power_failure(slave, tmp_path / "left")
    assert len(left.messages("orders")) == 1
    assert left.parts.offsets.query("group", "orders", 0) <= 1
    left.stop()
    while held.waiting:
        held.run_one()
        slave.turn()
    pair.round()
    assert slave.parts.offsets.query("group", "orders", 0) == 2
    slave.in_log_thread = in_this_thread


def after_power_failure(broker: WholeBroker, to: Path) -> WholeBroker:
    """Start from a copy of the directory in which the log ends where it was synced last."""
    end = broker.parts.store.durable_end
    shutil.copytree(broker.directory, to)
    log = to / "commitlog" / "00000000000000000000"
    content = log.read_bytes()
    log.write_bytes(content[:end] + bytes(len(content) - end))
    return WholeBroker(to, broker.clock())


def test_offsets_do_not_count_by_where_the_masters_log_ended_in_an_earlier_round(pair: Pair) -> None:
    pair.round()
    pair.fill()
    offsets = dict(pair.slave.parts.offsets.all())

    def no_end(code: int, answer: RemotingCommand) -> RemotingCommand:
        return changed(answer, body=b"{}") if code == Code.GET_BROKER_RUNTIME_INFO else answer

    pair.answer = no_end
    pair.round()
    assert not pair.rounds.is_complete
    assert dict(pair.slave.parts.offsets.all()) == offsets


def test_a_master_of_4_9_has_no_request_modes_and_answers_without_pages(pair: Pair) -> None:
    pair.fill()

    def of_4_9(code: int, answer: RemotingCommand) -> RemotingCommand:
        if code in (Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.GET_BROKER_HA_STATUS):
            return changed(answer, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="not supported")
        answer.ext_fields.clear()
        return answer

    pair.answer = of_4_9
    pair.round()
    assert pair.rounds.is_complete
    assert pair.slave.parts.topics.table() == pair.master.parts.topics.table()
    assert pair.slave.parts.offsets.all() == pair.master.parts.offsets.all()
