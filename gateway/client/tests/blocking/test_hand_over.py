import threading

import pytest

from gateway.client.blocking import hand_over
from gateway.client.blocking.hand_over import Room
from gateway.client.errors import RequestTimeout


def test_room_is_taken_and_given_back() -> None:
    room = Room(2, 100)
    room.take(10)
    room.take(10)
    waiting = threading.Thread(target=room.take, args=(10,))
    waiting.start()
    waiting.join(0.02)
    assert waiting.is_alive()
    room.give(10)
    waiting.join(5)
    assert not waiting.is_alive()


def test_bytes_count_too_but_one_message_always_has_room() -> None:
    room = Room(10, 100)
    room.take(1_000)
    waiting = threading.Thread(target=room.take, args=(1,))
    waiting.start()
    waiting.join(0.02)
    assert waiting.is_alive()
    room.give(1_000)
    waiting.join(5)
    assert not waiting.is_alive()


def test_nobody_waits_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "_ROOM_TIMEOUT", 0.01)
    room = Room(1, 100)
    room.take(1)
    with pytest.raises(RequestTimeout) as caught:
        room.take(1)
    assert not caught.value.outcome_unknown
