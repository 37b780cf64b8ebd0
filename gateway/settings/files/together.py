"""Settings that are fine alone and do not go together: refused, corrected, or reported.

A setting that nobody set follows a setting that somebody set. Two settings that somebody set are never changed. Every
text names both settings.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from gateway.settings.controller import MEMBERS_BY_DEFAULT
from gateway.settings.declare import declarations, text_of
from gateway.settings.replication import BrokerRole
from gateway.settings.store import FlushDiskType
from gateway.settings.tree import Settings

OLD, ANY_AGE, REFUSE = "diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio"
"""The settings for three uses of the disk, in percent.

Above the first old files are deleted, above the second files of any age, and above the third sends are refused.
"""
LEAST_PERCENT = 10
NEVER_PERCENT = 100
"""A limit that no disk exceeds, so the rule is off."""
DELETED_EARLY = "files of any age would be deleted before those that are older than fileReservedTime"
REFUSED_EARLY = "sends would be refused before files are deleted"
LOG_FILE_MARGIN_BYTES = 65_536
"""The bytes that a commit log file holds besides its largest message."""

INNER_AND_OUTER = (
    ("gateway.heldPullsPerConnection", "gateway.heldPullsLimit"),
    ("popPollingSize", "maxPopPollingSize"),
    ("gateway.unsentBytesLimit", "gateway.unsentBytesTotal"),
    ("gateway.connectionBrokersLimit", "gateway.nameserverBrokersLimit"),
    ("gateway.registrationTopicsLimit", "gateway.nameserverTopicsLimit"),
    ("gateway.nameserverTopicsLimit", "gateway.nameserverEntriesLimit"),
    ("flushIntervalCommitLog", "flushCommitLogThoroughInterval"),
    ("flushIntervalConsumeQueue", "flushConsumeQueueThoroughInterval"),
)
"""Pairs of limits or times; the second must not lie below the first.

Otherwise the second is always reached first, and the first has no effect.
"""


class Conflict(NamedTuple):
    """The keys of two settings that do not go together, and the reason."""

    keys: tuple[str, str]
    reason: str


def in_order(settings: Settings, told: Container[str]) -> tuple[Settings, list[Conflict]]:
    """Return the settings with the three limits of the disk in order, and the changes that this needed.

    Old files are deleted first, then files of any age, and only then are sends refused.

    :param told: the keys that somebody set.
    """
    changes: list[Conflict] = []

    def change(key: str, percent: int, other: str, reason: str) -> None:
        nonlocal settings
        changes.append(Conflict((other, key), f"{reason}; {key} is taken as {percent}"))
        value: dict[str, Any] = {declarations(Settings)[key].attribute: percent}
        settings = replace(settings, **value)

    if not settings.disk_measured_bytes:
        return settings, changes
    old, any_age, refuse = _space(settings)
    if ANY_AGE not in told and OLD in told and any_age <= old and any_age < NEVER_PERCENT:
        change(ANY_AGE, min(old + 1, NEVER_PERCENT), OLD, DELETED_EARLY)
    if REFUSE not in told:
        last = max((percent for percent in _space(settings)[:2] if percent < NEVER_PERCENT), default=0)
        if refuse < last:
            change(REFUSE, last, ANY_AGE if ANY_AGE in told else OLD, REFUSED_EARLY)
    elif ANY_AGE not in told and refuse < _space(settings)[1] < NEVER_PERCENT:
        change(ANY_AGE, refuse, REFUSE, REFUSED_EARLY)
    _, any_age, refuse = _space(settings)
    if OLD not in told and any_age <= old:
        change(OLD, max(any_age - 1, LEAST_PERCENT), ANY_AGE if ANY_AGE in told else REFUSE, DELETED_EARLY)
    elif OLD not in told and refuse < old:
        change(OLD, refuse, REFUSE, REFUSED_EARLY)
    return settings, changes


def conflict(settings: Settings) -> Conflict | None:
    """Return the first two settings with which no broker can start, or None."""
    if settings.max_message_size >= settings.max_frame_bytes:
        return Conflict(("maxMessageSize", "gateway.maxFrameBytes"), "the largest message must fit into a frame")
    needed = settings.max_message_size + LOG_FILE_MARGIN_BYTES
    if needed > settings.mapped_file_size_commit_log:
        return Conflict(
            ("maxMessageSize", "mappedFileSizeCommitLog"),
            f"a commit log file must hold the largest message and {LOG_FILE_MARGIN_BYTES} bytes more: "
            f"mappedFileSizeCommitLog is {settings.mapped_file_size_commit_log}, at least {needed} is needed",
        )
    if settings.enable_controller_mode:
        return _conflict_of_member(settings)
    if settings.is_slave is not (settings.broker_id > 0):
        return Conflict(("brokerId", "brokerRole"), "a master has id 0, each slave another")
    return None


def _conflict_of_member(settings: Settings) -> Conflict | None:
    """Return the first two settings with which no member of a controller can start, or None."""
    if not settings.controller_addr:
        return Conflict(("enableControllerMode", "controllerAddr"), "a member has to know where controllers are")
    if not settings.listen_port:
        return Conflict(
            ("enableControllerMode", "listenPort"), "a controller is told the port before the broker listens on it"
        )
    return None


def of_members(settings: Settings) -> Iterator[Conflict]:
    """Yield settings of a controller's member that have no effect."""
    if not settings.enable_controller_mode:
        if settings.controller_addr:
            yield Conflict(("enableControllerMode", "controllerAddr"), "no controller is asked")
        if settings.min_in_sync_replicas != MEMBERS_BY_DEFAULT:
            yield Conflict(
                ("enableControllerMode", "minInSyncReplicas"), "no controller, no sync state set: see inSyncReplicas"
            )
        return
    if not settings.all_ack_in_sync_state_set:
        yield Conflict(
            ("enableControllerMode", "allAckInSyncStateSet"),
            "a send waits for every member of the sync state set in any case: a switch would lose messages otherwise",
        )
    if settings.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
        yield Conflict(
            ("enableControllerMode", "flushDiskType"),
            "a member sends, shows and reports only what is on its disk, as with SYNC_FLUSH",
        )


