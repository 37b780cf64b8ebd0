"""The rules for when messages are deleted, and when new messages are refused for lack of space. Pure decisions.

Upstream: ``DefaultMessageStore.CleanCommitLogService``, with one difference: of a large partition only
``disk_measured_bytes`` count. A laptop with hundreds of gigabytes on a well filled disk is not short of space, and
upstream's refusal there is a frequent complaint (``docs/decisions/0008``).

    short of space at ratio r  ⇔  free < (100 − r) % of min(size of the partition, disk_measured_bytes)

On partitions up to ``disk_measured_bytes`` the rule equals upstream's ``used > r %``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.settings.store import StoreSettings
from gateway.store.disk.files import DiskSpace

_MIB = 1024 * 1024


class LogFileAge(msgspec.Struct, frozen=True):
    """One commit log file as the decision sees it: its end offset, and when it was last written."""

    end_offset: int
    modified_at_ms: int


class SpaceRule(msgspec.Struct, frozen=True, kw_only=True):
    """The ratios as free bytes on one partition: below each of these numbers, something happens."""

    delete_old_bytes: int
    """The free bytes below which files older than fileReservedTime go at any hour."""
    delete_any_bytes: int
    """The free bytes below which the oldest files go whatever their age; 0 if cleanFileForciblyEnable is false."""
    refuse_bytes: int
    """The free bytes below which no message is stored."""


def space_rule(total_bytes: int, settings: StoreSettings) -> SpaceRule:
    """Return the rule for a partition of a size in bytes."""
    measured = min(total_bytes, settings.disk_measured_bytes)
    by_force = settings.disk_space_clean_forcibly_ratio if settings.clean_file_forcibly_enable else 100
    return SpaceRule(
        delete_old_bytes=_left_above(settings.disk_max_used_space_ratio, measured),
        delete_any_bytes=_left_above(by_force, measured),
        refuse_bytes=_left_above(settings.disk_space_warning_level_ratio, measured),
    )


def _left_above(percent: int, measured_bytes: int) -> int:
    return (100 - percent) * measured_bytes // 100


def headroom_bytes(space: DiskSpace, settings: StoreSettings, reserved_bytes: int = 0) -> int:
    """Return how many more bytes fit before messages are refused; negative while messages are refused.

    :param reserved_bytes: the number of bytes that are left for other files.
    """
    return space.free_bytes - max(space_rule(space.total_bytes, settings).refuse_bytes, reserved_bytes)


def refusal_reason(space: DiskSpace, settings: StoreSettings, reserved_bytes: int = 0) -> str | None:
    """Return why no message is stored, with the numbers; None while there is space, or if space is not watched.

    :param reserved_bytes: as for ``headroom_bytes``.
    """
    if not settings.disk_measured_bytes or headroom_bytes(space, settings, reserved_bytes) >= 0:
        return None
    refuse_bytes = space_rule(space.total_bytes, settings).refuse_bytes
    why = f"diskSpaceWarningLevelRatio {settings.disk_space_warning_level_ratio} %"
    if reserved_bytes > refuse_bytes:
        refuse_bytes, why = reserved_bytes, "topics, groups and offsets are written anew as a whole"
    return f"disk full: {space_text(space)}; messages are refused below {_mib(refuse_bytes)} ({why})"


def space_text(space: DiskSpace) -> str:
    """Return a text such as ``"512 MiB of 10240 MiB free, 95 % used"``."""
    return f"{_mib(space.free_bytes)} of {_mib(space.total_bytes)} free, {space.used_percent:.0f} % used"


def rule_text(space: DiskSpace, settings: StoreSettings) -> str:
    """Return the effect of the settings on a partition, as text for people."""
    rule = space_rule(space.total_bytes, settings)
    if not (rule.refuse_bytes or rule.delete_old_bytes):
        return f"{space_text(space)}; space is not watched (gateway.diskMeasuredBytes=0)"
    by_force = f"of any age below {_mib(rule.delete_any_bytes)}, " if rule.delete_any_bytes else ""
    return (
        f"{space_text(space)}; commit log files older than {settings.file_reserved_time_hours} h are deleted at any "
        f"hour below {_mib(rule.delete_old_bytes)} free, {by_force}"
        f"and messages are refused below {_mib(rule.refuse_bytes)}"
    )


class Round(msgspec.Struct, frozen=True):
    """A round of deletion: its time, and its reason."""

    now_ms: int
    hour: int
    """The hour of the day, local time."""
    asked: bool = False
    """True if an operator asked for the round (DELETE_EXPIRED_COMMITLOG)."""


def expired_files(
    files: Sequence[LogFileAge], turn: Round, *, space: DiskSpace, settings: StoreSettings, keep_from: int | None
) -> int:
    """Return how many of the oldest files to delete now.

    :param files: oldest first, without the file that is being written, which is never deleted.
    :param keep_from: an offset from which on nothing may go, whatever the age; None if there is no such offset.
    """
    rule = space_rule(space.total_bytes, settings)
    whatever_age = space.free_bytes < rule.delete_any_bytes
    by_space = space.free_bytes < rule.delete_old_bytes
    if not (turn.asked or by_space or whatever_age or turn.hour in settings.delete_hours):
        return 0
    oldest_kept_ms = turn.now_ms - settings.file_reserved_time_ms
    count = 0
    for file in files[: settings.delete_file_batch_max]:
        if keep_from is not None and file.end_offset > keep_from:
            break
        if not whatever_age and file.modified_at_ms > oldest_kept_ms:
            break
        count += 1
    return count


def _mib(count: int) -> str:
    """Return a text in whole MiB, or in KiB for small numbers, which occur on test disks and small devices."""
    return f"{count // _MIB} MiB" if abs(count) >= 10 * _MIB or not count else f"{count // 1024} KiB"
