"""The names of a queue's files after a kill, a start and a power failure: the start syncs what the killed process made.

The killed process has written units of a new queue, and has synced neither them nor the names of their directories.
The start writes the units again into the file that is there.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult
from gateway.tests.crash.disk.image import Crash, Moment
from gateway.tests.crash.disk.recording import Image, RecordingFiles
from gateway.tests.store.small_store import SMALL, Clock, message

DRAWN = 40
"""The power failures that are drawn: in each, another part of what is not synced is lost."""
FRESH = Image({}, {"/": 0, "/data": 0})


def open_store(files: RecordingFiles) -> MessageStore:
    store = MessageStore(Path("/data/store"), SMALL, StoreSurroundings(clock_ms=Clock(), files=files))
    store.open()
    return store


def test_a_queue_that_a_killed_process_made_outlives_a_power_failure_after_the_next_start() -> None:
    moment = Moment(FRESH)
    files = RecordingFiles(FRESH, Clock())
    store = open_store(files)
    results: list[PutResult] = []
    store.append(message(b"before", topic="B", queue_id=0), results.append)
    store.flush()
    store.append(message(b"first", topic="A", queue_id=0), results.append)
    store.append(message(b"after", topic="B", queue_id=0), results.append)
    store._queues.write_held()  # as the job does, before it syncs
    for change in files.changes:
        moment.pass_over(change)

    again = RecordingFiles(moment.image(moment.choice(Crash.KILL, Random(0))), Clock())
    assert open_store(again).max_offset("A", 0) == 1
    for change in again.changes:
        moment.pass_over(change)

    random = Random(1)
    for _ in range(DRAWN):
        image = moment.image(moment.choice(Crash.SOME, random))
        assert open_store(RecordingFiles(image, Clock())).max_offset("A", 0) == 1
    assert len(results) == 3
