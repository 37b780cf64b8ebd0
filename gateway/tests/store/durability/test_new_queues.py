"""First messages of queues: the reactor's thread makes no file for them, however many queues there are."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from gateway.settings.store import StoreSettings
from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.store.small_store import ASYNC, SMALL, START_MS, Disk, Executor, bodies, killed, message, opened, put
from wire.disk.consume_queue import UNIT_BYTES
from wire.message.batch import BatchPart, build_batch
from wire.quick.message_run import MessageRun

QUEUES = 1100
LARGE = replace(SMALL, mapped_file_size_commit_log=4 << 20)
EXTENDED = replace(LARGE, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=8192)
LIGHT = replace(LARGE, enable_lmq=True, enable_multi_dispatch=True)


class Gathering:
    """A store whose turns and blocking work go on when told to, and the calls to the disk of the turns alone."""

    def __init__(self, directory: Path, settings: StoreSettings = LARGE) -> None:
        self.executor = Executor()
        self.disk = Disk()
        self.store = opened(
            directory, settings, disk=self.disk, soon=self.executor.soon, in_thread=self.executor.in_thread
        )
        self.executor.run()
        self.told: list[PutStatus] = []
        self.of_turns: list[tuple[str, Path]] = []

    def send(self, topic: str, queue_id: int = 0, *light: str) -> None:
        sent = message(b"m", topic=topic, queue_id=queue_id, INNER_MULTI_DISPATCH=",".join(light))
        self.store.append(sent, self._told)

    def _told(self, result: PutResult) -> None:
        self.told.append(result.status)

    def run(self) -> Counter[PutStatus]:
        """Do all turns and all work; return what the senders were told."""
        while self.executor.turn or self.executor.threads:
            self._turn(self.executor.run_turn)
            if self.executor.threads:
                self._turn(self.executor.work())
        told, self.told = self.told, []
        return Counter(told)

    def _turn(self, turn: Callable[[], None]) -> None:
        self.disk.calls.clear()
        turn()
        self.of_turns += self.disk.calls


def of_queues(calls: list[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Return the calls for files; the first unit of an extension looks for files from before the start."""
    return [(name, path) for name, path in calls if "consumequeue" in str(path) and name != "list"]


@pytest.mark.parametrize("settings", [LARGE, replace(LARGE, flush_disk_type=ASYNC.flush_disk_type), EXTENDED])
def test_no_turn_makes_a_file_for_the_first_messages_of_queues(tmp_path: Path, settings: StoreSettings) -> None:
    gathering = Gathering(tmp_path / "s", settings)
    for queue_id in range(QUEUES):
        gathering.send("W", queue_id)
    run = MessageRun(message(build_batch([BatchPart(0, b"a", b""), BatchPart(0, b"b", b"")]), topic="B"))
    gathering.store.append_run(run, lambda _: None)
    assert gathering.run() == {PutStatus.PUT_OK: QUEUES}
    for _ in range(70):  # one batch after the other
        gathering.send("W")
        assert gathering.run() == {PutStatus.PUT_OK: 1}
    assert of_queues(gathering.of_turns) == []
    assert len(bodies(gathering.store, "W")) == 71
    assert bodies(gathering.store, "W", QUEUES - 1) == [b"m"]
    assert bodies(gathering.store, "B") == [b"a", b"b"]

    gathering.disk.calls.clear()
    gathering.store.flush_due(START_MS + 1)
    made = [path for name, path in of_queues(gathering.disk.calls) if name == "create"]
    extended = (QUEUES + 1) * settings.enable_consume_queue_ext
    assert len(made) == QUEUES + 1 + 7 + extended, "ten units go into a file"
    gathering.store.close()
    assert len(bodies(opened(tmp_path / "s"), "W")) == 71


def test_no_turn_makes_a_file_for_light_queues(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, LIGHT)
    names = [f"%LMQ%{number}" for number in range(QUEUES)]
    gathering.send("T", 0, *names)
    gathering.send("T", 0, *names)
    assert gathering.run() == {PutStatus.PUT_OK: 2}
    assert of_queues(gathering.of_turns) == []
    assert gathering.store.max_offset(names[-1], 0) == 2


