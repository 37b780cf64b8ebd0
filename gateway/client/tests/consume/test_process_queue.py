"""Tests of an assigned queue's state: turns, the offset to commit, limits, locks."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gateway.client.consume.process_queue import MIB, CacheLimits, ProcessQueue
from gateway.client.consume.pulled import PulledMessage
from gateway.client.message import MessageQueue, ReceivedMessage

QUEUE = MessageQueue("t", "a", 0)


def messages(*offsets: int) -> list[ReceivedMessage]:
    return [PulledMessage(b"", 0, 0, offset, QUEUE, "") for offset in offsets]


def state(next_offset: int = 0) -> ProcessQueue:
    return ProcessQueue(QUEUE, next_offset, now=0.0)


def add(queue: ProcessQueue, *offsets: int, turn: int = 1, size: int = 10) -> list[list[int]]:
    queue.next_offset = offsets[-1] + 1
    return [
        [message.queue_offset for message in each.messages]
        for each in queue.add(messages(*offsets), [size] * len(offsets), turn)
    ]


def test_messages_are_cut_into_turns() -> None:
    queue = state()
    assert add(queue, 0, 1, 2, 5, 6, turn=2) == [[0, 1], [2, 5], [6]]
    assert (queue.cached_messages, queue.cached_bytes, queue.span) == (5, 50, 6)


def test_the_offset_to_commit_is_that_of_the_first_unfinished_message() -> None:
    queue = state(3)
    assert queue.committable == 3
    first, second, third = queue.add(messages(3, 4, 9), [1, 1, 1], 1)
    queue.next_offset = 12
    queue.settle(second)
    assert queue.committable == 3
    queue.settle(first)
    assert queue.committable == 9
    queue.settle(third)
    assert queue.committable == 12, "what the pull passed over is done as well"
    assert (queue.cached_messages, queue.cached_bytes, queue.span) == (0, 0, 0)


@given(st.permutations(range(12)), st.integers(1, 5))
def test_no_order_of_finishing_commits_an_unfinished_message(order: Sequence[int], portion: int) -> None:
    queue = state()
    turns = queue.add(messages(*range(12)), [1] * 12, portion)
    queue.next_offset = 12
    unfinished = set(range(12))
    for number in order:
        if number >= len(turns):
            continue
        queue.settle(turns[number])
        unfinished -= {message.queue_offset for message in turns[number].messages}
        assert queue.committable == min(unfinished, default=12)
        assert queue.cached_messages == len(unfinished)
    assert queue.cached_bytes == 0


def test_settling_twice_counts_once() -> None:
    queue = state()
    (turn,) = queue.add(messages(0), [10], 1)
    queue.settle(turn)
    queue.settle(turn)
    assert (queue.cached_messages, queue.cached_bytes) == (0, 0)


def test_a_part_of_a_turn_may_be_kept() -> None:
    queue = state()
    (turn,) = queue.add(messages(0, 1, 2, 3), [10] * 4, 4)
    queue.keep(turn, turn.messages[2:3])
    assert queue.committable == 2
    assert queue.cached_messages == 1
    queue.keep(turn, [])
    assert turn.settled
    assert queue.cached_messages == 0


def test_limits_may_be_reached_but_not_passed() -> None:
    queue = state()
    limits = CacheLimits(messages=2, mib=1, span=10)
    add(queue, 0, 10, size=MIB // 2)
    assert queue.excess(limits) is None
    add(queue, 11, size=0)
    assert "limit is 2" in str(queue.excess(limits))
    assert "apart" in str(queue.excess(CacheLimits(messages=9, mib=1, span=10)))
    assert queue.excess(CacheLimits(messages=9, mib=1, span=None)) is None
    add(queue, 12, size=1)
    assert "MiB" in str(queue.excess(CacheLimits(messages=9, mib=1, span=None)))


def test_a_cleared_queue_forgets_its_turns() -> None:
    queue = state()
    (turn,) = queue.add(messages(0), [10], 1)
    queue.clear()
    queue.settle(turn)
    assert turn.settled
    assert (queue.cached_messages, queue.cached_bytes, queue.first_turn()) == (0, 0, None)


def test_the_oldest_unfinished_turn_comes_first() -> None:
    queue = state()
    first, second, third = queue.add(messages(0, 1, 2), [1, 1, 1], 1)
    queue.settle(second)
    assert queue.first_turn() is first
    queue.settle(first)
    assert queue.first_turn() is third


def test_a_lock_is_trusted_for_thirty_seconds() -> None:
    queue = state()
    assert not queue.is_locked(0.0)
    queue.locked_at = 100.0
    assert queue.is_locked(130.0)
    assert not queue.is_locked(130.1)


def test_a_queue_nobody_pulls_expires_after_two_minutes() -> None:
    queue = state()
    assert not queue.is_pull_expired(120.0)
    assert queue.is_pull_expired(120.1)
    assert "ProcessQueue" in repr(queue)
