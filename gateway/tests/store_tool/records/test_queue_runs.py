"""Units by queue: rows in a row are one run, and what is special is left to others."""

from __future__ import annotations

import struct

from gateway.store.durability.dispatch import SCHEDULE_TOPIC
from gateway.store_tool.records.queue_runs import QueueRows, QueueRuns
from gateway.tests.store.small_store import HOST
from wire.disk.consume_queue import build_unit
from wire.message.java_hash import java_string_hash
from wire.message.record import OutgoingMessage, build_record
from wire.message.record_layout import HEADS

ONE, OTHER = (0, b"\x01a"), (1, b"\x01a")
CODE = struct.pack(">q", 3)


def _head(queue_offset: int, commit_log_offset: int) -> bytes:
    message = OutgoingMessage("a", 0, 0, 0, 1, HOST, HOST, 0, 0, b"", b"")
    return build_record(message, queue_offset, commit_log_offset, 1)[: HEADS[0].size]


def test_rows_of_several_blocks_are_one_run() -> None:
    runs = QueueRuns()
    assert runs.know([ONE, OTHER])
    rows = QueueRows(runs, 100)
    rows.add({OTHER: [_head(7, 0)], ONE: [_head(4, 100)]}, CODE)
    rows.add({ONE: [_head(5, 200), _head(6, 300)]}, CODE)
    rows.flush()
    assert [(run.queue_id, run.first, run.end) for run in runs.runs] == [(1, 7, 8), (0, 4, 7)]
    assert bytes(runs.runs[1].units) == b"".join(build_unit(100 * at, 100, 3) for at in (1, 2, 3))


def test_each_row_has_its_own_code_or_all_have_one() -> None:
    runs = QueueRuns()
    assert runs.know([ONE])
    rows = QueueRows(runs, 100)
    rows.add({ONE: [_head(0, 0)]}, CODE)
    rows.add({ONE: [_head(1, 100) + struct.pack(">q", 9)]}, None)
    rows.add({ONE: [_head(2, 200)]}, struct.pack(">q", 5))
    rows.flush()
    wanted = [build_unit(0, 100, 3), build_unit(100, 100, 9), build_unit(200, 100, 5)]
    assert [bytes(run.units) for run in runs.runs] == [b"".join(wanted)]


def test_a_hole_in_a_queue_begins_a_run() -> None:
    runs = QueueRuns()
    assert runs.know([ONE])
    rows = QueueRows(runs, 100)
    rows.add({ONE: [_head(0, 0), _head(2, 100), _head(1, 200)]}, CODE)
    rows.flush()
    assert [(run.first, run.end) for run in runs.runs] == [(0, 1), (2, 3), (1, 2)]


def test_delayed_messages_and_unreadable_topics_are_left_to_others() -> None:
    runs = QueueRuns()
    assert not runs.know([(0, bytes((len(SCHEDULE_TOPIC),)) + SCHEDULE_TOPIC.encode())])
    assert not runs.know([(0, b"\x01\xff")])
    assert runs.know([ONE, OTHER])


def test_codes_are_those_of_the_tags() -> None:
    runs = QueueRuns()
    for _ in range(2):
        assert runs.codes([b"", b"TagA", "ü".encode()]) == [0, java_string_hash("TagA"), java_string_hash("ü")]
