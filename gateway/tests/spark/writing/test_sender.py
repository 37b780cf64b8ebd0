"""Rows are sent until they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from gateway.client.connect.routes import TopicRoute
from gateway.client.errors import BrokerError, ConnectionLost, MessageRefused, RequestTimeout, RouteNotFound
from gateway.client.message import Message
from gateway.client.send.queue_choice import queue_by_key
from gateway.spark.options import write_options
from gateway.spark.writing import sender as sender_module
from gateway.spark.writing.rows import PlainRows, RowToSend
from gateway.spark.writing.sender import TaskSender
from gateway.tests.spark.messages import HOST
from gateway.tests.spark.pretend_cluster import queue
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.send import ShortSendMessageRequest
from wire.message.batch import BatchPart, parse_batch
from wire.message.flags import SysFlag
from wire.message.message_id import build_offset_message_id
from wire.message.properties import parse_properties

LOST = ConnectionLost("10.0.0.7:10911", "reset")
QUEUES = tuple(
    queue(number, topic, broker) for broker in ("broker-a", "broker-b") for number in range(2) for topic in ("orders",)
)


class PretendBrokers:
    """Stores what is sent, unless a test has another answer ready."""

    def __init__(self) -> None:
        self.stored: list[tuple[Any, list[BatchPart]]] = []
        self.answers: list[Exception | int] = []
        self.sent: list[RemotingCommand] = []
        self.unsettled = 0
        self.most_unsettled = 0
        self.address = "10.0.0.7:10911"
        self.known = True

    def route(self, topic: str, *, fresh: bool = False) -> TopicRoute | None:
        return TopicRoute(topic, QUEUES, QUEUES, {}) if self.known else None

    def broker(self, broker_name: str, topic: str, *, fresh: bool = False) -> PretendBrokers:
        return self

    def forget(self, broker_name: str) -> None:
        pass

    def start(self, command: RemotingCommand, timeout_s: float) -> int:
        self.sent.append(command)
        self.unsettled += 1
        self.most_unsettled = max(self.most_unsettled, self.unsettled)
        return len(self.sent) - 1

    def finish(self, opaque: int, timeout_s: float) -> RemotingCommand:
        self.unsettled -= 1
        command = self.sent[opaque]
        answer = self.answers.pop(0) if self.answers else ResponseCode.SUCCESS
        if isinstance(answer, Exception):
            raise answer
        if answer == ResponseCode.SUCCESS:
            self.store(command)
        fields: Any = {
            "msgId": build_offset_message_id(HOST, 1000 + opaque),
            "queueId": "0",
            "queueOffset": str(opaque),
        }
        return RemotingCommand(answer, flag=1, remark="as told", ext_fields=fields)

    def store(self, command: RemotingCommand) -> None:
        header: Any = parse_header(ShortSendMessageRequest, command.ext_fields)
        if command.code == RequestCode.SEND_BATCH_MESSAGE:
            parts = parse_batch(command.body)
        else:
            parts = [BatchPart(header.flag, command.body, header.properties.encode())]
        self.stored.append((header, parts))

    def abandon(self, opaque: int) -> None:
        self.unsettled -= 1

    @property
    def bodies(self) -> list[bytes]:
        return [part.body for _, parts in self.stored for part in parts]

    def properties(self) -> list[Mapping[str, str]]:
        return [parse_properties(part.properties) for _, parts in self.stored for part in parts]


@pytest.fixture
def brokers() -> PretendBrokers:
    """Two brokers with two queues each."""
    return PretendBrokers()


def a_sender(brokers: PretendBrokers, **given: str) -> TaskSender:
    clock = [0.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    options = write_options({"nameServer": "a:1", "topic": "orders", **given})
    cluster: Any = brokers
    return TaskSender(cluster, options, {"SPARK_QUERY": "q"}, wait=wait, now=lambda: clock[0])


def send(sender: TaskSender, count: int, **given: Any) -> int:
    for number in range(count):
        sender.send(RowToSend(Message("orders", b"%d" % number, **given)))
    return sender.finish()


def test_rows_travel_in_batches_and_each_is_numbered(brokers: PretendBrokers) -> None:
    assert send(a_sender(brokers), 100, tags="A", flag=5) == 100
    assert [len(parts) for _, parts in brokers.stored] == [100]
    assert brokers.bodies == [b"%d" % number for number in range(100)]
    assert [found["SPARK_SEQ"] for found in brokers.properties()] == [str(number) for number in range(100)]
    first = brokers.properties()[0]
    assert (first["SPARK_QUERY"], first["TAGS"], first["WAIT"], len(first["UNIQ_KEY"])) == ("q", "A", "true", 32)
    assert {part.flag for _, parts in brokers.stored for part in parts} == {5}


def test_a_message_with_too_many_properties_is_named(brokers: PretendBrokers) -> None:
    sender = a_sender(brokers)
    sender.send(RowToSend(Message("orders", b"x")))
    with pytest.raises(MessageRefused, match=r"take 40\d+ bytes, the limit is 32767 \(row 1 of the task\)"):
        sender.send(RowToSend(Message("orders", b"y", properties={"a": "v" * 40_000})))


def test_batches_take_turns_among_the_queues(brokers: PretendBrokers) -> None:
    send(a_sender(brokers, batchBytes="500"), 100)
    assert len({(header.queue_id, header.broker_name) for header, _ in brokers.stored}) == 4
    assert sorted(brokers.bodies, key=int) == [b"%d" % number for number in range(100)]


def test_only_so_many_batches_are_under_way(brokers: PretendBrokers) -> None:
    send(a_sender(brokers, batchBytes="1", maxInFlight="3"), 50)
    assert brokers.most_unsettled == 3
    assert len(brokers.bodies) == 50


def test_rows_with_one_key_or_number_go_to_one_queue(brokers: PretendBrokers) -> None:
    sender = a_sender(brokers)
    for number in range(20):
        sender.send(RowToSend(Message("orders", b"k", sharding_key=f"key-{number % 3}")))
    sender.send(RowToSend(Message("orders", b"n"), queue_id=1, broker_name="broker-b"))
    sender.finish()
    for header, parts in brokers.stored:
        for part in parts:
            key = parse_properties(part.properties).get("__SHARDINGKEY")
            expected = queue_by_key(QUEUES, key) if key else queue(1, "orders", "broker-b")
            assert (header.queue_id, header.broker_name) == (expected.queue_id, expected.broker_name)


def test_a_queue_that_is_not_there_is_refused(brokers: PretendBrokers) -> None:
    with pytest.raises(MessageRefused, match="queueId is 9 of broker broker-a: orders has 4 queues"):
        a_sender(brokers).send(RowToSend(Message("orders", b"x"), queue_id=9, broker_name="broker-a"))


def test_delayed_rows_travel_alone(brokers: PretendBrokers) -> None:
    send(a_sender(brokers), 3, delay_level=2)
    assert [len(parts) for _, parts in brokers.stored] == [1, 1, 1]
    assert {found["DELAY"] for found in brokers.properties()} == {"2"}


def test_a_batch_keeps_below_what_brokers_take(brokers: PretendBrokers) -> None:
    sender = a_sender(brokers, batchBytes="4000000")
    for _ in range(4):
        sender.send(RowToSend(Message("orders", b"x" * 1_500_000)))
    sender.finish()
    assert [len(parts) for _, parts in brokers.stored] == [2, 2]


@pytest.mark.parametrize(
    "failure",
    [lambda: LOST, lambda: RequestTimeout("SEND", "a", 3), lambda: 2, lambda: 10, lambda: 11, lambda: 12, lambda: 14],
    ids=["lost", "timeout", "busy", "disk", "no slave", "slave", "not available"],
)
def test_a_batch_is_sent_again_until_it_is_stored(
    brokers: PretendBrokers, failure: Callable[[], Exception | int]
) -> None:
    brokers.answers = [failure(), failure()]
    assert send(a_sender(brokers), 10) == 10
    assert brokers.bodies == [b"%d" % number for number in range(10)]
    assert len(brokers.sent) == 3


def test_a_row_that_may_go_anywhere_is_sent_to_another_broker_after_a_failure(brokers: PretendBrokers) -> None:
    brokers.answers = [LOST]
    send(a_sender(brokers), 1)
    places = [parse_header(ShortSendMessageRequest, command.ext_fields) for command in brokers.sent]
    assert len({place.broker_name for place in places}) == 2


def test_a_task_does_not_end_well_when_a_batch_cannot_be_stored(brokers: PretendBrokers) -> None:
    brokers.answers = [LOST] * 1000
    with pytest.raises(ConnectionLost):
        send(a_sender(brokers, reconnectTimeoutMs="1000"), 10)
    brokers.answers = [13]
    with pytest.raises(BrokerError, match="MESSAGE_ILLEGAL"):
        send(a_sender(brokers), 10)
    brokers.answers = [10] * 1000
    with pytest.raises(BrokerError, match="FLUSH_DISK_TIMEOUT"):
        send(a_sender(brokers, reconnectTimeoutMs="1000"), 10)


def test_a_flush_that_takes_long_may_be_good_enough(brokers: PretendBrokers) -> None:
    brokers.answers = [10, 12, 11]
    assert send(a_sender(brokers, acceptFlushTimeout="true", batchBytes="1"), 3) == 3
    assert len(brokers.sent) == 3


def test_a_topic_without_brokers_is_an_error(brokers: PretendBrokers) -> None:
    brokers.known = False
    with pytest.raises(RouteNotFound):
        send(a_sender(brokers), 1)


class NewTopic(PretendBrokers):
    """Brokers without the topic, which make one of four queues when its first message comes."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = 0

    def route(self, topic: str, *, fresh: bool = False) -> TopicRoute | None:
        count = 8 if topic == "TBW102" else self.queues
        queues = tuple(queue(number, topic) for number in range(count))
        return TopicRoute(topic, queues, queues, {}) if queues else None

    def finish(self, opaque: int, timeout_s: float) -> RemotingCommand:
        header: Any = parse_header(ShortSendMessageRequest, self.sent[opaque].ext_fields)
        self.queues = self.queues or min(header.default_topic_queue_nums, 8)
        if header.queue_id >= self.queues:
            self.unsettled -= 1
            remark = f"request queueId[{header.queue_id}] is illegal, topic[orders] has {self.queues} queues"
            return RemotingCommand(ResponseCode.INVALID_PARAMETER, flag=1, remark=remark)
        return super().finish(opaque, timeout_s)


