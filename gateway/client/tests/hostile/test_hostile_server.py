"""Every kind of client beside a server that answers badly half of the time, by a seed.

The user gets a clear error or an answer, nothing is logged with a traceback, nothing is asked in a hot loop, memory
stays small, and ``close`` returns. ``GATEWAY_HOSTILE_SECONDS`` (2 for each kind of client when it is not set) and
``GATEWAY_HOSTILE_SEED`` run it longer and otherwise.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from gateway.client import (
    AdminClient,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    RocketMQError,
    SimpleConsumer,
    SimpleSettings,
    TransactionProducer,
    TransactionState,
)
from gateway.client.blocking.loop_thread import LoopThread
from gateway.client.connect.producer_settings import TransactionSettings
from gateway.client.connect.settings import ClientSettings
from gateway.client.tests.hostile.hostile_server import HostileServer
from gateway.client.tests.scripted_broker import Reply
from wire.bodies.consumers import ConsumerListByGroup
from wire.bodies.message_queue import LockBatchResponse
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.errors import WireError
from wire.headers.declare import build_header
from wire.headers.pull import PullMessageResponse

SECONDS = float(os.environ.get("GATEWAY_HOSTILE_SECONDS", "2"))
SEED = int(os.environ.get("GATEWAY_HOSTILE_SEED", "34"))
MOST_MIB = 300
"""Memory of Python objects: two bodies of 64 MiB that grow, at the same time, and what is joined of them."""
PATIENCE_S = 60.0
"""For a close on a busy machine."""
MESSAGE = Message("t", b"hello")
QUEUE = MessageQueue("t", "broker-a", 0)

OFTEN: dict[str, Any] = {"reconnect_backoff_min": 0.01, "reconnect_backoff_max": 0.02, "request_timeout": 0.2}
TERMS: dict[str, Any] = {
    "consume_from_where": ConsumeFrom.FIRST_OFFSET,
    "pull_time_delay_when_exception": 0.05,
    "broker_suspend_max_time": 0.1,
    "consumer_timeout_when_suspend": 0.3,
    "rebalance_interval": 0.1,
    "heartbeat_broker_interval": 1.0,
    "poll_name_server_interval": 1.0,
    **OFTEN,
}
Use = Callable[[HostileServer, Callable[[], bool]], None]


@contextmanager
def hostile(seed: int, *, badly: float) -> Iterator[tuple[HostileServer, LoopThread]]:
    """A server while the block runs; every few milliseconds there is another message."""
    thread = LoopThread("hostile server")
    thread.start()

    async def begin() -> HostileServer:
        server = HostileServer(seed, badly=badly)
        await server.start()
        return server

    server = thread.run(begin())
    try:
        yield server, thread
    finally:
        thread.run(server.stop())
        thread.stop()


def attempt(*calls: Callable[[], object]) -> None:
    """Call; the only errors are the client's own."""
    for call in calls:
        with suppress(RocketMQError):
            call()


def look_at(message: ReceivedMessage) -> None:
    """Read everything of a message; the only errors are those that a listener is told of."""
    for name in ("body", "topic", "tags", "keys", "properties", "msg_id", "reconsume_times", "queue", "sharding_key"):
        with suppress(RocketMQError, WireError):
            getattr(message, name)


def produce(server: HostileServer, is_over: Callable[[], bool]) -> None:
    with Producer("g", ProducerSettings(namesrv=server.address, send_msg_timeout=0.2, **OFTEN)) as producer:
        while not is_over():
            attempt(
                lambda: producer.send(MESSAGE),
                lambda: producer.send_async(MESSAGE).result(10),
                lambda: producer.send_batch([MESSAGE, MESSAGE]),
                lambda: producer.send_oneway(MESSAGE),
                lambda: producer.publish_queues("t"),
                lambda: producer.request(MESSAGE, timeout=0.1),
            )


def transact(server: HostileServer, is_over: Callable[[], bool]) -> None:
    class Commit:
        def check(self, message: ReceivedMessage) -> TransactionState:
            look_at(message)
            return TransactionState.COMMIT

    settings = TransactionSettings(namesrv=server.address, send_msg_timeout=0.2, **OFTEN)
    with TransactionProducer("g", Commit(), settings) as producer:
        while not is_over():
            attempt(lambda: producer.prepare(MESSAGE))


