import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from gateway.client import AclError, BrokerError, Message, Producer, ProducerSettings, RequestTimeout
from gateway.client.blocking import direct_sends
from gateway.client.blocking.direct_sends import DirectSends
from gateway.client.blocking.loop_thread import LoopThread
from gateway.client.errors import ClientClosed
from gateway.client.results import SendResult
from gateway.client.tests.blocking.interrupts import LONGEST_S, Interrupted, any_moment, elsewhere, interrupted
from gateway.client.tests.scripted_broker import ScriptedBroker, stored_at
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.frame import build_frame

SEND = RequestCode.SEND_MESSAGE_V2
MESSAGE = Message("t", b"hello")
WAIT_S = 30.0


class Scene:
    """A producer whose loop is connected, and the broker on a thread of its own."""

    def __init__(self, broker: ScriptedBroker, thread: LoopThread, producer: Producer) -> None:
        self.broker = broker
        self.thread = thread
        self.producer = producer
        producer.send(MESSAGE)

    @property
    def direct(self) -> DirectSends:
        assert self.producer._hand_over is not None
        return self.producer._hand_over._direct

    def on_loop(self, call: Callable[[], object]) -> None:
        """Call something on the broker's thread."""

        async def calling() -> None:
            call()

        self.thread.run(calling())


@pytest.fixture
def scene() -> Iterator[Scene]:
    thread = LoopThread("scripted broker")
    thread.start()
    broker = ScriptedBroker()
    thread.run(broker.start())
    with Producer("g", ProducerSettings(namesrv=broker.address, send_msg_timeout=5.0)) as producer:
        yield Scene(broker, thread, producer)
    thread.run(broker.stop())
    thread.stop()


def test_a_thread_sends_over_a_connection_of_its_own(scene: Scene) -> None:
    before = scene.broker.connections
    results = [scene.producer.send(Message("t", b"x", keys="k", tags="T")) for _ in range(8)]
    assert scene.broker.connections == before + 1
    assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [result.msg_id for result in results] == [_unique_key(request) for request in scene.broker.asked(SEND)[1:]]


def _unique_key(request: RemotingCommand) -> str:
    pairs = dict(pair.split("\x01") for pair in request.ext_fields["i"].rstrip("\x02").split("\x02"))
    assert pairs.get("TAGS", "T") == "T"
    return pairs["UNIQ_KEY"]


def test_a_refusal_is_tried_again_by_the_sender_with_the_same_id(scene: Scene) -> None:
    answers = iter((ResponseCode.SYSTEM_BUSY, ResponseCode.SUCCESS))
    scene.broker.on(SEND, lambda request: request.response(next(answers), "busy", stored_at(0, 7)))
    result = scene.producer.send(MESSAGE)
    assert (result.queue_offset, result.msg_id) == (7, _unique_key(scene.broker.asked(SEND)[-2]))
    assert _unique_key(scene.broker.asked(SEND)[-1]) == result.msg_id


def test_what_will_not_get_better_is_told(scene: Scene) -> None:
    scene.broker.answer(SEND, ResponseCode.MESSAGE_ILLEGAL, "no")
    with pytest.raises(BrokerError, match="no"):
        scene.producer.send(MESSAGE)
    scene.broker.answer(SEND, 4711, "never heard of")
    with pytest.raises(BrokerError, match="4711"):
        scene.producer.send(MESSAGE)


def test_a_refusal_of_access_is_asked_for_once(scene: Scene) -> None:
    scene.broker.answer(SEND, ResponseCode.NO_PERMISSION, "User:shop is disabled.")
    before = len(scene.broker.asked(SEND))
    with pytest.raises(AclError, match="enable shop"):
        scene.producer.send(MESSAGE)
    assert len(scene.broker.asked(SEND)) == before + 1


def test_a_connection_that_breaks_while_waiting_is_made_again(scene: Scene) -> None:
    scene.producer.send(MESSAGE)
    broken: list[RemotingCommand] = []

    def break_once(request: RemotingCommand) -> RemotingCommand | None:
        if not broken:
            broken.append(request)
            scene.broker.drop_connections()
            return None
        return request.response(0, ext_fields=stored_at(0, 1))

    scene.broker.on(SEND, break_once)
    result = scene.producer.send(MESSAGE)
    assert result.msg_id == _unique_key(broken[0])


