"""The next timer messages: by due time, in order of coming, and none lost or doubled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.schedule.near_timers import NearTimer, NearTimers, pack
from wire.disk.timer_log import TimerKind
from wire.tests.message.strategies import QUICK

timers = st.builds(NearTimer, st.integers(0, 1 << 40), st.integers(1, 1000), st.just(1), st.integers(0, 50))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 30), timers),
        st.tuples(st.just("merge"), st.integers(0, 30), timers),
        st.tuples(st.just("take"), st.integers(0, 30), st.integers(1, 4)),
    ),
    max_size=60,
)


@QUICK
@given(steps)
def test_they_come_as_from_a_sorted_list(script: list[tuple[str, int, NearTimer | int]]) -> None:
    model: list[tuple[int, int, NearTimer]] = []
    near, number = NearTimers(), 0
    for what, due_ms, more in script:
        if isinstance(more, int):
            taken = near.take(due_ms, more, 1 << 20)
            expected = [entry for entry in sorted(model)[:more] if entry[0] <= due_ms]
            assert taken == [entry[2] for entry in expected]
            model = [entry for entry in model if entry not in expected]
        else:
            number += 1
            model.append((due_ms, number, more))
            if what == "add":
                near.add(due_ms, more)
            else:
                near.merge({due_ms: pack(more)})
        assert len(near) == len(model)
        assert near.next_due_ms() == (min(model)[0] if model else None)
        assert [(due, timer) for due, timer in near] == [(due, timer) for due, _, timer in sorted(model)]


def test_a_batch_ends_before_it_has_too_many_bytes_but_has_one_message() -> None:
    near = NearTimers()
    for number in range(3):
        near.add(1, NearTimer(number, 100, 1, 0))
    assert [timer.commit_log_offset for timer in near.take(1, 10, 250)] == [0, 1]
    assert [timer.commit_log_offset for timer in near.take(1, 10, 1)] == [2]
    assert near.take(1, 10, 1) == []


def test_behind_a_marker_that_is_rolled_only_rolled_ones_come_along() -> None:
    """What it takes back may be among the others, and it counts when it has come to their slot."""
    near = NearTimers()
    marker = NearTimer(1, 10, TimerKind.DEFAULT | TimerKind.ROLL | TimerKind.DELETE, 0)
    rolled = NearTimer(2, 10, TimerKind.DEFAULT | TimerKind.ROLL, 0)
    other = NearTimer(3, 10, TimerKind.DEFAULT, 0)
    for timer in (other, marker, rolled, other, marker):
        near.add(5, timer)
    assert near.take(5, 10, 1 << 20) == [other, marker, rolled]
    assert near.take(5, 10, 1 << 20) == [other, marker]
