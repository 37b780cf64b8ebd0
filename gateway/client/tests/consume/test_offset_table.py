"""Tests of the offsets in memory."""

from __future__ import annotations

from gateway.client.consume.offset_table import OffsetTable
from gateway.client.message import MessageQueue

A, B = MessageQueue("a", "x", 0), MessageQueue("b", "x", 0)


def test_an_offset_advances_and_is_stored_once() -> None:
    table = OffsetTable()
    table.advance(A, 5)
    table.advance(A, 3)
    assert table.get(A) == 5
    assert table.take_changed() == {A: 5}
    assert table.take_changed() == {}


def test_an_offset_may_be_moved_back() -> None:
    table = OffsetTable()
    table.advance(A, 5)
    table.take_changed()
    table.move(A, 2)
    assert table.take_changed() == {A: 2}
    table.move(A, 2)
    assert table.take_changed() == {}


def test_what_could_not_be_stored_is_stored_later() -> None:
    table = OffsetTable()
    table.advance(A, 5)
    table.advance(B, 6)
    assert table.take_changed([A]) == {A: 5}
    table.put_back(A)
    assert table.changed() == [A, B]
    assert table.changed([A]) == [A]
    table.forget(B)
    table.put_back(B)
    assert table.take_changed() == {A: 5}


def test_what_the_store_says_need_not_be_told() -> None:
    table = OffsetTable()
    table.learn(A, 9)
    assert table.take_changed() == {}
    table.advance(B, 1)
    assert table.of_topic("a") == {A: 9}
    assert table.of_topic("") == {A: 9, B: 1}
    assert table.get(MessageQueue("c", "x", 0)) is None
