from __future__ import annotations

import pytest

from wire.message.flags import (
    Permission,
    PullFlag,
    SysFlag,
    TopicFlag,
    is_inherited,
    is_readable,
    is_writable,
    transaction_kind,
    with_transaction_kind,
)


def test_the_numbers_are_those_on_disk_and_on_the_wire() -> None:
    assert [SysFlag.COMPRESSED, SysFlag.MULTI_TAGS, SysFlag.TRANSACTION_MASK] == [1, 2, 0xC]
    assert [SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, SysFlag.HOSTS_MASK] == [0x10, 0x20, 0x30]
    assert [SysFlag.NEED_UNWRAP, SysFlag.INNER_BATCH, SysFlag.COMPRESSION_MASK] == [0x40, 0x80, 0x700]
    assert [PullFlag.COMMIT_OFFSET, PullFlag.SUSPEND, PullFlag.SUBSCRIPTION] == [1, 2, 4]
    assert [PullFlag.CLASS_FILTER, PullFlag.LITE_PULL] == [8, 0x10]
    assert [TopicFlag.UNIT, TopicFlag.UNIT_SUBSCRIPTION] == [1, 2]


@pytest.mark.parametrize(
    ("sys_flag", "kind"),
    [
        (0x301, SysFlag.TRANSACTION_NONE),
        (0x4, SysFlag.TRANSACTION_PREPARED),
        (0x18, SysFlag.TRANSACTION_COMMIT),
        (0xC, SysFlag.TRANSACTION_ROLLBACK),
    ],
)
def test_transaction_kinds_are_two_bits_of_the_flag(sys_flag: int, kind: int) -> None:
    assert transaction_kind(sys_flag) == kind


def test_changing_the_transaction_kind_leaves_the_other_bits() -> None:
    assert with_transaction_kind(0x315, SysFlag.TRANSACTION_COMMIT) == 0x319
    assert with_transaction_kind(0x31D, SysFlag.TRANSACTION_NONE) == 0x311


@pytest.mark.parametrize(("perm", "text"), [(0, "---"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX"), (1, "--X")])
def test_permissions_are_a_bit_each(perm: int, text: str) -> None:
    assert is_readable(perm) == ("R" in text)
    assert is_writable(perm) == ("W" in text)
    assert is_inherited(perm) == ("X" in text)


def test_permission_sets_are_sums() -> None:
    assert Permission.READ_WRITE == Permission.READ | Permission.WRITE
    assert Permission.ALL == Permission.READ_WRITE | Permission.INHERIT
    assert Permission.PRIORITY == 8
