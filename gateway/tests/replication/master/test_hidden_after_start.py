"""A SYNC_MASTER that starts again shows what is known to be replicated; the rest of its log as slaves report it."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.takeover import CopyMark
from gateway.delivery.pop import pops
from gateway.metadata.names import HALF_TOPIC
from gateway.metadata.unread_queues import NARROW
from gateway.replication.replicated_mark import FILE_NAME, build_mark, parse_mark
from gateway.tests.broker.lite.lite_client import PARENT, LiteConsumer, made
from gateway.tests.broker.popping import POP, RETRY_TOPIC, messages, popping
from gateway.tests.broker.whole_broker import WholeBroker, pulling, sending
from gateway.tests.remoting.conversation import Peer
from gateway.tests.replication.master.test_role import HALF, NOBODY, OK, SyncMaster, end, ending, half
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.tools.statistics import ReplicationState
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.offsets import GetMaxOffsetRequest
from wire.headers.pop import NotificationRequest, PeekMessageRequest
from wire.headers.pull import QueryMessageRequest, ViewMessageRequest
from wire.message.flags import PullFlag, SysFlag
from wire.message.record import StoredMessage, build_blank, parse_record, parse_records

TO_ALL: dict[str, Any] = {"topic": "orders", "queue_id": 0}


def good(broker: SyncMaster, body: bytes, **changed: Any) -> Peer:
    """Send a message that a slave gets."""
    broker.report(0)
    peer = broker.connect()
    answers = broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(**changed), body)
    broker.report()
    assert [answer.code for answer in answers or peer.received()] == [OK]
    broker.lose()
    return peer


def killed(broker: SyncMaster, to: Path) -> SyncMaster:
    """Start from what a kill leaves."""
    shutil.copytree(broker.directory, to)
    return SyncMaster(to, broker.clock())


@pytest.fixture
def again(tmp_path: Path) -> SyncMaster:
    """A restarted master whose slave has the first of two messages."""
    broker = SyncMaster(tmp_path / "first")
    good(broker, b"one", properties={"UNIQ_KEY": "k1", "KEYS": "key"})
    assert broker.send(broker.connect(), body=b"two", properties={"UNIQ_KEY": "k2", "KEYS": "key"}).code == NOBODY
    return killed(broker, tmp_path / "killed")


def test_a_restart_hides_what_no_slave_has_until_one_reports_it(again: SyncMaster) -> None:
    assert again.bodies() == [b"one"]
    again.wait(1)
    assert again.bodies() == [b"one"]
    again.report()
    assert again.bodies() == [b"one", b"two"]
    again.stop()


def test_an_orderly_stop_shows_no_more(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path)
    good(broker, b"one")
    broker.send(broker.connect(), body=b"two")
    broker.stop()
    again = SyncMaster(tmp_path, broker.clock())
    assert again.bodies() == [b"one"]
    again.stop()
    last = SyncMaster(tmp_path, again.clock())
    assert last.bodies() == [b"one"]
    last.report()
    last.stop()
    shown = SyncMaster(tmp_path, last.clock())
    assert shown.bodies() == [b"one", b"two"]
    shown.stop()


def test_what_is_sent_meanwhile_comes_after_what_is_hidden(again: SyncMaster) -> None:
    sent = again.send(again.connect(), body=b"three")
    assert (sent.code, sent.ext_fields["queueOffset"]) == (NOBODY, "2")
    assert again.bodies() == [b"one"]
    again.report(again.parts.store.stored_end)
    assert again.bodies() == [b"one", b"two"]
    again.report()
    assert again.bodies() == [b"one", b"two", b"three"]
    again.stop()


def test_a_slave_that_has_a_part_shows_this_part(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path / "first")
    ends = []
    for body in (b"one", b"two", b"three"):
        broker.send(broker.connect(), body=body)
        ends.append(broker.parts.store.durable_end)
    again = killed(broker, tmp_path / "killed")
    assert again.bodies() == []
    again.report(ends[1] - 1)
    assert again.bodies() == [b"one"], "a part of a record is none"
    again.report(ends[1])
    assert again.bodies() == [b"one", b"two"]
    third = killed(again, tmp_path / "third")
    assert third.bodies() == [b"one", b"two"]


def test_no_request_shows_what_is_hidden(again: SyncMaster) -> None:
    peer = again.connect()
    newest = again.ask(peer, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequest(**TO_ALL, committed=True))
    assert newest.ext_fields["offset"] == "1"
    place = again.parts.store.hidden_from
    assert place is not None
    viewed = again.ask(peer, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=place))
    assert viewed.code == ResponseCode.SYSTEM_ERROR
    query = QueryMessageRequest(topic="orders", key="key", max_num=9, begin_timestamp=0, end_timestamp=1 << 60)
    assert again.ask(peer, RequestCode.QUERY_MESSAGE, query).body.count(b"UNIQ_KEY") == 1
    again.report()
    assert again.ask(peer, RequestCode.QUERY_MESSAGE, query).body.count(b"UNIQ_KEY") == 2
    assert again.ask(peer, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=place)).code == OK


def test_a_query_for_one_message_finds_the_newest_that_is_shown(again: SyncMaster) -> None:
    peer = again.connect()
    query = QueryMessageRequest(topic="orders", key="key", max_num=1, begin_timestamp=0, end_timestamp=1 << 60)
    assert [message.body for message in parse_records(again.ask(peer, RequestCode.QUERY_MESSAGE, query).body)] == [
        b"one"
    ]
    again.report()
    assert [message.body for message in parse_records(again.ask(peer, RequestCode.QUERY_MESSAGE, query).body)] == [
        b"two"
    ]


def test_a_look_and_a_notification_do_not_count_what_is_hidden(again: SyncMaster) -> None:
    peer = again.connect()
    noticing = NotificationRequest(consumer_group="group", topic="orders", queue_id=-1, poll_time=0, born_time=0)
    peeking = PeekMessageRequest(consumer_group="group", topic="orders", queue_id=-1, max_msg_nums=1)
    assert again.ask(peer, RequestCode.PEEK_MESSAGE, peeking).ext_fields["restNum"] == "0"
    again.ask(peer, POP, popping())
    assert again.ask(peer, RequestCode.NOTIFICATION, noticing).ext_fields["hasMsg"] == "false"
    again.report()
    assert again.ask(peer, RequestCode.PEEK_MESSAGE, peeking).code == OK


def waiting(broker: SyncMaster, *offsets: int) -> Peer:
    """A consumer whose pulls wait."""
    consumer = broker.connect()
    broker.subscribe(consumer)
    for offset in offsets:
        pull = pulling(offset, sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION, max_msg_nums=1)
        assert broker.ask_all(consumer, RequestCode.PULL_MESSAGE, pull) == []
    return consumer


@pytest.mark.parametrize("offset", [1, 2], ids=["at the end", "after it"])
def test_a_pull_waits_there_and_is_answered_when_its_message_can_be_seen(again: SyncMaster, offset: int) -> None:
    """A consumer may be further than what is shown if a power failure took the newest mark."""
    consumer = waiting(again, offset)
    again.report()
    if offset == 2:
        assert consumer.received() == []
        sender = again.connect()
        again.ask_all(sender, RequestCode.SEND_MESSAGE, sending(), b"three")
        again.report()
    (answer,) = consumer.received()
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (OK, str(offset + 1))


@pytest.fixture
def ends() -> list[int]:
    """The ends of the messages that ``stepwise`` hides."""
    return []


@pytest.fixture
def stepwise(tmp_path: Path, ends: list[int]) -> SyncMaster:
    """A restarted master that hides three messages."""
    broker = SyncMaster(tmp_path / "first")
    for body in (b"one", b"two", b"three"):
        broker.send(broker.connect(), body=body)
        ends.append(broker.parts.store.durable_end)
    return killed(broker, tmp_path / "killed")


def test_a_waiting_pull_is_answered_by_the_step_that_shows_its_message(stepwise: SyncMaster, ends: list[int]) -> None:
    consumer = waiting(stepwise, 0, 1, 2)
    for number, place in enumerate(ends, 1):
        stepwise.report(place)
        (answer,) = consumer.received()
        assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (OK, str(number))
    stepwise.stop()


def test_a_waiting_pop_is_answered_by_the_step_that_shows_its_message(stepwise: SyncMaster, ends: list[int]) -> None:
    clients = [stepwise.connect() for _ in ends]
    for client in clients:
        assert (
            stepwise.ask_all(client, POP, popping(max_msg_nums=1, poll_time=60_000, born_time=stepwise.clock())) == []
        )
    stepwise.report(ends[0])
    stepwise.report(ends[1])
    assert stepwise.parts.pops.held.count(("orders", "group", -1)) == 1
    stepwise.report(ends[2])
    stepwise.report()  # the records of the pops
    bodies = [[popped.record.body for answer in client.received() for popped in messages(answer)] for client in clients]
    assert bodies == [[b"one"], [b"two"], [b"three"]]
    stepwise.stop()


@pytest.mark.parametrize(("kind", "expression"), [("TAG", "{}"), ("SQL92", "TAGS = '{}'")], ids=["tags", "properties"])
@pytest.mark.parametrize("queue_id", [-1, 0], ids=["any queue", "one queue"])
def test_a_shown_message_wakes_the_waiting_pop_whose_filter_lets_it_pass(
    tmp_path: Path, kind: str, expression: str, queue_id: int
) -> None:
    broker = SyncMaster(tmp_path / "first")
    broker.send(broker.connect(), body=b"two", properties={"TAGS": "b"})
    again = killed(broker, tmp_path / "killed")
    clients = [again.connect() for _ in "aab"]
    for client, tag in zip(clients, "aab", strict=True):
        pop = popping(exp_type=kind, exp=expression.format(tag), queue_id=queue_id, poll_time=60_000)
        assert again.ask_all(client, POP, pop) == []
    again.report()
    again.report()  # the record of the pop
    assert [popped.record.body for answer in clients[-1].received() for popped in messages(answer)] == [b"two"]
    assert again.parts.pops.held.count(("orders", "group", queue_id)) == 2
    again.stop()


def test_shown_messages_are_read_once_and_up_to_a_limit_for_all_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def parsed(data: bytes) -> list[StoredMessage]:
        read.append(len(data))
        return parse_records(data)

    monkeypatch.setattr(pops, "READ_BYTES", 1_200)
    monkeypatch.setattr(pops, "parse_records", parsed)
    broker = SyncMaster(tmp_path / "first")
    for queue_id in range(4):
        broker.send(broker.connect(), body=bytes(300), queue_id=queue_id, properties={"TAGS": "b"})
    again = killed(broker, tmp_path / "killed")
    client, other = again.connect(), again.connect()
    assert again.ask_all(client, POP, popping(exp="a", poll_time=60_000)) == []
    header = NotificationRequest(
        consumer_group="others",
        topic="orders",
        queue_id=-1,
        poll_time=60_000,
        born_time=again.clock(),
        exp_type="TAG",
        exp="a",
    )
    assert again.ask_all(other, RequestCode.NOTIFICATION, header) == []
    again.report()
    assert len(read) == 3
    assert sum(read[:2]) < 1_200 < sum(read)
    assert again.parts.pops.held.count(("orders", "group", -1)) == 1, "woken by the fourth, and held again"
    again.stop()


@pytest.mark.parametrize("shown", [1, 3], ids=["a part", "all"])
def test_a_waiting_notification_is_answered_by_the_step_that_shows_a_message(
    stepwise: SyncMaster, ends: list[int], shown: int
) -> None:
    clients = [stepwise.connect() for _ in range(2)]
    header = NotificationRequest(
        consumer_group="group", topic="orders", queue_id=-1, poll_time=60_000, born_time=stepwise.clock()
    )
    for client in clients:
        assert stepwise.ask_all(client, RequestCode.NOTIFICATION, header) == []
    stepwise.report(ends[shown - 1])
    answers = [answer.ext_fields["hasMsg"] for client in clients for answer in client.received()]
    assert answers == ["true", "true"]
    stepwise.stop()


def test_a_pop_finds_what_is_shown_in_a_queue_that_was_at_its_end(tmp_path: Path) -> None:
    wide = TopicConfig("orders", NARROW + 1, NARROW + 1, 6)
    broker = SyncMaster(tmp_path / "first")
    broker.parts.topics.put(wide)
    broker.send(broker.connect(), body=b"one")
    again = killed(broker, tmp_path / "killed")
    again.parts.topics.put(wide)
    client = again.connect()
    assert again.ask(client, POP, popping()).body == b""
    again.report()
    answers = again.ask_all(client, POP, popping())
    again.report()
    answers += client.received()
    assert [popped.record.body for answer in answers for popped in messages(answer)] == [b"one"]
    again.stop()


def test_a_shown_message_that_was_popped_is_stored_again_while_others_are_hidden(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path / "first")
    ends = []
    for body in (b"one", b"two"):
        good(broker, body)
        ends.append(broker.parts.store.durable_end)
    client = broker.connect()
    for _ in range(2):
        broker.report()
        broker.ask_all(client, POP, popping(max_msg_nums=1, invisible_time=1_000))
    broker.report()
    shutil.copytree(broker.directory, tmp_path / "older")
    (tmp_path / "older" / FILE_NAME).write_bytes(build_mark(ends[0]))  # as a power failure leaves it
    older = SyncMaster(tmp_path / "older", broker.clock())
    assert older.bodies() == [b"one"]
    older.wait(3)
    assert again_stored(older) == [b"one"]
    older.report(ends[1])
    older.wait(2)
    assert again_stored(older) == [b"one", b"two"]
    older.report()
    older.wait(2)
    older.report()
    assert older.bodies(RETRY_TOPIC) == [b"one", b"two"]
    older.stop()


def test_a_popped_message_is_stored_again_once_though_no_slave_has_that(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path)
    good(broker, b"one")
    broker.report()
    broker.ask_all(broker.connect(), POP, popping(invisible_time=1_000))
    broker.report()
    broker.lose()
    broker.wait(4)
    assert again_stored(broker) == [b"one"]
    broker.report()
    broker.wait(2)
    assert (again_stored(broker), broker.bodies(RETRY_TOPIC)) == ([b"one"], [b"one"])
    broker.stop()


def again_stored(broker: SyncMaster) -> list[bytes]:
    """What is stored for another delivery, whether or not readers see it."""
    store = broker.parts.store
    found, place = [], 0
    while (record := store.durable_record_at(place)) is not None:
        message = parse_record(record)
        found += [message.body] if message.topic == RETRY_TOPIC else []
        place += len(record)
    return found


@pytest.mark.parametrize("all_of_parent", [False, True])
def test_a_lite_message_comes_to_who_subscribed_while_it_was_hidden(tmp_path: Path, all_of_parent: bool) -> None:
    changed = {"enable_lmq": True, "enable_multi_dispatch": True}
    attributes = {"lite.sub.wildcard": "true"} if all_of_parent else {}
    broker = SyncMaster(tmp_path / "first", **changed)
    made(broker, attributes=attributes)
    assert broker.send(broker.connect(), PARENT, b"two", properties={"__LITE_TOPIC": "a"}).code == NOBODY
    shutil.copytree(broker.directory, tmp_path / "killed")
    again = SyncMaster(tmp_path / "killed", broker.clock(), **changed)
    made(again, attributes=attributes)
    consumer = LiteConsumer(again)
    assert consumer.tell("COMPLETE_ADD", *([] if all_of_parent else ["a"])).code == OK
    consumer.wait()
    again.report()
    again.report()
    assert [popped.text for popped in consumer.woken()] == ["two"]
    again.stop()


def test_an_outcome_that_is_hidden_settles_its_half_message(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path / "first")
    broker.report(0)
    peer = broker.connect()
    assert broker.ask_all(peer, RequestCode.SEND_MESSAGE, sending(properties=HALF), b"paid") == []
    broker.report()
    (sent,) = peer.received()
    broker.lose()
    assert [answer.code for answer in end(broker, sent, SysFlag.TRANSACTION_COMMIT)] == [NOBODY]
    again = killed(broker, tmp_path / "killed")
    assert again.bodies() == []
    assert again.parts.transactions.pending.count == 0
    again.report()
    again.wait(1)
    assert again.bodies() == [b"paid"]
    again.stop()


def test_a_hidden_half_message_is_checked_when_a_slave_has_it(tmp_path: Path) -> None:
    changed = {"transaction_timeout_ms": 0}
    broker = SyncMaster(tmp_path / "first", **changed)
    assert half(broker).code == NOBODY
    shutil.copytree(broker.directory, tmp_path / "killed")
    again = SyncMaster(tmp_path / "killed", broker.clock(), **changed)
    producer = again.connect()
    body = HeartbeatData("client", producers=("producers",)).build()
    again.ask_all(producer, RequestCode.HEART_BEAT, body=body)
    again.wait(3)
    assert producer.received() == []
    assert again.messages(HALF_TOPIC) == []
    again.report()
    again.wait(3)
    assert {check.code for check in producer.received()} == {RequestCode.CHECK_TRANSACTION_STATE}
    again.stop()


def test_an_outcome_of_a_hidden_half_message_is_answered_at_the_stop(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path / "first")
    sent = half(broker)
    assert sent.code == NOBODY
    again = killed(broker, tmp_path / "killed")
    peer = again.connect()
    header = ending(sent, SysFlag.TRANSACTION_ROLLBACK)
    assert again.ask_all(peer, RequestCode.END_TRANSACTION, header) == []
    again.stop()
    assert [answer.code for answer in peer.received()] != []


def test_a_delayed_message_whose_delivery_is_hidden_comes_once(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path / "first")
    good(broker, b"later", properties={"DELAY": "1", "UNIQ_KEY": "later"})
    broker.wait(2)
    assert broker.bodies() == []
    broker.stop()
    again = SyncMaster(broker.directory, broker.clock())
    again.wait(3)
    assert again.bodies() == []
    again.report()
    again.wait(3)
    again.report()
    assert again.bodies() == [b"later"]
    again.stop()


def test_a_delayed_message_is_delivered_once_all_is_shown(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path / "first")
    broker.send(broker.connect(), body=b"later", properties={"DELAY": "1"})
    again = killed(broker, tmp_path / "killed")
    again.wait(3)
    end_before = again.parts.store.max_commit_log_offset
    again.report()
    again.wait(3)
    assert again.parts.store.max_commit_log_offset > end_before
    again.report()
    assert again.bodies() == [b"later"]
    again.stop()


def test_a_broker_that_waits_for_no_slave_shows_everything_and_so_do_later_starts(
    again: SyncMaster, caplog: pytest.LogCaptureFixture
) -> None:
    again.stop()
    alone = WholeBroker(again.directory, again.clock())
    assert [message.body for message in alone.messages("orders")] == [b"one", b"two"]
    assert not (again.directory / FILE_NAME).exists()
    alone.stop()
    with caplog.at_level(logging.WARNING, "gateway"):
        last = SyncMaster(again.directory, alone.clock())
    assert last.bodies() == [b"one", b"two"]
    assert [record for record in caplog.records if "hidden" in record.message] == []
    last.stop()


@pytest.mark.parametrize("was_a_copy", [False, True])
def test_a_promoted_slave_shows_what_was_a_copy_of_its_masters_log(again: SyncMaster, was_a_copy: bool) -> None:
    again.stop()
    CopyMark(again.directory).set()
    if was_a_copy:
        (again.directory / FILE_NAME).unlink()
    promoted = SyncMaster(again.directory, again.clock())
    assert promoted.bodies() == [b"one", b"two"][: 1 + was_a_copy]
    promoted.report()
    assert promoted.bodies() == [b"one", b"two"]
    promoted.stop()


def test_the_start_says_what_is_hidden_and_how_to_see_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = SyncMaster(tmp_path / "first")
    broker.send(broker.connect(), body=b"one")
    with caplog.at_level(logging.WARNING, "gateway"):
        again = killed(broker, tmp_path / "killed")
    [said] = [record for record in caplog.records if "hidden until" in record.message]
    assert said.message == "hidden until enough slaves have it; with brokerRole=ASYNC_MASTER a start shows it"
    assert again.master._stage is not None
    assert again.master._stage.held_bytes == again.parts.store.durable_end


def test_a_damaged_mark_hides_everything(again: SyncMaster) -> None:
    again.stop()
    (again.directory / FILE_NAME).write_bytes(b"no mark at all")
    last = SyncMaster(again.directory, again.clock())
    assert last.bodies() == []
    last.report()
    assert last.bodies() == [b"one", b"two"]
    last.stop()


def test_a_mark_says_where_it_was_put() -> None:
    assert parse_mark(build_mark(1 << 40)) == 1 << 40
    assert parse_mark(build_mark(7)[:-1]) == parse_mark(b"") == parse_mark(bytes(12)) == parse_mark(build_mark(-5)) == 0


def test_what_slaves_report_during_the_stop_is_shown_at_the_next_start(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path)
    broker.send(broker.connect(), body=b"one")
    assert broker.master._stage is not None
    broker.master._stage.let_all_pass()
    broker.report()
    broker.stop()
    again = SyncMaster(tmp_path, broker.clock())
    assert again.bodies() == [b"one"]
    again.stop()


def test_a_start_with_too_much_hidden_refuses_messages_until_slaves_have_it(tmp_path: Path) -> None:
    broker = SyncMaster(tmp_path)
    for _ in range(8):
        broker.send(broker.connect(), body=b"x" * 200)
    broker.stop()
    again = SyncMaster(tmp_path, broker.clock(), max_unreplicated_bytes=1_000)
    again.master.serve(again.parts.store, again.master._members)
    answer = again.send(again.connect())
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "wait for slaves" in (answer.remark or "")
    again.report()
    again.report(0)
    assert again.send(again.connect(), properties={"WAIT": "false"}).code == OK
    again.stop()


def test_a_filler_at_the_end_of_the_log_is_not_waited_for(tmp_path: Path) -> None:
    """Slaves store it with the record that follows."""
    broker = SyncMaster(tmp_path / "first")
    broker.send(broker.connect(), body=b"one")
    end_of_record = broker.parts.store.durable_end
    shutil.copytree(broker.directory, tmp_path / "killed")
    [file] = (tmp_path / "killed" / "commitlog").iterdir()
    with file.open("r+b") as stream:
        stream.seek(end_of_record)
        stream.write(build_blank(file.stat().st_size - end_of_record))
    again = SyncMaster(tmp_path / "killed", broker.clock())
    assert again.parts.store.durable_end > end_of_record
    assert again.bodies() == []
    again.report(end_of_record)
    assert again.bodies() == [b"one"]
    assert again.parts.store.hidden_from is None
    again.master.serve(again.parts.store, again.master._members)
    line = again.master._serving.buildProtocol(None)
    line.peer, line.reported_end, line.sends, line.broker_id = "10.0.0.2:40000", end_of_record, True, 1
    again.master._serving._lines[line] = None
    assert lags(again) == (0, 0), "not behind while nothing follows the filler"
    del again.master._serving._lines[line]  # nothing is sent to it
    assert again.send(again.connect(), properties={"WAIT": "false"}).code == OK
    again.master._serving._lines[line] = None
    behind = again.parts.store.durable_end - end_of_record
    assert lags(again) == (behind, behind)
    del again.master._serving._lines[line]
    again.stop()


def lags(broker: SyncMaster) -> tuple[int, float]:
    """How far a slave is behind, as ``haStatus`` and the metrics show it."""
    answer = broker.ask(broker.connect(), RequestCode.GET_BROKER_HA_STATUS)
    [row] = ReplicationState.parse(answer.body).connections
    [lag] = [one.value for one in broker.parts.registry.samples() if one.name == "rocketmq_gateway_replica_lag_bytes"]
    return row.diff, lag