def of_copies(settings: Settings) -> Iterator[Conflict]:
    """Yield settings of SYNC_MASTER and SLAVE that promise less, or ask for less, than the role does."""
    if settings.is_slave and settings.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
        yield Conflict(("brokerRole", "flushDiskType"), "a slave shows and reports only what is on its disk")
    if settings.broker_role is not BrokerRole.SYNC_MASTER:
        return
    if not settings.copies_awaited:
        yield Conflict(("brokerRole", "inSyncReplicas"), "no send waits for a slave, as with ASYNC_MASTER")
    elif settings.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
        yield Conflict(
            ("brokerRole", "flushDiskType"),
            "slaves get only what is on disk here, so a message is flushed before its send is answered, as with "
            "SYNC_FLUSH",
        )


def never_reached(settings: Settings) -> Iterator[Conflict]:
    """Yield the limits that have no effect, because a limit that should be higher comes first."""
    for inner, outer in INNER_AND_OUTER:
        if _value(settings, inner) > _value(settings, outer):
            yield Conflict((inner, outer), f"{outer} comes first, {inner} has no effect")


def assigned(settings: Settings, key: str) -> str:
    """Return ``KEY=VALUE`` with the effective value."""
    return f"{key}={text_of(_value(settings, key))}"


def conflict_of_space(settings: Settings) -> Conflict | None:
    """Return the first two limits of the disk that somebody set in the wrong order, or None.

    Apache RocketMQ starts with such limits too, so a start only reports them.
    """
    if not settings.disk_measured_bytes:
        return None
    old, any_age, refuse = _space(settings)
    if refuse < old < NEVER_PERCENT:
        return Conflict((OLD, REFUSE), REFUSED_EARLY)
    if any_age < old < NEVER_PERCENT:
        return Conflict((OLD, ANY_AGE), DELETED_EARLY)
    if refuse < any_age < NEVER_PERCENT:
        return Conflict((ANY_AGE, REFUSE), REFUSED_EARLY)
    return None


def _space(settings: Settings) -> tuple[int, int, int]:
    """Return the three percentages; with ``cleanFileForciblyEnable=false``, files of any age are never deleted."""
    any_age = settings.disk_space_clean_forcibly_ratio if settings.clean_file_forcibly_enable else NEVER_PERCENT
    return settings.disk_max_used_space_ratio, any_age, settings.disk_space_warning_level_ratio


def _value(settings: Settings, key: str) -> Any:
    return getattr(settings, declarations(Settings)[key].attribute)
