"""Who counts, up to where enough slaves have the log, and what senders are answered: one row per rule."""

from __future__ import annotations

import pytest

from gateway.replication.master.copies import Copies
from gateway.store.put_result import PutStatus

GAP = 100


def copies_of(needed: int, reports: dict[int, int]) -> Copies:
    copies = Copies(needed, GAP)
    for broker_id, end in reports.items():
        copies.report(broker_id, end)
    return copies


@pytest.mark.parametrize(
    ("needed", "reports", "replicated_end"),
    [
        (1, {}, 0),
        (1, {1: 50}, 50),
        (1, {1: 50, 2: 70}, 70),
        (2, {1: 50}, 0),
        (2, {1: 50, 2: 70}, 50),
        (2, {1: 50, 2: 70, 3: 60}, 60),
        (3, {1: 50, 2: 70, 3: 60}, 50),
        (0, {1: 50}, 0),
    ],
)
def test_the_log_is_replicated_up_to_where_enough_slaves_have_it(
    needed: int, reports: dict[int, int], replicated_end: int
) -> None:
    assert copies_of(needed, reports).replicated_end == replicated_end


def test_one_slave_counts_once_with_its_last_report() -> None:
    copies = copies_of(2, {1: 50})
    copies.report(1, 90)
    assert copies.replicated_end == 0
    copies.report(2, 80)
    assert copies.replicated_end == 80


def test_a_slave_that_left_counts_for_nothing() -> None:
    copies = copies_of(1, {1: 50, 2: 70})
    copies.leave(2)
    assert copies.replicated_end == 50
    copies.leave(1)
    copies.leave(1)
    assert copies.replicated_end == 0


@pytest.mark.parametrize(
    ("needed", "reports", "durable_end", "answer"),
    [
        (1, {}, 0, PutStatus.SLAVE_NOT_AVAILABLE),
        (1, {1: 0}, 0, None),
        (1, {1: 0}, GAP, None),
        (1, {1: 0}, GAP + 1, PutStatus.SLAVE_NOT_AVAILABLE),
        (1, {1: 0, 2: 90}, 150, None),
        (2, {1: 0, 2: 90}, 150, PutStatus.SLAVE_NOT_AVAILABLE),
        (2, {2: 90}, 90, PutStatus.SLAVE_NOT_AVAILABLE),
        (2, {1: 80, 2: 90}, 90, None),
    ],
)
def test_nobody_waits_for_slaves_that_are_missing_or_far_behind(
    needed: int, reports: dict[int, int], durable_end: int, answer: PutStatus | None
) -> None:
    assert copies_of(needed, reports).answer_without_waiting(durable_end) is answer
