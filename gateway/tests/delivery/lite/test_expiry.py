"""The time after which a lite topic expires."""

from __future__ import annotations

import pytest

from gateway.delivery.lite.lite_topics import is_expired

MINUTE = 60_000


@pytest.mark.parametrize(
    ("age_ms", "minutes", "least_ms", "expired"),
    [
        (30 * MINUTE, 30, 15 * MINUTE, False),
        (30 * MINUTE + 1, 30, 15 * MINUTE, True),
        (2 * MINUTE, 1, 15 * MINUTE, False),
        (15 * MINUTE + 1, 1, 15 * MINUTE, True),
        (10**12, 0, 0, False),
        (10**12, -1, 0, False),
    ],
)
def test_it_stays_for_its_minutes_and_at_least_for_some_time(
    age_ms: int, minutes: int, least_ms: int, expired: bool
) -> None:
    now_ms = 2 * 10**12
    assert is_expired(now_ms, now_ms - age_ms, minutes, least_ms) is expired


def test_one_whose_messages_are_gone_goes_unless_it_stays_for_ever() -> None:
    assert is_expired(0, -1, 1, 10**9)
    assert not is_expired(0, -1, -1, 0)
