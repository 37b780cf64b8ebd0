"""How many queues get their first file with one batch: the reactor makes these files, and others wait meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gateway.settings.store import StoreSettings
from gateway.store.durability.appender import MAX_NEW_QUEUES
from gateway.store.put_result import PutOutcome, PutResult, PutStatus
from gateway.tests.store.small_store import SMALL, Disk, Executor, message, opened
from wire.message.batch import BatchPart, build_batch
from wire.message.record import OutgoingMessage
from wire.quick.message_run import MessageRun

LARGE = replace(SMALL, mapped_file_size_commit_log=4 << 20)
LIGHT = replace(LARGE, enable_lmq=True, enable_multi_dispatch=True)


class Gathering:
    """A store that gathers a batch until it is told to go on."""

    def __init__(self, directory: Path, settings: StoreSettings = LARGE) -> None:
        self.executor = Executor()
        self.disk = Disk()
        self.store = opened(
            directory, settings, disk=self.disk, soon=self.executor.soon, in_thread=self.executor.in_thread
        )
        self.executor.run()
        self.told: list[PutStatus] = []

    def send(self, topic: str, queue_id: int = 0, *light: str) -> None:
        if light:
            sent = message(b"m", topic=topic, queue_id=queue_id, INNER_MULTI_DISPATCH=",".join(light))
        else:
            sent = message(b"m", topic=topic, queue_id=queue_id)
        self.store.append(sent, self._told)

    def _told(self, result: PutResult) -> None:
        self.told.append(result.status)

    def statuses(self) -> Counter[PutStatus]:
        """What the senders were told since the last look."""
        told, self.told = self.told, []
        return Counter(told)


def test_one_batch_makes_so_many_queues_and_later_ones_the_next(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path)
    gathering.send("T")
    gathering.executor.run()
    assert gathering.statuses() == {PutStatus.PUT_OK: 1}

    for queue_id in range(MAX_NEW_QUEUES + 10):
        gathering.send("W", queue_id)
        gathering.send("W", queue_id)  # another message of the queue makes no further file
    gathering.send("T")
    assert gathering.statuses() == {PutStatus.NEW_QUEUES_WAIT: 20}

    gathering.disk.calls.clear()
    gathering.executor.run()
    assert gathering.statuses() == {PutStatus.PUT_OK: 2 * MAX_NEW_QUEUES + 1}
    assert sum(name == "create" and "consumequeue" in str(path) for name, path in gathering.disk.calls) == (
        MAX_NEW_QUEUES
    )

    for queue_id in range(MAX_NEW_QUEUES + 10):
        gathering.send("W", queue_id)
    gathering.executor.run()
    assert gathering.statuses() == {PutStatus.PUT_OK: MAX_NEW_QUEUES + 10}
    assert gathering.store.max_offset("W", 0) == 3
    assert gathering.store.max_offset("W", MAX_NEW_QUEUES) == 1, "what was refused took no place"


def test_a_batch_of_a_client_waits_as_well(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path)
    told: list[PutStatus] = []

    def answered(outcomes: Sequence[PutOutcome]) -> None:
        told.extend(outcome.status for outcome in outcomes)

    for queue_id in range(MAX_NEW_QUEUES):
        gathering.send("W", queue_id)
    run = MessageRun(message(build_batch([BatchPart(0, b"a", b""), BatchPart(0, b"b", b"")]), topic="B"))
    gathering.store.append_run(run, answered)
    assert told == [PutStatus.NEW_QUEUES_WAIT]

    gathering.executor.run()
    gathering.store.append_run(run, answered)
    gathering.executor.run()
    assert told[1:] == [PutStatus.PUT_OK]
    assert gathering.store.max_offset("B", 0) == 2


def test_light_queues_count_and_a_message_that_names_too_many_goes_alone(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, LIGHT)
    gathering.send("T", 0, *(f"%LMQ%a{number}" for number in range(MAX_NEW_QUEUES - 1)))
    gathering.send("T", 0, "%LMQ%a0", "%LMQ%b")
    assert gathering.statuses() == {PutStatus.NEW_QUEUES_WAIT: 1}
    gathering.executor.run()
    assert gathering.statuses() == {PutStatus.PUT_OK: 1}

    gathering.send("T", 0, *(f"%LMQ%c{number}" for number in range(MAX_NEW_QUEUES + 1)))
    gathering.executor.run()
    assert gathering.statuses() == {PutStatus.PUT_OK: 1}, "it could never be stored otherwise"


def test_messages_that_are_stored_together_never_need_more_than_one_batch_may_make(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, LIGHT)

    def of(number: int) -> OutgoingMessage:
        names = ",".join(f"%LMQ%{number}_{light}" for light in range(MAX_NEW_QUEUES // 2 + 1))
        return message(b"m", INNER_MULTI_DISPATCH=names)

    told: list[PutStatus] = []
    gathering.store.append_all([of(1), of(2)], lambda results: told.extend(result.status for result in results))
    assert told == [PutStatus.NEW_QUEUES_EXCEEDED] * 2
    gathering.executor.run()
    assert gathering.store.max_offset("T", 0) == 0
