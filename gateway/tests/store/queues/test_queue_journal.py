"""The list of queues is kept while the store runs, and what a start makes of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gateway.store.disk.paths import StorePaths
from gateway.store.message_store import MessageStore
from gateway.store.queues.queue_ends import parse_list
from gateway.store.queues.queue_journal import QueueJournal
from gateway.tests.store.small_store import ASYNC, SMALL, Disk, bodies, killed, message, opened, put, small_store

NEXT_RUN = "the system was started again"


class Watching(Disk):
    """Remembers which files were opened.

    :param run: of the system.
    """

    def __init__(self, run: str = "first") -> None:
        super().__init__()
        self.run = run
        self.queue_files: list[str] = []

    def open(self, path: Path, *, create: bool = False) -> int:
        if "consumequeue" in str(path):
            self.queue_files.append("/".join(path.parts[-3:-1]))
        return super().open(path, create=create)

    def system_run(self) -> str:
        return self.run


def _running(root: Path, count: int = 12) -> MessageStore:
    """An open store with one message in each of some queues, all of it flushed."""
    store = opened(root, disk=Watching())
    for number in range(count):
        put(store, message(b"%d" % number, queue_id=number))
    store.flush()
    return store


def _restarted(root: Path, run: str = "first") -> tuple[MessageStore, set[str]]:
    """A start, and the queues it opened."""
    disk = Watching(run)
    store = small_store(root, disk=disk)
    store.open()
    return store, set(disk.queue_files)


def _list(root: Path) -> Path:
    return root / "gateway-queues"


def test_after_a_kill_only_queues_that_changed_since_the_last_flush_are_opened(tmp_path: Path) -> None:
    store = _running(tmp_path / "s")
    put(store, message(b"more", queue_id=3))
    store, opened_queues = _restarted(killed(tmp_path / "s"))
    assert opened_queues <= {"T/3", "T/11"}, "the one that changed, and that of the last message listed"
    assert [store.max_offset("T", number) for number in range(12)] == [1, 1, 1, 2, *[1] * 8]
    assert bodies(store, queue_id=3) == [b"3", b"more"]


def test_queues_that_are_new_since_the_last_flush_are_found(tmp_path: Path) -> None:
    store = _running(tmp_path / "s")
    put(store, message(b"of T", queue_id=99))
    put(store, message(b"of U", topic="U"))
    store, _ = _restarted(killed(tmp_path / "s"))
    assert (bodies(store, queue_id=99), bodies(store, "U")) == ([b"of T"], [b"of U"])


@pytest.mark.parametrize("run", [NEXT_RUN, ""])
def test_after_a_start_of_the_system_all_queues_are_looked_at(tmp_path: Path, run: str) -> None:
    _running(tmp_path / "s")
    store, opened_queues = _restarted(killed(tmp_path / "s"), run)
    assert len(opened_queues) == 12
    assert [bodies(store, queue_id=number) for number in range(12)] == [[b"%d" % number] for number in range(12)]


def test_a_system_that_does_not_tell_its_runs_apart_gets_all_queues_looked_at(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", disk=Watching(""))
    put(store, b"one")
    put(store, message(b"two", queue_id=1))
    store.flush()
    assert _restarted(killed(tmp_path / "s"), "")[1] == {"T/0", "T/1"}


def test_a_proper_stop_counts_over_a_start_of_the_system(tmp_path: Path) -> None:
    _running(tmp_path / "s").close()
    assert _restarted(tmp_path / "s", NEXT_RUN)[1] == {"T/11"}
    assert _restarted(killed(tmp_path / "s"), NEXT_RUN)[1] == {"T/11"}, "a kill in that run"
    assert len(_restarted(killed(tmp_path / "s", 1), "first")[1]) == 12


def test_a_list_behind_the_checkpoint_is_not_relied_on(tmp_path: Path) -> None:
    store = _running(tmp_path / "s")
    before = _list(tmp_path / "s").read_bytes()
    put(store, message(b"more", queue_id=3))
    store.flush()
    copy = killed(tmp_path / "s")
    _list(copy).write_bytes(before)
    store, opened_queues = _restarted(copy)
    assert len(opened_queues) == 12
    assert bodies(store, queue_id=3) == [b"3", b"more"]


def test_after_a_kill_a_queue_that_is_gone_is_made_again(tmp_path: Path) -> None:
    _running(tmp_path / "s")
    copy = killed(tmp_path / "s")
    (copy / "consumequeue" / "T" / "3" / f"{0:020d}").unlink()
    (copy / "consumequeue" / "T" / "3").rmdir()
    store, _ = _restarted(copy)
    assert bodies(store, queue_id=3) == [b"3"]


def test_after_a_kill_a_queue_file_that_somebody_changed_is_looked_at(tmp_path: Path) -> None:
    _running(tmp_path / "s")
    copy = killed(tmp_path / "s")
    path = copy / "consumequeue" / "T" / "3" / f"{0:020d}"
    path.write_bytes(bytes(200))
    os.utime(path, ns=(1, 1))
    store, _ = _restarted(copy)
    assert bodies(store, queue_id=3) == [b"3"]


def test_with_async_flush_a_line_tells_of_units_below_its_end_only(tmp_path: Path) -> None:
    store = opened(tmp_path, ASYNC)
    put(store, b"one")
    put(store, b"two")
    (queue,) = store._queues
    end = queue.covered_end()
    assert queue.state(end) == (0, 0, -1, -1, -1, -1), "no unit has a file"
    store._queues.write_held()
    put(store, b"three")
    assert queue.state(end)[:3] == (2, 0, end)
    assert queue.state(end - 1)[0] == 1
    assert queue.state(0)[0] == 0


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_what_comes_during_a_flush_is_listed_by_the_next_one(tmp_path: Path, is_killed: bool) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", ASYNC, disk=disk)
    put(store, message(b"one", queue_id=0))
    store.flush()

    def comes(operation: str, path: Path) -> None:
        if operation == "sync" and path.parent.name == "commitlog":
            disk.fault = None
            put(store, message(b"during", queue_id=0))

    put(store, message(b"before", queue_id=1))
    disk.fault = comes
    store.flush()
    put(store, message(b"after", queue_id=1))
    store.flush()
    if not is_killed:
        store.close()
    again, _ = _restarted(killed(tmp_path / "s") if is_killed else tmp_path / "s")
    assert again.max_offset("T", 0) == 2
    assert bodies(again, queue_id=0) == [b"one", b"during"]


def test_where_a_queue_begins_is_listed_after_a_deletion(tmp_path: Path) -> None:
    store = _running(tmp_path / "s")
    for _ in range(6):
        put(store, message(b"x" * 3000, queue_id=0))
    for path in (tmp_path / "s" / "commitlog").iterdir():
        os.utime(path, (1, 1))
    store.delete_expired(1 << 41, asked=True)
    assert store.min_offset("T", 11) == 1
    store.flush()
    store, opened_queues = _restarted(killed(tmp_path / "s"))
    assert opened_queues == {"T/0"}
    assert [store.min_offset("T", number) for number in range(1, 12)] == [1] * 11


def test_a_topic_that_was_deleted_is_not_taken_for_lost_and_neither_when_it_is_made_anew(tmp_path: Path) -> None:
    store = _running(tmp_path / "s")
    put(store, message(b"other", topic="U"))
    store.delete_topic("T")
    store.flush()
    copy = killed(tmp_path / "s")
    store, _ = _restarted(copy)
    assert set(store.queues()) == {("U", 0)}
    assert put(store, message(b"anew", queue_id=3)).queue_offset == 0
    store.flush()
    store, _ = _restarted(killed(copy))
    assert set(store.queues()) == {("U", 0), ("T", 3)}
    assert bodies(store, queue_id=3) == [b"anew"]


def test_a_list_that_has_doubled_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.queues.queue_journal.MIN_GROWTH_BYTES", 500)
    store = opened(tmp_path / "s")
    sizes = []
    for number in range(40):
        put(store, message(b"%d" % number, queue_id=number % 3))
        store.flush()
        sizes.append(_list(tmp_path / "s").stat().st_size)
    assert max(sizes) < 1500
    assert sizes != sorted(sizes)
    store, _ = _restarted(killed(tmp_path / "s"))
    assert [store.max_offset("T", number) for number in range(3)] == [14, 13, 13]


def test_a_disk_without_room_for_a_line_loses_none(tmp_path: Path) -> None:
    disk = Watching()
    store = opened(tmp_path / "s", disk=disk)
    put(store, b"one")
    disk.fail("write", "gateway-queues", errno.ENOSPC)
    assert not store.flush()
    put(store, message(b"two", queue_id=1))
    disk.fault = None
    assert store.flush()
    ends = parse_list(_list(tmp_path / "s").read_bytes())
    assert sorted(ends) == [("T", 0, 1), ("T", 1, 1)]
    assert store.refusal is None


def test_what_a_kill_left_of_a_line_is_cut_off(tmp_path: Path) -> None:
    _running(tmp_path / "s")
    copy = killed(tmp_path / "s")
    whole = _list(copy).read_bytes()
    _list(copy).write_bytes(whole + b'4711 [12, "half a li')
    store, opened_queues = _restarted(copy)
    assert opened_queues == {"T/11"}
    put(store, b"more")
    store.flush()
    data = _list(copy).read_bytes()
    assert data.startswith(whole)
    assert parse_list(data).bytes_read == len(data)


def test_a_list_that_does_not_hold_is_removed_when_a_topic_is_deleted(tmp_path: Path) -> None:
    paths = StorePaths(tmp_path)
    paths.queue_ends.write_bytes(b"#3 200\n")
    journal = QueueJournal(Disk(), paths)
    assert not journal.is_current
    journal.forget_topic("T")
    assert not paths.queue_ends.exists()
    journal.sync()
    journal.close()


@pytest.mark.parametrize("settings", [SMALL, ASYNC], ids=["sync", "async"])
def test_a_stop_writes_a_line_and_not_the_list(tmp_path: Path, settings: object) -> None:
    store = _running(tmp_path)
    store.close()
    store, _ = _restarted(tmp_path)
    before = _list(tmp_path).read_bytes()
    put(store, message(b"more", queue_id=3))
    store.close()
    after = _list(tmp_path).read_bytes()
    assert after.startswith(before)
    assert len(after) - len(before) < 200


def test_a_kill_in_the_middle_of_a_topics_deletion_does_not_bring_its_offsets_back(tmp_path: Path) -> None:
    store = _running(tmp_path / "s")
    put(store, message(b"other", topic="U"))
    store.flush()
    listed = _list(tmp_path / "s").read_bytes()
    store.delete_topic("T")
    copy = killed(tmp_path / "s")
    _list(copy).write_bytes(listed)  # the deletion is remembered, and not yet in the list
    store, _ = _restarted(copy)
    assert set(store.queues()) == {("U", 0)}
    assert put(store, message(b"anew", queue_id=3)).queue_offset == 0
