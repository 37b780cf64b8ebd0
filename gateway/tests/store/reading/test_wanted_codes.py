"""Looking for tags codes in many units at once chooses what looking at each unit chooses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.store.reading.choice import Choice
from gateway.store.reading.wanted import RARE, WantedCodes, have_sizes
from wire.disk.consume_queue import FILLER, FILLER_SIZE, UNIT, UNIT_BYTES

LARGEST = 1 << 20
LOG_MIN = 5_000
CODES = (7, 7 + 256, -7, -(2**31), 2**31 - 1, 0)
"""The first two end with the same byte."""
Unit = tuple[int, int, int]


def chosen(units: bytes, max_count: int, max_bytes: int, wanted: frozenset[int], *, at_once: bool) -> Choice:
    found = Choice(max_count, max_bytes, LOG_MIN, LARGEST)
    found.take(units, WantedCodes(wanted) if at_once else lambda code: code in wanted)
    return found


def packed(units: list[Unit]) -> bytes:
    return b"".join(UNIT.pack(*unit) for unit in units)


@st.composite
def queues(draw: st.DrawFn) -> list[Unit]:
    """Units of a queue; with all sorts of damage now and then."""
    rare = st.sampled_from(CODES)
    codes = draw(st.lists(st.one_of(st.just(1), st.just(1), rare), min_size=1, max_size=12))
    codes = [code for each in codes for code in (each, *[1] * draw(st.sampled_from((0, 3, 40))))]
    odd = st.sampled_from((0, -1, LARGEST, LARGEST + 1, FILLER_SIZE, 256, 65_536))
    position = draw(st.sampled_from((0, LOG_MIN - 300, LOG_MIN, LOG_MIN + 1)))
    units = []
    for code in codes:
        size = draw(odd) if draw(st.integers(0, 60)) == 60 else draw(st.sampled_from((100, 256, 300, 65_536)))
        units.append((position, size, code))
        position += draw(st.sampled_from((0, max(size, 1), 9_000)))  # 0: another message of the same record
    return units


@settings(max_examples=300, deadline=None)
@given(queues(), st.frozensets(st.sampled_from((*CODES, 3)), min_size=1), st.integers(1, 12), st.integers(0, 70_000))
def test_the_same_records_are_chosen(queue: list[Unit], wanted: frozenset[int], max_count: int, max_bytes: int) -> None:
    units = packed(queue)
    at_once = chosen(units, max_count, max_bytes, wanted, at_once=True)
    # Where bytes limit a read, a look at each unit ends before one that nobody wants; this one passes over it.
    looked_at = [unit for unit in queue if unit[2] in wanted] if at_once.at_once else queue
    singly = chosen(packed(looked_at), max_count, max_bytes, wanted, at_once=False)
    assert at_once.ranges == singly.ranges
    assert (at_once.count, at_once.total_bytes, at_once.last_size, at_once.gone) == (
        singly.count, singly.total_bytes, singly.last_size, singly.gone,
    )  # fmt: skip
    passed = queue[: at_once.examined]
    assert len([unit for unit in passed if not at_once.at_once or unit[2] in wanted]) == singly.examined


@pytest.mark.parametrize("odd", [(9_000, 0, 1), (9_000, -5, 1), (9_000, LARGEST + 1, 1), (9_000, 1 << 24, 1)])
def test_damage_among_messages_nobody_wants_is_seen(odd: Unit) -> None:
    units = packed([(LOG_MIN, 100, 1)] * 40 + [odd] + [(20_000, 100, 7)] * 2)
    at_once = chosen(units, 32, LARGEST, frozenset({7}), at_once=True)
    assert at_once.gone
    damage = at_once.odd_unit(units)
    assert damage is not None
    assert damage[:2] == (40, 9_000)


def test_deleted_messages_and_fillers_are_passed_over() -> None:
    units = FILLER * 30 + packed([(LOG_MIN - 100, 100, 7)] * 30 + [(LOG_MIN, 100, 7)] + [(LOG_MIN + 100, 100, 1)] * 30)
    at_once = chosen(units, 32, LARGEST, frozenset({7}), at_once=True)
    assert (at_once.ranges, at_once.gone, at_once.examined) == ([(LOG_MIN, LOG_MIN + 100)], True, 91)


def test_a_full_answer_ends_behind_its_last_message() -> None:
    units = packed([(LOG_MIN + 100 * number, 100, 7 if number % 20 == 0 else 1) for number in range(100)])
    assert chosen(units, 2, LARGEST, frozenset({7}), at_once=True).examined == 21
    assert chosen(units, 32, 250, frozenset({7}), at_once=True).examined == 40


def test_codes_that_end_alike_are_told_apart() -> None:
    wanted = WantedCodes(frozenset({7}))
    assert wanted.rare_in(packed([(0, 100, 7 + 256)] + [(0, 100, 1)] * 20 + [(0, 100, 7)])) == [0, 21]
    assert wanted(7)
    assert not wanted(7 + 256)


def test_what_is_not_rare_is_not_looked_for() -> None:
    wanted = WantedCodes(frozenset({7}))
    rare = packed([(0, 100, 7)] + [(0, 100, 1)] * (RARE - 1))
    assert wanted.rare_in(rare) == [0]
    assert wanted.rare_in(rare[:-UNIT_BYTES]) is None


@settings(max_examples=300)
@given(
    st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 70_000), min_size=1, max_size=5),
    st.sampled_from((255, 1_000, 4_096, 65_535, LARGEST, (1 << 24) - 1, 1 << 30, 2**31 - 1)),
)
def test_only_sizes_of_records_pass(sizes: list[int], largest: int) -> None:
    if have_sizes(packed([(0, size, 1) for size in sizes]), largest):
        assert all(0 < size <= largest for size in sizes)
    else:  # those of ordinary records do
        assert not all(0 < size < (largest + 1) // 256 for size in sizes)