def test_no_turn_makes_the_next_file_of_a_queue(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path)
    for _ in range(3 * SMALL.mapped_file_size_consume_queue // UNIT_BYTES):
        gathering.send("T")
        gathering.run()
        gathering.store.flush_due(START_MS + 1)
    assert of_queues(gathering.of_turns) == []
    assert gathering.store._queues.by_name["T", 0].starts == (0, 200, 400)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_a_queue_whose_file_cannot_be_made_is_read_from_memory_and_keeps_no_other_waiting(
    tmp_path: Path, number: int
) -> None:
    gathering = Gathering(tmp_path / "s")
    gathering.disk.fail("create", "consumequeue/A", number)
    for topic in "AB":
        gathering.send(topic)
    assert gathering.run() == {PutStatus.PUT_OK: 2}
    assert not gathering.store.flush()
    assert not gathering.store.flush(), "it is tried again"
    assert gathering.store.refusal is None
    assert (tmp_path / "s" / "consumequeue" / "B" / "0" / f"{0:020d}").exists()
    assert bodies(gathering.store, "A") == bodies(gathering.store, "B") == [b"m"]
    assert gathering.store.min_offset("A", 0) == 0
    again = opened(killed(tmp_path / "s"))
    assert bodies(again, "A") == bodies(again, "B") == [b"m"]

    gathering.disk.fault = None
    assert gathering.store.flush()
    gathering.store.close()
    assert not (tmp_path / "s" / "abort").exists()
    assert bodies(opened(tmp_path / "s"), "A") == [b"m"]


@pytest.mark.parametrize("settings", [LARGE, replace(LARGE, enable_consume_queue_ext=True)])
def test_a_topic_may_be_deleted_before_its_queues_have_files(tmp_path: Path, settings: StoreSettings) -> None:
    gathering = Gathering(tmp_path / "s", settings)
    for queue_id in range(3):
        gathering.send("T", queue_id)
    gathering.run()
    gathering.store.delete_topic("T")
    assert gathering.store.flush()
    assert list((tmp_path / "s" / "consumequeue").iterdir()) == []
    assert list(gathering.store.queues()) == []
    gathering.send("T", 1)
    gathering.run()
    assert gathering.store.max_offset("T", 1) == 1
    copy = killed(tmp_path / "s")
    again = opened(copy, settings)
    assert (bodies(again, "T", 0), bodies(again, "T", 1)) == ([], [b"m"])


@pytest.mark.parametrize("settings", [LARGE, replace(LARGE, enable_consume_queue_ext=True)])
def test_messages_of_several_batches_on_their_way_when_their_topic_is_deleted_keep_no_others_waiting(
    tmp_path: Path, settings: StoreSettings
) -> None:
    gathering = Gathering(tmp_path / "s", settings)
    gathering.send("T")
    gathering.executor.run_turn()
    gathering.send("T")  # of the next batch: the first is with the disk
    gathering.store.delete_topic("T")
    gathering.send("T")
    gathering.send("Other")
    assert gathering.run() == {PutStatus.PUT_OK: 4}
    gathering.send("Other")
    assert gathering.run() == {PutStatus.PUT_OK: 1}
    assert [gathering.store.max_offset(topic, 0) for topic in ("T", "Other")] == [1, 2]
    again = opened(killed(tmp_path / "s"), settings)
    assert [bodies(again, topic) for topic in ("T", "Other")] == [[b"m"], [b"m"] * 2]


def test_a_topic_is_not_moved_away_while_one_of_its_files_is_being_made(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, disk=disk)
    put(store, b"m")
    is_making, goes_on = Event(), Event()

    def wait(operation: str, path: Path) -> None:
        if operation == "create" and "consumequeue" in str(path):
            is_making.set()
            goes_on.wait(10)

    disk.fault = wait
    flush = Thread(target=store.flush)
    deletion = Thread(target=store.delete_topic, args=("T",))
    flush.start()
    assert is_making.wait(10)
    deletion.start()
    deletion.join(0.1)
    assert deletion.is_alive(), "it waits for the file"
    goes_on.set()
    for thread in (flush, deletion):
        thread.join(10)
        assert not thread.is_alive()
    assert [*(tmp_path / "consumequeue").iterdir(), *(tmp_path / "deleted").iterdir(), *store.queues()] == []
    assert store.refusal is None
