"""The number of messages for which a record stands."""

from __future__ import annotations

import pytest

from wire.message.batch import INNER_BATCH, MAX_INNER_MESSAGES, inner_count
from wire.message.flags import SysFlag


@pytest.mark.parametrize(
    ("sys_flag", "base", "number", "count"),
    [
        (INNER_BATCH, "7", "3", 3),
        (INNER_BATCH | SysFlag.COMPRESSED, "7", "1", 1),
        (INNER_BATCH, "7", "99999", MAX_INNER_MESSAGES),
        (INNER_BATCH, "8", "3", 1),  # a copy: the offset is that of the first
        (INNER_BATCH, "", "3", 1),
        (INNER_BATCH, "7", "-3", 1),
        (INNER_BATCH, "7", "0", 1),
        (INNER_BATCH, "7", "9" * 5_000, 1),
        (SysFlag.INNER_BATCH, "7", "3", 1),
        (0, "7", "3", 1),
    ],
)
def test_a_record_stands_for_as_many_messages_as_its_broker_said(
    sys_flag: int, base: str, number: str, count: int
) -> None:
    assert inner_count(sys_flag, 7, {"INNER_BASE": base, "INNER_NUM": number}) == count


def test_without_a_number_it_is_one() -> None:
    assert inner_count(INNER_BATCH, 7, {"INNER_BASE": "7"}) == 1
