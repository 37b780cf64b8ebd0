"""The bytes that ``store verify`` reads grow with the directory, not with log files times index files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store_tool.checks import queue_check
from gateway.store_tool.checks.index_part import IndexWords
from gateway.tests.doubling import MOST_GROWTH
from gateway.tests.store_tool.small_directory import fill, run

MESSAGES = 250
QUEUES = 4
"""That ``fill`` writes to."""


def test_point_3_verify_reads_as_much_as_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    entries = IndexWords.entries

    def counted(words: IndexWords, first: int, count: int) -> object:
        read.append(count)
        return entries(words, first, count)

    monkeypatch.setattr(IndexWords, "entries", counted)
    found: list[tuple[int, int]] = []
    for messages in (MESSAGES, 2 * MESSAGES):
        directory = tmp_path / str(messages)
        fill(directory, messages)
        read.clear()
        assert run("verify", directory).exit_code == 0
        found.append((sum(read), len(read)))
    (single, reads), (double, more_reads) = found
    assert double <= MOST_GROWTH * single, "entries read"
    assert more_reads <= MOST_GROWTH * reads, "reads"


def test_point_3_verify_looks_at_a_queue_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = queue_check.UnitReader.read

    def counted(reader: queue_check.UnitReader, topic: str, queue_id: int, offset: int, count: int) -> bytes:
        reads.append(count)
        return read(reader, topic, queue_id, offset, count)

    monkeypatch.setattr(queue_check.UnitReader, "read", counted)
    fill(tmp_path, MESSAGES, delays=False)
    assert len(list((tmp_path / "commitlog").iterdir())) > 3, (
        "the units of a queue come from several stretches of the log"
    )
    assert run("verify", tmp_path).exit_code == 0
    assert len(reads) == QUEUES
