"""Deletion in steps: nobody sees what goes, files go one by one and oldest first, and a kill in between is harmless."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.in_thread import in_this_thread
from gateway.store.disk.files import DiskSpace
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutStatus
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.reading.get_result import GetStatus
from gateway.tests.store.small_store import (
    ASYNC,
    GIB,
    LOG_FILE_BYTES,
    SMALL,
    START_MS,
    Disk,
    Executor,
    bodies,
    killed,
    log_file,
    message,
    opened,
    overwrite,
    put,
    read_all,
    small_store,
)

MUCH_LATER_MS = START_MS + 400 * 86_400_000


def aged(directory: Path, disk: Disk, count: int = 40, **settings: object) -> MessageStore:
    """A store of several files that are all older than their time."""
    store = opened(directory, replace(SMALL, **settings), disk=disk)  # type: ignore[arg-type]
    for number in range(count):
        put(store, message(b"%02d" % number * 200, KEYS=f"k{number}"))
    store.query_by_key("T", "k1", 1, 0, 1 << 60)
    store.flush()
    for path in (directory / "commitlog").iterdir():
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    return store


def names(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in (directory / "commitlog").iterdir())


def test_the_minimum_is_right_as_soon_as_files_are_out_of_sight_and_a_pull_below_it_is_told_so(tmp_path: Path) -> None:
    disk = Disk()
    store = aged(tmp_path, disk)
    deletion = store.deletion
    survey = deletion.survey(MUCH_LATER_MS, asked=True)()
    assert (store.min_offset("T", 0), len(survey.files)) == (0, 2)
    disk.calls.clear()
    assert deletion.detach(survey) == 2
    assert disk.calls == [], "the reactor's thread touches no file"
    low = store.min_offset("T", 0)
    assert low > 10
    assert store.min_commit_log_offset == 2 * LOG_FILE_BYTES
    below = store.get_messages("T", 0, low - 1, 32, 1 << 20)
    assert (below.status, below.next_begin_offset) == (GetStatus.OFFSET_TOO_SMALL, low)
    assert [found.queue_offset for found in read_all(store)] == list(range(low, 40))
    assert store.earliest_stored_at_ms("T", 0) == START_MS


def test_a_queue_begins_later_before_its_first_messages_are_gone(tmp_path: Path) -> None:
    """Otherwise a thread that asks in between finds no message where the queue is said to begin."""
    store = aged(tmp_path, Disk())
    survey = store.deletion.survey(MUCH_LATER_MS, asked=True)()
    seen: list[int] = []

    class Looking(list[tuple[ConsumeQueue, int]]):
        def __iter__(self) -> Iterator[tuple[ConsumeQueue, int]]:
            for entry in [*super().__iter__()]:
                seen.append(store.earliest_stored_at_ms("T", 0))
                yield entry
                seen.append(store.earliest_stored_at_ms("T", 0))

    store.deletion.detach(replace(survey, minima=Looking(survey.minima)))
    assert seen == [START_MS, START_MS]
    assert store.earliest_stored_at_ms("T", 0) == START_MS


def test_files_go_one_by_one_each_made_durable_before_the_next(tmp_path: Path) -> None:
    disk = Disk()
    store = aged(tmp_path, disk)
    deletion = store.deletion
    deletion.detach(deletion.survey(MUCH_LATER_MS, asked=True)())
    disk.calls.clear()
    assert deletion.remove_log_file(MUCH_LATER_MS)
    assert not deletion.remove_log_file(MUCH_LATER_MS)
    begins_later = [("write", tmp_path / "checkpoint"), ("sync", tmp_path / "checkpoint")]
    assert disk.calls == [
        *begins_later,
        ("unlink", log_file(tmp_path)),
        ("sync", tmp_path / "commitlog"),
        *begins_later,
        ("unlink", log_file(tmp_path, LOG_FILE_BYTES)),
        ("sync", tmp_path / "commitlog"),
    ]
    assert deletion.has_other_files
    deletion.remove_other_files()
    assert not deletion.has_other_files
    assert store.figures.deleted_files.value == 2
    assert [found.queue_offset for found in read_all(opened(killed(tmp_path)))][-1] == 39


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_kill_during_a_deletion_leaves_a_store_that_starts(tmp_path: Path, removed: int) -> None:
    store = aged(tmp_path / "s", Disk())
    deletion = store.deletion
    deletion.detach(deletion.survey(MUCH_LATER_MS, asked=True)())
    for _ in range(removed):
        deletion.remove_log_file(MUCH_LATER_MS)
    again = opened(killed(tmp_path / "s"))
    assert again.min_commit_log_offset == removed * LOG_FILE_BYTES
    offsets = [found.queue_offset for found in read_all(again)]
    assert offsets == list(range(again.min_offset("T", 0), 40))
    assert put(again, b"next").queue_offset == 40


def test_a_kill_after_a_deletion_beside_a_queue_that_never_had_a_message_leaves_a_store_that_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "s" / "consumequeue" / "U" / "0").mkdir(parents=True)
    store = opened(tmp_path / "s", replace(SMALL, delete_file_batch_max=2))
    for _ in range(19):  # two files of the queue
        put(store, b"y" * 1500)
    store.flush()
    store.delete_expired(2 * START_MS, asked=True)
    assert not (tmp_path / "s" / "consumequeue" / "T" / "0" / f"{0:020d}").exists()
    assert len(bodies(opened(killed(tmp_path / "s")))) == len(bodies(store)) > 0


def test_a_file_that_cannot_be_deleted_is_tried_again_later_and_keeps_later_ones_waiting(tmp_path: Path) -> None:
    disk = Disk()
    store = aged(tmp_path / "s", disk)
    deletion = store.deletion
    deletion.detach(deletion.survey(MUCH_LATER_MS, asked=True)())
    disk.fail("unlink", f"commitlog/{0:020d}", errno.EBUSY)
    assert not deletion.remove_log_file(MUCH_LATER_MS)
    disk.fault = None
    assert not deletion.remove_log_file(MUCH_LATER_MS + 119_999), "redeleteHangedFileInterval"
    assert names(tmp_path / "s") == [0, LOG_FILE_BYTES, 2 * LOG_FILE_BYTES]
    opened(killed(tmp_path / "s"))  # without a gap
    assert deletion.remove_log_file(MUCH_LATER_MS + 120_000)
    assert not deletion.remove_log_file(MUCH_LATER_MS + 120_000)
    assert names(tmp_path / "s") == [2 * LOG_FILE_BYTES]


def test_a_directory_that_cannot_be_synced_after_a_deletion_stops_the_store(tmp_path: Path) -> None:
    disk = Disk()
    store = aged(tmp_path, disk)
    disk.fail("sync", "commitlog")
    store.delete_expired(MUCH_LATER_MS, asked=True)
    assert "restart the broker" in str(store.refusal)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_directory_that_cannot_be_opened_after_a_deletion_keeps_later_files_waiting(
    tmp_path: Path, number: int
) -> None:
    disk = Disk()
    store = aged(tmp_path / "s", disk)
    disk.fail("sync", "commitlog", number)
    store.delete_expired(MUCH_LATER_MS, asked=True)
    disk.fault = None
    assert names(tmp_path / "s") == [LOG_FILE_BYTES, 2 * LOG_FILE_BYTES]
    assert put(store, b"next").status is PutStatus.PUT_OK
    opened(killed(tmp_path / "s"))
    deletion = store.deletion
    disk.calls.clear()
    assert not deletion.remove_log_file(MUCH_LATER_MS + 119_999), "redeleteHangedFileInterval"
    assert disk.calls == []
    assert deletion.remove_log_file(MUCH_LATER_MS + 120_000)
    assert disk.calls == [("unlink", log_file(tmp_path / "s")), ("sync", tmp_path / "s" / "commitlog")]
    assert not deletion.remove_log_file(MUCH_LATER_MS + 120_000)
    assert names(tmp_path / "s") == [2 * LOG_FILE_BYTES]
    assert store.figures.deleted_files.value == 2


def test_what_became_needed_meanwhile_stays(tmp_path: Path) -> None:
    store = aged(tmp_path, Disk())
    survey = store.deletion.survey(MUCH_LATER_MS, asked=True)()
    store.deletion.keep_from = lambda: LOG_FILE_BYTES
    assert store.deletion.detach(survey) == 0
    assert store.min_offset("T", 0) == 0
    survey = store.deletion.survey(MUCH_LATER_MS, asked=True)()
    assert store.deletion.detach(survey) == 1
    assert store.deletion.detach(survey) == 0, "the same survey a second time"


def test_a_round_deletes_no_more_than_its_batch(tmp_path: Path) -> None:
    store = aged(tmp_path, Disk(), delete_file_batch_max=1)
    assert store.delete_expired(MUCH_LATER_MS, asked=True) == 1
    assert store.delete_expired(MUCH_LATER_MS, asked=True) == 1
    assert store.delete_expired(MUCH_LATER_MS, asked=True) == 0, "never the one that is written"


def test_messages_sent_while_files_go_are_not_touched(tmp_path: Path) -> None:
    store = aged(tmp_path, Disk())
    survey = store.deletion.survey(MUCH_LATER_MS, asked=True)()
    put(store, b"meanwhile")
    put(store, message(b"new queue", queue_id=1))
    store.deletion.detach(survey)
    assert bodies(store)[-1] == b"meanwhile"
    assert bodies(store, "T", 1) == [b"new queue"]


def test_a_queue_whose_messages_are_all_gone_goes_on_with_its_offsets(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(b"x" * 3000, topic="Old"))
    for _ in range(6):
        put(store, b"x" * 3000)
    for path in (tmp_path / "commitlog").iterdir():
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    store.delete_expired(MUCH_LATER_MS, asked=True)
    assert (store.min_offset("Old", 0), store.max_offset("Old", 0)) == (1, 1)
    store.deletion.detach_queue_files()
    store.deletion.remove_other_files()
    store.close()
    assert put(opened(tmp_path), message(b"next", topic="Old")).queue_offset == 1


def _gone_but_for_its_end(root: Path) -> Path:
    """A store that was closed with a queue of ten messages, one file full, that are all deleted."""
    store = opened(root)
    for number in range(10):
        put(store, message(b"%d" % number, topic="Gone"))
    for _ in range(40):
        put(store, b"x" * 400)
    for path in (root / "commitlog").iterdir():
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    store.delete_expired(MUCH_LATER_MS, asked=True)
    assert (store.min_offset("Gone", 0), store.max_offset("Gone", 0)) == (10, 10)
    store.close()
    return root / "consumequeue" / "Gone" / "0"


def _next_file_without_size(queue: Path) -> None:
    (queue / f"{200:020d}").touch()


def _next_file_alone(queue: Path) -> None:
    (queue / f"{0:020d}").rename(queue / f"{200:020d}")
    (queue / f"{200:020d}").write_bytes(b"")


def _no_files(queue: Path) -> None:
    (queue / f"{0:020d}").unlink()


def _no_queue(queue: Path) -> None:
    _no_files(queue)
    queue.rmdir()


def _half_a_file(queue: Path) -> None:
    (queue / f"{0:020d}").write_bytes(bytes(100))


@pytest.mark.parametrize(
    ("lose", "listed"),
    [
        *((lose, True) for lose in (_next_file_without_size, _next_file_alone, _no_files, _no_queue, _half_a_file)),
        *((lose, False) for lose in (_next_file_without_size, _next_file_alone)),  # the names that are left say it
    ],
)
def test_a_queue_that_lost_files_and_whose_messages_are_all_gone_goes_on_with_its_offsets(
    tmp_path: Path, lose: Callable[[Path], None], listed: bool
) -> None:
    root = tmp_path / "s"
    queue = _gone_but_for_its_end(root)
    lose(queue)
    if not listed:
        (root / "gateway-queues").unlink()
    (root / "abort").touch()
    for again in range(3):  # killed each time: what the end rests on must outlive every recovery
        store = opened(root)
        assert (store.min_offset("Gone", 0), store.max_offset("Gone", 0)) == (10, 10), again
        root = killed(root)
    store.close()
    store = opened(root)
    assert put(store, message(b"next", topic="Gone")).queue_offset == 10
    assert bodies(store, "Gone") == [b"next"]
    store.close()
    assert opened(root).max_offset("Gone", 0) == 11


def _gone_but_for_its_last_file(root: Path) -> dict[Path, bytes]:
    """A store that was closed with a queue of 45 messages, ten a file, that are all deleted; its files before that."""
    store = opened(root)
    for number in range(45):
        put(store, message(b"%d" % number, topic="Gone"))
    for _ in range(40):
        put(store, b"x" * 400)
    store.flush()
    before = {path: path.read_bytes() for path in sorted((root / "consumequeue" / "Gone" / "0").iterdir())}
    for path in (root / "commitlog").iterdir():
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    store.delete_expired(MUCH_LATER_MS, asked=True)
    store.close()
    return before


def _goes_on(root: Path, offset: int, disk: Callable[[], Disk]) -> None:
    """Check that the queue goes on at an offset, also after several crashes."""
    for again in range(4):
        store = opened(root, disk=disk())
        assert (store.min_offset("Gone", 0), store.max_offset("Gone", 0)) == (offset, offset), again
        root = killed(root)
    store.close()
    store = opened(root, disk=disk())
    assert put(store, message(b"next", topic="Gone")).queue_offset == offset
    assert bodies(store, "Gone") == [b"next"]
    root = killed(root)
    assert bodies(opened(root, disk=disk()), "Gone") == [b"next"]


class AnotherRun(Disk):
    """The disk of a system that starts anew each time, as after a power failure."""

    runs = 0

    def __init__(self) -> None:
        super().__init__()
        AnotherRun.runs += 1
        self._run = str(AnotherRun.runs)

    def system_run(self) -> str:
        return self._run


CRASHES = pytest.mark.parametrize("disk", [Disk, AnotherRun], ids=["killed", "power failure"])


@CRASHES
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("back", [(0,), (0, 1), (2,), (1, 2), (0, 2), (0, 1, 2, 3)])
def test_expired_files_that_a_crash_brings_back_are_not_the_end_of_a_queue(
    tmp_path: Path, back: tuple[int, ...], listed: bool, disk: Callable[[], Disk]
) -> None:
    root = tmp_path / "s"
    files = _gone_but_for_its_last_file(root)
    for number in back:
        path = list(files)[number]
        assert not path.exists()
        path.write_bytes(files[path])
    if not listed:
        (root / "gateway-queues").unlink()
    (root / "abort").touch()
    _goes_on(root, 45, disk)


@CRASHES
def test_a_listed_end_several_files_behind_what_is_left_is_kept_over_further_crashes(
    tmp_path: Path, disk: Callable[[], Disk]
) -> None:
    root = tmp_path / "s"
    files = _gone_but_for_its_last_file(root)
    first, *_, last = files
    first.write_bytes(files[first])
    last.unlink()
    (root / "abort").touch()
    _goes_on(root, 45, disk)


def test_a_queue_keeps_a_listed_end_behind_the_file_that_it_still_has(tmp_path: Path) -> None:
    queue = _gone_but_for_its_end(tmp_path)
    overwrite(queue / f"{0:020d}", 140, bytes(60))
    (tmp_path / "abort").touch()
    store = opened(tmp_path)
    assert (store.min_offset("Gone", 0), store.max_offset("Gone", 0)) == (10, 10)
    assert put(store, message(b"next", topic="Gone")).queue_offset == 10
    assert bodies(store, "Gone") == [b"next"]


def test_when_space_runs_short_old_files_go_at_any_hour_and_messages_are_taken_again(tmp_path: Path) -> None:
    disk = Disk()
    store = aged(tmp_path, disk)
    noon_ms = MUCH_LATER_MS - MUCH_LATER_MS % 86_400_000 + 43_200_000
    quiet = next(hour for hour in range(24) if _local_hour(noon_ms + hour * 3_600_000) != 4)
    now_ms = noon_ms + quiet * 3_600_000
    assert store.delete_expired(now_ms) == 0
    disk.space = DiskSpace(100 * GIB, GIB)
    assert store.delete_expired(now_ms) == 2
    refused = put(store, b"refused")
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "1024 MiB of 102400 MiB free" in str(store.refusal)
    disk.space = DiskSpace(100 * GIB, 30 * GIB)
    store.delete_expired(now_ms)
    assert put(store, b"taken").status is PutStatus.PUT_OK


def test_a_disk_without_room_for_a_flush_is_made_room_on(tmp_path: Path) -> None:
    disk = Disk()
    store = aged(tmp_path, disk)
    put(store, message(b"one more", KEYS="k"))
    store.query_by_key("T", "k", 1, 0, 1 << 60)
    disk.fail("write", "index/", errno.ENOSPC)
    assert store.delete_expired(MUCH_LATER_MS, asked=True) == 2
    assert store.refusal is None


def test_a_file_stays_until_the_units_of_its_messages_are_written(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", disk=disk)
    for body in (b"first", b"second"):
        put(store, message(body, topic="Rare"))
    for _ in range(40):
        put(store, b"x" * 400)
    for path in (tmp_path / "s" / "commitlog").iterdir():
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    disk.fail("write", "consumequeue/Rare", errno.ENOSPC)
    assert store.delete_expired(MUCH_LATER_MS, asked=True) == 0
    assert store.refusal is None
    restarted = opened(killed(tmp_path / "s"))
    assert bodies(restarted, "Rare") == [b"first", b"second"]
    disk.fault = None
    assert store.delete_expired(MUCH_LATER_MS, asked=True) > 0
    again = opened(killed(tmp_path / "s", 1))
    assert put(again, message(b"third", topic="Rare")).queue_offset == 2


def test_the_disk_with_less_room_counts(tmp_path: Path) -> None:
    log_directory = tmp_path / "elsewhere"
    spaces = {log_directory: DiskSpace(100 * GIB, 50 * GIB), tmp_path / "s": DiskSpace(100 * GIB, 50 * GIB)}

    class TwoDisks(Disk):
        def disk_space(self, path: Path) -> DiskSpace:
            return spaces[path]

    store = opened(tmp_path / "s", replace(SMALL, store_path_commit_log=str(log_directory)), disk=TwoDisks())
    for full in spaces:
        spaces[full] = DiskSpace(20 * GIB, GIB)
        store.delete_expired(START_MS)
        assert "1024 MiB of 20480 MiB free" in str(store.refusal)
        spaces[full] = DiskSpace(20 * GIB, 10 * GIB)
        store.delete_expired(START_MS)
        assert store.refusal is None


def _local_hour(now_ms: int) -> int:
    from datetime import datetime

    return datetime.fromtimestamp(now_ms / 1000).hour


# -- topics -----------------------------------------------------------------------------------------------------


def test_a_topic_goes_at_once_and_its_files_in_a_thread_while_it_may_be_made_anew(tmp_path: Path) -> None:
    disk, executor = Disk(), Executor()
    store = opened(tmp_path / "s", disk=disk)
    for _ in range(25):
        put(store, b"old")
    store.flush()
    done: list[BaseException | None] = []
    disk.calls.clear()
    store.delete_topic("T", executor.in_thread, done.append)
    assert [call for call in disk.calls if call[0] in ("sync", "unlink")] == [], "the reactor waits for nothing"
    assert store.max_offset("T", 0) == 0
    assert put(store, b"new").queue_offset == 0
    assert done == []
    executor.run()
    assert done == [None]
    assert bodies(store) == [b"new"]
    assert list((tmp_path / "s" / "deleted").iterdir()) == []
    store.flush()
    assert bodies(opened(killed(tmp_path / "s"))) == [b"new"]


def test_a_deletion_does_not_lower_what_was_noted_of_a_log_that_readers_do_not_see_yet(tmp_path: Path) -> None:
    store = opened(tmp_path / "s")
    put(store, b"old")
    hidden_end = store.stored_end + 500
    store.deletion.note_deleted(["T"], hidden_end, in_this_thread, lambda _: None)
    store.delete_topic("T")
    assert store.deletion.deleted_topics.offsets["T"] == hidden_end


def test_a_deletion_that_a_kill_interrupts_is_finished_by_the_next_start(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path / "s")
    for _ in range(3):
        put(store, b"old")
    store.close()
    store = opened(tmp_path / "s")
    store.delete_topic("T", executor.in_thread, lambda _: None)
    put(store, b"new")
    assert bodies(opened(killed(tmp_path / "s"))) == [b"new"]
    assert not list((tmp_path / "s-killed-0" / "deleted").iterdir()), "the next start tidies up"
    assert bodies(opened(killed(tmp_path / "s-killed-0"))) == [b"new"]


def test_messages_that_a_start_did_not_show_any_more_do_not_come_back_with_the_next_power_failure(
    tmp_path: Path,
) -> None:
    executor = Executor()
    store = opened(tmp_path / "s", ASYNC)
    for _ in range(3):
        put(store, b"old")
    store.flush()
    store.delete_topic("T", executor.in_thread, lambda _: None)
    first = killed(tmp_path / "s")
    (first / "gateway-queues").unlink()  # its last lines are lost with the power: nobody knows of the queue
    again = opened(first, ASYNC)
    assert bodies(again) == []
    end = again.max_commit_log_offset
    put(again, b"new")
    again._queues.write_held()
    second = killed(first, 1)
    overwrite(log_file(second), end, bytes(500))  # the message is lost, and of the queue's file all but the name is
    (second / "consumequeue" / "T" / "0" / f"{0:020d}").write_bytes(b"")
    assert bodies(opened(second, ASYNC)) == []


def test_what_is_left_of_a_deletion_is_gone_for_good_before_messages_are_taken(tmp_path: Path) -> None:
    store = opened(tmp_path / "s")
    put(store, b"old")
    store.flush()
    store.delete_topic("T", Executor().in_thread, lambda _: None)
    disk = Disk()
    again = opened(killed(tmp_path / "s"), disk=disk)
    away = tmp_path / "s-killed-0" / "deleted"
    calls = [operation for operation, path in disk.calls if away in (path, *path.parents)]
    assert calls == ["unlink", "sync"]
    assert put(again, b"new").queue_offset == 0


def test_a_flush_does_not_pass_over_the_queues_of_a_topic_that_is_being_deleted(tmp_path: Path) -> None:
    """They never reached the disk, nor their way out; the checkpoint says that all queues did."""
    executor = Executor()
    store = opened(tmp_path / "s", ASYNC)
    put(store, b"old")
    store.delete_topic("T", executor.in_thread, lambda _: None)
    store.flush()
    image = killed(tmp_path / "s")
    shutil.rmtree(image / "deleted")
    again = opened(image, ASYNC)
    assert bodies(again) == []
    second = killed(image)
    (second / "consumequeue" / "T" / "0").mkdir(parents=True)
    (second / "consumequeue" / "T" / "0" / f"{0:020d}").write_bytes(b"")  # of a message that was lost
    assert bodies(opened(second, ASYNC)) == []


def test_a_topic_that_cannot_be_moved_away_is_not_deleted(tmp_path: Path) -> None:
    class Stuck(Disk):
        def rename(self, source: Path, target: Path) -> None:
            if target.parent.name == "deleted":
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(source))
            super().rename(source, target)

    store = opened(tmp_path / "s", disk=Stuck())
    put(store, b"old")
    store.flush()
    with pytest.raises(PermissionError):
        store.delete_topic("T")
    store.flush()
    assert bodies(store) == bodies(opened(killed(tmp_path / "s"))) == [b"old"]


def test_a_noted_deletion_is_finished_also_when_a_power_failure_brings_the_queues_back(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", disk=disk)
    for _ in range(30):  # several files
        put(store, b"old")
    store.flush()
    disk.fail("sync", "/deleted")
    store.delete_topic("T", done=lambda _: None)
    image = killed(tmp_path / "s")
    (moved,) = (image / "deleted").iterdir()
    moved.rename(image / "consumequeue" / "T")
    again = opened(image)
    assert bodies(again) == []
    assert put(again, b"new").queue_offset == 0
    assert bodies(opened(killed(image))) == [b"new"]


def test_a_queue_that_is_listed_when_a_deletion_is_finished_is_listed_no_more(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path / "s")
    put(store, b"old")
    put(store, message(topic="U"))
    store.close()
    store = opened(tmp_path / "s")
    store.delete_topic("T", executor.in_thread, lambda _: None)
    again = opened(killed(tmp_path / "s"))
    again.close()
    third = small_store(tmp_path / "s-killed-0")
    assert third.open().rebuilt_queues == 0
    assert list(third.queues()) == [("U", 0)]


def test_a_topic_whose_name_leaves_no_room_for_more_is_deleted_too(tmp_path: Path) -> None:
    topic = "t" * 250
    store = opened(tmp_path)
    put(store, message(topic=topic))
    store.flush()
    store.delete_topic(topic)
    assert list(store.queues()) == []
    assert list((tmp_path / "deleted").iterdir()) == []


def test_a_deletion_that_fails_says_so(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, disk=disk)
    put(store, b"old")
    done: list[BaseException | None] = []
    disk.fail("sync", "consumequeue")
    store.delete_topic("T", done=done.append)
    assert isinstance(done[0], OSError)
    put(store, b"again")
    with pytest.raises(OSError, match="Input/output error"):
        store.delete_topic("T")


@pytest.mark.parametrize("path", ["gateway-deleted", "gateway-queues"])
def test_point_8_a_deletion_that_did_not_reach_the_disk_is_not_done_the_next_time(tmp_path: Path, path: str) -> None:
    disk = Disk()
    store = opened(tmp_path / "s", ASYNC, disk=disk)
    put(store, b"old")
    put(store, message(topic="U"))
    store.flush()
    done: list[BaseException | None] = []
    disk.fail("write", path, errno.ENOSPC)
    for topic in ("T", "T", "U", "Unknown"):
        store.delete_topic(topic, done=done.append)
    store.deletion.finish(in_this_thread, done.append)
    assert [error.errno for error in done if isinstance(error, OSError)] == [errno.ENOSPC] * 5
    disk.fault = None
    store.deletion.finish(in_this_thread, done.append)
    assert done[5:] == [None]
    assert list((tmp_path / "s" / "deleted").iterdir()) == []
    assert list(opened(killed(tmp_path / "s")).queues()) == []
    disk.calls.clear()
    store.delete_topic("T", done=done.append)
    assert (done[6:], disk.calls) == ([None], [])


def test_point_8_a_deletion_is_not_done_while_another_thread_writes_it(tmp_path: Path) -> None:
    executor, disk = Executor(), Disk()
    store = opened(tmp_path, disk=disk)
    put(store, b"old")
    store.flush()
    done: list[BaseException | None] = []
    for _ in range(2):
        store.delete_topic("T", executor.in_thread, done.append)
    assert done == []
    disk.fail("create", "gateway-deleted", errno.ENOSPC)
    executor.run()
    assert [type(error) for error in done] == [OSError, OSError]


def test_several_topics_are_deleted_at_the_same_time(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path)
    for topic in ("A", "B"):
        put(store, message(topic=topic))
        store.flush()
        store.delete_topic(topic, executor.in_thread, lambda _: None)
    assert len(list((tmp_path / "deleted").iterdir())) == 2
    executor.run()
    assert list((tmp_path / "deleted").iterdir()) == []
    assert list(store.queues()) == []


class Unwalked(dict[tuple[str, int], ConsumeQueue]):
    """A table of queues that must not be walked through: it may have a million entries."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        raise AssertionError("a deletion looks at the queues of other topics")

    values = items = keys = __iter__  # type: ignore[assignment]