def test_a_connection_that_broke_meanwhile_is_not_used(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.producer.send(MESSAGE)
    monkeypatch.setattr(direct_sends, "_FRESH_S", -1.0)
    (connection,) = scene.direct._all
    assert connection.is_usable()
    scene.on_loop(scene.broker.drop_connections)
    while connection.is_usable():
        pass
    assert isinstance(scene.producer.send(MESSAGE), SendResult)
    assert connection not in scene.direct._all
    assert len(scene.broker.asked(SEND)) == 3


def test_a_connection_long_unused_is_not_used_again(scene: Scene) -> None:
    scene.producer.send(MESSAGE)
    (connection,) = scene.direct._all
    connection.used_at -= 31.0
    scene.producer.send(MESSAGE)
    (after,) = scene.direct._all
    assert after is not connection


def test_no_answer_is_a_timeout_that_leaves_the_outcome_open(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes when the broker has the message; a busy machine makes none of it pass before."""
    ahead = 0.0

    def now() -> float:
        return time.monotonic() + ahead

    def let_time_pass(request: RemotingCommand) -> None:
        nonlocal ahead
        ahead += WAIT_S
        scene.broker.send_garbage(build_frame(RemotingCommand(0, opaque=request.opaque + 7, flag=1)))  # to be looked at

    monkeypatch.setattr(direct_sends, "time", SimpleNamespace(monotonic=now))
    monkeypatch.setattr(scene.producer._thread.loop, "time", now)
    scene.broker.on(SEND, let_time_pass)
    with pytest.raises(RequestTimeout) as caught:
        scene.producer.send(MESSAGE, timeout=WAIT_S)
    assert caught.value.outcome_unknown
    assert ahead == WAIT_S, "it is not sent again"
    assert not scene.direct._all, "who knows what still comes over it"


def test_answers_to_other_requests_and_requests_of_the_broker_are_passed_over(scene: Scene) -> None:
    def answer(request: RemotingCommand) -> RemotingCommand:
        asked = RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=request.opaque)
        late = RemotingCommand(0, opaque=request.opaque + 7, flag=1, ext_fields=stored_at(3, 99))
        scene.broker.send_garbage(build_frame(asked) + build_frame(late))
        return request.response(0, ext_fields=stored_at(1, 5))

    scene.producer.send(MESSAGE)
    scene.broker.on(SEND, answer)
    result = scene.producer.send(MESSAGE)
    assert (result.queue.queue_id, result.queue_offset) == (1, 5)


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x7f\xff\xff\xff\x00\x00\x00\x01", b"\x00" * 64]
)
def test_garbage_ends_the_connection_and_is_told(scene: Scene, garbage: bytes) -> None:
    def answer(request: RemotingCommand) -> None:
        scene.broker.send_garbage(garbage)

    scene.producer.send(MESSAGE)
    scene.broker.on(SEND, answer)
    with pytest.raises(Exception, match="does not speak RocketMQ") as caught:
        scene.producer.send(MESSAGE)
    assert getattr(caught.value, "outcome_unknown", False)
    assert not scene.direct._all


def test_a_broker_that_goes_away_is_left_and_asked_again(scene: Scene) -> None:
    answers = iter((ResponseCode.GO_AWAY, ResponseCode.SUCCESS))
    scene.broker.on(SEND, lambda request: request.response(next(answers), "going", stored_at(0, 1)))
    assert scene.producer.send(MESSAGE).queue_offset == 1
    assert not scene.direct._all


def test_what_is_under_way_is_not_overtaken(scene: Scene) -> None:
    release = asyncio.Event()

    async def slow(request: RemotingCommand) -> RemotingCommand:
        await release.wait()
        return request.response(0, ext_fields=stored_at(0, 0))

    scene.broker.on(SEND, slow)
    before = scene.broker.connections
    first = scene.producer.send_async(Message("t", b"first"))
    second = threading.Thread(target=scene.producer.send, args=(Message("t", b"second"),))
    second.start()
    scene.thread.run(scene.broker.wait_for(SEND, 3))
    assert scene.broker.connections == before
    assert [request.body for request in scene.broker.asked(SEND)[1:]] == [b"first", b"second"]
    scene.on_loop(release.set)
    first.result(5)
    second.join(5)


def test_close_waits_for_the_answer_and_gives_up_in_time(scene: Scene) -> None:
    arrived = threading.Event()
    scene.producer.send(MESSAGE)
    scene.broker.on(SEND, lambda _: arrived.set())
    errors: list[Exception] = []

    def send() -> None:
        try:
            scene.producer.send(MESSAGE, timeout=2 * LONGEST_S)
        except ClientClosed as error:
            errors.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    assert arrived.wait(LONGEST_S)
    begun = time.monotonic()
    scene.producer.close(timeout=0.2)
    thread.join(LONGEST_S)
    assert time.monotonic() - begun < LONGEST_S
    (error,) = errors
    assert getattr(error, "outcome_unknown", False)


def test_a_broker_that_cannot_be_connected_is_left_to_the_sender(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(direct_sends, "DirectConnection", refuse)
    results = [scene.producer.send(MESSAGE) for _ in range(4)]
    assert sorted(result.queue.queue_id for result in results) == [0, 1, 2, 3]


@any_moment
def test_a_producer_closes_at_once_whenever_signals_interrupted_its_sends(scene: Scene) -> None:
    options = scene.producer._core.options(scene.producer._core.plain, None, None, 5.0, ())
    for raised in interrupted(lambda: scene.direct.send(MESSAGE, options, None)):
        assert isinstance(raised, Interrupted)
        elsewhere(lambda: scene.producer.send(MESSAGE))
    begun = time.monotonic()
    scene.producer.close(LONGEST_S)
    assert time.monotonic() - begun < LONGEST_S / 2
