"""A stretch of the log against a key index file: any field of any entry that differs is found."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.store_tool.checks import index_check
from gateway.store_tool.checks.index_check import _all_seconds, compare_stretch
from gateway.store_tool.checks.index_part import IndexPart, NearIndex, PlacedPart, StretchKeys, read_part
from gateway.store_tool.files.directory import disk_file
from wire.disk.index_file import ENTRY, HEAD_BYTES, IndexHead, IndexShape

SHAPE = IndexShape(slots=16, entries=1200)
COUNT = 300
BEGIN_MS = 10**12
TAG_HASH = 77
OFFSETS = array("q", range(100, 100 * COUNT + 100, 100))
TIMES = array("q", [BEGIN_MS + number * 50 for number in range(COUNT)])
HASHES = array("i", [1000 + number * 7919 for number in range(COUNT)])


def _keys() -> StretchKeys:
    """A key and then a tag of each message."""
    keys = StretchKeys()
    for key_hash, offset, time in zip(HASHES, OFFSETS, TIMES, strict=True):
        keys.hashes.extend((key_hash, TAG_HASH))
        keys.offsets.extend((offset, offset))
        keys.times.extend((time, time))
        keys.are_tags += bytes((0, 1))
    return keys


@pytest.fixture
def path(tmp_path: Path) -> Path:
    content = bytearray(SHAPE.file_bytes)
    rows = [*zip(HASHES, OFFSETS, TIMES, strict=True)] + [(TAG_HASH, *row) for row in zip(OFFSETS, TIMES, strict=True)]
    for entry, (key_hash, offset, time) in enumerate(rows, 1):
        ENTRY.pack_into(content, SHAPE.entry_position(entry), key_hash, offset, (time - BEGIN_MS) // 1000, 0)
    content[:HEAD_BYTES] = IndexHead(BEGIN_MS, TIMES[-1], OFFSETS[0], OFFSETS[-1], 0, len(rows) + 1).build()
    path = tmp_path / "20260101000000000"
    path.write_bytes(content)
    return path


def _near(*parts: IndexPart) -> NearIndex:
    return NearIndex(
        tuple(PlacedPart(part, OFFSETS[0] - 1, OFFSETS[-1] + 1) for part in parts), OFFSETS[-1], exists=True
    )


def _faults(path: Path) -> list[str]:
    part = read_part(disk_file(path, 0), SHAPE)
    assert isinstance(part, IndexPart), part
    return [fault.what for fault in compare_stretch(_near(part), _keys(), 100, 100 * COUNT + 100).faults]


def test_what_agrees_has_no_fault(path: Path) -> None:
    assert _faults(path) == []


def test_entries_of_tags_may_be_missing(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[:HEAD_BYTES] = IndexHead(BEGIN_MS, TIMES[-1], OFFSETS[0], OFFSETS[-1], 0, COUNT + 1).build()
    path.write_bytes(content)
    assert _faults(path) == []
    content[SHAPE.entry_position(20) + 3] ^= 1
    path.write_bytes(content)
    assert _faults(path)


@pytest.mark.parametrize("entry", [1, 64, 150, 300, 301, 450, 600])
@pytest.mark.parametrize("field", ["key_hash", "commit_log_offset", "seconds"])
def test_an_entry_that_differs_is_found_wherever_it_stands(path: Path, entry: int, field: str) -> None:
    content = bytearray(path.read_bytes())
    at = SHAPE.entry_position(entry) + ENTRY.offset(field)
    content[at + (7 if field == "commit_log_offset" else 3)] ^= 1
    path.write_bytes(content)
    assert _faults(path)


def test_two_entries_whose_hashes_changed_places_are_found(path: Path) -> None:
    content = bytearray(path.read_bytes())
    one, other = (slice(at, at + 4) for at in map(SHAPE.entry_position, (10, 20)))
    content[one], content[other] = content[other], content[one]
    path.write_bytes(content)
    assert _faults(path)


def _file(directory: Path, name: str, numbers: range, begin_ms: int) -> PlacedPart:
    """An index file with a key and then a tag of each of these messages."""
    content = bytearray(SHAPE.file_bytes)
    entry = 0
    for number in numbers:
        for key_hash in (HASHES[number], TAG_HASH):
            entry += 1
            seconds = (TIMES[number] - begin_ms) // 1000
            ENTRY.pack_into(content, SHAPE.entry_position(entry), key_hash, OFFSETS[number], seconds, 0)
    first, last = numbers[0], numbers[-1]
    head = IndexHead(begin_ms, TIMES[last], OFFSETS[first], OFFSETS[last], 0, entry + 1)
    content[:HEAD_BYTES] = head.build()
    path = directory / name
    path.write_bytes(content)
    part = read_part(disk_file(path, 0), SHAPE)
    assert isinstance(part, IndexPart), part
    return PlacedPart(part, OFFSETS[first], OFFSETS[last])


def test_a_stretch_with_entries_in_several_files_is_compared_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (
        _file(tmp_path, "20260101000000000", range(100), TIMES[0]),
        _file(tmp_path, "20260101000000001", range(100, 250), TIMES[100]),
        _file(tmp_path, "20260101000000002", range(250, COUNT), TIMES[250]),
    )
    elsewhere = PlacedPart(replace(files[0].part, path=tmp_path / "never read"), 10**9, 2 * 10**9)
    index = NearIndex((*files, elsewhere), OFFSETS[-1], exists=True)
    looked: list[object] = []
    look_closely = index_check._look_closely

    def closely(*given: Any) -> None:
        looked.append(given)
        look_closely(*given)

    monkeypatch.setattr(index_check, "_look_closely", closely)
    assert compare_stretch(index, _keys(), 100, 100 * COUNT + 100).faults == []
    assert looked == []
    for file in files:
        content = bytearray(file.part.path.read_bytes())
        content[SHAPE.entry_position(20) + ENTRY.offset("seconds") + 3] ^= 1
        file.part.path.write_bytes(content)
    faults = compare_stretch(index, _keys(), 100, 100 * COUNT + 100).faults
    assert [fault.path for fault in faults] == [file.part.path for file in files]


@pytest.mark.parametrize("times", [TIMES, TIMES[::-1], array("q", [BEGIN_MS] * 100 + [BEGIN_MS + 5000, BEGIN_MS - 1])])
def test_each_message_has_its_own_second(times: array[int]) -> None:
    assert _all_seconds(times, BEGIN_MS).tolist() == [max(time - BEGIN_MS, 0) // 1000 for time in times]