@pytest.mark.parametrize("given", [{}, {"deliveryMode": "transactional", "checkpointLocation": "/x"}])
def test_point_13_a_topic_that_does_not_exist_yet_is_made_by_the_first_message(given: dict[str, str]) -> None:
    brokers = NewTopic()
    assert send(a_sender(brokers, batchBytes="1", **given), 20) == 20
    assert sorted(brokers.bodies, key=int) == [b"%d" % number for number in range(20)]
    assert {header.queue_id for header, _ in brokers.stored} == {0, 1, 2, 3}
    assert len(brokers.sent) == 20


def test_point_13_a_queue_that_a_new_topic_will_not_have_is_refused() -> None:
    with pytest.raises(MessageRefused, match="queueId is 4: orders has 4 queues"):
        a_sender(NewTopic()).send(RowToSend(Message("orders", b"x"), queue_id=4))


@pytest.mark.parametrize("given", [{}, {"deliveryMode": "transactional", "checkpointLocation": "/x"}])
def test_a_topic_that_gets_fewer_queues_while_it_is_written_gets_all_rows(given: dict[str, str]) -> None:
    brokers = NewTopic()
    brokers.queues = 8
    sender = a_sender(brokers, batchBytes="1", **given)
    sender.send(RowToSend(Message("orders", b"first")))
    brokers.queues = 2
    assert send(sender, 20) == 21
    assert len(brokers.bodies) == 21
    assert {header.queue_id for header, _ in brokers.stored} == {0, 1}


