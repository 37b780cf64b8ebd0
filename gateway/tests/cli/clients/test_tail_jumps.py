"""``tail`` says which messages it did not get, and when a topic begins anew."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, cast

import pytest

from gateway.cli.clients.tail import QueueSpan, _messages
from gateway.client import MessageQueue

if TYPE_CHECKING:
    from gateway.client import LitePullConsumer

QUEUE = MessageQueue("orders", "broker-a", 0)


@dataclass
class Found:
    queue: MessageQueue
    queue_offset: int


class Consumer:
    """Has messages of these offsets."""

    def __init__(self, *offsets: int) -> None:
        self._found = [Found(QUEUE, offset) for offset in offsets]

    def poll(self, _timeout_s: float) -> list[Found]:
        found, self._found = self._found, []
        return found


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ((5, 6, 7), ""),
        ((5, 9, 10), "messages 6 to 8 are gone"),
        ((5, 6, 0), "goes on at 0 instead of 7: the topic was deleted and made again"),
    ],
)
def test_point_6_tail_says_what_it_did_not_get(
    offsets: tuple[int, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = cast("LitePullConsumer", Consumer(*offsets))
    found = list(islice(_messages(consumer, {QUEUE: QueueSpan(5, 5)}, stops=False), len(offsets)))
    assert [message.queue_offset for message in found] == list(offsets)
    errors = capsys.readouterr().err
    assert said in errors
    assert bool(errors) == bool(said)
