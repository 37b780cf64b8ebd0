"""The files to delete, and the moment at which messages are refused: decisions as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.settings.store import StoreSettings
from gateway.store.disk.files import DiskSpace
from gateway.store.space.retention import (
    LogFileAge,
    Round,
    SpaceRule,
    expired_files,
    refusal_reason,
    rule_text,
    space_rule,
    space_text,
)

GIB = 1024**3
HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS
SETTINGS = StoreSettings()
BATCH = SETTINGS.delete_file_batch_max
PLENTY = DiskSpace(100 * GIB, 50 * GIB)
ABOVE_75 = DiskSpace(10 * GIB, 2 * GIB)
ABOVE_85 = DiskSpace(10 * GIB, GIB + GIB // 4)
ABOVE_90 = DiskSpace(10 * GIB, GIB // 2)
LARGE_AND_FULL = DiskSpace(1000 * GIB, 50 * GIB)
LARGE = 1000 * GIB


def _files(*hours_old: int) -> list[LogFileAge]:
    return [LogFileAge((index + 1) * GIB, NOW_MS - age * HOUR_MS) for index, age in enumerate(hours_old)]


@pytest.mark.parametrize(
    ("ages", "hour", "space", "keep_from", "asked", "count"),
    [
        pytest.param((100, 80, 10), 4, PLENTY, None, False, 2, id="in the hour of deletion what is too old"),
        pytest.param((100, 80, 10), 5, PLENTY, None, False, 0, id="at other hours nothing"),
        pytest.param((100, 80, 10), 5, PLENTY, None, True, 2, id="asked for: what is too old"),
        pytest.param((100, 80, 10), 5, ABOVE_75, None, False, 2, id="above 75 %: what is too old at any hour"),
        pytest.param((100, 80, 10), 5, ABOVE_85, None, False, 3, id="above 85 %: whatever its age"),
        pytest.param((100, 80, 10), 5, LARGE_AND_FULL, None, False, 0, id="50 GiB left are no lack of space"),
        pytest.param((100, 80, 10), 5, DiskSpace(LARGE, 9 * GIB), None, False, 2, id="large disk, below 10 GiB: old"),
        pytest.param((100, 80, 10), 5, DiskSpace(LARGE, 5 * GIB), None, False, 3, id="large disk, below 6 GiB: any"),
        pytest.param((10, 100), 4, PLENTY, None, False, 0, id="never a file behind one that stays"),
        pytest.param((72,), 4, PLENTY, None, False, 1, id="exactly at its age"),
        pytest.param((71,), 4, PLENTY, None, False, 0, id="an hour before it"),
        pytest.param((100, 100), 4, PLENTY, GIB, False, 1, id="kept from the second file on"),
        pytest.param((100, 100), 4, ABOVE_85, GIB - 1, False, 0, id="kept, even when space is short"),
        pytest.param((100,) * 15, 4, PLENTY, None, False, BATCH, id="ten a round"),
        pytest.param((), 4, ABOVE_90, None, True, 0, id="no files"),
    ],
)
def test_expired_files(
    ages: tuple[int, ...], hour: int, space: DiskSpace, keep_from: int | None, asked: bool, count: int
) -> None:
    found = expired_files(
        _files(*ages), Round(NOW_MS, hour, asked), space=space, settings=SETTINGS, keep_from=keep_from
    )
    assert found == count


def test_without_permission_nothing_goes_before_its_age() -> None:
    settings = replace(SETTINGS, clean_file_forcibly_enable=False)
    found = expired_files(_files(100, 80, 10), Round(NOW_MS, 5), space=ABOVE_90, settings=settings, keep_from=None)
    assert found == 2


@pytest.mark.parametrize(
    ("space", "refused"),
    [
        (PLENTY, False),
        (ABOVE_75, False),
        (ABOVE_85, False),
        (ABOVE_90, True),
        (LARGE_AND_FULL, False),
        (DiskSpace(LARGE, 4 * GIB), False),
        (DiskSpace(LARGE, 4 * GIB - 1), True),
        (DiskSpace(0, 0), False),
    ],
)
def test_messages_are_refused_only_when_space_is_short(space: DiskSpace, refused: bool) -> None:
    assert (refusal_reason(space, SETTINGS) is not None) is refused


def test_on_a_small_disk_the_rule_is_that_of_the_ratios() -> None:
    rule = space_rule(10 * GIB, SETTINGS)
    assert rule == SpaceRule(
        delete_old_bytes=10 * GIB * 25 // 100,
        delete_any_bytes=10 * GIB * 15 // 100,
        refuse_bytes=10 * GIB * 10 // 100,
    )


def test_of_a_large_disk_only_a_part_is_looked_at() -> None:
    rule = space_rule(LARGE, SETTINGS)
    assert rule == SpaceRule(delete_old_bytes=10 * GIB, delete_any_bytes=6 * GIB, refuse_bytes=4 * GIB)
    assert rule == space_rule(40 * GIB, SETTINGS)


def test_measuring_all_of_the_disk_is_upstreams_rule() -> None:
    settings = replace(SETTINGS, disk_measured_bytes=10_000 * GIB)
    assert refusal_reason(LARGE_AND_FULL, settings) is not None
    assert refusal_reason(DiskSpace(LARGE, 100 * GIB), settings) is None


def test_space_that_is_not_watched_is_never_short() -> None:
    settings = replace(SETTINGS, disk_measured_bytes=0)
    assert refusal_reason(DiskSpace(LARGE, 0), settings) is None
    assert "space is not watched" in rule_text(PLENTY, settings)


def test_a_refusal_names_the_numbers() -> None:
    assert refusal_reason(ABOVE_90, SETTINGS) == (
        "disk full: 512 MiB of 10240 MiB free, 95 % used; messages are refused below 1024 MiB "
        "(diskSpaceWarningLevelRatio 90 %)"
    )


def test_the_rule_in_words_has_the_numbers_of_this_disk() -> None:
    assert rule_text(LARGE_AND_FULL, SETTINGS) == (
        "51200 MiB of 1024000 MiB free, 95 % used; commit log files older than 72 h are deleted at any hour below "
        "10240 MiB free, of any age below 6144 MiB, and messages are refused below 4096 MiB"
    )


def test_a_small_disk_is_told_of_in_kib() -> None:
    assert space_text(DiskSpace(6 << 20, 300 << 10)) == "300 KiB of 6144 KiB free, 95 % used"
    assert space_text(DiskSpace(6 << 30, 0)) == "0 MiB of 6144 MiB free, 100 % used"
