"""Open check points: settled message by message, due once, and the same again after the log is read again."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.pop.check_points import TICK_MS, CheckPoints
from wire.disk.revive_log import CheckPointRecord
from wire.tests.growth import processor_seconds

NOW = 1_750_000_000_000


def record(
    start: int = 10, count: int = 3, *, at: int = NOW, invisible: int = 1_000, **changed: object
) -> CheckPointRecord:
    values = {
        "topic": "orders",
        "group": "mail",
        "queue_id": 1,
        "start_offset": start,
        "popped_at_ms": at,
        "invisible_ms": invisible,
        "count": count,
        **changed,
    }
    return CheckPointRecord(**values)  # type: ignore[arg-type]


def key(start: int = 10, at: int = NOW) -> tuple[str, str, int, int, int]:
    return "orders", "mail", 1, start, at


def test_a_check_point_is_open_until_every_message_is_settled() -> None:
    points = CheckPoints()
    point = points.put(record(), 0, 5)
    assert points.find(key()) is point
    points.ack(key(), [10])
    points.ack(key(), [12, 12])
    assert point.offsets(point.left()) == [11]
    points.ack(key(), [11])
    assert points.find(key()) is None
    assert points.is_settled(key())
    assert len(points) == 0
    assert points.take_due(NOW + 10_000) == []


def test_acknowledgements_of_nothing_change_nothing() -> None:
    points = CheckPoints()
    point = points.put(record(), 0, 5)
    points.ack(key(start=11), [11])
    points.ack(key(), [9, 13, -1])
    assert point.offsets(point.left()) == [10, 11, 12]


def test_a_check_point_that_is_coming_can_be_acknowledged_and_is_due_when_it_is_there() -> None:
    points = CheckPoints(limit=1)
    points.announce(record(), 0)
    points.announce(record(), 0)
    coming = points.find(key())
    assert coming is not None
    assert not points.shares.has_room("mail"), "it counts"
    assert points.take_due(NOW + 10_000) == []
    coming.acking |= coming.bit_of(11)
    assert points.put(record(), 0, 5) is coming
    assert coming.offsets(coming.left()) == [10, 12]
    assert points.take_due(NOW + 20_000) == [coming]
    points.ack(key(), [10, 11, 12])
    assert points.find(key()) is None
    assert points.shares.has_room("mail"), "it was counted once"


def test_what_is_on_its_way_is_so_until_its_record_is_applied() -> None:
    points = CheckPoints()
    point = points.put(record(), 0, 5)
    point.acking |= point.bit_of(10)
    point.reviving |= point.bit_of(11)
    points.ack(key(), [10, 11])
    assert (point.acking, point.reviving) == (0, 0)
    assert point.offsets(point.left()) == [12]


def test_messages_need_not_be_neighbours() -> None:
    points = CheckPoints()
    point = points.put(record(diffs=[0, 4, 90]), 0, 5)
    assert [point.bit_of(offset) for offset in (10, 11, 14, 100)] == [1, 0, 2, 4]
    points.ack(key(), [14])
    assert point.offsets(point.left()) == [10, 100]


def test_a_check_point_is_due_once_and_never_early() -> None:
    points = CheckPoints()
    point = points.put(record(invisible=1_050), 0, 5)
    assert points.take_due(NOW + 1_049) == []
    assert points.take_due(NOW + 1_050 + TICK_MS) == [point]
    assert points.take_due(NOW + 99_000) == []
    points.again(point, NOW + 99_500)
    assert points.take_due(NOW + 99_400) == []
    assert points.take_due(NOW + 99_500) == [point]


def test_what_is_due_when_it_is_put_is_found_by_the_next_look() -> None:
    points = CheckPoints()
    assert points.take_due(NOW) == []
    point = points.put(record(at=NOW - 60_000), 0, 5)
    assert points.take_due(NOW + TICK_MS) == [point]


def test_written_again_it_stays_the_same_with_a_later_record() -> None:
    points = CheckPoints()
    point = points.put(record(), 0, 5)
    points.put(record(start=50), 0, 6)
    point.acking = 2
    assert points.put(record(acked=1), 0, 900) is point
    assert point.offsets(point.left()) == [12]
    assert [each.revive_offset for each in points.oldest(0, 10)] == [6, 900]
    first = points.first_open(0)
    assert first is not None
    assert first.start_offset == 50
    assert len(points.take_due(NOW + 5_000)) == 2


def test_groups_have_shares_of_the_open_check_points() -> None:
    points = CheckPoints(limit=1_000)
    for number in range(750):
        assert points.shares.has_room("greedy")
        points.put(record(number, 1, group="greedy"), 0, number)
    assert not points.shares.has_room("greedy")
    assert points.shares.has_room("honest")
    points.ack(("orders", "greedy", 1, 0, NOW), [0])
    assert points.shares.has_room("greedy")
    points.forget_topic("orders")
    assert (points.shares.used, len(points)) == (0, 0)


def test_a_topic_is_forgotten_as_far_as_a_revive_queue_says() -> None:
    points = CheckPoints()
    points.put(record(1), 0, 1)
    points.put(record(2), 1, 1)
    kept = points.put(record(3, topic="other"), 0, 2)
    assert points.forget_topic("orders", 0)
    assert (points.open_in(0), points.open_in(1)) == (1, 1)
    assert not points.forget_topic("orders", 0)
    assert points.forget_topic("orders")
    assert list(points) == [kept]


def seconds_to_forget(count: int) -> float:
    """Processor time to forget 300 topics that nobody popped from, beside many open check points."""
    points = CheckPoints()
    for number in range(count):
        points.put(record(number), 0, number)

    def forget() -> None:
        for number in range(300):
            points.forget_topic(f"topic {number}")

    return min(processor_seconds(forget) for _ in range(3))


def test_a_deleted_topic_costs_as_much_as_it_had_open() -> None:
    """A start reads one such record for each deletion."""
    assert seconds_to_forget(32_000) < 0.1


def test_a_record_of_what_is_settled_opens_nothing() -> None:
    points = CheckPoints()
    points.put(record(acked=0b111), 0, 5)
    assert len(points) == 0
    assert points.first_open(0) is None


def test_the_record_of_a_check_point_counts_what_is_being_acknowledged() -> None:
    points = CheckPoints()
    point = points.put(record(diffs=[0, 2, 5]), 0, 5)
    points.ack(key(), [10])
    point.acking = 0b100
    written = point.record("broker-a")
    assert (written.acked, written.diffs, written.count) == (0b101, [0, 2, 5], 3)
    assert written.next_offset is None


def test_a_deleted_topic_takes_its_check_points_with_it() -> None:
    points = CheckPoints()
    points.put(record(), 0, 5)
    points.put(record(topic="others"), 0, 6)
    points.forget_topic("orders")
    assert [point.topic for point in points] == ["others"]
    assert [point.topic for point in points.take_due(NOW + 9_000)] == ["others"]


def test_settled_ones_are_remembered_up_to_a_limit() -> None:
    points = CheckPoints(max_settled=2)
    for start in (1, 2, 3):
        points.put(record(start=start, count=1), 0, start)
        points.ack(key(start=start), [start])
    assert [points.is_settled(key(start=start)) for start in (1, 2, 3)] == [False, True, True]


@dataclass
class Model:
    """Offsets that nobody settled, by start of the check point."""

    open: dict[int, set[int]] = field(default_factory=dict)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(1, 32)),
        st.tuples(st.just("ack"), st.integers(0, 5), st.integers(0, 40)),
        st.tuples(st.just("again"), st.integers(0, 5), st.integers(0, 0)),
    ),
    max_size=60,
)


@given(operations)
def test_what_is_open_is_what_was_popped_and_not_settled_also_when_the_log_is_read_again(
    steps: list[tuple[str, int, int]],
) -> None:
    points, model = CheckPoints(), Model()
    journal: list[tuple[str, object]] = []
    used: set[int] = set()

    def apply(to: CheckPoints, entry: tuple[str, object], offset: int) -> None:
        kind, what = entry
        if kind == "put":
            assert isinstance(what, CheckPointRecord)
            to.put(what, 0, offset)
        else:
            assert isinstance(what, tuple)
            to.ack(*what)

    for kind, slot, number in steps:
        start = slot * 100
        if kind == "put" and slot not in used:
            used.add(slot)
            model.open[start] = set(range(start, start + number))
            journal.append(("put", record(start=start, count=number)))
        elif kind == "ack":
            model.open.get(start, set()).discard(start + number)
            journal.append(("ack", (key(start=start), [start + number])))
        elif kind == "again" and (point := points.find(key(start=start))) is not None:
            journal.append(("put", point.record("broker-a")))
        else:
            continue
        apply(points, journal[-1], len(journal))
    again = CheckPoints()
    for offset, entry in enumerate(journal, 1):
        apply(again, entry, offset)
    for table in (points, again):
        found = {point.start_offset: set(point.offsets(point.left())) for point in table}
        assert found == {start: offsets for start, offsets in model.open.items() if offsets}
        oldest = table.first_open(0)
        assert (oldest is None) == (not found)
        assert {point.start_offset for point in table.take_due(NOW + 10_000)} == set(found)
