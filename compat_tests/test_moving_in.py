"""What the program that moves a pair in and out counts as wrong; it takes minutes itself, and runs by hand."""

from __future__ import annotations

import pytest

from compat_tests.moving_in import Moved
from compat_tests.replica_faults.verdict import Verdict
from compat_tests.soak.findings import Wrong


@pytest.mark.parametrize(
    ("verdict", "twice_is_wrong", "expected"),
    [
        (Verdict(3), True, []),
        (Verdict(3, resent=1), True, []),
        (Verdict(3, lost=1), True, [Wrong.LOST]),
        (Verdict(3, moved=1), True, [Wrong.CHANGED]),
        (Verdict(3, flipped=1), False, [Wrong.FLIPPED]),
        (Verdict(3, doubled=1), True, [Wrong.DOUBLED]),
        (Verdict(3, doubled=1), False, []),
    ],
)
def test_what_is_lost_elsewhere_twice_or_against_its_outcome_is_wrong(
    verdict: Verdict, twice_is_wrong: bool, expected: list[Wrong]
) -> None:
    moved = Moved()
    moved.expects("stored before", verdict, twice_is_wrong=twice_is_wrong)
    assert list(moved.findings.counts) == expected
    assert moved.lines[0].startswith("stored before: 3 acknowledged")
