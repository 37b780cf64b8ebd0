"""What held requests keep is counted in bytes: texts, and filters, which many may share."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from gateway.delivery.deadlines import LOOK_MS
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter, tag_filter
from gateway.delivery.filters.posted import posted_filter
from gateway.delivery.filters.sql92 import compile_filter
from gateway.delivery.held_bytes import MAX_HELD_BYTES, SHORT_BYTES, WaitingBytes
from gateway.delivery.long_poll import TICK_MS, HeldPull, HeldPulls
from gateway.delivery.pop import held_pops
from gateway.delivery.pop.held_pops import Held, HeldPop, HeldPops
from gateway.tests.delivery.arrivals import Clock
from gateway.tests.delivery.reactor_turns import ReactorTurns


class Line:
    """A connection."""

    closed = False


class Waiting:
    """Pulls, pops and notifications of one broker."""

    def __init__(self) -> None:
        self.clock, self.turns, self.bytes = Clock(), ReactorTurns(), WaitingBytes()
        self.pulls = HeldPulls(self.clock, self.turns, self.bytes, 100_000, 10_000)
        self.pops = HeldPops(self.clock, self.turns, self.bytes, 100_000, 10_000)

    def pull(self, accepts: MessageFilter, line: Line) -> bool:
        return self.pulls.hold("orders", 0, HeldPull(7, accepts, self.clock() + 60_000, lambda: None, line))

    def pop(self, accepts: MessageFilter, line: Line, text_bytes: int = 0) -> Held:
        held = HeldPop(("orders", "mail", 0), accepts, self.clock() + 60_000, line, lambda _: None)
        held.text_bytes = text_bytes
        return self.pops.hold(held)


def codes(number: int, count: int = 14_000) -> MessageFilter:
    """A filter like no other, as of a heartbeat."""
    first = 1_000_000 + number * count
    return MessageFilter(tag_filter("x", frozenset(range(first, first + count)), class_filter_mode=False))


def long_expression(number: int = 0) -> str:
    return f"n{number}||" + "||".join(f"t{each}" for each in range(9_000))


def test_sets_of_tags_are_counted_over_pulls_and_pops_and_leave_room_for_others() -> None:
    waiting, greedy = Waiting(), Line()
    count = 0
    while waiting.pull(codes(count), greedy):
        count += 1
    assert 20 < count < 100
    assert waiting.pop(codes(count), greedy) is Held.FULL
    assert waiting.pop(EVERYTHING, greedy) is Held.YES
    assert waiting.pop(codes(count), Line()) is Held.YES
    assert waiting.bytes.used <= MAX_HELD_BYTES


def test_texts_of_pops_are_counted() -> None:
    waiting, greedy = Waiting(), Line()
    count = 0
    while waiting.pop(EVERYTHING, greedy, 65_536) is Held.YES:
        count += 1
    assert count == 768


@pytest.mark.parametrize("make", [lambda: codes(1), lambda: MessageFilter(None, sql("a = 1 AND b = 2"))])
def test_a_filter_that_many_share_counts_once_until_the_last_is_gone(make) -> None:  # type: ignore[no-untyped-def]
    waiting, accepts = Waiting(), make()
    assert waiting.pull(accepts, Line())
    used = waiting.bytes.used
    for _ in range(1_000):
        assert waiting.pull(accepts, Line())
    assert waiting.pop(accepts, Line()) is Held.YES
    assert waiting.bytes.used == used > 0
    waiting.pulls.wake("orders", 0)
    while not waiting.turns.is_over:
        waiting.turns.end()
    assert waiting.bytes.used == used
    waiting.pops.wake("orders", "mail", 0)
    assert waiting.bytes.used == 0


def sql(text: str):  # type: ignore[no-untyped-def]
    found = compile_filter(text)
    assert not isinstance(found, str), found
    return found


def test_expressions_of_sql92_are_counted_with_what_they_remember() -> None:
    waiting, line = Waiting(), Line()
    count = 0
    while waiting.pull(MessageFilter(None, sql(" OR ".join(f"a{at}='{count}'" for at in range(1_000)))), line):
        count += 1
    assert 10 < count < 100


def test_equal_expressions_of_requests_are_one_filter_while_one_uses_it() -> None:
    text = long_expression()
    assert posted_filter("a||b", None) is posted_filter("a||b", "TAG")
    first = posted_filter(text, None)
    assert posted_filter(long_expression(), "TAG") is first
    assert posted_filter(long_expression(1), "TAG") is not first


def test_bytes_are_what_a_filter_takes() -> None:
    gc.collect()
    tracemalloc.start()
    try:
        one = posted_filter(long_expression(2), None)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    held = WaitingBytes()
    assert held.take(None, one, SHORT_BYTES)
    assert 0.8 * taken < held.used + len(long_expression(2)) < 1.5 * taken


def test_what_a_closed_connection_left_is_dropped_soon() -> None:
    waiting, gone, stays = Waiting(), Line(), Line()
    for line in (gone, stays):
        assert waiting.pull(codes(1), line)
        assert waiting.pop(codes(2), line) is Held.YES
    gone.closed = True
    for _ in range(LOOK_MS // TICK_MS):
        waiting.pulls.tick()
    for _ in range(LOOK_MS // held_pops.TICK_MS):
        waiting.pops.tick()
    assert (len(waiting.pulls), len(waiting.pops)) == (1, 1)
    stays.closed = True
    for _ in range(LOOK_MS // min(TICK_MS, held_pops.TICK_MS)):
        waiting.pulls.tick()
        waiting.pops.tick()
    assert (len(waiting.pulls), len(waiting.pops), waiting.bytes.used) == (0, 0, 0)
