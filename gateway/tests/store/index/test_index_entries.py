"""The entries that messages get, and the way in which entries wait."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store.index import index_entries
from gateway.store.index.index_entries import (
    MAX_SECONDS,
    ROW_BYTES,
    IndexEntries,
    entry_seconds,
    rows_from,
    rows_without,
    tag_key,
)
from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.store.small_store import START_MS, message
from wire.disk.index_file import entry_may_match
from wire.message.java_hash import index_key_hash
from wire.tests.message.strategies import QUICK

_ROW = struct.Struct(">iqq")


@dataclass(frozen=True)
class Keys:
    """The keys of one message."""

    topic: str
    unique_key: str
    words: str
    tag: str

    def hashes(self) -> list[int]:
        """Return the hashes of the entries, in their order."""
        keys = [self.unique_key, *self.words.split(" "), tag_key(self.tag) if self.tag else ""]
        return [index_key_hash(self.topic, key) for key in keys if key]


_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\x01\x02"), max_size=12)
_unique_key = (
    _text
    | st.integers(0, 2**16).map(lambda number: f"7F00000100003D4E{number:016X}")
    | st.integers(0, 2**16).map(lambda number: f"7F00000100003D4E{number:X}")
)
_keys = st.builds(
    Keys, st.sampled_from(["T", "Orders", "täglich"]), _unique_key, _text, st.sampled_from(["", "a", "ü"])
)


def entries_of(messages: list[Keys]) -> IndexEntries:
    entries = IndexEntries()
    for number, keys in enumerate(messages):
        named = {"UNIQ_KEY": keys.unique_key, "KEYS": keys.words, "TAGS": keys.tag}
        own = {name: value for name, value in named.items() if value}
        sent = message(topic=keys.topic)
        sent.property_map = own
        entries.add_outcomes(
            [PutResult(PutStatus.PUT_OK, sent).at(None, 0, number * 100, 100, START_MS + number)], 1_000
        )
    return entries


def rows_of(messages: list[Keys]) -> list[tuple[int, int, int]]:
    return [
        (key_hash, number * 100, START_MS + number)
        for number, keys in enumerate(messages)
        for key_hash in keys.hashes()
    ]


def unpacked(rows: bytes) -> list[tuple[int, ...]]:
    return list(_ROW.iter_unpack(rows))


@QUICK
@given(st.lists(_keys, max_size=20))
def test_a_message_has_an_entry_for_each_of_its_keys_and_its_tag(messages: list[Keys]) -> None:
    entries = entries_of(messages)
    assert unpacked(entries.rows()) == rows_of(messages)
    assert entries.count == len(rows_of(messages))
    assert entries.message_count == len([keys for keys in messages if keys.hashes()])


@QUICK
@given(st.lists(_keys, max_size=20), st.integers(1, 5), st.integers(1, 20))
def test_the_entries_of_a_message_are_taken_together(messages: list[Keys], slice_messages: int, most: int) -> None:
    entries, taken = entries_of(messages), b""
    while entries.message_count:
        rows, count = entries.first(slice_messages, most)
        offsets = [offset for _, offset, _ in unpacked(rows)]
        assert 0 < len(set(offsets)) == count <= slice_messages
        assert len([offset for offset in offsets if offset != offsets[-1]]) < most, "only the last message is over it"
        assert count == min(slice_messages, entries.message_count) or len(offsets) >= most
        assert entries.first_offset == offsets[0]
        entries.drop(rows, count)
        taken += rows
    assert unpacked(taken) == rows_of(messages)
    assert entries.count == 0


def test_what_comes_behind_a_slice_waits_behind_the_rest() -> None:
    messages = [Keys("T", f"u{number}", "k", "") for number in range(4)]
    entries = entries_of(messages[:3])
    entries.drop(*entries.first(2, 100))
    late = message(UNIQ_KEY="u3", KEYS="k")
    entries.add_outcomes([PutResult(PutStatus.PUT_OK, late).at(None, 0, 300, 100, START_MS + 3)], 1_000)
    assert (entries.message_count, entries.first_offset) == (2, 200)
    assert unpacked(entries.rows()) == rows_of(messages)[4:]


def test_rows_of_earlier_messages_and_known_ones_are_left_out() -> None:
    messages = [Keys("T", f"u{number}", "", "a") for number in range(4)]
    rows, wanted = entries_of(messages).rows(), rows_of(messages)
    assert unpacked(rows_from(rows, 0)) == wanted
    assert unpacked(rows_from(rows, 101)) == wanted[4:]
    assert rows_from(rows, 301) == b""
    known = (wanted[2][0], wanted[2][1])
    assert unpacked(rows_without(rows, lambda key_hash, offset: (key_hash, offset) == known)) == wanted[:2] + wanted[3:]
    assert len(rows) == len(wanted) * ROW_BYTES


def test_the_topics_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_entries, "MAX_KNOWN_TOPICS", 3)
    messages = [Keys(f"topic-{number % 7}", f"u{number}", "", "a") for number in range(20)]
    entries = entries_of(messages)
    assert unpacked(entries.rows()) == rows_of(messages)
    assert len(entries._topics) <= 3


@pytest.mark.parametrize(
    ("begin_ms", "stored_at_ms", "seconds"),
    [
        (0, 5_000, 0),
        (10_000, 10_999, 0),
        (10_000, 11_000, 1),
        (10_000, 9_000, 0),
        (1, 10**16, MAX_SECONDS),
        (0, 2**63 - 1, 0),
        (1, -(2**63), 0),
        (2**63 - 1, -(2**63), 0),
        (-(2**63), 2**63 - 1, 0),
    ],
)
def test_entries_keep_clipped_seconds_since_the_begin(begin_ms: int, stored_at_ms: int, seconds: int) -> None:
    assert entry_seconds(begin_ms, stored_at_ms) == seconds


@QUICK
@given(st.integers(1, 2**41), st.integers(0, 2**31), st.integers(0, 10**6), st.integers(0, 10**6))
def test_an_entry_within_the_range_always_matches(begin_ms: int, later: int, before: int, after: int) -> None:
    stored_at_ms = begin_ms + later
    seconds = entry_seconds(begin_ms, stored_at_ms)
    assert entry_may_match(begin_ms, seconds, stored_at_ms - before, stored_at_ms + after)
