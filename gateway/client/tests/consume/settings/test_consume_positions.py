"""Tests of where a new group begins."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.client.consume.settings.consume_positions import (
    AtEnd,
    AtOffset,
    AtTime,
    ConsumeFrom,
    Position,
    first_position,
    timestamp_ms_of,
)
from gateway.client.errors import ConfigurationError


@pytest.mark.parametrize(
    ("topic", "consume_from", "expected"),
    [
        ("t", ConsumeFrom.LAST_OFFSET, AtEnd()),
        ("%RETRY%g", ConsumeFrom.LAST_OFFSET, AtOffset(0)),
        ("t", ConsumeFrom.FIRST_OFFSET, AtOffset(0)),
        ("%RETRY%g", ConsumeFrom.FIRST_OFFSET, AtOffset(0)),
        ("t", ConsumeFrom.TIMESTAMP, AtTime(5)),
        ("%RETRY%g", ConsumeFrom.TIMESTAMP, AtOffset(0)),
    ],
)
def test_a_group_begins_where_its_setting_says_and_with_all_of_its_retry_topic(
    topic: str, consume_from: ConsumeFrom, expected: Position
) -> None:
    assert first_position(topic, consume_from, 5) == expected


def test_a_time_is_an_aware_datetime_or_seconds_or_half_an_hour_ago() -> None:
    assert timestamp_ms_of(datetime(2026, 1, 1, tzinfo=UTC), 0) == 1_767_225_600_000
    assert timestamp_ms_of(1.5, 0) == 1500
    assert timestamp_ms_of(None, 1_800_000) == 0


@pytest.mark.parametrize("when", [datetime(2026, 1, 1), -1.0])
def test_times_that_cannot_be_meant_are_refused(when: datetime | float) -> None:
    with pytest.raises(ConfigurationError, match="consume_timestamp"):
        timestamp_ms_of(when, 0)
