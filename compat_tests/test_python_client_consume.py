"""The Python consumers against the gateway and against Apache RocketMQ, alone and in one group with Java consumers."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from compat_tests.conftest import running
from compat_tests.environment import wait_until
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.peers import QUICK, Peer, make_peer
from gateway.client import (
    AdminClient,
    BrokerError,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageModel,
    MessageQueue,
    PoppedMessage,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    RetryLater,
    RocketMQError,
    SimpleConsumer,
    SimpleSettings,
    Sql,
    aio,
)
from gateway.client.aio.instance import ClientInstance
from gateway.client.settings import ClientSettings
from wire.bodies.pop import POP, MessageRequestMode
from wire.codes import RequestCode

TRACES = {"traceTopicEnable": "true"}
NEEDED = {"enablePropertyFilter": "true"}
GATEWAY, APACHE = "gateway-host", "rocketmq-5.5.0"
_numbers = itertools.count()
_SESSION = uuid.uuid4().hex[:6]


@pytest.fixture(scope="module", params=(GATEWAY, APACHE))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    extra = NEEDED if request.param == APACHE else {}
    peer = make_peer(request.param, tmp_path_factory.mktemp("peer") / "data", {**QUICK, **TRACES, **extra})
    with running(peer):
        _wait_for_broker(peer)
        yield peer


@pytest.fixture(scope="module")
def producer(server: Peer) -> Iterator[Producer]:
    with Producer("python_consume_p", namesrv=server.nameserver) as producer:
        yield producer


@pytest.fixture(scope="module")
def java(clients: Callable[[str], JavaClient]) -> JavaClient:
    return clients(CLIENT_VERSIONS[-1])


@pytest.fixture
def topic(server: Peer) -> str:
    return make_topic(server, 4)


def _wait_for_broker(server: Peer) -> None:
    with Producer("python_consume_look", namesrv=server.nameserver) as producer:

        def is_there() -> bool:
            try:
                producer.publish_queues("TBW102")
            except RocketMQError:
                return False
            return True

        wait_until(is_there, "a route to the broker")


def make_topic(server: Peer, queues: int, attributes: dict[str, str] | None = None) -> str:
    topic = f"python_consume_{_SESSION}_{next(_numbers)}"
    with AdminClient(namesrv=server.nameserver) as admin:
        admin.topics.create(topic, queues=queues, attributes=attributes)

        def is_known() -> bool:
            try:
                return len(admin.topics.route(topic).subscribe_queues) == queues
            except RocketMQError:
                return False

        wait_until(is_known, f"a route of {topic}")
    return topic


def push_settings(server: Peer, **changes: object) -> PushSettings:
    given = {
        "namesrv": server.nameserver,
        "consume_from_where": ConsumeFrom.FIRST_OFFSET,
        "consume_workers": 4,
        "rebalance_interval": 2.0,
        "poll_name_server_interval": 1.0,
        **changes,
    }
    return PushSettings(**given)  # type: ignore[arg-type]


def lite_settings(server: Peer, **changes: object) -> LitePullSettings:
    given = {"namesrv": server.nameserver, "consume_from_where": ConsumeFrom.FIRST_OFFSET, **changes}
    return LitePullSettings(**given)  # type: ignore[arg-type]


def send(producer: Producer, topic: str, count: int, first: int = 0, **parts: object) -> None:
    for number in range(first, first + count):
        producer.send(Message(topic, b"%d" % number, **parts))  # type: ignore[arg-type]


def send_in_order(producer: Producer, topic: str, queue: MessageQueue, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        producer.send(Message(topic, b"%d" % number), queue=queue)


class Seen:
    """What listeners were given; thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bodies: Counter[bytes] = Counter()
        self.by_queue: dict[MessageQueue, list[int]] = defaultdict(list)

    def __call__(self, message: ReceivedMessage) -> None:
        with self._lock:
            self.bodies[message.body] += 1
            self.by_queue[message.queue].append(int(message.body))

    def batch(self, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            self(message)

    def wait(self, count: int, timeout_s: float = 30.0) -> None:
        wait_until(lambda: len(self.bodies) >= count, f"{count} messages", timeout_s=timeout_s)

    def check_once(self, count: int) -> None:
        assert set(self.bodies) == {b"%d" % number for number in range(count)}
        assert set(self.bodies.values()) == {1}


# --- push ---------------------------------------------------------------------------------------------------


def test_a_push_consumer_gets_every_message_once_and_goes_on_after_a_restart(
    server: Peer, producer: Producer, topic: str
) -> None:
    send(producer, topic, 50)
    seen = Seen()
    settings = push_settings(server)
    with PushConsumer("g_" + topic, seen, settings, subscriptions={topic: "*"}):
        seen.wait(50)
        send(producer, topic, 50, first=50)
        seen.wait(100)
    with PushConsumer("g_" + topic, batch_listener=seen.batch, settings=settings, subscriptions={topic: "*"}):
        send(producer, topic, 50, first=100)
        seen.wait(150)
    seen.check_once(150)


def test_a_coroutine_listener_gets_batches_of_one_queue(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 200)
    seen = Seen()
    batches: list[int] = []

    async def listen(messages: Sequence[ReceivedMessage]) -> None:
        assert len({message.queue for message in messages}) == 1
        await asyncio.sleep(0)
        batches.append(len(messages))
        seen.batch(messages)

    async def scenario() -> None:
        settings = push_settings(server)
        async with aio.PushConsumer("g_" + topic, None, settings, batch_listener=listen, subscriptions={topic: "*"}):
            while len(seen.bodies) < 200:
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(scenario(), 30))
    seen.check_once(200)
    assert max(batches) > 1


