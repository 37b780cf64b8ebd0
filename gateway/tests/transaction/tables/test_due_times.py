"""Due times come out in order and never early."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.transaction.tables.due_times import BUCKET_MS, DueTimes


def test_nothing_comes_out_early() -> None:
    due = DueTimes()
    assert due.next_ms is None
    assert due.take(10**15) is None
    due.add(1, 1_001)
    assert due.next_ms == 1_100
    assert due.take(1_099) is None
    assert list(due.take(1_100) or ()) == [1]
    assert due.next_ms is None


@given(st.lists(st.integers(0, 5_000), max_size=50))
def test_all_come_out_within_a_bucket_of_their_time(times: list[int]) -> None:
    due = DueTimes()
    for offset, due_at_ms in enumerate(times):
        due.add(offset, due_at_ms)
    seen: dict[int, int] = {}
    for now_ms in range(0, 5_000 + 2 * BUCKET_MS, BUCKET_MS // 2):
        while (bucket := due.take(now_ms)) is not None:
            seen.update(dict.fromkeys(bucket, now_ms))
    assert len(seen) == len(times)
    assert all(0 <= seen[offset] - due_at_ms < 1.5 * BUCKET_MS for offset, due_at_ms in enumerate(times))
