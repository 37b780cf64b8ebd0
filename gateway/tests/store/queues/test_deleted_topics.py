"""Deleted topics stay deleted, whatever a start has to read again."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from gateway.store.disk.paths import StorePaths
from gateway.store.message_store import MessageStore
from gateway.store.queues import deleted_topics
from gateway.store.queues.deleted_topics import DeletedTopics
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
    for topic, log_end in (("A", 100), ("B", 200), ("A", 300)):
        file.note(topic, log_end)
        file.save()
    assert _file(tmp_path).offsets == {"A": 300, "B": 200}
    file.trim(200, 1000)
    assert _file(tmp_path).offsets == {"A": 300}


def test_of_too_many_deletions_those_farthest_back_in_the_log_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_topics, "MAX_TOPICS", 2)
    file = _file(tmp_path)
    for topic, log_end in (("A", 300), ("B", 100), ("C", 200)):
        file.note(topic, log_end)
    file.save()
    assert _file(tmp_path).offsets == file.offsets == {"A": 300, "C": 200}


def test_a_deletion_that_could_not_be_saved_is_saved_later(tmp_path: Path) -> None:
    disk = Disk()
    file = DeletedTopics(disk, StorePaths(tmp_path))
    file.note("A", 300)
    disk.fail("write", "gateway-deleted", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        file.save()
    disk.fault = None
    file.save()
    assert _file(tmp_path).offsets == {"A": 300}


def test_a_deletion_that_is_taken_back_leaves_what_was_before(tmp_path: Path) -> None:
    file = _file(tmp_path)
    file.note("A", 100)
    file.note("A", 300)
    file.note("B", 300)
    file.save()
    file.take_back("A", 100)
    file.take_back("B", None)
    file.save()
    assert _file(tmp_path).offsets == {"A": 100}


def test_what_the_log_lost_with_its_end_does_not_hide_what_is_written_there_next(tmp_path: Path) -> None:
    file = _file(tmp_path)
    file.note("A", 300)
    file.trim(0, 120)
    assert _file(tmp_path).offsets == {"A": 120}
    file.trim(0, 0)
    assert _file(tmp_path).offsets == {}


def test_a_damaged_file_is_told_and_counts_as_empty(tmp_path: Path) -> None:
    file = _file(tmp_path)
    file.note("A", 300)
    file.save()
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
