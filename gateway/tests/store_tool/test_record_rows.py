"""Reading in bulk gives what reading one by one gives."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.store_tool import record_rows
from gateway.store_tool.record_rows import RecordRows
from gateway.tests.store.small_store import HOST
from wire.message.record import OutgoingMessage, build_record

V6 = bytes(16) + HOST[4:]
Sent: TypeAlias = tuple[str, int, int, bytes, list[tuple[str, str]], bool]

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


@settings(max_examples=150, deadline=None)
@given(messages=MESSAGES, plain=st.booleans())
def test_a_batch_and_single_records_agree(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Sent], plain: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "file"
    content = b""
    offsets: dict[tuple[str, int], int] = {}
    for topic, queue_id, flags, body, properties, v6 in messages:
        if plain:
            topic, flags, v6 = topic[:1], 0, False
        packed = "".join(f"{name}\x01{value}\x02" for name, value in properties).encode()
        message = OutgoingMessage(topic, queue_id, 0, flags, 1, V6 if v6 else HOST, HOST, 0, 0, body, packed)
        queue_offset = offsets[topic, queue_id] = offsets.get((topic, queue_id), -1) + 1
        content += build_record(message, queue_offset, 4096 + len(content), 1000 + len(content))
    path.write_bytes(content)
    assert _taken(path, len(content), 4096) == _taken(path, len(content), 0)


def _taken(path: Path, size: int, batch: int) -> tuple[object, ...]:
    before = record_rows.BATCH_RECORDS
    record_rows.BATCH_RECORDS = batch
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as data:
            rows = RecordRows(data, 4096, size)
            assert rows.take(0, size) == size
            keys = rows.keys()
    finally:
        record_rows.BATCH_RECORDS = before
    runs: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for run in rows.runs:
        runs.setdefault((run.topic, run.queue_id), []).append((run.first, bytes(run.units)))
    tags = sorted(zip(keys.tag_hashes, keys.tag_offsets, keys.tag_times, strict=True))
    found = sorted(zip(keys.hashes, keys.offsets, keys.times, strict=True))
    figures = (rows.records, rows.hidden, rows.end, rows.first_stored_ms, rows.last_stored_ms)
    return runs, found, tags, figures
