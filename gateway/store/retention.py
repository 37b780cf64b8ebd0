"""When messages are deleted and when new ones are refused for lack of space. Pure decisions.

Upstream: ``DefaultMessageStore.CleanCommitLogService``, with one difference: the disk ratios count only while less
than ``disk_free_floor_bytes`` are free. A laptop with hundreds of gigabytes left on a well filled disk is not short
of space, and upstream's refusal there is a frequent complaint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.store.files import DiskSpace
from gateway.store.store_settings import StoreSettings

MAX_FILES_PER_ROUND = 10
"""As upstream: deleting a file of a gigabyte takes a while on some file systems."""
_HOUR_MS = 3_600_000
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogFileAge:
    """One commit log file as the decision sees it: where it ends, and when it was last written."""

    end_offset: int
    modified_at_ms: int


def is_short(space: DiskSpace, percent: int, settings: StoreSettings) -> bool:
    """Whether the partition is used above a ratio, and little enough is left for that to matter."""
    return space.used_percent > percent and space.free_bytes < settings.disk_free_floor_bytes


def refusal_reason(space: DiskSpace, settings: StoreSettings) -> str | None:
    """Why nothing more is stored, with the numbers; None while there is space."""
    if not is_short(space, settings.disk_space_warning_level_ratio, settings):
        return None
    return (
        f"disk full: {space.used_percent:.0f} % used, {space.free_bytes // _MIB} MiB free; refused above "
        f"{settings.disk_space_warning_level_ratio} % while less than "
        f"{settings.disk_free_floor_bytes // _MIB} MiB are free"
    )


def expired_files(
    files: Sequence[LogFileAge],
    *,
    now_ms: int,
    hour: int,
    space: DiskSpace,
    settings: StoreSettings,
    keep_from: int | None,
    asked: bool = False,
) -> int:
    """How many of the oldest files to delete now.

    :param files: oldest first, without the one that is being written, which is never deleted.
    :param hour: of the day, local time.
    :param keep_from: an offset from which on nothing may go, whatever the age; None for no such.
    :param asked: an operator asked for it (DELETE_EXPIRED_COMMITLOG).
    """
    by_space = is_short(space, settings.disk_max_used_space_ratio, settings)
    whatever_age = is_short(space, settings.disk_space_clean_forcibly_ratio, settings)
    if not (asked or by_space or whatever_age or hour in settings.delete_hours):
        return 0
    oldest_kept_ms = now_ms - settings.file_reserved_time_hours * _HOUR_MS
    count = 0
    for file in files[:MAX_FILES_PER_ROUND]:
        if keep_from is not None and file.end_offset > keep_from:
            break
        if not whatever_age and file.modified_at_ms > oldest_kept_ms:
            break
        count += 1
    return count
