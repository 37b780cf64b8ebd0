"""Deleted topics stay deleted, whatever a start has to read again."""

from __future__ import annotations

import shutil
from pathlib import Path

from gateway.store.deleted_topics import DeletedTopics
from gateway.store.message_store import MessageStore
from gateway.store.paths import StorePaths
from gateway.tests.store.small_store import Disk, bodies, killed, message, opened, put, small_store


def _file(root: Path) -> DeletedTopics:
    file = DeletedTopics(Disk(), StorePaths(root))
    assert file.load() is None
    return file


def _filled(directory: Path) -> MessageStore:
    store = opened(directory)
    for number in range(20):
        put(store, message(b"old %d" % number, topic="Old"))
        put(store, message(b"kept %d" % number, topic="Kept"))
    return store


def test_deletions_are_remembered_until_the_log_does_not_reach_back(tmp_path: Path) -> None:
    file = _file(tmp_path)
    file.delete("A", 100)
    file.delete("B", 200)
    file.delete("A", 300)
    assert _file(tmp_path).offsets == {"A": 300, "B": 200}
    file.trim(200, 1000)
    assert _file(tmp_path).offsets == {"A": 300}


def test_what_the_log_lost_with_its_end_does_not_hide_what_is_written_there_next(tmp_path: Path) -> None:
    file = _file(tmp_path)
    file.delete("A", 300)
    file.trim(0, 120)
    assert _file(tmp_path).offsets == {"A": 120}
    file.trim(0, 0)
    assert _file(tmp_path).offsets == {}


def test_a_damaged_file_is_told_and_counts_as_empty(tmp_path: Path) -> None:
    _file(tmp_path).delete("A", 300)
    path = StorePaths(tmp_path).deleted_topics
    path.write_bytes(path.read_bytes().replace(b"300", b"301"))
    file = DeletedTopics(Disk(), StorePaths(tmp_path))
    remark = file.load()
    assert remark is not None
    assert "gateway-deleted is not used (its checksum is wrong)" in remark
    assert file.offsets == {}


def test_a_deleted_topic_does_not_come_back_with_a_kill(tmp_path: Path) -> None:
    store = _filled(tmp_path / "s")
    store.delete_topic("Old")
    directory = killed(tmp_path / "s")
    (directory / "checkpoint").unlink()
    store = opened(directory)
    assert [topic for topic, _ in store.queues()] == ["Kept"]
    assert bodies(store, "Kept") == [b"kept %d" % number for number in range(20)]
    assert put(store, message(b"new", topic="Old")).queue_offset == 0


def test_a_deleted_topic_does_not_come_back_when_all_queues_are_rebuilt(tmp_path: Path) -> None:
    store = _filled(tmp_path)
    store.delete_topic("Old")
    put(store, message(b"new 0", topic="Old"))
    store.close()
    shutil.rmtree(tmp_path / "consumequeue")
    store = small_store(tmp_path)
    assert store.open().rebuilt_queues == 2
    assert bodies(store, "Old") == [b"new 0"]
    assert len(bodies(store, "Kept")) == 20