def push(server: HostileServer, is_over: Callable[[], bool], **settings: Any) -> None:
    given = PushSettings(namesrv=server.address, **TERMS, **settings)
    while not is_over():
        try:
            with PushConsumer("g", look_at, given, subscriptions={"t": "*"}):
                while not is_over():
                    time.sleep(0.02)  # noqa: TID251 - the clients' own threads work meanwhile
        except RocketMQError:
            continue  # the start was refused


def pop(server: HostileServer, is_over: Callable[[], bool]) -> None:
    push(server, is_over, client_rebalance=False)


def poll(server: HostileServer, is_over: Callable[[], bool]) -> None:
    settings = LitePullSettings(namesrv=server.address, **TERMS)
    while not is_over():
        with suppress(RocketMQError), LitePullConsumer("g", settings, subscriptions={"t": "*"}) as consumer:
            while not is_over():
                attempt(lambda: list(map(look_at, consumer.poll(0.1))), consumer.commit)


def receive(server: HostileServer, is_over: Callable[[], bool]) -> None:
    settings = SimpleSettings(namesrv=server.address, poll_time=0.1, **OFTEN)
    while not is_over():
        with suppress(RocketMQError), SimpleConsumer("g", settings, subscriptions={"t": "*"}) as consumer:
            while not is_over():
                with suppress(RocketMQError):
                    messages = consumer.receive(timeout=0.05)
                    for message in messages:
                        look_at(message)
                    consumer.ack(messages)


def administer(server: HostileServer, is_over: Callable[[], bool]) -> None:
    with AdminClient(ClientSettings(namesrv=server.address, **OFTEN)) as admin:
        calls: list[Callable[[], object]] = [
            lambda: admin.topics.list(),
            lambda: admin.topics.route("t"),
            lambda: admin.topics.create("t", queues=2, timeout=0.2),
            lambda: admin.offsets.min(QUEUE),
            lambda: admin.offsets.max(QUEUE),
            lambda: admin.offsets.of_group("g", QUEUE),
            lambda: admin.messages.by_id("0" * 32, "t"),
            lambda: admin.messages.by_offset(QUEUE, 3),
            lambda: admin.messages.by_key("t", "k"),
        ]
        while not is_over():
            for call in calls:
                attempt(call)
                if is_over():
                    return


USES: dict[str, Use] = {
    "producer": produce,
    "transaction producer": transact,
    "push consumer": push,
    "popping consumer": pop,
    "lite pull consumer": poll,
    "simple consumer": receive,
    "administrator": administer,
}


