"""An index file by itself: every wrong chain, slot and header field is found, however the entries lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store_tool.checks import index_chains
from gateway.store_tool.checks.index_chains import beyond_log, check_file
from gateway.store_tool.checks.index_part import IndexPart, read_part
from gateway.store_tool.files.directory import disk_file
from wire.disk.index_file import ENTRY, HEAD, HEAD_BYTES, SLOT_BYTES, IndexHead, IndexShape

SHAPE = IndexShape(slots=16, entries=1200)
TAG_HASH = 77
BATCH = 200


def _hashes(count: int) -> list[int]:
    """Return hashes as the gateway makes them: keys and tags in turn, some of each."""
    return [TAG_HASH if number // BATCH % 2 else number * 7919 for number in range(count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    hashes = _hashes(1000)
    newest = [0] * SHAPE.slots
    content = bytearray(SHAPE.file_bytes)
    for entry, key_hash in enumerate(hashes, 1):
        slot = key_hash % SHAPE.slots
        ENTRY.pack_into(content, SHAPE.entry_position(entry), key_hash, 100 * entry, 0, newest[slot])
        newest[slot] = entry
    for slot, entry in enumerate(newest):
        content[SHAPE.slot_position(slot) : SHAPE.slot_position(slot) + SLOT_BYTES] = entry.to_bytes(4, "big")
    used = SHAPE.slots - newest.count(0)
    head = IndexHead(1000, 2000, 100, 100 * len(hashes), used, len(hashes) + 1)
    content[:HEAD_BYTES] = head.build()
    path = tmp_path / "20260101000000000"
    path.write_bytes(content)
    return path


def _part(path: Path) -> IndexPart:
    part = read_part(disk_file(path, 0), SHAPE)
    assert isinstance(part, IndexPart), part
    return part


@pytest.fixture(params=[1, 17, 64, 262_144])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checks read this number of entries at a time."""
    monkeypatch.setattr(index_chains, "CHUNK_ENTRIES", request.param)


@pytest.mark.usefixtures("chunk")
def test_an_intact_file_has_no_fault(path: Path) -> None:
    found = check_file(_part(path))
    assert (found.faults, found.lowest, found.highest) == ([], 100, 100_000)
    assert beyond_log(found, 100_001) == []


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("entry", [1, 17, 100, 201, 202, 300, 400, 401, 1000])
@pytest.mark.parametrize("field", ["key_hash", "previous_entry"])
def test_a_wrong_entry_is_found_wherever_it_stands(path: Path, entry: int, field: str) -> None:
    content = bytearray(path.read_bytes())
    at = SHAPE.entry_position(entry) + ENTRY.offset(field) + 3
    content[at] ^= 1
    path.write_bytes(content)
    assert check_file(_part(path)).faults


def test_a_wrong_slot_is_named(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[SHAPE.slot_position(3) + 3] ^= 1
    path.write_bytes(content)
    (fault,) = check_file(_part(path)).faults
    assert fault.position == SHAPE.slot_position(3)
    assert fault.what.startswith("slot 3 leads to entry ")


@pytest.mark.parametrize("field", ["used_slots", "begin_commit_log_offset", "end_commit_log_offset"])
def test_a_wrong_header_field_is_named(path: Path, field: str) -> None:
    content = bytearray(path.read_bytes())
    content[HEAD.offset(field) + 3] ^= 1
    path.write_bytes(content)
    (fault,) = check_file(_part(path)).faults
    assert fault.position == HEAD.offset(field)


@pytest.mark.usefixtures("chunk")
def test_entries_beyond_the_log_are_told_of_one_by_one(path: Path) -> None:
    told = [fault.what for fault in beyond_log(check_file(_part(path)), 99_800)]
    assert told == [
        f"entry {number} belongs to a message at {number * 100}, the log ends at 99800" for number in (998, 999, 1000)
    ]


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("entry", [1, 300, 1000])
def test_an_entry_of_a_negative_offset_is_told_of(path: Path, entry: int) -> None:
    content = bytearray(path.read_bytes())
    content[SHAPE.entry_position(entry) + ENTRY.offset("commit_log_offset")] |= 0x80
    path.write_bytes(content)
    (told,) = [fault.position for fault in beyond_log(check_file(_part(path)), 100_001)]
    assert told == SHAPE.entry_position(entry)
