from __future__ import annotations

import pytest

from gateway.readable import duration_text, moment_text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0ms"),
        (0, "0ms"),
        (2.154, "2ms"),
        (999, "999ms"),
        (999.7, "1s"),
        (1_000, "1s"),
        (1_500, "1.5s"),
        (59_949, "59.9s"),
        (59_951, "1m"),
        (90_000, "1m30s"),
        (28 * 60_000 + 5_400, "28m5s"),
        (3_599_600, "1h"),
        (3 * 3_600_000 + 20 * 60_000, "3h20m"),
        (86_399_000, "1d"),
        (1_234 * 86_400_000, "1234d"),
        (52 * 3_600_000, "2d4h"),
    ],
)
def test_a_duration_has_its_two_largest_units(milliseconds: float, text: str) -> None:
    assert duration_text(milliseconds) == text


@pytest.mark.parametrize(
    ("moment_ms", "text"),
    [
        (1_777_636_800_123, "2026-05-01T12:00:00.123Z"),
        (1_777_636_800_000, "2026-05-01T12:00:00.000Z"),
        (0, "-"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**63 - 1, "9223372036854775807 ms after 1970"),
    ],
)
def test_a_time_is_a_date_in_utc(moment_ms: int, text: str) -> None:
    assert moment_text(moment_ms) == text
