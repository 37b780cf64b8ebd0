"""Reading in bulk gives what reading one by one gives."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.store_tool.records import record_rows, record_shape
from gateway.store_tool.records.record_rows import RecordRows
from gateway.tests.store.small_store import HOST
from wire.message.record import HEADS, OutgoingMessage, build_record

V6 = bytes(16) + HOST[4:]
Sent: TypeAlias = tuple[str, int, int, bytes, list[tuple[str, str]], bool]
Raw: TypeAlias = tuple[str, int, int, bytes, bytes, bool]
"""Topic, queue id, system flag, body, properties, and whether the client has an IPv6 address."""

PROPERTIES = st.lists(
    st.tuples(
        st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "MYTAGS", "TAGS2", "X"]),
        st.text(st.characters(codec="utf-8", exclude_characters="\x02"), max_size=12),
    ),
    max_size=5,
)
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "bb", "ü", "SCHEDULE_TOPIC_XXXX", "t" * 200]),
        st.integers(0, 2),
        st.sampled_from([0, 4, 8, 12]),
        st.binary(max_size=20),
        PROPERTIES,
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


# Of one size each, so that records are of one shape, or nearly: what differs lies where values are cut.
ALIKE = st.sampled_from(
    [
        b"UNIQ_KEY\x01abcd\x02TAGS\x01aa\x02",
        b"UNIQ_KEY\x01abce\x02TAGS\x01bb\x02",
        b"UNIQ_KEY\x01ab\xff\xfe\x02TAGS\x01\xc3\xbc\x02",
        b"UNIQ_KEY\x01abcdef\x02TAGS\x01\x02",
        b"UNIQ_KEY\x01abc\x02\x02TAGS\x01cc\x02",
        b"TAGS\x01aa\x02UNIQ_KEY\x01abcd\x02",
        b"UNIQ_KEY\x01abcd\x02TAGS\x01a\x02\x02",
        b"UNIQ_KEY\x01abcd\x02TAGS\x01aaa",
        b"UNIQ_KEZ\x01abcd\x02TAGS\x01aa\x02",
        b"UNIQ_KEY\x01abcd\x02KEYS\x01aa\x02",
        b"UNIQ_KEY\x01abcd\x02KEYS\x01a \x02",
        b"TAGS\x01ab\x02TAGS\x01ab\x02TAGS\x01a",
        b"MYTAGS\x01abcdefg\x02TAGS\x01a\x02",
    ]
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]), st.integers(0, 1), st.sampled_from([0, 0, 0, 4, 8]), ALIKE, st.integers(1, 9)
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(messages=MESSAGES, plain=st.booleans())
def test_a_batch_and_single_records_agree(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Sent], plain: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "file"
    if plain:
        messages = [(sent[0][:1], sent[1], 0, sent[3], sent[4], False) for sent in messages]
    size = _write(
        path,
        [
            (topic, queue_id, flags, body, "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode(), v6)
            for topic, queue_id, flags, body, pairs, v6 in messages
        ],
    )
    assert _taken(path, size, batch=4096) == _taken(path, size, batch=0)


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, v6=st.booleans(), block=st.sampled_from([1, 1000, 1 << 20]))
def test_records_of_one_shape_and_single_records_agree(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, int, bytes, int]], v6: bool, block: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "file"
    records = [
        (topic, queue_id, flags, bytes(7), properties, v6)
        for topic, queue_id, flags, properties, count in rows
        for _ in range(count)
    ]
    size = _write(path, records)
    assert _taken(path, size, batch=4096, run=2, block=block) == _taken(path, size, batch=0)


def test_a_row_of_one_shape_is_read_at_once(tmp_path: Path) -> None:
    record = ("a", 0, 0, bytes(7), b"UNIQ_KEY\x01abcd\x02TAGS\x01aa\x02", False)
    size = _write(tmp_path / "file", [record] * 50)
    with (tmp_path / "file").open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as data:
        rows = RecordRows(data, 4096, size)
        assert rows._take_run(0, size) == size
    assert (rows.records, rows.end, len(rows.runs)) == (50, size, 1)


@pytest.mark.parametrize("field", ["magic", "body_crc", "queue_offset", "commit_log_offset", "queue_id", "body_bytes"])
@pytest.mark.parametrize("number", [0, 20, 49])
def test_a_damaged_record_ends_a_row_of_one_shape(tmp_path: Path, field: str, number: int) -> None:
    path = tmp_path / "file"
    size = _write(path, [("a", 0, 0, bytes(7), b"UNIQ_KEY\x01abcd\x02", False)] * 50)
    content = bytearray(path.read_bytes())
    content[number * size // 50 + HEADS[0].offset(field)] ^= 0x80
    path.write_bytes(content)
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as data:
        rows = RecordRows(data, 4096, size)
        assert rows.take(0, size) == number * size // 50
    assert rows.records == number


def _write(path: Path, records: list[Raw]) -> int:
    """A file at byte 4096 of a log; its size."""
    content = b""
    offsets: dict[tuple[str, int], int] = {}
    for topic, queue_id, flags, body, properties, v6 in records:
        message = OutgoingMessage(topic, queue_id, 0, flags, 1, V6 if v6 else HOST, HOST, 0, 0, body, properties)
        queue_offset = offsets[topic, queue_id] = offsets.get((topic, queue_id), -1) + 1
        content += build_record(message, queue_offset, 4096 + len(content), 1000 + len(content))
    path.write_bytes(content)
    return len(content)


def _taken(path: Path, size: int, *, batch: int, run: int = 1 << 30, block: int = 1 << 20) -> tuple[object, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_rows, "BATCH_RECORDS", batch)
        patch.setattr(record_rows, "LEAST_RECORDS", run)
        patch.setattr(record_shape, "LEAST_RECORDS", run)
        patch.setattr(record_shape, "BLOCK_BYTES", block)
        with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as data:
            rows = RecordRows(data, 4096, size)
            assert rows.take(0, size) == size
            keys = rows.keys()
    runs: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for part in rows.runs:
        runs.setdefault((part.topic, part.queue_id), []).append((part.first, bytes(part.units)))
    tags = sorted(zip(keys.tag_hashes, keys.tag_offsets, keys.tag_times, strict=True))
    found = sorted(zip(keys.hashes, keys.offsets, keys.times, strict=True))
    figures = (rows.records, rows.hidden, rows.end, rows.first_stored_ms, rows.last_stored_ms)
    return runs, found, tags, figures
