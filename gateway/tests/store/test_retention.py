"""Which files go, and when nothing more is taken: decisions as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.store.files import DiskSpace
from gateway.store.retention import MAX_FILES_PER_ROUND, LogFileAge, expired_files, is_short, refusal_reason
from gateway.store.store_settings import StoreSettings

GIB = 1024**3
HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS
SETTINGS = StoreSettings()
PLENTY = DiskSpace(100 * GIB, 50 * GIB)
ABOVE_75 = DiskSpace(10 * GIB, 2 * GIB)
ABOVE_85 = DiskSpace(10 * GIB, GIB + GIB // 4)
ABOVE_90 = DiskSpace(10 * GIB, GIB // 2)
LARGE_AND_FULL = DiskSpace(1000 * GIB, 50 * GIB)


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
        pytest.param((10, 100), 4, PLENTY, None, False, 0, id="never a file behind one that stays"),
        pytest.param((72,), 4, PLENTY, None, False, 1, id="exactly at its age"),
        pytest.param((71,), 4, PLENTY, None, False, 0, id="an hour before it"),
        pytest.param((100, 100), 4, PLENTY, GIB, False, 1, id="kept from the second file on"),
        pytest.param((100, 100), 4, ABOVE_85, GIB - 1, False, 0, id="kept, even when space is short"),
        pytest.param((100,) * 15, 4, PLENTY, None, False, MAX_FILES_PER_ROUND, id="ten a round"),
        pytest.param((), 4, ABOVE_90, None, True, 0, id="no files"),
    ],
)
def test_expired_files(
    ages: tuple[int, ...], hour: int, space: DiskSpace, keep_from: int | None, asked: bool, count: int
) -> None:
    found = expired_files(
        _files(*ages), now_ms=NOW_MS, hour=hour, space=space, settings=SETTINGS, keep_from=keep_from, asked=asked
    )
    assert found == count


@pytest.mark.parametrize(
    ("space", "refused"),
    [(PLENTY, False), (ABOVE_75, False), (ABOVE_85, False), (ABOVE_90, True), (LARGE_AND_FULL, False)],
)
def test_messages_are_refused_only_when_space_is_short(space: DiskSpace, refused: bool) -> None:
    assert (refusal_reason(space, SETTINGS) is not None) is refused


def test_a_refusal_names_the_numbers() -> None:
    assert refusal_reason(ABOVE_90, SETTINGS) == (
        "disk full: 95 % used, 512 MiB free; refused above 90 % while less than 4096 MiB are free"
    )


def test_without_a_floor_the_ratio_alone_decides() -> None:
    assert is_short(LARGE_AND_FULL, 90, replace(SETTINGS, disk_free_floor_bytes=10_000 * GIB))
    assert not is_short(DiskSpace(0, 0), 90, SETTINGS)
