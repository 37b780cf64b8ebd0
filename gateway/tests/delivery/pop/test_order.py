"""Ordered pops: a queue is closed while messages are in hand, and goes on where acknowledgements end."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial, partialmethod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.pop.order import (
    FREES_AT_ONCE,
    FREES_KEPT,
    FREES_MOVED,
    AckFault,
    Key,
    OrderInfo,
    OrderTable,
    entries_of,
)
from wire.disk.config_json import ConsumerOrderInfoFile

KEY = ("orders", "mail", 2)
NOW = 1_750_000_000_000


def popped(table: OrderTable, *offsets: int, at: int = NOW, attempt: str | None = None) -> OrderInfo:
    return table.popped(KEY, offsets, at, 1_000, attempt)


def freed(table: OrderTable, now_ms: int) -> list[Key]:
    """All queues that have come free."""
    found: list[Key] = []
    while (some := table.take_free(now_ms)) is not None:
        found += some
    return found


def test_a_queue_is_closed_until_all_is_acknowledged_or_visible_again() -> None:
    table = OrderTable()
    assert not table.is_closed(KEY, None, NOW)
    popped(table, 5, 6)
    assert table.is_closed(KEY, None, NOW + 999)
    assert not table.is_closed(KEY, None, NOW + 1_000)
    assert table.ack(KEY, 5, NOW) == 6
    assert table.is_closed(KEY, None, NOW + 999)
    assert table.ack(KEY, 6, NOW) == 7
    assert not table.is_closed(KEY, None, NOW)


def test_a_greedy_group_leaves_room_for_another_one() -> None:
    table = OrderTable(max_queues=100)
    for queue_id in range(75):
        assert not table.is_full(("orders", "greedy", queue_id))
        table.popped(("orders", "greedy", queue_id), [1], NOW, 1_000, None)
    assert table.is_full(("orders", "greedy", 75))
    assert not table.is_full(("orders", "greedy", 7))
    assert not table.is_full(("orders", "honest", 0))
    assert table.forget_topic("orders")
    assert not table.is_full(("orders", "greedy", 75))


def test_hiding_a_message_again_and_again_does_not_fill_the_memory() -> None:
    table = OrderTable()
    popped(table, 5, 6)
    for later in range(10_000):
        assert table.change_visible(KEY, 5, NOW, NOW + 100_000 + later) is None
    assert len(table._frees) + len(table._former_frees) <= FREES_KEPT + 3
    assert freed(table, NOW + 109_998) == []
    assert freed(table, NOW + 109_999) == [KEY]


def test_no_pop_looks_for_the_old_times_of_all_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [0]
    free_at_ms, push = OrderInfo.free_at_ms, heapq.heappush

    def counted(*args: Any, does: Callable[..., Any]) -> Any:
        steps[0] += 1
        return does(*args)

    monkeypatch.setattr(OrderInfo, "free_at_ms", partialmethod(counted, does=free_at_ms))
    monkeypatch.setattr(heapq, "heappush", partial(counted, does=push))
    table = OrderTable()
    keys = [("orders", "mail", number) for number in range(2 * FREES_KEPT)]
    for round_number in range(8):
        for key in keys:
            table.popped(key, (5,), NOW + round_number, 1_000, None)
            assert steps[0] <= FREES_MOVED + 2
            steps[0] = 0
            assert len(table._frees) + len(table._former_frees) <= FREES_KEPT + 3 * len(keys)
    assert freed(table, NOW + 1_006) == []
    assert sorted(freed(table, NOW + 1_007)) == keys


def test_an_attempt_made_again_is_not_kept_out_by_itself() -> None:
    table = OrderTable()
    popped(table, 5, attempt="a1")
    assert not table.is_closed(KEY, "a1", NOW)
    assert table.is_closed(KEY, "a2", NOW)
    assert popped(table, 5, attempt="a1").counts == {}


@pytest.mark.parametrize(("acked", "goes_on_at"), [((5,), 6), ((6,), 5), ((7, 6), 5), ((6, 5), 7), ((5, 6, 7), 8)])
def test_the_group_goes_on_at_the_first_message_that_is_not_acknowledged(
    acked: tuple[int, ...], goes_on_at: int
) -> None:
    table = OrderTable()
    popped(table, 5, 6, 7)
    assert [table.ack(KEY, offset, NOW) for offset in acked][-1] == goes_on_at


def test_messages_popped_before_are_counted() -> None:
    table = OrderTable()
    assert popped(table, 5, 6).counts == {}
    assert popped(table, 5, 6, 7, at=NOW + 1_000).counts == {5: 1, 6: 1}
    assert popped(table, 6, 7, at=NOW + 2_000).counts == {6: 2, 7: 1}


@pytest.mark.parametrize(
    ("offset", "at", "fault"),
    [(5, NOW - 1, AckFault.OTHER_POP), (9, NOW, AckFault.UNKNOWN), (4, NOW, AckFault.UNKNOWN)],
)
def test_acknowledgements_of_something_else_change_nothing(offset: int, at: int, fault: AckFault) -> None:
    table = OrderTable()
    popped(table, 5, 6)
    assert table.ack(KEY, offset, at) is fault
    assert table.change_visible(KEY, offset, at, NOW) is fault
    assert table.is_closed(KEY, None, NOW + 999)


def test_a_message_can_become_visible_sooner_or_later_than_the_others() -> None:
    table = OrderTable()
    popped(table, 5, 6)
    assert table.change_visible(KEY, 5, NOW, NOW + 9_000) is None
    assert table.is_closed(KEY, None, NOW + 8_999)
    table.ack(KEY, 5, NOW)
    assert not table.is_closed(KEY, None, NOW + 1_000)


def test_a_queue_that_comes_free_by_the_time_is_told_once() -> None:
    table = OrderTable()
    popped(table, 5)
    assert freed(table, NOW + 999) == []
    assert freed(table, NOW + 1_000) == [KEY]
    assert freed(table, NOW + 9_000) == []


def test_very_many_queues_that_come_free_at_once_are_told_a_few_at_a_time() -> None:
    table = OrderTable()
    for number in range(3 * FREES_AT_ONCE):
        table.popped(("orders", "mail", number), (5,), NOW, 1_000, None)
    first = table.take_free(NOW + 1_000)
    assert first is not None
    assert len(first) == FREES_AT_ONCE
    assert len({*first, *freed(table, NOW + 1_000)}) == 3 * FREES_AT_ONCE


def test_a_table_that_is_saved_does_not_change_meanwhile() -> None:
    table = OrderTable()
    popped(table, 5, 6)
    before = entries_of(table.frozen())
    saved = table.frozen()
    table.ack(KEY, 5, NOW)
    table.change_visible(KEY, 6, NOW, NOW + 9_000, suspended=True)
    table.popped(("orders", "mail", 3), (1,), NOW, 1_000, None)
    assert entries_of(saved) == before
    after = entries_of(table.frozen())
    assert after != before
    assert table.ack(KEY, 6, NOW) == 7
    table.put(KEY, None)
    assert entries_of(saved) == before


def test_a_queue_that_is_closed_for_longer_is_told_later() -> None:
    table = OrderTable()
    popped(table, 5)
    table.change_visible(KEY, 5, NOW, NOW + 3_000)
    assert freed(table, NOW + 2_000) == []
    assert freed(table, NOW + 3_000) == [KEY]


def test_a_deleted_topic_is_forgotten() -> None:
    table = OrderTable()
    popped(table, 5)
    table.forget_topic("orders")
    assert len(table) == 0
    assert table.ack(KEY, 5, NOW) is AckFault.UNKNOWN


def test_the_file_of_apache_rocketmq_is_understood() -> None:
    text = (
        b'{"table":{"orders@mail":{2:{"a":"a1","cm":1,"i":1000,"l":1,"o":[5,1,4],"oc":{6:2},"ot":{9:1750000005000},'
        b'"popTime":1750000000000}}}}'
    )
    table = OrderTable()
    table.load(ConsumerOrderInfoFile.parse(text).table)
    info = table.get(KEY)
    assert info is not None
    assert (list(info.offsets), info.committed, info.counts) == ([5, 6, 9], 1, {6: 2})
    assert (info.attempt_id, info.visible_at_ms) == ("a1", {9: NOW + 5_000})
    again = OrderTable()
    again.load(ConsumerOrderInfoFile.parse(ConsumerOrderInfoFile(entries_of(table.frozen())).build()).table)
    assert entries_of(again.frozen()) == entries_of(table.frozen())


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=32, unique=True).map(sorted),
    st.lists(st.integers(0, 31), max_size=40),
)
def test_every_message_before_the_place_to_go_on_is_acknowledged(offsets: list[int], acks: list[int]) -> None:
    table = OrderTable()
    popped(table, *offsets)
    done: set[int] = set()
    for number in acks:
        offset = offsets[number % len(offsets)]
        done.add(offset)
        goes_on_at = table.ack(KEY, offset, NOW)
        assert isinstance(goes_on_at, int)
        assert all(each in done for each in offsets if each < goes_on_at)
        assert goes_on_at in offsets or done == set(offsets)
        assert goes_on_at not in done
    assert table.is_closed(KEY, None, NOW) == (done != set(offsets))


def test_a_pop_that_is_all_acknowledged_can_be_forgotten() -> None:
    table = OrderTable()
    popped(table, 5, 6)
    table.ack(KEY, 6, NOW)
    table.drop_settled(KEY)
    assert len(table) == 1
    table.ack(KEY, 5, NOW)
    table.drop_settled(KEY)
    table.drop_settled(KEY)
    assert len(table) == 0


def test_a_pop_that_was_suspended_does_not_count() -> None:
    table = OrderTable()
    popped(table, 5, 6)
    popped(table, 5, 6, at=NOW + 1_000)
    assert table.change_visible(KEY, 5, NOW + 1_000, NOW + 1_500, suspended=True) is None
    assert table.change_visible(KEY, 6, NOW + 1_000, NOW + 1_500) is None
    saved = ConsumerOrderInfoFile(entries_of(table.frozen())).build()
    again = OrderTable()
    again.load(ConsumerOrderInfoFile.parse(saved).table)
    for survived in (table, again):
        assert popped(survived, 5, 6, at=NOW + 2_000).counts == {5: 1, 6: 2}


def test_a_first_pop_that_was_suspended_leaves_the_next_one_the_first() -> None:
    table = OrderTable()
    popped(table, 5)
    table.change_visible(KEY, 5, NOW, NOW, suspended=True)
    assert popped(table, 5, at=NOW + 1_000).counts == {}