def test_tags_are_chosen_exactly(server: Peer, producer: Producer, topic: str) -> None:
    # "Aa" and "BB" have the same hash: the broker lets both pass.
    for number, tag in enumerate(("Aa", "BB", "C", "Aa", "BB", "C", "Aa")):
        producer.send(Message(topic, b"%d" % number, tags=tag))
    seen = Seen()
    with PushConsumer("g_" + topic, seen, push_settings(server), subscriptions={topic: "Aa || C"}):
        seen.wait(5)
    assert seen.bodies == Counter((b"0", b"2", b"3", b"5", b"6"))
    with AdminClient(namesrv=server.nameserver) as admin:
        wait_until(lambda: admin.offsets.lag("g_" + topic) == 0, "offsets beyond what was not chosen", timeout_s=5.0)


def test_failed_messages_come_again_and_end_as_dead_letters(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 10)
    group = "g_" + topic
    attempts: dict[bytes, list[int]] = defaultdict(list)

    def listen(message: ReceivedMessage) -> None:
        attempts[message.body].append(message.reconsume_times)
        assert message.topic == topic
        if message.body == b"3":
            raise RetryLater(1)
        if message.body == b"5" and message.reconsume_times == 0:
            raise ValueError("for the first time")

    settings = push_settings(server, max_reconsume_times=2)
    with PushConsumer(group, listen, settings, subscriptions={topic: "*"}):
        wait_until(lambda: attempts[b"3"] == [0, 1, 2] and attempts[b"5"] == [0, 1], f"retries: {attempts}")
    assert all(attempts[b"%d" % number] == [0] for number in range(10) if number not in (3, 5))
    with LitePullConsumer("d_" + topic, lite_settings(server)) as dead:
        dead.assign(dead.message_queues(f"%DLQ%{group}"))
        letters = [message.body for message in _poll_until(dead, 1)]
    assert letters == [b"3"]