def test_a_row_for_a_queue_that_is_not_there_any_more_is_an_error() -> None:
    brokers = NewTopic()
    brokers.queues = 8
    sender = a_sender(brokers)
    sender.send(RowToSend(Message("orders", b"x"), queue_id=7))
    brokers.queues = 2
    with pytest.raises(BrokerError, match=r"queueId\[7\] is illegal"):
        sender.finish()


def test_a_task_that_fails_leaves_nothing_under_way(brokers: PretendBrokers) -> None:
    sender = a_sender(brokers, batchBytes="1")
    sender.send(RowToSend(Message("orders", b"x")))
    assert brokers.unsettled == 1
    sender.abandon()
    assert brokers.unsettled == 0


def test_half_messages_travel_alone_and_it_is_kept_where_they_are(brokers: PretendBrokers) -> None:
    sender = a_sender(brokers, deliveryMode="transactional", checkpointLocation="/x", producerGroup="g")
    assert send(sender, 3) == 3
    assert [len(parts) for _, parts in brokers.stored] == [1, 1, 1]
    assert {header.sys_flag for header, _ in brokers.stored} == {SysFlag.TRANSACTION_PREPARED}
    found = brokers.properties()
    assert {(its["TRAN_MSG"], its["PGROUP"]) for its in found} == {("true", "g")}
    kept = [half for name, topic in sender.halves.packed for half in sender.halves.of(name, topic)]
    assert sorted(half.msg_id for half in kept) == sorted(its["UNIQ_KEY"] for its in found)
    assert sorted((half.half_offset, half.commit_log_offset) for half in kept) == [(0, 1000), (1, 1001), (2, 1002)]