def test_a_deletion_looks_only_at_the_queues_of_its_topic(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for topic, queue_id in (("T", 0), ("T", 3), ("U", 0), ("%RETRY%g+T", 0)):
        put(store, message(b"x", topic=topic, queue_id=queue_id))
    store.close()
    store = opened(tmp_path)
    put(store, message(b"x", topic="T", queue_id=1))
    queues = store._queues
    table = queues.by_name
    queues.by_name = Unwalked(table)
    assert store.queues_of("T") == [0, 1, 3]
    assert store.retry_topics() == ["%RETRY%g+T"]
    for topic in ("T", "%RETRY%g+T", "unknown"):
        store.delete_topic(topic)
    assert (store.retry_topics(), store.queues_of("T")) == ([], [])
    queues.by_name = dict(dict.items(queues.by_name))
    assert list(store.queues()) == [("U", 0)]


@pytest.mark.parametrize("queue_id", [-7, 2**31 - 1])
def test_a_topic_with_strange_queue_ids_is_deleted_as_a_whole(tmp_path: Path, queue_id: int) -> None:
    store = opened(tmp_path)
    for topic in ("T", "U"):
        store._queues.make(topic, queue_id)
        store._queues.make(topic, 0)
    assert sorted(store.queues_of("T")) == sorted([queue_id, 0])
    store.delete_topic("T")
    assert sorted(store.queues()) == sorted([("U", queue_id), ("U", 0)])