def test_the_failed_messages_of_a_batch_come_again_alone(server: Peer, producer: Producer, topic: str) -> None:
    (queue, *_) = sorted(producer.publish_queues(topic))
    send_in_order(producer, topic, queue, 10)
    attempts: dict[bytes, list[int]] = defaultdict(list)

    def listen(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            attempts[message.body].append(message.reconsume_times)
        failed = [message for message in messages if message.body in (b"2", b"7") and not message.reconsume_times]
        if failed:
            raise RetryLater(messages=failed)

    with PushConsumer("g_" + topic, settings=push_settings(server), batch_listener=listen, subscriptions={topic: "*"}):
        wait_until(lambda: attempts[b"2"] == attempts[b"7"] == [0, 1], "the two retries")
    assert [attempts[b"%d" % number] for number in (0, 1, 3, 9)] == [[0]] * 4


def test_an_orderly_consumer_keeps_the_order_of_every_queue_through_failures(
    server: Peer, producer: Producer, topic: str
) -> None:
    queues = sorted(producer.publish_queues(topic))
    for number, queue in enumerate(queues):
        send_in_order(producer, topic, queue, 20, first=100 * number)
    seen = Seen()
    failures: Counter[bytes] = Counter()

    def listen(message: ReceivedMessage) -> None:
        if int(message.body) % 100 == 7 and failures[message.body] < 2:
            failures[message.body] += 1
            assert message.reconsume_times == failures[message.body] - 1
            raise RetryLater
        seen(message)

    settings = push_settings(server, suspend_current_queue_time=0.05)
    with PushConsumer("g_" + topic, listen, settings, subscriptions={topic: "*"}, orderly=True) as one:
        wait_until(lambda: len(seen.bodies) >= 40, "half of the messages")
        with PushConsumer("g_" + topic, listen, settings, subscriptions={topic: "*"}, orderly=True) as two:
            wait_until(lambda: _shares([one, two], topic) == [2, 2], "two queues each", timeout_s=60)
            for number, queue in enumerate(queues):
                send_in_order(producer, topic, queue, 20, first=100 * number + 20)
            seen.wait(160)
    assert set(seen.bodies.values()) == {1}
    assert [seen.by_queue[queue] for queue in queues] == [list(range(100 * n, 100 * n + 40)) for n in range(4)]


def test_every_member_of_a_broadcasting_group_gets_everything_and_remembers_it_locally(
    server: Peer, producer: Producer, topic: str, tmp_path: Path
) -> None:
    seen = [Seen(), Seen()]
    send(producer, topic, 20)

    def consumer(number: int) -> PushConsumer:
        settings = push_settings(
            server, message_model=MessageModel.BROADCASTING, local_offset_dir=str(tmp_path / str(number))
        )
        return PushConsumer("g_" + topic, seen[number], settings, subscriptions={topic: "*"})

    with consumer(0), consumer(1):
        for each in seen:
            each.wait(20)
    send(producer, topic, 20, first=20)
    with consumer(0):
        seen[0].wait(40)
    seen[0].check_once(40)
    seen[1].check_once(20)
    assert (next(tmp_path.glob("0/*/*/offsets.json"))).read_bytes().startswith(b"{")


def test_a_group_shares_queues_anew_at_once_when_members_come_and_go(server: Peer, topic: str) -> None:
    settings = push_settings(server, rebalance_interval=3600.0)
    group = "g_" + topic

    def consumer() -> PushConsumer:
        return PushConsumer(group, lambda _: None, settings, subscriptions={topic: "*"})

    with consumer() as one:
        assert _shares([one], topic) == [4]
        with consumer() as two:
            wait_until(lambda: _shares([one, two], topic) == [2, 2], "two queues each")
            assert not one.assignment & two.assignment
        wait_until(lambda: _shares([one], topic) == [4], "all queues again")


def test_a_new_group_begins_at_a_time_that_is_told(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 8)
    with LitePullConsumer("m_" + topic, lite_settings(server)) as consumer:
        consumer.assign(consumer.message_queues(topic))
        last_ms = max(message.stored_at_ms for message in _poll_until(consumer, 8))
    threading.Event().wait(0.2)
    begin = (last_ms + 1) / 1000
    send(producer, topic, 8, first=8)
    with LitePullConsumer("l_" + topic, lite_settings(server)) as consumer:
        consumer.assign(consumer.message_queues(topic))
        offsets = {queue: consumer.offset_for_time(queue, begin) for queue in consumer.assignment}
        assert sorted(offsets.values()) == [2, 2, 2, 2]
        for queue, offset in offsets.items():
            consumer.seek(queue, offset)
        assert {int(message.body) for message in _poll_until(consumer, 8)} == set(range(8, 16))


def test_the_offset_of_a_group_can_be_reset_while_it_consumes(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 12)
    seen = Seen()
    with PushConsumer("g_" + topic, seen, push_settings(server), subscriptions={topic: "*"}) as consumer:
        seen.wait(12)
        consumer.commit()
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.offsets.reset("g_" + topic, topic, "earliest")
        wait_until(lambda: set(seen.bodies.values()) == {2}, "every message again", timeout_s=40)


def test_a_sql_expression_chooses_by_properties(server: Peer, producer: Producer, topic: str) -> None:
    for number in range(10):
        producer.send(Message(topic, b"%d" % number, properties={"price": str(number)}))
    seen = Seen()
    with PushConsumer("g_" + topic, seen, push_settings(server), subscriptions={topic: Sql("price >= 6")}):
        seen.wait(4)
    assert set(seen.bodies) == {b"6", b"7", b"8", b"9"}
    with pytest.raises(BrokerError), PushConsumer("h", seen, push_settings(server), subscriptions={topic: Sql("a >")}):
        pass


def test_a_consumer_goes_on_after_its_broker_was_killed(tmp_path: Path) -> None:
    peer = make_peer(GATEWAY, tmp_path / "data", QUICK)
    with running(peer):
        topic = make_topic(peer, 4)
        seen = Seen()
        settings = push_settings(peer, pull_time_delay_when_exception=0.2)
        with (
            Producer("p_" + topic, namesrv=peer.nameserver) as producer,
            PushConsumer("g_" + topic, seen, settings, subscriptions={topic: "*"}),
        ):
            send(producer, topic, 20)
            seen.wait(20)
            peer.kill()
            peer.start()

            def is_back() -> bool:
                try:
                    send(producer, topic, 1, first=20)
                except RocketMQError:
                    return False
                return True

            wait_until(is_back, "the broker takes messages again")
            send(producer, topic, 20, first=21)
            seen.wait(41)
    assert set(seen.bodies) == {b"%d" % number for number in range(41)}


# --- lite pull ----------------------------------------------------------------------------------------------


def test_a_lite_pull_consumer_iterates_seeks_pauses_and_commits(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 40)
    group = "g_" + topic
    settings = lite_settings(server, auto_commit=False)
    with LitePullConsumer(group, settings, subscriptions={topic: "*"}) as consumer:
        got: list[ReceivedMessage] = []
        for messages in consumer:
            assert len(messages) <= settings.pull_batch_size
            got += messages
            if len(got) == 40:
                break
        assert sorted(int(message.body) for message in got) == list(range(40))
        queue = sorted(consumer.assignment)[0]
        assert consumer.committed(queue) in (None, 0)
        consumer.commit()
        assert consumer.committed(queue) == consumer.position(queue) == 10
        consumer.seek(queue, 4)
        assert [message.queue_offset for message in _poll_until(consumer, 6)] == list(range(4, 10))
        consumer.pause([queue])
        consumer.seek_to_begin(queue)
        assert consumer.poll(0.5) == []
        consumer.resume([queue])
        assert len(_poll_until(consumer, 10)) == 10
        consumer.commit({queue: 3})
    with LitePullConsumer(group, settings, subscriptions={topic: "*"}) as consumer:
        assert [message.queue_offset for message in _poll_until(consumer, 7)] == list(range(3, 10))


def test_what_was_polled_is_committed_at_the_end_of_a_with_block(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 20)

    async def scenario() -> None:
        settings = lite_settings(server)
        group = "g_" + topic
        got = 0
        async with aio.LitePullConsumer(group, settings, subscriptions={topic: "*"}) as consumer:
            async for messages in consumer:
                got += len(messages)
                if got == 20:
                    break
        # The control may forget some of a group's very first offsets, which arrive all at once, but no later ones; see
        # ``test_a_group_continues_where_it_stopped`` of the Java scenarios.
        chances = 2 if server.name.startswith("rocketmq") else 1
        left: list[ReceivedMessage] = []
        for _ in range(chances):
            async with aio.LitePullConsumer(group, settings, subscriptions={topic: "*"}) as consumer:
                left = await consumer.poll(1.0)
        assert left == []

    asyncio.run(asyncio.wait_for(scenario(), 30))


# --- with Java ----------------------------------------------------------------------------------------------


def test_python_and_java_share_sixteen_queues_and_nothing_is_consumed_twice(
    server: Peer, producer: Producer, java: JavaClient
) -> None:
    topic = make_topic(server, 16)
    group, run = "g_" + topic, "r" + topic.rsplit("_", 1)[1]
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def listen(message: ReceivedMessage) -> None:
        with lock:
            seen[message.keys[0]] += 1

    name = f"stop_{topic}"
    java_part = java.start(
        "consume-push", ns=server.nameserver, topic=topic, run=run, group=group, until=name, timeout_s=120
    )
    settings = push_settings(server)
    with (
        PushConsumer(group, listen, settings, subscriptions={topic: "*"}) as one,
        PushConsumer(group, listen, settings, subscriptions={topic: "*"}) as two,
    ):
        wait_until(lambda: sorted(_shares([one, two], topic)) in ([5, 5], [5, 6]), "a third each", timeout_s=60)
        count = 3000
        sent = java.run("send-sync", ns=server.nameserver, topic=topic, run=run, count=count, timeout_s=60)
        assert sent["acknowledged"] == count
        wait_until(lambda: _lag(server, group) == 0, "everything consumed", timeout_s=60)
    java.stop(name)
    got = java_part.result(60)
    assert got["duplicates"] == 0
    assert set(seen.values()) == {1}
    ours = {int(key.rsplit("-", 1)[1]) for key in seen}
    theirs = got.numbers()
    assert not ours & theirs, f"consumed by both: {sorted(ours & theirs)[:20]}"
    assert ours | theirs == set(range(count))
    assert min(len(ours), len(theirs)) > count // 6


def test_python_reads_what_java_wrote_compressed_and_in_batches(server: Peer, topic: str, java: JavaClient) -> None:
    run = "r" + topic.rsplit("_", 1)[1]
    common = {"ns": server.nameserver, "topic": topic, "run": run, "count": 60}
    java.run("send-sync", **common, size=8000, compress_over=1000)  # type: ignore[arg-type]
    java.run("send-batch", **common, first=60, size=300)  # type: ignore[arg-type]
    with LitePullConsumer("g_" + topic, lite_settings(server), subscriptions={topic: "*"}) as consumer:
        got = _poll_until(consumer, 120)
    assert sorted(int(message.keys[0].split("-")[1]) for message in got) == list(range(120))
    for message in got:
        assert message.body == _java_body(message.keys[0], len(message.body))
    assert {len(message.body) for message in got} == {8000, 300}
    assert sum(message.sys_flag & 1 for message in got) == 60


def test_java_reads_what_python_wrote_compressed_and_in_batches(server: Peer, topic: str, java: JavaClient) -> None:
    run = "r" + topic.rsplit("_", 1)[1]

    def message(number: int, size: int) -> Message:
        key = f"{run}-{number}"
        return Message(topic, _java_body(key, size), keys=key)

    for number, kind in enumerate(("zlib", "lz4", "zstd", "none")):
        settings = ProducerSettings(namesrv=server.nameserver, compress_type=kind, compress_msg_body_over=1000)
        with Producer(f"p_{topic}", settings) as producer:
            for each in range(10):
                producer.send(message(10 * number + each, 6000))
            producer.send_batch([message(40 + 10 * number + each, 200) for each in range(10)])
    got = java.run(
        "consume-push", ns=server.nameserver, topic=topic, run=run, group="g_" + topic, count=80, timeout_s=60
    )
    assert (got["received"], got["duplicates"], got["corrupt"], got["strangers"]) == (80, 0, 0, 0), str(got)


# --- popped -------------------------------------------------------------------------------------------------


def test_a_simple_consumer_receives_acknowledges_and_hides(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 20)
    settings = SimpleSettings(namesrv=server.nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET)
    with SimpleConsumer("s_" + topic, settings, subscriptions={topic: "*"}) as consumer:
        got: list[PoppedMessage] = []
        while len(got) < 20:
            messages = consumer.receive(8, invisible_time=6, timeout=10)
            assert messages, "messages are missing"
            got += messages
        assert sorted(int(message.body) for message in got) == list(range(20))
        assert consumer.receive(8, timeout=0.5) == []
        late, *acknowledged = got
        consumer.ack(acknowledged)  # in one request
        consumer.change_invisible_time(late, 1.0)
        deadline = time.monotonic() + 20
        again: list[PoppedMessage] = []
        while not again and time.monotonic() < deadline:
            again = consumer.receive(8, timeout=5)
        assert [message.body for message in again] == [late.body]
        assert again[0].topic == topic
        assert again[0].reconsume_times == 1
        consumer.ack(again)
        assert consumer.receive(8, timeout=7) == [], "what is not acknowledged comes again by then"


def test_a_push_consumer_pops_where_the_broker_says_so(server: Peer, producer: Producer, topic: str) -> None:
    group = "g_" + topic
    _let_pop(server, topic, group)
    send(producer, topic, 20)
    seen, failed = Seen(), threading.Event()

    def listen(message: ReceivedMessage) -> None:
        if message.body == b"7" and message.reconsume_times == 0 and server.name == APACHE:  # it takes 10 s
            failed.set()
            raise RetryLater
        seen(message)

    settings = push_settings(server, client_rebalance=False)
    with PushConsumer(group, listen, settings, subscriptions={topic: "*"}) as consumer:
        (popped,) = [queue for queue in consumer.assignment if queue.topic == topic]
        assert popped.queue_id == -1
        seen.wait(20)
        seen.check_once(20)
        assert failed.is_set() == (server.name == APACHE)
    with PushConsumer(group, seen, settings, subscriptions={topic: "*"}):
        send(producer, topic, 1, first=20)
        seen.wait(21)
    assert set(seen.bodies.values()) == {1}, "what was consumed is acknowledged"


def test_batches_that_are_stored_as_one_record_are_read_one_by_one(server: Peer, producer: Producer) -> None:
    topic = make_topic(server, 1, {"queue.type": "BatchCQ"})
    for first in (0, 3):
        producer.send_batch([Message(topic, b"%d" % number) for number in range(first, first + 3)])
    seen = Seen()
    with PushConsumer("g_" + topic, seen, push_settings(server), subscriptions={topic: "*"}):
        seen.wait(6)
        seen.check_once(6)
    assert list(seen.by_queue.values()) == [[0, 1, 2, 3, 4, 5]]
    with LitePullConsumer("l_" + topic, lite_settings(server)) as consumer:
        (queue,) = consumer.message_queues(topic)
        consumer.assign([queue])
        consumer.seek(queue, 4)
        assert [(message.body, message.queue_offset) for message in _poll_until(consumer, 2)] == [(b"4", 4), (b"5", 5)]


# --- asked by tools -----------------------------------------------------------------------------------------


def test_a_consumer_tells_tools_about_itself_and_consumes_on_demand(
    server: Peer, producer: Producer, topic: str
) -> None:
    sent = producer.send(Message(topic, b"0"))
    seen = Seen()
    group = "g_" + topic
    with (
        AdminClient(namesrv=server.nameserver) as admin,
        PushConsumer(group, seen, push_settings(server), subscriptions={topic: "*"}) as consumer,
    ):
        seen.wait(1)
        info = admin.groups.running_info(group, consumer.client_id, jstack=True)
        assert len(info["mqTable"]) >= 4
        assert "push_consumer" in info["jstack"] or "Thread" in info["jstack"]
        assert {each["topic"] for each in info["subscriptionSet"]} == {topic, "%RETRY%" + group}
        result = admin.groups.consume_directly(group, consumer.client_id, sent.offset_msg_id, topic)
        assert result["consumeResult"] == "CR_SUCCESS"
        assert seen.bodies[b"0"] == 2


def test_what_is_consumed_is_traced_as_the_java_client_does(server: Peer, producer: Producer, topic: str) -> None:
    sent = producer.send(Message(topic, b"0", keys="order-1"))
    seen, group = Seen(), "g_" + topic
    settings = push_settings(server, enable_trace=True)
    with PushConsumer(group, seen, settings, subscriptions={topic: "*"}):
        seen.wait(1)
    with AdminClient(namesrv=server.nameserver) as admin:

        def traces() -> dict[str, list[str]]:
            found = admin.messages.by_key("RMQ_SYS_TRACE_TOPIC", sent.msg_id)
            records = [record for message in found for record in message.body.decode().split("\x02") if record]
            return {record.split("\x01")[0]: record.split("\x01") for record in records}

        wait_until(lambda: len(traces()) == 2, "the traces")
        before, after = traces()["SubBefore"], traces()["SubAfter"]
    assert before[2:4] + before[5:] == ["DefaultRegion", group, sent.msg_id, "0", "order-1"]
    assert (after[1], after[2]) == (before[4], sent.msg_id)
    assert after[4:7] + after[8:] == ["true", "order-1", "0", group]


# --- shared -------------------------------------------------------------------------------------------------


def _poll_until(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    got: list[ReceivedMessage] = []
    deadline = time.monotonic() + 30
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages came"
        got += consumer.poll(1.0)
    return got


def _shares(consumers: Sequence[PushConsumer], topic: str) -> list[int]:
    return [sum(queue.topic == topic for queue in consumer.assignment) for consumer in consumers]


def _let_pop(server: Peer, topic: str, group: str) -> None:
    """What ``mqadmin setConsumeMode`` does."""
    with AdminClient(namesrv=server.nameserver) as admin:
        admin.groups.create(group)

    async def set_mode() -> None:
        instance = ClientInstance(ClientSettings(namesrv=server.nameserver))
        try:
            route = await instance.route(topic)
            body = MessageRequestMode(topic, group, POP).build()
            for name in route.brokers:
                await instance.ask(name, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)
        finally:
            await instance.close()

    asyncio.run(set_mode())


def _lag(server: Peer, group: str) -> int:
    with AdminClient(namesrv=server.nameserver) as admin:
        return admin.offsets.lag(group)


def _java_body(key: str, size: int) -> bytes:
    body = f"{key}|"
    return (body + "".join(chr(97 + at % 26) for at in range(len(body), size))).encode()
