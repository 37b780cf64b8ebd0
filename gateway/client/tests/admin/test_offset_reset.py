from __future__ import annotations

from gateway.client.admin.offset_reset import OffsetChange, OffsetReset
from gateway.client.message import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)


def test_going_back_repeats_and_going_forth_skips() -> None:
    back, forth, same = OffsetChange(QUEUE, 10, 4), OffsetChange(QUEUE, 4, 10), OffsetChange(QUEUE, 4, 4)
    assert [(change.repeated, change.skipped) for change in (back, forth, same)] == [(6, 0), (0, 6), (0, 0)]


def test_a_queue_without_an_offset_neither_repeats_nor_skips() -> None:
    change = OffsetChange(QUEUE, None, 7)
    assert (change.repeated, change.skipped) == (0, 0)


def test_a_reset_is_shown_to_people_before_it_is_done() -> None:
    reset = OffsetReset("billing", "orders", (OffsetChange(QUEUE, 10, 4), OffsetChange(OTHER, None, 2)), online=3)
    assert (reset.repeated, reset.skipped) == (6, 0)
    assert str(reset).splitlines() == [
        "billing in orders: 6 messages again, 0 skipped; 3 clients are connected",
        "  broker-a queue 0: 10 -> 4",
        "  broker-a queue 1: none -> 2",
    ]
