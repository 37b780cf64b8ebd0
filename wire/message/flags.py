"""Bit sets carried as plain integers: the flags of a message, of a pull and of a topic, and permissions.

Constants are plain ``int`` and not ``enum.IntFlag``, because they are tested once or more for every message. The
numbers are on disk and on the wire. Never change them.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final


class SysFlag:
    """``sysFlag`` of a message (upstream ``MessageSysFlag``)."""

    COMPRESSED: Final = 0x1
    MULTI_TAGS: Final = 0x2
    TRANSACTION_NONE: Final = 0x0
    TRANSACTION_PREPARED: Final = 0x4
    TRANSACTION_COMMIT: Final = 0x8
    TRANSACTION_ROLLBACK: Final = 0xC
    TRANSACTION_MASK: Final = 0xC
    BORN_HOST_V6: Final = 0x10
    STORE_HOST_V6: Final = 0x20
    HOSTS_MASK: Final = 0x30
    NEED_UNWRAP: Final = 0x40
    INNER_BATCH: Final = 0x80
    COMPRESSION_MASK: Final = 0x700
    COMPRESSION_LZ4: Final = 0x100
    COMPRESSION_ZSTD: Final = 0x200
    COMPRESSION_ZLIB: Final = 0x300


def transaction_kind(sys_flag: int) -> int:
    """Return only the transaction bits: one of ``SysFlag.TRANSACTION_*``."""
    return sys_flag & SysFlag.TRANSACTION_MASK


def with_transaction_kind(sys_flag: int, kind: int) -> int:
    """Return ``sys_flag`` with its transaction bits replaced by ``kind``."""
    return sys_flag & ~SysFlag.TRANSACTION_MASK | kind


class PullFlag:
    """``sysFlag`` of a pull request (upstream ``PullSysFlag``)."""

    COMMIT_OFFSET: Final = 0x1
    SUSPEND: Final = 0x2
    SUBSCRIPTION: Final = 0x4
    CLASS_FILTER: Final = 0x8
    LITE_PULL: Final = 0x10


class TopicFlag:
    """``topicSysFlag`` of a topic (upstream ``TopicSysFlag``)."""

    UNIT: Final = 0x1
    UNIT_SUBSCRIPTION: Final = 0x2


class Permission:
    """``perm`` of a topic or a broker (upstream ``PermName``)."""

    INHERIT: Final = 0x1
    WRITE: Final = 0x2
    READ: Final = 0x4
    PRIORITY: Final = 0x8
    READ_WRITE: Final = 0x6
    ALL: Final = 0x7


def is_readable(perm: int) -> bool:
    """Return whether consumers may read."""
    return perm & Permission.READ != 0


def is_writable(perm: int) -> bool:
    """Return whether producers may write."""
    return perm & Permission.WRITE != 0


def is_inherited(perm: int) -> bool:
    """Return whether topics created from a topic with this permission inherit its settings."""
    return perm & Permission.INHERIT != 0
