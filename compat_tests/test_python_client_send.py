"""The Python producer against the gateway and against Apache RocketMQ: what it sends is what lies in the queues.

Messages are read back with plain pull requests and compared byte for byte; the Java client reads some as well.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from compat_tests.conftest import running
from compat_tests.environment import wait_until
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess, Peer, make_peer
from gateway.client import (
    AclError,
    BrokerError,
    ConnectError,
    Message,
    MessageQueue,
    MessageTooLarge,
    Producer,
    ProducerSettings,
    ReceivedMessage,
    RocketMQError,
    RouteNotFound,
    SendStatus,
    TlsSettings,
    aio,
)
from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.tests.stalls import Stalls
from wire.codes import RequestCode, ResponseCode
from wire.headers.pull import PullMessageRequest
from wire.headers.topics import CreateTopicRequest
from wire.message.record import parse_records

T = TypeVar("T")
NEEDED = {"traceTopicEnable": "true", "recallMessageEnable": "true"}
_topic_numbers = itertools.count()


@pytest.fixture(scope="module", params=("gateway-host", "rocketmq-5.5.0"))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = make_peer(request.param, tmp_path_factory.mktemp("peer") / "data", {**QUICK, **NEEDED})
    with running(peer):
        run(_broker_known(peer))
        yield peer


@pytest.fixture
def topic(server: Peer) -> str:
    """A new topic with four queues."""
    name = f"python_send_{next(_topic_numbers)}"
    run(_create_topic(server, name))
    return name


def run(work: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(30):
            return await work

    return asyncio.run(limited())


async def _with_instance(server: Peer, work: Callable[[ClientInstance], Coroutine[Any, Any, T]]) -> T:
    instance = ClientInstance(ClientSettings(namesrv=server.nameserver))
    await instance.start()
    try:
        return await work(instance)
    finally:
        await instance.close()


async def _broker_known(server: Peer) -> None:
    """The name server needs a moment until the broker is registered."""

    async def look(instance: ClientInstance) -> None:
        while True:
            try:
                await instance.route("TBW102")
            except RouteNotFound:
                await asyncio.sleep(0.2)
            else:
                return

    await _with_instance(server, look)


async def _create_topic(server: Peer, topic: str) -> None:
    async def create(instance: ClientInstance) -> None:
        await instance.route("TBW102")
        header = CreateTopicRequest(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        )
        for broker_name in instance.master_addresses():
            await instance.ask(broker_name, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        while True:
            try:
                await instance.route(topic, refresh=True)
            except RouteNotFound:
                await asyncio.sleep(0.1)
            else:
                return

    await _with_instance(server, create)


def read_all(server: Peer, topic: str, count: int = 0) -> list[ReceivedMessage]:
    """Every message of a topic, by queue and offset; waits until there are ``count``."""

    async def read(instance: ClientInstance) -> list[ReceivedMessage]:
        end = time.monotonic() + 15
        while len(found := await _read_all(instance, topic)) < count and time.monotonic() < end:
            await asyncio.sleep(0.05)
        return found

    return run(_with_instance(server, read))


async def _read_all(instance: ClientInstance, topic: str) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    route = await instance.route(topic, refresh=True)
    for queue in route.subscribe_queues:
        offset = 0
        while (read := await _pull(instance, queue, offset)) is not None:
            found += read
            offset += len(read)
    return found


async def _pull(instance: ClientInstance, queue: MessageQueue, offset: int) -> list[ReceivedMessage] | None:
    header = PullMessageRequest(
        consumer_group="python_send_reader",
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    expected = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)
    answer = await instance.ask(queue.broker_name, RequestCode.PULL_MESSAGE, header, expect=expected)
    if answer.code != ResponseCode.SUCCESS:
        return None
    return [ReceivedMessage(record, queue.broker_name) for record in parse_records(answer.body)]


def test_a_message_arrives_with_everything_it_was_sent_with(server: Peer, topic: str) -> None:
    body = bytes(range(256)) + "Zürich 東京 🚀".encode()
    message = Message(
        topic,
        body,
        tags="TagA",
        keys=["order-1", "order-2"],
        properties={"city": "東京", "sign": "a=b c"},
        sharding_key="customer-7",
        flag=-7,
    )
    with Producer("python_send", namesrv=server.nameserver) as producer:
        result = producer.send(message)
    (read,) = read_all(server, topic, 1)
    assert (read.body, read.tags, read.keys, read.flag) == (body, "TagA", ("order-1", "order-2"), -7)
    assert (read.properties["city"], read.properties["sign"]) == ("東京", "a=b c")
    assert read.sharding_key == "customer-7"
    assert (read.msg_id, read.offset_msg_id) == (result.msg_id, result.offset_msg_id)
    assert (read.queue, read.queue_offset) == (result.queue, result.queue_offset)
    assert (result.status, result.durable) == (SendStatus.SEND_OK, None)


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_compressed_bodies_arrive(server: Peer, topic: str, kind: str) -> None:
    body = b"".join(b"%d," % number for number in range(20_000))
    settings = ProducerSettings(namesrv=server.nameserver, compress_type=kind)
    with Producer("python_send", settings) as producer:
        producer.send(Message(topic, body))
    (read,) = read_all(server, topic, 1)
    assert read.body == body
    assert len(read.record.body) < len(body)


def test_batches_are_split_to_the_limit_and_arrive_in_order(server: Peer, topic: str) -> None:
    messages = [Message(topic, b"%05d" % number * 20, tags="T", keys=f"k{number}") for number in range(500)]
    settings = ProducerSettings(namesrv=server.nameserver, max_message_size=30_000)
    with Producer("python_send", settings) as producer:
        queue = producer.publish_queues(topic)[0]
        results = producer.send_batch(messages, queue=queue)
    read = {message.msg_id: message for message in read_all(server, topic, 500)}
    assert [read[result.msg_id].body for result in results] == [message.body for message in messages]
    assert [read[result.msg_id].keys for result in results] == [message.keys for message in messages]
    assert [read[result.msg_id].offset_msg_id for result in results] == [result.offset_msg_id for result in results]
    assert [result.queue_offset for result in results] == list(range(500))
    stored = {name for message in read.values() for name in message.properties}
    assert stored.isdisjoint(("MSG_REGION", "TRACE_ON", "CLUSTER")), "they are as they were sent"


def test_many_messages_in_flight_arrive_where_their_results_say(server: Peer, topic: str) -> None:
    async def send() -> list[int]:
        async with aio.Producer("python_send", namesrv=server.nameserver) as producer:
            queue = (await producer.publish_queues(topic))[2]
            await producer.send(Message(topic, b"first"), queue=queue)
            futures = [await producer.send_async(Message(topic, b"%d" % n), queue=queue) for n in range(2_000)]
            return [(await future).queue_offset for future in futures]

    offsets = run(send())
    read = read_all(server, topic, 2_001)[1:]
    assert [read[offset - 1].body for offset in offsets] == [b"%d" % n for n in range(2_000)]
    if server.name == "gateway-host":
        # One connection, one queue: in the order of the calls. Apache RocketMQ's threads overtake each other.
        assert offsets == list(range(1, 2_001))


def test_threads_share_a_producer(server: Peer, topic: str) -> None:
    with Producer("python_send", namesrv=server.nameserver) as producer:

        def send(number: int) -> None:
            for index in range(50):
                producer.send(Message(topic, b"%d-%d" % (number, index)))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    bodies = {message.body for message in read_all(server, topic, 400)}
    assert bodies == {b"%d-%d" % (number, index) for number in range(8) for index in range(50)}


def test_oneway_messages_arrive(server: Peer, topic: str) -> None:
    with Producer("python_send", namesrv=server.nameserver) as producer:
        for number in range(20):
            producer.send_oneway(Message(topic, b"%d" % number))
    assert {message.body for message in read_all(server, topic, 20)} == {b"%d" % number for number in range(20)}


def test_a_delayed_message_arrives_later(server: Peer, topic: str) -> None:
    with Producer("python_send", namesrv=server.nameserver) as producer:
        producer.send(Message(topic, b"later", delay_level=1))
        assert read_all(server, topic) == []
    (read,) = read_all(server, topic, 1)
    assert read.body == b"later"
    assert read.stored_at_ms - read.born_at_ms >= 900


def test_a_topic_is_created_by_the_first_message(server: Peer) -> None:
    topic = f"python_send_new_{next(_topic_numbers)}"
    with Producer("python_send", namesrv=server.nameserver) as producer:
        result = producer.send(Message(topic, b"first"))
    assert result.status is SendStatus.SEND_OK


def test_too_long_a_body_is_refused_here_and_there(server: Peer, topic: str) -> None:
    with (
        Producer("python_send", namesrv=server.nameserver) as producer,
        pytest.raises(MessageTooLarge, match="max_message_size"),
    ):
        producer.send(Message(topic, b"x" * 5_000_000))
    settings = ProducerSettings(namesrv=server.nameserver, max_message_size=16_000_000, compress_type="none")
    with Producer("python_send", settings) as producer, pytest.raises(BrokerError) as caught:
        producer.send(Message(topic, b"x" * 5_000_000))
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_sends_are_traced_as_the_java_client_does(server: Peer, topic: str) -> None:
    settings = ProducerSettings(namesrv=server.nameserver, enable_trace=True)
    with Producer("python_send", settings) as producer:
        result = producer.send(Message(topic, b"traced", tags="T", keys="key-1"))
    traces = [trace for trace in read_all(server, "RMQ_SYS_TRACE_TOPIC", 1) if result.msg_id in trace.keys]
    assert len(traces) == 1
    fields = traces[0].body.decode().rstrip("\x02").split("\x01")
    assert fields[0] == "Pub"
    assert fields[3:8] == ["python_send", topic, result.msg_id, "T", "key-1"]
    assert fields[9] == "6"
    assert fields[11:] == ["0", result.offset_msg_id, "true"]


def test_a_request_gets_its_reply(server: Peer, topic: str) -> None:
    async def ask() -> bytes:
        async with (
            aio.Producer("python_asking", namesrv=server.nameserver) as asking,
            aio.Producer("python_replying", namesrv=server.nameserver) as replying,
        ):
            answer = asyncio.create_task(asking.request(Message(topic, b"ping"), timeout=10.0))
            instance = ClientInstance(ClientSettings(namesrv=server.nameserver))
            while not (received := await _read_all(instance, topic)):
                await asyncio.sleep(0.05)
            await instance.close()
            try:
                await replying.reply(received[0], b"pong to " + received[0].body)
            except RocketMQError:
                answer.cancel()
                raise
            return (await answer).body

    assert run(ask()) == b"pong to ping"


def test_a_timer_message_can_be_recalled(server: Peer, topic: str) -> None:
    with Producer("python_send", namesrv=server.nameserver) as producer:
        result = producer.send(Message(topic, b"never", delay=30))
        assert result.recall_handle is not None
        assert producer.recall(topic, result.recall_handle) == result.msg_id


def test_the_java_client_reads_what_python_wrote(
    server: Peer, topic: str, clients: Callable[[str], JavaClient]
) -> None:
    java = clients(CLIENT_VERSIONS[-1])
    messages = [_numbered(topic, "py", number, 20 + number * 40) for number in range(50)]
    settings = ProducerSettings(namesrv=server.nameserver, compress_msg_body_over=500, compress_type="zlib")
    with Producer("python_send", settings) as producer:
        results = [producer.send(message) for message in messages[:20]]
        results += producer.send_batch(messages[20:])
    answer = java.run("consume-pull", ns=server.nameserver, topic=topic, group="java_reads", run="py", count=50)
    assert (answer["received"], answer["corrupt"], answer["strangers"]) == (50, 0, 0)
    # Its tool finds a message by the id that we made: it decodes the time in it to know where to look.
    for index in (0, 30):
        found = java.run("view-id", ns=server.nameserver, topic=topic, id=results[index].msg_id)
        assert found.text("key") == f"py-{index}"


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    peer = GatewayProcess(tmp_path / "data", QUICK, bind="127.0.0.1")
    acknowledged: list[str] = []
    failures: list[RocketMQError] = []
    slowest_s = 0.0

    async def send_all_the_time(producer: aio.Producer, ended: asyncio.Event) -> None:
        nonlocal slowest_s
        while not ended.is_set():
            begun = time.monotonic()
            try:
                acknowledged.append((await producer.send(Message("survives", b"x" * 100))).msg_id)
            except RocketMQError as error:
                failures.append(error)
            slowest_s = max(slowest_s, time.monotonic() - begun)

    async def send() -> tuple[int, int]:
        ended = asyncio.Event()
        settings = ProducerSettings(namesrv=peer.nameserver, send_msg_timeout=3.0)
        async with aio.Producer("python_send", settings) as producer:
            senders = [asyncio.create_task(send_all_the_time(producer, ended)) for _ in range(20)]
            await asyncio.to_thread(wait_until, lambda: len(acknowledged) >= 100, "messages are acknowledged")
            await asyncio.to_thread(peer.kill)
            before = len(acknowledged)
            await asyncio.to_thread(peer.start)
            await asyncio.to_thread(wait_until, lambda: len(acknowledged) >= before + 100, "it goes on")
            ended.set()
            await asyncio.gather(*senders)
        return before, len(acknowledged)

    with running(peer), Stalls(tmp_path) as stalls:
        before, after = run(send())
        assert 0 < before < after, "it went on after the restart"
        stored = {message.msg_id for message in read_all(peer, "survives")}
    assert set(acknowledged) <= stored
    assert all(error.retriable or error.outcome_unknown for error in failures), failures
    assert slowest_s < 3.0 + 2.0 + stalls.longest_ms / 1_000, "no call takes much longer than its timeout"


def test_connections_can_be_encrypted(tmp_path: Path) -> None:
    """Apache RocketMQ takes TLS on the same ports; here with a certificate of ours, by its tls.properties."""
    _make_certificate(tmp_path)
    peer = ApacheContainer(speaks_tls=True)
    peer._container.with_volume_mapping(str(tmp_path), "/etc/rocketmq", "ro")
    with running(peer):
        run(_broker_known(peer))
        tls = TlsSettings(ca_file=str(tmp_path / "cert.pem"))
        settings = ProducerSettings(namesrv=peer.nameserver, tls=tls)
        with Producer("python_send", settings) as producer:
            assert producer.send(Message("encrypted", b"x" * 10_000)).status is SendStatus.SEND_OK
        stranger = settings.with_changes(tls=True)
        with Producer("python_send", stranger) as producer, pytest.raises(ConnectError, match="certificate"):
            producer.send(Message("encrypted", b"x"))


def _make_certificate(directory: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=rocketmq"]
    command += ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    lines = {
        "tls.test.mode.enable": "false",
        "tls.server.keyPath": "/etc/rocketmq/key.pem",
        "tls.server.certPath": "/etc/rocketmq/cert.pem",
    }
    (directory / "tls.properties").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    for path in directory.iterdir():
        path.chmod(0o644)
    directory.chmod(0o755)


def test_access_is_granted_by_signature() -> None:
    users = '{"username":"admin-user","password":"admin-secret"}'
    inner = '{"accessKey":"admin-user","secretKey":"admin-secret"}'
    peer = ApacheContainer(
        {
            "authenticationEnabled": "true",
            "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
            "authenticationMetadataProvider": (
                "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
            ),
            "initAuthenticationUser": users,
            "innerClientAuthenticationCredentials": inner,
        }
    )
    with running(peer):
        run(_broker_known(peer))
        keys = {"access_key": "admin-user", "secret_key": "admin-secret"}
        stranger = ProducerSettings(namesrv=peer.nameserver)
        message = Message("guarded", b"x" * 10_000, tags="T", properties={"city": "Zürich"})
        with Producer("python_send", stranger.with_changes(**keys)) as producer:
            assert producer.send(message).status is SendStatus.SEND_OK
            assert len(producer.send_batch([Message("guarded", b"1"), Message("guarded", b"2")])) == 2
        wrong = stranger.with_changes(**{**keys, "secret_key": "wrong-secret"})
        for denied in (stranger, wrong):
            with Producer("python_send", denied) as producer, pytest.raises(AclError, match="secret_key"):
                producer.send(message)


def _numbered(topic: str, run_name: str, number: int, size: int) -> Message:
    """A message as the Java side of these tests makes it, so that it can check the body."""
    body = f"{run_name}-{number}|"
    body += "".join(chr(ord("a") + place % 26) for place in range(len(body), size))
    return Message(topic, body.encode(), keys=f"{run_name}-{number}")
