"""A stretch of the log walked in bulk: what single records say, and where they end."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.store.disk.mapped_file import MappedFile
from gateway.store.index.index_entries import tag_key
from gateway.store.log.log_scan import next_record
from gateway.store_tool.checks import stretch_walk
from gateway.store_tool.checks.index_part import StretchKeys
from gateway.store_tool.checks.stretch_walk import LogStretch, WalkResult, walk
from gateway.store_tool.files.directory import ReadOnlyFiles, log_part
from gateway.tests.store.small_store import HOST
from gateway.tests.store_tool.small_directory import fill, flip, log_file, records
from wire.disk.consume_queue import build_unit
from wire.message.flags import SysFlag
from wire.message.java_hash import index_key_hash, java_string_hash
from wire.message.record import HEADS, OutgoingMessage, build_blank, build_record, parse_record

START = 4096
"""Of the file in the log."""
V6 = bytes(16) + HOST[4:]
Sent: TypeAlias = tuple[str, int, int, bytes, bytes, bool]
"""Topic, queue id, system flag, body, properties, and whether the client has an IPv6 address."""
Entry: TypeAlias = tuple[int, int, int, int]
"""Hash, commit log offset, store time, and whether it is of a tag."""

PAIRS = st.lists(
    st.tuples(
        st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "MYTAGS", "TAGS2", "X"]),
        st.text(st.characters(codec="utf-8", exclude_characters="\x02"), max_size=12),
    ),
    max_size=5,
).map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode())
ODD = st.sampled_from(
    [
        b"UNIQ_KEY\x01ab\xff\xfe\x02TAGS\x01\xc3\xbc\x02",
        b"UNIQ_KEY\x01abcdef\x02TAGS\x01\x02",
        b"UNIQ_KEY\x01abc\x02\x02TAGS\x01cc\x02",
        b"UNIQ_KEY\x01abcd\x02TAGS\x01aaa",
        b"UNIQ_KEY\x01abcd\x02KEYS\x01a \x02",
        b"TAGS\x01ab\x02TAGS\x01ab\x02TAGS\x01a",
        b"TAGS\x01ab\x02TAGS\x01\x02",
        b"UNIQ_KEY\x01" + b"k" * 70 + b"1\x02",
        b"UNIQ_KEY\x01" + b"k" * 70 + b"2\x02",
    ]
)
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "bb", "ü", "SCHEDULE_TOPIC_XXXX", "t" * 200]),
        st.integers(0, 2),
        st.sampled_from([0, 0, 4, 8, 12, int(SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP)]),
        st.binary(max_size=20),
        PAIRS | ODD,
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(messages=MESSAGES, chunk=st.sampled_from([1, 150, 1000, 1 << 20]))
def test_a_walk_finds_what_single_records_say(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Sent], chunk: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "file"
    content = _log(messages)
    path.write_bytes(content)
    entries: list[Entry] = []

    def compared(_index: object, keys: StretchKeys, begin: int, end: int) -> object:
        assert (begin, end) == (START, START + len(content))
        entries.extend(zip(keys.hashes, keys.offsets, keys.times, keys.are_tags, strict=True))
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.store.log.log_walk.CHUNK_BYTES", chunk)
        patch.setattr(stretch_walk, "compare_stretch", compared)
        result = walk(LogStretch(path, START, len(content), 0, len(content)))
    assert (_units(result), entries) == _expected(content)
    positions, hidden, long_topics = _figures(content)
    assert (result.records, result.hidden, result.long_topics) == (len(positions), hidden, long_topics)
    times = result.first_stored_at_ms, result.last_stored_at_ms
    assert (result.begin, result.end, result.last_end, times) == (
        *(0, len(content), len(content)),
        (1000, 1000 + positions[-1]),
    )
    firsts = [run.units[:8] for run in result.runs]
    assert firsts == sorted(firsts), "in log order"
    assert (result.gaps, result.is_filled) == ([], False)


def _log(messages: list[Sent]) -> bytes:
    content = b""
    offsets: dict[tuple[str, int], int] = {}
    for topic, queue_id, flags, body, properties, v6 in messages:
        message = OutgoingMessage(topic, queue_id, 0, flags, 1, V6 if v6 else HOST, HOST, 0, 0, body, properties)
        queue_offset = offsets[topic, queue_id] = offsets.get((topic, queue_id), -1) + 1
        content += build_record(message, queue_offset, START + len(content), 1000 + len(content))
    return content


def _units(result: WalkResult) -> dict[tuple[str, int], bytes]:
    found: dict[tuple[str, int], bytes] = {}
    for run in result.runs:
        found[run.topic, run.queue_id] = found.get((run.topic, run.queue_id), b"") + run.units
    return found


def _expected(content: bytes) -> tuple[dict[tuple[str, int], bytes], list[Entry]]:
    units: dict[tuple[str, int], bytes] = {}
    entries: list[Entry] = []
    at = 0
    while at < len(content):
        message = parse_record(content, at)
        find, topic = message.property_map.get, message.topic
        tag = find("TAGS", "")
        code = message.stored_at_ms if topic == "SCHEDULE_TOPIC_XXXX" else java_string_hash(tag)
        kind = message.sys_flag & SysFlag.TRANSACTION_MASK
        if kind in (0, SysFlag.TRANSACTION_COMMIT):
            name = topic, message.queue_id
            units[name] = units.get(name, b"") + build_unit(START + at, message.total_size, code)
        if kind != SysFlag.TRANSACTION_ROLLBACK:
            keys = [find("UNIQ_KEY", ""), *find("KEYS", "").split(" "), tag_key(tag) if tag else ""]
            entries += [
                (index_key_hash(topic, key), START + at, message.stored_at_ms, int(number == len(keys) - 1))
                for number, key in enumerate(keys)
                if key
            ]
        at += message.total_size
    return units, entries


def _figures(content: bytes) -> tuple[list[int], int, int]:
    """Return where records start, how many of them no queue shows, and how many have a topic of over 127 bytes."""
    positions, hidden, long_topics = [0], 0, 0
    while positions[-1] < len(content):
        message = parse_record(content, positions[-1])
        hidden += message.sys_flag & SysFlag.TRANSACTION_PREPARED != 0
        long_topics += len(message.topic.encode()) > 127
        positions.append(positions[-1] + message.total_size)
    return positions[:-1], hidden, long_topics


COUNT = 50
ALIKE: list[Sent] = [("a", 0, 0, bytes(7), b"UNIQ_KEY\x01abcd\x02", False)] * COUNT


@pytest.mark.parametrize("field", ["magic", "body_crc", "queue_offset", "commit_log_offset", "queue_id", "body_bytes"])
@pytest.mark.parametrize("number", [0, 20, 49])
def test_a_damaged_record_is_a_gap_in_the_stretch(tmp_path: Path, field: str, number: int) -> None:
    content = bytearray(_log(ALIKE))
    size = len(content) // COUNT
    content[number * size + HEADS[0].offset(field)] ^= 0x80
    (tmp_path / "file").write_bytes(content)
    result = walk(LogStretch(tmp_path / "file", START, len(content), 0, len(content)))
    assert [(gap.position, gap.end, gap.followed) for gap in result.gaps] == [
        (number * size, (number + 1) * size, number < COUNT - 1)
    ]
    assert all(gap.reason for gap in result.gaps)
    assert result.records == COUNT - 1
    assert sum(len(run.units) // 20 for run in result.runs) == COUNT - 1


def test_a_name_that_no_queue_can_have_is_told_as_a_start_tells_it(tmp_path: Path) -> None:
    content = _log([*ALIKE[:2], ("a/b", 0, 0, b"", b"", False), *ALIKE[:1]])
    (tmp_path / "file").write_bytes(content)
    result = walk(LogStretch(tmp_path / "file", START, len(content), 0, len(content)))
    assert [gap.reason for gap in result.gaps] == ["no queue can be called 0 of topic 'a/b'"]
    assert result.records == 3


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_filler_ends_a_file_and_has_its_size(tmp_path: Path, wrong: int) -> None:
    content = _log(ALIKE)
    filled = content + build_blank(1000 + wrong).ljust(1000, b"\x00")
    (tmp_path / "file").write_bytes(filled)
    result = walk(LogStretch(tmp_path / "file", START, len(filled), 0, len(content) + 8))
    assert (result.is_filled, result.end, result.last_end) == (not wrong, len(filled), len(content))
    reasons = ["the filler says 1001 bytes, 1000 are left of the file"]
    assert [gap.reason for gap in result.gaps] == reasons[:wrong]


@pytest.mark.parametrize("cut", [1, 60, 400, 2000])
def test_two_stretches_of_a_file_have_every_record_once(tmp_path: Path, cut: int) -> None:
    content = _log(ALIKE)
    (tmp_path / "file").write_bytes(content)
    told: list[int] = []
    first = walk(LogStretch(tmp_path / "file", START, len(content), 0, cut), told.append)
    second = walk(LogStretch(tmp_path / "file", START, len(content), cut, len(content)), told.append)
    assert first.records + second.records == COUNT
    assert first.end == first.last_end == second.begin
    assert sum(told) == len(content)


def test_the_next_record_or_filler_is_found_in_any_bytes(tmp_path: Path) -> None:
    fill(tmp_path)
    path = log_file(tmp_path)
    log, size = log_part(path, 0, path.stat().st_size), path.stat().st_size
    places = [position for position, _ in records(tmp_path)]
    filler = places[-1] + records(tmp_path)[-1][1]
    for before, after in zip(places, [*places[1:], filler], strict=True):
        assert next_record(log, before, or_filler=True) == after
    assert next_record(log, places[-1]) is None
    assert next_record(log, filler, or_filler=True) is None
    flip(path, filler + 3)
    assert next_record(log, places[-1], or_filler=True) is None, "it does not reach to the end of the file"
    assert size > filler


class CountingFiles(ReadOnlyFiles):
    """Counts the bytes that are read."""

    read_bytes = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self.read_bytes += size
        return super().pread(fd, size, position)


def test_what_says_that_it_lies_elsewhere_is_not_read_whole(tmp_path: Path) -> None:
    record = build_record(OutgoingMessage("a", 0, 0, 0, 1, HOST, HOST, 0, 0, b"x" * 500_000, b""), 0, 1, 1)
    content = record[:100] * 200 + record
    path, files = tmp_path / "file", CountingFiles()
    path.write_bytes(content)
    log = log_part(path, START, len(content))
    log.list = [MappedFile(files, path, START, len(content))]
    assert next_record(log, START) is None
    assert files.read_bytes < 4 * len(content)


def test_the_search_for_a_near_record_does_not_read_what_lies_far_behind_it(tmp_path: Path) -> None:
    content = _log(ALIKE)
    path, files = tmp_path / "file", CountingFiles()
    path.write_bytes(content.ljust(16 << 20, b"\x00"))
    log = log_part(path, START, 16 << 20)
    log.list = [MappedFile(files, path, START, 16 << 20)]
    assert next_record(log, START) == START + len(content) // COUNT
    assert files.read_bytes < 2 << 20
    assert next_record(log, START + len(content) - 50) is None
