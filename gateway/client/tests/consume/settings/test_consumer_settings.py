"""Tests of the consumers' settings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.client.consume.process_queue import CacheLimits
from gateway.client.consume.settings.consumer_settings import (
    ConsumeFrom,
    LitePullSettings,
    MessageModel,
    PushSettings,
    SimpleSettings,
    start_of,
    timestamp_ms_of,
)
from gateway.client.errors import ConfigurationError


def test_defaults_are_those_of_the_java_client() -> None:
    push, lite = PushSettings(), LitePullSettings()
    assert (push.consume_workers, push.pull_batch_size, push.pull_threshold_for_queue) == (20, 32, 1000)
    assert (push.pull_threshold_size_for_queue, push.consume_concurrently_max_span) == (100, 2000)
    assert (push.consume_timeout, push.max_reconsume_times, push.rebalance_interval) == (900.0, -1, 20.0)
    assert (lite.pull_batch_size, lite.auto_commit, lite.pull_threshold_for_all) == (10, True, 10_000)
    assert push.message_model is MessageModel.CLUSTERING


def test_limits_of_a_topic_are_shared_by_its_queues() -> None:
    settings = PushSettings(pull_threshold_for_topic=100, pull_threshold_size_for_topic=10)
    assert settings.cache_limits(4, span=5) == CacheLimits(messages=25, mib=2, span=5)
    assert settings.cache_limits(1000, span=None) == CacheLimits(messages=1, mib=1, span=None)
    assert PushSettings().cache_limits(4, span=None) == CacheLimits(messages=1000, mib=100, span=None)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        (PushSettings, "consume_workers", 0),
        (PushSettings, "pull_batch_size", 1025),
        (PushSettings, "consume_message_batch_max_size", 0),
        (PushSettings, "consume_from_where", "somewhere"),
        (PushSettings, "message_model", "CLUSTERING!"),
        (PushSettings, "allocation", None),
        (PushSettings, "consumer_timeout_when_suspend", 15.0),
        (LitePullSettings, "consumer_timeout_when_suspend", 20.0),
        (LitePullSettings, "poll_timeout", -1.0),
        (SimpleSettings, "consume_from_where", "CONSUME_FROM_TIMESTAMP"),
        (SimpleSettings, "invisible_time", 0.5),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(kind: Any, key: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=key):
        kind(**{key: value})


@pytest.mark.parametrize(
    ("topic", "consume_from", "expected"),
    [
        ("t", ConsumeFrom.LAST_OFFSET, ConsumeFrom.LAST_OFFSET),
        ("%RETRY%g", ConsumeFrom.LAST_OFFSET, ConsumeFrom.FIRST_OFFSET),
        ("t", ConsumeFrom.FIRST_OFFSET, ConsumeFrom.FIRST_OFFSET),
        ("%RETRY%g", ConsumeFrom.FIRST_OFFSET, ConsumeFrom.FIRST_OFFSET),
        ("t", ConsumeFrom.TIMESTAMP, ConsumeFrom.TIMESTAMP),
        ("%RETRY%g", ConsumeFrom.TIMESTAMP, ConsumeFrom.FIRST_OFFSET),
    ],
)
def test_a_group_begins_where_its_setting_says_and_with_all_of_its_retry_topic(
    topic: str, consume_from: ConsumeFrom, expected: ConsumeFrom
) -> None:
    assert start_of(topic, consume_from) is expected


def test_a_time_is_an_aware_datetime_or_seconds_or_half_an_hour_ago() -> None:
    assert timestamp_ms_of(datetime(2026, 1, 1, tzinfo=UTC), 0) == 1_767_225_600_000
    assert timestamp_ms_of(1.5, 0) == 1500
    assert timestamp_ms_of(None, 1_800_000) == 0


@pytest.mark.parametrize("when", [datetime(2026, 1, 1), -1.0])
def test_times_that_cannot_be_meant_are_refused(when: datetime | float) -> None:
    with pytest.raises(ConfigurationError, match="consume_timestamp"):
        timestamp_ms_of(when, 0)
