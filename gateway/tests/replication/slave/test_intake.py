"""What an intake holds of a record that is not whole yet: the bytes, in whatever stretches they come."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from gateway.replication.slave.intake import MAX_RECORD_BYTES, MERGED_BYTES, MOST_AT_ONCE_BYTES, Intake
from gateway.store.log.copied_records import CopiedRecords
from wire.replication.classic import Stretch


class OneRecordLog:
    """A log whose records have one size each, and which stores at once."""

    def __init__(self, record_bytes: int) -> None:
        self.record_bytes = record_bytes
        self.data = b""
        self.durable_end = self.max_commit_log_offset = 0
        self.looks = self.most_looked_at = 0

    def copied_records(self, received: bytes) -> CopiedRecords:
        assert isinstance(received, bytes)
        self.looks += 1
        self.most_looked_at = max(self.most_looked_at, len(received))
        whole = len(received) - len(received) % self.record_bytes
        return CopiedRecords(self.max_commit_log_offset, received[:whole], self.record_bytes, None)

    def append_copied(self, records: CopiedRecords, on_copied: Callable[[bool], None]) -> None:
        self.data += records.data
        self.durable_end = self.max_commit_log_offset = records.end
        on_copied(True)

    def give_up_copied(self) -> None:
        raise AssertionError("nothing is on its way")


def fed(log: OneRecordLog, bodies: Iterable[bytes]) -> Intake:
    """Return an intake that took these stretches, one after the other."""
    failures: list[str] = []
    intake = Intake(log, stored=lambda: None, failed=failures.append)
    place = 0
    for body in bodies:
        intake.take(Stretch(place, body))
        place += len(body)
    assert not failures
    return intake


@pytest.mark.parametrize("size", [2, 20])
def test_small_stretches_of_a_long_record_take_little_more_memory_than_their_bytes(size: int) -> None:
    log, count = OneRecordLog(MAX_RECORD_BYTES), 200_000 // size
    tracemalloc.start()
    try:
        intake = fed(log, (bytes(bytearray(size)) for _ in range(count)))
        taken, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert intake.next_offset == count * size
    assert taken < 2 * count * size + 65_536
    assert most < 3 * count * size + 65_536
    assert log.looks == 1, "it is looked at again when it can be whole"


@pytest.mark.parametrize("seed", range(8))
def test_any_stretches_come_to_the_log_as_they_are(seed: int) -> None:
    dice = random.Random(seed)
    data = dice.randbytes(6 * MOST_AT_ONCE_BYTES)
    bodies, place = [], 0
    while place < len(data):
        size = dice.choice([1, 20, 300, MERGED_BYTES - 1, MERGED_BYTES, 5 * MERGED_BYTES, 300_000])
        bodies.append(data[place : place + size])
        place += size
    log = OneRecordLog(dice.choice([len(data), len(data) // 3, 4096, 100]))
    intake = fed(log, bodies)
    assert log.data == data[: len(data) - len(data) % log.record_bytes]
    assert intake.next_offset == len(data)


def test_no_more_than_asked_for_is_looked_at_of_many_small_stretches() -> None:
    log = OneRecordLog(3 * MOST_AT_ONCE_BYTES)
    fed(log, [bytes(1000)] * (4 * MOST_AT_ONCE_BYTES // 1000))
    assert log.most_looked_at <= 4 * MOST_AT_ONCE_BYTES
