"""The verdict as a table."""

from __future__ import annotations

import pytest

from gateway.settings import Settings
from gateway.transaction.checks.verdict import Act, HalfFacts, immunity_ms, verdict

SETTINGS = Settings(transaction_check_max=3, file_reserved_time_hours=1)


@pytest.mark.parametrize(
    ("stored", "due", "checks", "now", "act"),
    [
        (0, 6_000, 0, 0, Act.TOO_YOUNG),
        (0, 6_000, 0, 5_999, Act.TOO_YOUNG),
        (0, 6_000, 0, 6_000, Act.CHECK),
        (0, 36_000, 1, 35_999, Act.TOO_YOUNG),
        (0, 36_000, 1, 36_000, Act.CHECK),
        (0, 66_000, 2, 66_000, Act.CHECK),
        (0, 96_000, 3, 95_999, Act.TOO_YOUNG),
        (0, 96_000, 3, 96_000, Act.DISCARD),
        (0, 6_000, 4, 6_000, Act.DISCARD),
        (0, 6_000, 0, 3_600_000, Act.CHECK),
        (0, 6_000, 0, 3_600_001, Act.DISCARD),
        (0, 7_000_000, 0, 3_600_001, Act.DISCARD),
        (10_000, 16_000, 0, 0, Act.TOO_YOUNG),
    ],
)
def test_verdict_of_age_due_time_and_checks(stored: int, due: int, checks: int, now: int, act: Act) -> None:
    assert verdict(HalfFacts(stored, due, checks), SETTINGS, now).act is act


def test_a_discard_says_why() -> None:
    assert verdict(HalfFacts(0, 0, 3), SETTINGS, 1).reason == "no outcome after 3 checks"
    assert "older than 1 hours" in verdict(HalfFacts(0, 0, 0), SETTINGS, 3_600_001).reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, 6_000),
        ("", 6_000),
        ("10", 10_000),
        ("0", 0),
        ("-1", 6_000),
        ("-5", 6_000),
        ("1.5", 6_000),
        ("ten", 6_000),
        ("٣", 6_000),
        ("9" * 30, 6_000),
    ],
)
def test_immunity_is_a_number_of_seconds_or_the_general_timeout(text: str | None, expected: int) -> None:
    assert immunity_ms(text, SETTINGS) == expected
