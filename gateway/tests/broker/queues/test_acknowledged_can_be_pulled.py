"""Whatever is acknowledged can be pulled: for all numbers of queues, all ways of sending, and numbers that change."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import pytest

from gateway.metadata.names import HALF_TOPIC
from gateway.tests.broker.popping import RETRY_TOPIC, filled, pop
from gateway.tests.broker.send_requests import BATCH, batch, short
from gateway.tests.broker.whole_broker import WholeBroker, pulling, sending
from gateway.tests.remoting.conversation import Peer
from gateway.transaction.states import Event
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id
from wire.message.record import parse_records

HALF = {"TRAN_MSG": "true", "PGROUP": "producers"}
WAYS: dict[str, dict[str, str]] = {
    "plain": {},
    "delayed": {"DELAY": "1"},
    "timed": {"TIMER_DELAY_MS": "1500"},
    "urgent": {"_SYS_MSG_PRIORITY_": "9"},
    "half": HALF,
    "batch": {},
}
NUMBERS = (0, 1, 3)
QUEUE_IDS = (-1, 0, 2, 3)


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def sent(broker: WholeBroker, peer: Peer, topic: str, way: str, queue_id: int, key: str) -> RemotingCommand:
    """The answer to a message whose body and unique key are ``key``."""
    if way == "batch":
        header = short(sending(topic, queue_id=queue_id, batch=True))
        return broker.ask(peer, BATCH, header, batch((key.encode(), {"UNIQ_KEY": key})))
    properties = {**WAYS[way], "UNIQ_KEY": key}
    return broker.send(peer, topic, key.encode(), queue_id=queue_id, properties=properties)


def commit_all(broker: WholeBroker, peer: Peer) -> None:
    """Commit every half message, as its producer does."""
    for half in broker.messages(HALF_TOPIC):
        header = EndTransactionRequest(
            producer_group="producers",
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.commit_log_offset,
            commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
            msg_id=half.unique_key or "",
        )
        assert broker.ask(peer, RequestCode.END_TRANSACTION, header).code == ResponseCode.SUCCESS


def pulled(broker: WholeBroker, topic: str, queues: int) -> set[str]:
    """The bodies that consumers get out of the read queues of a topic."""
    peer, found = broker.connect(), set()
    for queue_id in range(queues):
        answer = broker.ask(peer, RequestCode.PULL_MESSAGE, pulling(topic=topic, queue_id=queue_id))
        if answer.code == ResponseCode.SUCCESS:
            found |= {record.body.decode() for record in parse_records(answer.body)}
    return found


def test_every_acknowledged_message_can_be_pulled(broker: WholeBroker) -> None:
    """Three numbers of read and of write queues, four queue ids, six ways of sending."""
    peer = broker.connect()
    expected: dict[tuple[str, int], set[str]] = {}
    for read, write in product(NUMBERS, NUMBERS):
        topic = f"r{read}w{write}"
        broker.parts.topics.put(TopicConfig(topic, read, write))
        acknowledged = expected.setdefault((topic, read), set())
        for way, queue_id in product(WAYS, QUEUE_IDS):
            key = f"{topic} {way} {queue_id}"
            answer = sent(broker, peer, topic, way, queue_id, key)
            if answer.code == ResponseCode.SUCCESS:
                acknowledged.add(key)
            else:
                wanted = ResponseCode.INVALID_PARAMETER if queue_id >= max(read, write) else ResponseCode.SYSTEM_ERROR
                assert answer.code == wanted, key
                assert "queueId" in (answer.remark or "")
    commit_all(broker, peer)
    broker.wait(3)
    assert {place: pulled(broker, *place) for place in expected} == expected
    taken = [
        (0 <= queue_id < read) or (queue_id < 0 < min(read, write))
        for read, write, queue_id in product(NUMBERS, NUMBERS, QUEUE_IDS)
    ]
    assert sum(map(len, expected.values())) == len(WAYS) * sum(taken)


def test_a_queue_that_nobody_can_read_is_refused_from_when_the_number_became_smaller(broker: WholeBroker) -> None:
    """Producers go on with the route they know, and their messages are all alike."""
    peer = broker.connect()
    codes = []
    for number in range(8):
        broker.parts.topics.put(TopicConfig("orders", 4 if number < 4 else 2, 4))
        answer = broker.send(
            peer, queue_id=3, properties={"UNIQ_KEY": f"{number:032X}", "WAIT": "true"}, body=b"%d" % number
        )
        codes.append(answer.code)
    assert codes == [ResponseCode.SUCCESS] * 4 + [ResponseCode.SYSTEM_ERROR] * 4
    assert answer.remark == (
        "nobody could read a message sent to queueId[3] of topic[orders]: its readQueueNums is 2, its writeQueueNums 4"
    )


def test_what_waits_while_the_number_becomes_smaller_goes_to_a_queue_that_is_read(broker: WholeBroker) -> None:
    peer = broker.connect()
    broker.parts.topics.put(TopicConfig("orders", 8, 8))
    ways = ("delayed", "timed", "half")
    for way in ways:
        assert sent(broker, peer, "orders", way, 7, way).code == ResponseCode.SUCCESS
    broker.parts.topics.put(TopicConfig("orders", 3, 3))
    commit_all(broker, peer)
    broker.wait(3)
    assert pulled(broker, "orders", 3) == set(ways)
    assert [message.body for message in broker.messages("orders", 7 % 3)] == [b"half", b"delayed", b"timed"]


def test_what_waits_while_a_topic_has_no_read_queue_is_there_when_it_has_some_again(broker: WholeBroker) -> None:
    peer = broker.connect()
    broker.parts.topics.put(TopicConfig("orders", 2, 2))
    for way in ("delayed", "timed", "half"):
        assert sent(broker, peer, "orders", way, 1, way).code == ResponseCode.SUCCESS
    broker.parts.topics.put(TopicConfig("orders", 0, 0))
    commit_all(broker, peer)
    broker.wait(3)
    broker.parts.topics.put(TopicConfig("orders", 2, 2))
    assert pulled(broker, "orders", 2) == {"delayed", "timed", "half"}


def test_a_commit_into_another_queue_is_known_after_a_kill_that_lost_its_op_record(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    peer = broker.connect()
    broker.parts.topics.put(TopicConfig("orders", 8, 8))
    for key in ("a", "b"):
        sent(broker, peer, "orders", "half", 7, key)
    broker.parts.topics.put(TopicConfig("orders", 3, 3))
    half = broker.messages(HALF_TOPIC)[0]
    broker.parts.transactions.settling.ask(half, Event.COMMIT, ("producer", "test"), None)
    broker.turn()
    [op] = broker.messages("RMQ_SYS_TRANS_OP_HALF_TOPIC")
    image = tmp_path / "image"
    shutil.copytree(broker.directory, image)
    cut_log(image, op.commit_log_offset)
    again = WholeBroker(image, broker.clock())
    assert again.parts.transactions.counts.half_messages.value == 1
    assert [message.body for message in again.messages("orders", 1)] == [b"a"]


def cut_log(directory: Path, end: int) -> None:
    """Leave nothing of the first commit log file from an offset on, as a kill in the middle of a write does."""
    [file] = (directory / "commitlog").iterdir()
    with file.open("r+b") as log:
        size = log.seek(0, 2)
        log.seek(end)
        log.write(bytes(size - end))


def test_messages_of_a_write_only_topic_are_there_when_it_may_be_read(broker: WholeBroker) -> None:
    """A permission is taken away for a while, by somebody who knows it: sends are taken, as by Apache RocketMQ."""
    peer = broker.connect()
    broker.parts.topics.put(TopicConfig("orders", 2, 2, perm=2))
    for way in WAYS:
        assert sent(broker, peer, "orders", way, -1, way).code == ResponseCode.SUCCESS
    commit_all(broker, peer)
    broker.wait(3)
    assert pulled(broker, "orders", 2) == set()
    broker.parts.topics.put(TopicConfig("orders", 2, 2, perm=4))
    assert pulled(broker, "orders", 2) == set(WAYS)


def send_back(broker: WholeBroker, peer: Peer, offset: int, delay_level: int) -> RemotingCommand:
    header = ConsumerSendMsgBackRequest(offset=offset, group="group", delay_level=delay_level)
    return broker.ask(peer, RequestCode.CONSUMER_SEND_MSG_BACK, header)


@pytest.mark.parametrize(("topic", "delay_level"), [("%RETRY%group", 1), ("%DLQ%group", -1)])
def test_a_message_is_not_sent_back_to_where_nobody_reads(broker: WholeBroker, topic: str, delay_level: int) -> None:
    peer = broker.connect()
    broker.parts.groups.put(SubscriptionGroupConfig("group"))
    offset = parse_offset_message_id(broker.send(peer).ext_fields["msgId"])[1]
    broker.parts.topics.put(TopicConfig(topic, 0, 1))
    answer = send_back(broker, peer, offset, delay_level)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"topic[{topic}] has no read queue" in (answer.remark or "")
    broker.parts.topics.put(TopicConfig(topic, 1, 1))
    assert send_back(broker, peer, offset, delay_level).code == ResponseCode.SUCCESS
    broker.wait(2)
    assert pulled(broker, topic, 1) == {"hello"}


def test_a_client_sends_no_dead_letter_to_where_nobody_reads(broker: WholeBroker) -> None:
    broker.parts.groups.put(SubscriptionGroupConfig("group", retry_max_times=3))
    broker.parts.topics.put(TopicConfig("%DLQ%group", 0, 1))
    answer = broker.send(broker.connect(), "%RETRY%group", reconsume_times=4)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "%DLQ%group" in (answer.remark or "")


@pytest.mark.parametrize("separate", [False, True])
def test_a_popped_message_comes_again_where_it_is_popped(tmp_path: Path, separate: bool) -> None:
    broker = WholeBroker(tmp_path / "store", use_separate_retry_queue=separate)
    for queue_id in range(4):
        filled(broker, f"{queue_id}", queue_id=queue_id)
    broker.parts.topics.put(TopicConfig(RETRY_TOPIC, 2, 4))
    client = broker.connect()
    assert len(pop(broker, client, invisible_time=1_000)) == 4
    broker.wait(3)
    assert sorted(message.record.body for message in pop(broker, client)) == [b"0", b"1", b"2", b"3"]


def test_a_popped_message_waits_while_its_retry_topic_cannot_be_read(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.parts.topics.put(TopicConfig(RETRY_TOPIC, 0, 1))
    assert len(pop(broker, client, invisible_time=1_000)) == 1
    broker.wait(3)
    broker.parts.topics.put(TopicConfig(RETRY_TOPIC, 1, 1))
    broker.wait(2)
    assert [message.record.body for message in pop(broker, client)] == [b"a"]
