import threading

import pytest

from gateway.client import Message, Producer, ProducerSettings
from gateway.client.blocking import hand_over
from gateway.client.blocking.hand_over import SendRoom
from gateway.client.errors import RequestTimeout
from gateway.client.tests.blocking.broker_thread import broker_thread
from gateway.client.tests.blocking.interrupts import LONGEST_S, Interrupted, any_moment, elsewhere, interrupted

MESSAGE = Message("t", b"hello")


def test_room_is_taken_and_given_back() -> None:
    room = SendRoom(2, 100)
    room.take("one", 10)
    room.take("two", 10)
    waiting = threading.Thread(target=room.take, args=("three", 10))
    waiting.start()
    waiting.join(0.02)
    assert waiting.is_alive()
    room.give("four")
    room.give("one")
    waiting.join(5)
    assert not waiting.is_alive()


def test_bytes_count_too_but_one_message_always_has_room() -> None:
    room = SendRoom(10, 100)
    room.take("one", 1_000)
    waiting = threading.Thread(target=room.take, args=("two", 1))
    waiting.start()
    waiting.join(0.02)
    assert waiting.is_alive()
    room.give("one")
    waiting.join(5)
    assert not waiting.is_alive()


def test_nobody_waits_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "_ROOM_TIMEOUT", 0.01)
    room = SendRoom(1, 100)
    room.take("one", 1)
    with pytest.raises(RequestTimeout) as caught:
        room.take("two", 1)
    assert not caught.value.outcome_unknown


@any_moment
def test_there_is_room_again_whenever_a_signal_interrupted_a_send() -> None:
    with (
        broker_thread() as server,
        Producer("g", ProducerSettings(namesrv=server.broker.address, max_in_flight=1)) as producer,
    ):
        producer.send(MESSAGE)
        for raised in interrupted(lambda: producer.send_async(MESSAGE)):
            assert isinstance(raised, Interrupted)
            elsewhere(lambda: producer.send_async(MESSAGE).result(LONGEST_S))
