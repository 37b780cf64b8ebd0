"""Every client against servers that break the protocol: an error in time that names the cause, and no harm done.

Single broken frames are the business of ``aio/test_connection.py``; here it is what a caller sees.
"""

from __future__ import annotations

import asyncio
import logging
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.client import (
    AdminClient,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    RequestTimeout,
    RocketMQError,
    SendResult,
    SimpleConsumer,
    SimpleSettings,
    TransactionProducer,
    TransactionState,
)
from gateway.client.connect.producer_settings import TransactionSettings
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.pop import pops
from gateway.client.errors import BrokerError, ConnectError, ProtocolError
from gateway.client.tests.blocking.broker_thread import BrokerThread, broker_thread
from gateway.client.tests.scripted_broker import Reply, stored_at
from wire.bodies.route import BrokerData, QueueData, TopicRouteData
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.frame import build_frame

SEND = RequestCode.SEND_MESSAGE_V2
MESSAGE = Message("t", b"hello")
TIMEOUT_S = 0.3
_GRACE_S = 30.0
"""For busy machines."""
_OFTEN: dict[str, Any] = {"reconnect_backoff_min": 0.01, "reconnect_backoff_max": 0.02}

Misdeed = Callable[[BrokerThread, RemotingCommand], Reply]


def says(data: bytes) -> Misdeed:
    """Bytes in the place of an answer."""
    return lambda server, _: server.broker.send_garbage(data)


