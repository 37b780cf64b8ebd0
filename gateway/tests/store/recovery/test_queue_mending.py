"""Damaged consume queue units are made from the log again in place; nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.errors import LogDamaged
from gateway.store.message_store import MessageStore
from gateway.tests.store.small_store import (
    LOG_FILE_BYTES,
    Clock,
    bodies,
    content,
    log_file,
    message,
    opened,
    overwrite,
    put,
)
from wire.disk.consume_queue import FILLER_SIZE, UNIT, UNIT_BYTES

FAR_FUTURE_MS = 1 << 42
COUNT = 25
"""Three files of ten units."""


def closed(directory: Path) -> list[bytes]:
    """A store with messages of two queues, closed properly; the bodies of the first."""
    store = opened(directory)
    for number in range(COUNT):
        put(store, f"body {number}".encode())
        put(store, message(b"of another queue", queue_id=1))
    sent = bodies(store)
    store.close()
    return sent


def unit_at(directory: Path, number: int) -> tuple[Path, int]:
    position = number * UNIT_BYTES
    return directory / "consumequeue" / "T" / "0" / f"{position // 200 * 200:020d}", position % 200


def damage(directory: Path, number: int, at: int, data: bytes) -> None:
    path, position = unit_at(directory, number)
    overwrite(path, position + at, data)


@pytest.mark.parametrize("number", [0, 1, 9, 10, 23])
@pytest.mark.parametrize(
    ("at", "data"), [(7, b"\x01"), (0, b"\xff"), (8, b"\x01"), (11, b"\x00"), (0, bytes(20)), (0, b"\xff" * 20)]
)
def test_a_damaged_unit_is_made_again(tmp_path: Path, number: int, at: int, data: bytes) -> None:
    sent = closed(tmp_path)
    queues = content(tmp_path / "consumequeue")
    damage(tmp_path, number, at, data)
    store = opened(tmp_path)
    assert store.mend_queue("T", 0, number, 1) == 0
    assert bodies(store) == sent
    put(store, b"goes on")
    assert bodies(store) == [*sent, b"goes on"]
    store.close()
    kept = content(tmp_path / "consumequeue")
    assert {name: data for name, data in kept.items() if not name.endswith("T/0/" + f"{400:020d}")} == {
        name: data for name, data in queues.items() if not name.endswith("T/0/" + f"{400:020d}")
    }
    assert bodies(opened(tmp_path)) == [*sent, b"goes on"]


def test_many_at_once_in_two_files(tmp_path: Path) -> None:
    sent = closed(tmp_path)
    for number in (3, 4, 8, 12):
        damage(tmp_path, number, 0, b"\x7f" * 12)
    store = opened(tmp_path)
    assert store.mend_queue("T", 0, 0, 1_000) == 0
    assert bodies(store) == sent


def test_units_that_lead_over_a_gap_are_counted_and_left_alone(tmp_path: Path) -> None:
    closed(tmp_path)
    gap = UNIT.pack(0, FILLER_SIZE, 0)
    damage(tmp_path, 4, 0, gap)
    damage(tmp_path, 5, 0, gap)
    store = opened(tmp_path)
    assert store.mend_queue("T", 0, 5, 3) == 1
    assert store.mend_queue("T", 0, 0, COUNT) == 2
    assert store.queue_units("T", 0, 5, 1) == gap


def test_intact_units_are_not_written(tmp_path: Path) -> None:
    closed(tmp_path)
    store = opened(tmp_path)
    before = content(tmp_path)
    assert store.mend_queue("T", 0, 0, COUNT) == 0
    assert store.mend_queue("T", 7, 0, 1) == 0
    assert store.mend_queue("T", 0, COUNT, 1) == 0
    assert content(tmp_path) == before


@pytest.mark.parametrize("number", [2, 13])
def test_a_log_that_is_damaged_there_is_told_and_nothing_changes(tmp_path: Path, number: int) -> None:
    sent = closed(tmp_path)
    store = opened(tmp_path)
    position = UNIT.unpack_from(store.queue_units("T", 0, number, 1))[0]
    store.close()
    file_start = position // 8192 * 8192
    overwrite(log_file(tmp_path, file_start), position - file_start, bytes(40))
    store = opened(tmp_path)
    before = content(tmp_path)
    with pytest.raises(LogDamaged, match=rf"byte {position - file_start} .* unit {number} of .*store repair") as told:
        store.mend_queue("T", 0, number, 1)
    assert told.value.path == log_file(tmp_path, file_start)
    assert content(tmp_path) == before
    assert _readable(store) == [body for n, body in enumerate(sent) if n != number]


def test_damage_that_looks_as_if_the_first_message_was_deleted(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock=clock)
    while store.max_commit_log_offset < LOG_FILE_BYTES:
        put(store, b"of the first file")
    put(store, message(b"a", topic="late"))
    put(store, message(b"b", topic="late"))
    assert store.delete_expired(FAR_FUTURE_MS, asked=True) == 1
    assert store.min_offset("late", 0) == 0
    store.close()
    path = tmp_path / "consumequeue" / "late" / "0" / f"{0:020d}"
    overwrite(path, 6, b"\x00\x00")
    store = opened(tmp_path, clock=clock)
    assert store.min_offset("late", 0) == 1
    assert store.mend_queue("late", 0, 0, 1) == 0
    assert store.min_offset("late", 0) == 0
    assert bodies(store, "late") == [b"a", b"b"]
    store.close()
    assert bodies(opened(tmp_path, clock=clock), "late") == [b"a", b"b"]


def _readable(store: MessageStore) -> list[bytes]:
    found = []
    for number in range(COUNT):
        result = store.get_messages("T", 0, number, 1, 1)
        found += [part[88 : 88 + int.from_bytes(part[84:88], "big")] for part in result.parts]
    return found
