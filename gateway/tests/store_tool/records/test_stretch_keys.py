"""Keys added in bulk are those added one by one."""

from __future__ import annotations

from array import array
from typing import TypeAlias

import pytest

from gateway.store.index.index_entries import tag_key
from gateway.store_tool.records.stretch_keys import StretchKeys
from wire.message.java_hash import index_key_hash

COUNT = 40
OFFSETS = array("q", range(0, 100 * COUNT, 100))
TIMES = array("q", range(10**12, 10**12 + COUNT))
Rows: TypeAlias = list[tuple[int, int, int]]


def _rows(keys: StretchKeys) -> Rows:
    keys.finish()
    return list(zip(keys.hashes, keys.offsets, keys.times, strict=True))


def _tag_rows(keys: StretchKeys) -> Rows:
    return list(zip(keys.tag_hashes, keys.tag_offsets, keys.tag_times, strict=True))


@pytest.mark.parametrize("topics", [["T"], ["T", "U"] * (COUNT // 2)])
@pytest.mark.parametrize(
    "texts",
    [
        [f"7F00000100003D4E{number:016X}" for number in range(COUNT)],
        [f"{number:05d}" for number in range(COUNT)],
        ["same"] * COUNT,
        [f"{number:02d}{'x' * 22}" for number in range(COUNT)],
        [f"{number:02d} {number:03d}" for number in range(COUNT)],
        [f"ü{number:02d}" for number in range(COUNT)],
    ],
)
def test_keys_of_one_length(topics: list[str], texts: list[str]) -> None:
    keys = StretchKeys()
    keys.add_alike(topics, OFFSETS, TIMES, [text.encode() for text in texts], several=True)
    wanted = [
        (index_key_hash(topic, word), offset, time)
        for topic, offset, time, text in zip(topics * (COUNT // len(topics)), OFFSETS, TIMES, texts, strict=True)
        for word in text.split(" ")
    ]
    assert _rows(keys) == wanted


def test_keys_stay_beside_their_offsets_however_they_come() -> None:
    keys = StretchKeys()
    texts = [f"{number:08d}".encode() for number in range(COUNT)]
    keys.add_key("T", 1, 2, "first")
    keys.add_alike(["T"], OFFSETS, TIMES, texts, several=False)
    keys.add_key("T", 3, 4, "last")
    rows = _rows(keys)
    assert rows[0] == (index_key_hash("T", "first"), 1, 2)
    assert rows[1] == (index_key_hash("T", "00000000"), OFFSETS[0], TIMES[0])
    assert rows[-1] == (index_key_hash("T", "last"), 3, 4)


def test_tags() -> None:
    keys = StretchKeys()
    keys.add_tag("T", OFFSETS[:2], TIMES[:2], b"a")
    keys.add_tags(["T"], OFFSETS[2:4], TIMES[2:4], [b"a", b"b"])
    keys.add_tags(["T", "U"], OFFSETS[4:6], TIMES[4:6], [b"", b"b"])
    keys.add_tags(["T"], OFFSETS[6:8], TIMES[6:8], [b"", b""])
    names = [("T", "a"), ("T", "a"), ("T", "a"), ("T", "b"), ("U", "b")]
    hashes = [index_key_hash(topic, tag_key(tag)) for topic, tag in names]
    places = [0, 1, 2, 3, 5]
    assert _tag_rows(keys) == [(number, OFFSETS[at], TIMES[at]) for number, at in zip(hashes, places, strict=True)]