@pytest.mark.parametrize("kind", USES)
def test_a_client_beside_a_hostile_server(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    monkeypatch.setattr("gateway.client.consume.pop.pops.BEYOND_HOLD", 0.1)
    with hostile(SEED, badly=0.5) as (server, thread):

        async def put(number: int) -> None:
            server.put("t", b"%d" % number, queue_id=number % 2)
            server.offer("t", b"%d" % number)

        for number in range(500):
            thread.run(put(number))
        tracemalloc.start()
        begun = time.monotonic()

        def is_over() -> bool:
            took = time.monotonic() - begun
            return took > PATIENCE_S or (took > SECONDS and server.asked_codes.total() > 0)

        try:
            with caplog.at_level(logging.WARNING):
                USES[kind](server, is_over)
            peak = tracemalloc.get_traced_memory()[1] >> 20
        finally:
            tracemalloc.stop()
        assert time.monotonic() - begun < SECONDS + PATIENCE_S, "close returns"
        assert server.asked_codes.total() > 0
    assert peak < MOST_MIB
    assert not failed
    bad = [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
    assert [f"{record.name}: {record.getMessage()}: {record.exc_info}" for record in bad] == []


# --- hot loops -------------------------------------------------------------------------------------------------------

MOST_A_SECOND = 200
"""Requests of a consumer with two queues and a retry topic: ten a second for each, heartbeats, members, offsets."""


def pulled(code: int, step: int, *, with_messages: bool = False) -> Callable[[HostileServer, RemotingCommand], Reply]:
    """An answer to a pull that leads this many offsets on."""

    def answer(server: HostileServer, request: RemotingCommand) -> Reply:
        offset = max(int(request.ext_fields["queueOffset"]) + step, -(2**63))
        fields = build_header(
            PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=offset, min_offset=0, max_offset=2**62)
        )
        body = b"".join(server.records["t", 0][:2]) if with_messages else b""
        return request.response(code, None, fields, body)

    return answer


def plain(code: int, body: bytes = b"") -> Callable[[HostileServer, RemotingCommand], Reply]:
    """Return the same answer each time."""
    return lambda _, request: request.response(code, "again", {}, body)


PULL, LITE, POP = (RequestCode.PULL_MESSAGE,), (RequestCode.LITE_PULL_MESSAGE,), (RequestCode.POP_MESSAGE,)
MEMBERS = (RequestCode.GET_CONSUMER_LIST_BY_GROUP,)
LOOPS: dict[str, tuple[tuple[int, ...], Callable[[HostileServer, RemotingCommand], Reply]]] = {
    "nothing, as a success": (PULL + LITE, pulled(ResponseCode.SUCCESS, 0)),
    "nothing, and back": (PULL + LITE, pulled(ResponseCode.SUCCESS, -1)),
    "the same messages for ever": (PULL + LITE, pulled(ResponseCode.SUCCESS, 0, with_messages=True)),
    "messages, and back": (PULL + LITE, pulled(ResponseCode.SUCCESS, -2, with_messages=True)),
    "again at once": (PULL + LITE, pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, 0)),
    "nothing, not held": (PULL + LITE, pulled(ResponseCode.PULL_NOT_FOUND, 0)),
    "moved to where it is": (PULL + LITE, pulled(ResponseCode.PULL_OFFSET_MOVED, 0)),
    "moved on and on": (PULL + LITE, pulled(ResponseCode.PULL_OFFSET_MOVED, 1)),
    "an unknown code": (PULL + LITE + POP, plain(4711)),
    "go away": (PULL + LITE + POP, plain(ResponseCode.GO_AWAY)),
    "not supported": (PULL + LITE + POP, plain(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)),
    "no subscription": (PULL + LITE + POP, plain(ResponseCode.SUBSCRIPTION_NOT_EXIST)),
    "no members": (MEMBERS, plain(0, ConsumerListByGroup(()).build())),
    "other members": (MEMBERS, plain(0, ConsumerListByGroup(("x",)).build())),
    "no locks": ((RequestCode.LOCK_BATCH_MQ,), plain(0, LockBatchResponse(()).build())),
    "no assignment": ((RequestCode.QUERY_ASSIGNMENT,), plain(0, b"{}")),
    "queues of another topic": (
        (RequestCode.QUERY_ASSIGNMENT,),
        plain(
            0,
            b'{"messageQueueAssignments":[{"messageQueue":{"topic":"x","brokerName":"broker-a","queueId":0},"mode":"POP"}]}',
        ),
    ),
    "nothing to pop": (POP, plain(ResponseCode.PULL_NOT_FOUND)),
    "nothing to pop in time": (POP, plain(ResponseCode.POLLING_TIMEOUT)),
    "nothing popped, as a success": (
        POP,
        lambda _, request: request.response(0, None, {"popTime": "1", "invisibleTime": "1", "reviveQid": "0"}),
    ),
    "full": (POP, plain(ResponseCode.POLLING_FULL)),
}
WAYS: dict[str, Use] = {
    "push": push,
    "pop": pop,
    "lite pull": poll,
    "simple": receive,
}


def _is_over(begun: float, seconds: float) -> bool:
    return time.monotonic() - begun > seconds


@pytest.mark.parametrize("what", LOOPS)
def test_an_answer_that_leads_nowhere_is_not_asked_for_in_a_hot_loop(what: str) -> None:
    codes, answer = LOOPS[what]
    seconds = 0.5
    for way in ("push", "lite pull") if not set(codes) <= {*POP, RequestCode.QUERY_ASSIGNMENT} else ("pop", "simple"):
        with hostile(SEED, badly=0.0) as (server, thread):

            async def script(server: HostileServer = server) -> None:
                server.put("t", b"one", b"two")
                for code in codes:
                    server.on(code, lambda request: answer(server, request))

            thread.run(script())
            begun = time.monotonic()
            WAYS[way](server, partial(_is_over, begun, seconds))
            took = time.monotonic() - begun
        assert server.asked_codes.total() < MOST_A_SECOND * (took + 1), (way, server.asked_codes)