def test_a_half_message_whose_answer_was_lost_is_sent_again_and_only_the_second_one_counts(
    brokers: PretendBrokers,
) -> None:
    brokers.answers = [LOST]
    sender = a_sender(brokers, deliveryMode="transactional", checkpointLocation="/x")
    send(sender, 1)
    [(place, _)] = sender.halves.packed.items()
    assert [half.half_offset for half in sender.halves.of(*place)] == [1]


def test_a_half_message_cannot_be_delayed(brokers: PretendBrokers) -> None:
    sender = a_sender(brokers, deliveryMode="transactional", checkpointLocation="/x")
    with pytest.raises(MessageRefused, match="cannot be combined with deliveryMode=transactional"):
        send(sender, 1, delay_level=3)


@pytest.mark.parametrize("batch_bytes", ["1", "1000", "100000"])
@pytest.mark.parametrize("some_without", [False, True])
def test_plain_rows_are_sent_as_rows_are_sent(batch_bytes: str, some_without: bool) -> None:
    tags = ["A", "" if some_without else "B", "b-1"] * 5
    keys = [("k",), ("k", "l"), () if some_without else ("m",)] * 5
    bodies = [b"%d" % number * 50 for number in range(15)]
    plain, each = PretendBrokers(), PretendBrokers()
    quick, slow = a_sender(plain, batchBytes=batch_bytes), a_sender(each, batchBytes=batch_bytes)
    rows = PlainRows("orders", pa.array(bodies), pa.array(tags), pa.array(map(" ".join, keys)))
    quick.send_plain(rows.part(0, 7))
    quick.send_plain(rows.part(7, 8))
    for body, tag, words in zip(bodies, tags, keys, strict=True):
        slow.send(RowToSend(Message("orders", body, tags=tag, keys=words)))
    assert quick.finish() == slow.finish() == 15
    assert plain.bodies == each.bodies == bodies
    ids = {found["UNIQ_KEY"] for found in plain.properties()}
    assert len(ids) == 15
    assert [list({**found, "UNIQ_KEY": ""}.items()) for found in plain.properties()] == [
        list({**found, "UNIQ_KEY": ""}.items()) for found in each.properties()
    ]
    assert [(header.topic, len(parts)) for header, parts in plain.stored] == [
        (header.topic, len(parts)) for header, parts in each.stored
    ]


def test_plain_rows_go_on_with_the_batch_that_rows_began(brokers: PretendBrokers) -> None:
    sender = a_sender(brokers)
    sender.send(RowToSend(Message("orders", b"first")))
    sender.send_plain(PlainRows("orders", pa.array([b"second", b"third"])))
    sender.send(RowToSend(Message("orders", b"last")))
    assert sender.finish() == 4
    assert [[part.body for part in parts] for _, parts in brokers.stored] == [[b"first", b"second", b"third", b"last"]]
    assert [found["SPARK_SEQ"] for found in brokers.properties()] == ["0", "1", "2", "3"]


def test_plain_rows_keep_below_what_brokers_take_and_below_the_parts_of_a_batch(
    brokers: PretendBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = a_sender(brokers, batchBytes="4000000")
    sender.send_plain(PlainRows("orders", pa.array([b"x" * 1_500_000] * 4)))
    sender.finish()
    assert [len(parts) for _, parts in brokers.stored] == [2, 2]
    brokers.stored.clear()
    monkeypatch.setattr(sender_module, "MAX_PARTS", 3)
    sender.send_plain(PlainRows("orders", pa.array([b"x"] * 8)))
    sender.finish()
    assert [len(parts) for _, parts in brokers.stored] == [3, 3, 2]
