"""Two logs count as equal only if every record that is compared is equal, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.replication.prefix import LOOK, Compared, difference, refused_place
from gateway.store.message_store import MessageStore
from gateway.tests.store.durability.test_copying import follow
from gateway.tests.store.small_store import opened, put

A, B, C = b"record a", b"record b", b"record c"
SAME = [Compared(30, A, A), Compared(20, B, B), Compared(0, C, C)]


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        (SAME, None),
        (SAME[:1], None),
        ([], "no record below offset 38 is in both logs, so nothing proves that they are equal"),
        ([Compared(30, A, B), *SAME[1:]], "the records at offset 30 differ, from byte 7 on"),
        ([*SAME[:2], Compared(0, C, A)], "the records at offset 0 differ, from byte 7 on"),
        ([Compared(30, A, A + B), *SAME[1:]], "the records at offset 30 differ, from byte 8 on"),
        ([Compared(30, A, b""), *SAME[1:]], "the records at offset 30 differ, from byte 0 on"),
        ([Compared(30, A, None), *SAME[1:]], "the other log has no record at offset 30, this one has 8 bytes there"),
        ([SAME[0], Compared(20, B, None)], "the other log has no record at offset 20, this one has 8 bytes there"),
    ],
)
def test_the_verdict_on_compared_records(compared: list[Compared], expected: str | None) -> None:
    assert difference(38, compared) == (expected and f"{expected}: {LOOK}")


@pytest.mark.parametrize(
    ("place", "begin", "end", "expected"),
    [
        (0, 0, 0, None),
        (0, 100, 200, None),
        (100, 100, 200, None),
        (200, 100, 200, None),
        (201, 100, 200, "the copy reaches to 201, and the master's log ends at 200: a copy that is ahead"),
        (99, 100, 200, "the copy reaches to 99, and the master's log begins at 100: empty the copy's directory"),
        (1, 100, 200, "the copy reaches to 1, and the master's log begins at 100: empty the copy's directory"),
        (1_000_000_000, 0, 482, "the copy reaches to 1000000000, and the master's log ends at 482: a copy that is"),
    ],
)
def test_a_place_outside_of_the_master_log_is_refused(place: int, begin: int, end: int, expected: str | None) -> None:
    fault = refused_place(place, begin, end)
    assert (fault is None, (fault or "").startswith(expected or "")) == (expected is None, True)


def compared_up_to(place: int, ours: MessageStore, theirs: MessageStore) -> list[Compared]:
    begins = ours.record_begins(place, ours.min_commit_log_offset)
    return [Compared(offset, ours.log_bytes(offset, 0) or b"", theirs.record_at(offset)) for offset in begins]


def test_a_copy_is_proven_and_a_log_that_went_another_way_is_not(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    for number in range(60):
        put(master, b"%060d" % number)
    follow(slave, master)
    place = slave.durable_end
    assert difference(place, compared_up_to(place, slave, master)) is None
    assert difference(place, compared_up_to(place, master, slave)) is None

    # The master came back without its last message, and took another one of the same size.
    differing = put(slave, b"%060d" % 60).commit_log_offset
    put(master, b"%060d" % 61)
    place = slave.durable_end
    assert place == master.durable_end
    expected = f"the records at offset {differing} differ, from byte 8 on: {LOOK}"  # the checksum of the body
    assert difference(place, compared_up_to(place, slave, master)) == expected
    assert difference(place, compared_up_to(place, master, slave)) == expected