def half(server: BrokerThread, request: RemotingCommand) -> None:
    """The first half of an answer."""
    frame = build_frame(request.response(0))
    server.broker.send_garbage(frame[: len(frame) // 2])


def half_and_the_end(server: BrokerThread, request: RemotingCommand) -> None:
    """The first half of an answer, then the connection ends."""
    half(server, request)
    for writer in server.broker._writers:
        writer.close()


def for_nobody(server: BrokerThread, request: RemotingCommand) -> None:
    """An answer to a request that was never made."""
    answer = request.response(0)
    answer.opaque += 1_000_000
    server.broker.send_garbage(build_frame(answer))


def crash(server: BrokerThread, _: RemotingCommand) -> None:
    """The connection breaks."""
    server.broker.drop_connections()


NOISE = random.Random(7).randbytes(300)
MISDEEDS: dict[str, tuple[Misdeed, type[RocketMQError]]] = {
    "random bytes": (says(NOISE), ProtocolError),
    "an absurd length": (says(struct.pack(">iI", 0x7FFF_FFFF, 10) + b"{}"), ProtocolError),
    "a negative length": (says(struct.pack(">iI", -5, 10) + b"{}"), ProtocolError),
    "a header longer than its frame": (says(struct.pack(">iI", 20, 4000) + b"x" * 16), ProtocolError),
    "a header that is not JSON": (says(struct.pack(">iI", 8, 4) + b"[[[["), ProtocolError),
    "an unknown header form": (says(struct.pack(">iI", 8, 7 << 24 | 4) + b"abcd"), ProtocolError),
    "HTTP": (says(b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n"), ProtocolError),
    "half a frame": (half, RequestTimeout),
    "half a frame and the end": (half_and_the_end, ConnectError),
    "an answer to nobody": (for_nobody, RequestTimeout),
    "nothing at all": (lambda *_: None, RequestTimeout),
    "a crash": (crash, ConnectError),
    "an unknown code": (lambda _, request: request.response(4711, "no such thing"), BrokerError),
    "no fields": (lambda _, request: request.response(0), RocketMQError),
    "fields of another kind": (
        lambda _, request: request.response(0, ext_fields={"msgId": "x", "queueId": "many", "offset": "-"}),
        RocketMQError,
    ),
    "a body that cannot be read": (lambda _, request: request.response(0, body=NOISE), RocketMQError),
}


SILENT = ("half a frame", "an answer to nobody", "nothing at all")
"""After these there is nothing but the time-out."""


def patience(what: str) -> float:
    """The time-out for a call that meets a misdeed: short only where it has to be waited for, for busy machines."""
    return TIMEOUT_S if what in SILENT else 60.0


@pytest.fixture
def server() -> Iterator[BrokerThread]:
    with broker_thread() as thread:
        yield thread


def misbehave(server: BrokerThread, code: int, misdeed: Misdeed) -> None:
    """Answer requests of a code like that from now on."""
    server.broker.on(code, lambda request: misdeed(server, request))


def told_in_time(
    call: Callable[[], object], kind: type[RocketMQError] | tuple[type[RocketMQError], ...], address: str
) -> RocketMQError:
    """The error of a call, which names where it comes from."""
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        call()
    assert time.monotonic() - begun < TIMEOUT_S + _GRACE_S
    assert address in str(caught.value)
    return caught.value


def producer_settings(server: BrokerThread, request_timeout: float = 60.0) -> ProducerSettings:
    settings = ProducerSettings(namesrv=server.broker.address, request_timeout=request_timeout)
    return settings.with_changes(**_OFTEN)


@pytest.mark.parametrize("what", MISDEEDS)
@pytest.mark.parametrize("way", ["send", "send by itself", "send_async", "send_batch"])
def test_a_send_is_told_what_is_wrong_and_the_next_one_works(server: BrokerThread, what: str, way: str) -> None:
    misdeed, kind = MISDEEDS[what]
    code = RequestCode.SEND_BATCH_MESSAGE if way == "send_batch" else SEND
    good = server.broker._scripts[code]
    with Producer("g", producer_settings(server)) as producer:
        calls: dict[str, Callable[[float], object]] = {
            "send": lambda timeout: producer.send(MESSAGE, timeout=timeout),
            "send by itself": lambda timeout: producer.send(MESSAGE, timeout=timeout),
            "send_async": lambda timeout: producer.send_async(MESSAGE, timeout=timeout).result(60),
            "send_batch": lambda timeout: producer.send_batch([MESSAGE, MESSAGE], timeout=timeout),
        }

        def call(timeout: float = patience(what)) -> object:
            return calls[way](timeout)

        if way == "send by itself":
            call(60.0)  # from now on over a connection of this thread
        else:
            producer.publish_queues("t")
        misbehave(server, code, misdeed)
        if kind in (RocketMQError, BrokerError, ProtocolError):
            error = told_in_time(call, kind, server.broker.address)
        else:
            error = told_in_time(call, (ConnectError, RequestTimeout), server.broker.address)
        assert error.outcome_unknown or isinstance(error, BrokerError)
        server.broker.on(code, good)
        call(60.0)


@pytest.mark.parametrize("what", MISDEEDS)
def test_a_transaction_is_told_what_is_wrong(server: BrokerThread, what: str) -> None:
    class Never:
        def check(self, message: ReceivedMessage) -> TransactionState:
            raise AssertionError("nothing is checked here")

    misdeed, _ = MISDEEDS[what]
    settings = TransactionSettings(namesrv=server.broker.address, send_msg_timeout=patience(what), **_OFTEN)
    with TransactionProducer("g", Never(), settings) as producer:
        producer.publish_queues("t")
        misbehave(server, SEND, misdeed)
        told_in_time(lambda: producer.prepare(MESSAGE), RocketMQError, server.broker.address)


@pytest.mark.parametrize("what", MISDEEDS)
def test_an_administrator_is_told_what_is_wrong(server: BrokerThread, what: str) -> None:
    misdeed, _ = MISDEEDS[what]
    with AdminClient(ClientSettings(namesrv=server.broker.address, request_timeout=patience(what), **_OFTEN)) as admin:
        misbehave(server, RequestCode.GET_ROUTEINFO_BY_TOPIC, misdeed)
        told_in_time(lambda: admin.topics.route("t"), RocketMQError, server.broker.address)


@pytest.mark.parametrize("what", MISDEEDS)
def test_a_bad_name_server_is_named(server: BrokerThread, what: str) -> None:
    misdeed, _ = MISDEEDS[what]
    misbehave(server, RequestCode.GET_ROUTEINFO_BY_TOPIC, misdeed)
    with Producer("g", producer_settings(server, patience(what))) as producer:
        told_in_time(lambda: producer.publish_queues("t"), RocketMQError, server.broker.address)


def test_a_route_of_two_billion_queues_is_refused(server: BrokerThread) -> None:
    vast = TopicRouteData(
        [QueueData("broker-a", 2**31 - 1, 2**31 - 1, 6)], [BrokerData("c", "broker-a", {0: server.broker.address})]
    )
    body = vast.build(standard=True)
    server.broker.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda request: request.response(0, body=body))
    with Producer("g", producer_settings(server)) as producer:
        error = told_in_time(lambda: producer.publish_queues("t"), BrokerError, server.broker.address)
        assert "readQueueNums is 2147483647, the limit is 65536" in str(error)


@pytest.mark.parametrize("what", MISDEEDS)
@pytest.mark.parametrize("kind", ["push", "lite pull"])
def test_a_consumer_goes_on_after_answers_that_were_wrong(
    server: BrokerThread, what: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    misdeed, _ = MISDEEDS[what]
    code = RequestCode.PULL_MESSAGE if kind == "push" else RequestCode.LITE_PULL_MESSAGE
    good = server.broker._scripts[code]
    asked = threading.Event()
    seen: list[bytes] = []
    enough = threading.Event()

    def listen(message: ReceivedMessage) -> None:
        seen.append(message.body)
        enough.set()

    def act(request: RemotingCommand) -> Reply:
        asked.set()
        return misdeed(server, request)

    terms = {
        "namesrv": server.broker.address,
        "consume_from_where": ConsumeFrom.FIRST_OFFSET,
        "pull_time_delay_when_exception": 0.02,
        "broker_suspend_max_time": 0.1,
        "consumer_timeout_when_suspend": TIMEOUT_S,
        "rebalance_interval": 0.1,
        **_OFTEN,
    }
    server.broker.on(code, act)
    server.put("t", b"kept", queue_id=0)
    with caplog.at_level(logging.WARNING):
        if kind == "push":
            with PushConsumer("g", listen, PushSettings(**terms), subscriptions={"t": "*"}):
                assert asked.wait(60)
                server.broker.on(code, good)
                assert enough.wait(60), "it does not go on"
        else:
            settings = LitePullSettings(**terms)
            with LitePullConsumer("g", settings, subscriptions={"t": "*"}) as consumer:
                assert asked.wait(60)
                server.broker.on(code, good)
                end = time.monotonic() + 60
                while not seen and time.monotonic() < end:
                    seen += [message.body for message in consumer.poll(0.5)]
    assert set(seen) == {b"kept"}


@pytest.mark.parametrize("what", [what for what in MISDEEDS if "fields" not in what])  # without them: no messages
def test_a_receive_is_told_what_is_wrong(server: BrokerThread, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    misdeed, _ = MISDEEDS[what]
    monkeypatch.setattr(pops, "BEYOND_HOLD", patience(what))
    settings = SimpleSettings(namesrv=server.broker.address, request_timeout=60.0, poll_time=0.1, **_OFTEN)
    misbehave(server, RequestCode.POP_MESSAGE, misdeed)
    with SimpleConsumer("g", settings, subscriptions={"t": "*"}) as consumer:
        told_in_time(lambda: consumer.receive(timeout=0.1), RocketMQError, server.broker.address)


@pytest.mark.parametrize("way", ["send", "send_async"])
def test_a_broker_that_answers_slowly_and_in_single_bytes_is_waited_for(server: BrokerThread, way: str) -> None:
    async def slowly(request: RemotingCommand) -> None:
        for byte in build_frame(request.response(0, ext_fields=stored_at(1, 5))):
            server.broker.send_garbage(bytes((byte,)))
            await asyncio.sleep(0)

    settings = producer_settings(server).with_changes(send_msg_timeout=20.0)
    with Producer("g", settings) as producer:

        def send() -> SendResult:
            return producer.send(MESSAGE) if way == "send" else producer.send_async(MESSAGE).result(30)

        send()
        server.broker.on(SEND, slowly)
        assert [send().queue_offset for _ in range(2)] == [5, 5]


# --- the address that a broker advertises ----------------------------------------------------------------------

UNREACHABLE = "127.0.0.1:1"
"""Nobody listens there, and the machine says so at once."""


def test_an_advertised_address_that_cannot_be_reached_is_named_with_its_cure(server: BrokerThread) -> None:
    server.broker.route_addresses = {"broker-a": UNREACHABLE}

    class Checker:
        def check(self, message: ReceivedMessage) -> TransactionState:
            return TransactionState.UNKNOWN

    address = server.broker.address
    transactions = TransactionSettings(namesrv=address, send_msg_timeout=60.0, **_OFTEN)
    receiving = SimpleSettings(namesrv=address, request_timeout=60.0, **_OFTEN)
    with (
        Producer("g", producer_settings(server)) as producer,
        TransactionProducer("tx", Checker(), transactions) as transactional,
        AdminClient(ClientSettings(namesrv=address, request_timeout=60.0, **_OFTEN)) as admin,
        SimpleConsumer("s", receiving, subscriptions={"t": "*"}) as simple,
    ):
        calls: list[Callable[[], object]] = [
            lambda: producer.send(MESSAGE),
            lambda: producer.send_async(MESSAGE).result(60),
            lambda: producer.send_batch([MESSAGE]),
            lambda: producer.send_oneway(MESSAGE),
            lambda: transactional.prepare(MESSAGE),
            lambda: admin.topics.stats("t"),
            lambda: simple.receive(timeout=0.1),
        ]
        for call in calls:
            error = told_in_time(call, ConnectError, UNREACHABLE)
            for word in ("'broker-a'", "advertises", "brokerIP1", "address_map"):
                assert word in str(error)


@pytest.mark.parametrize("kind", ["push", "lite pull"])
def test_consumers_log_an_advertised_address_that_cannot_be_reached(
    server: BrokerThread, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.broker.route_addresses = {"broker-a": UNREACHABLE}
    address = server.broker.address
    with caplog.at_level(logging.WARNING):
        if kind == "push":
            push = PushSettings(namesrv=address, request_timeout=60.0, **_OFTEN)
            consumer = PushConsumer("g", lambda _: None, push, subscriptions={"t": "*"})
            _start_and_wait(consumer.start, consumer.close, caplog)
        else:
            settings = LitePullSettings(namesrv=address, request_timeout=60.0, **_OFTEN)
            lite = LitePullConsumer("g", settings, subscriptions={"t": "*"})
            _start_and_wait(lite.start, lite.close, caplog)
    assert any("brokerIP1" in record.getMessage() for record in caplog.records)


def _start_and_wait(start: Callable[[], None], close: Callable[[], None], caplog: pytest.LogCaptureFixture) -> None:
    """Start, or be told why not; then until something is logged."""
    try:
        start()
    except ConnectError as error:
        logging.getLogger(__name__).warning("told: %s", error)
    end = time.monotonic() + 60
    while not any("brokerIP1" in record.getMessage() for record in caplog.records) and time.monotonic() < end:
        threading.Event().wait(0.02)
    close()


@pytest.mark.parametrize(
    "address", ["[::1]:99999", "127.0.0.1:-1", "127.0.0.1:" + "9" * 5_000, "x", ":", "", "a\x00b:1"]
)
def test_an_advertised_address_that_is_none_is_an_error_that_names_it(server: BrokerThread, address: str) -> None:
    server.broker.route_addresses = {"broker-a": address}
    with Producer("g", producer_settings(server)) as producer:
        told_in_time(lambda: producer.send(MESSAGE), ConnectError, address)
