"""Consume queues that are lost, damaged, or do not fit the log when a store is opened."""

from __future__ import annotations

import shutil
from pathlib import Path

from gateway.settings.store import StoreSettings
from gateway.tests.store.recovering import MODES, expected, fill
from gateway.tests.store.small_store import bodies, killed, log_file, message, opened, overwrite, put, small_store


@MODES
def test_lost_consume_queues_are_rebuilt(tmp_path: Path, settings: StoreSettings) -> None:
    directory = tmp_path / "s"
    fill(directory, 30, settings)
    shutil.rmtree(directory / "consumequeue")
    store = opened(directory, settings)
    assert bodies(store) == expected(30)


def fill_two_topics(directory: Path) -> None:
    """Topics A and B, 15 messages each, in turn."""
    store = opened(directory)
    for number in range(15):
        for topic in ("A", "B"):
            put(store, message(b"%s%d" % (topic.encode(), number), topic=topic))
    store.close()


def expected_of(topic: str) -> list[bytes]:
    return [b"%s%d" % (topic.encode(), number) for number in range(15)]


def test_one_lost_queue_among_others_is_rebuilt(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    fill_two_topics(directory)
    shutil.rmtree(directory / "consumequeue" / "A")
    store = small_store(directory)
    report = store.open()
    assert report.rebuilt_queues == 1
    assert bodies(store, "A") == expected_of("A")
    assert put(store, message(b"next", topic="A")).queue_offset == 15
    assert bodies(store, "B") == expected_of("B")


def test_a_queue_with_a_truncated_file_is_rebuilt_and_its_neighbours_keep_their_size(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    fill_two_topics(directory)
    path = directory / "consumequeue" / "A" / "0" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:40])
    store = opened(directory)
    assert bodies(store, "A") == expected_of("A")
    assert bodies(store, "B") == expected_of("B")
    assert path.stat().st_size == 200


def test_a_consume_queue_ahead_of_the_log_is_trimmed(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    fill(directory, 3)
    log = log_file(directory).read_bytes()
    (directory / "checkpoint").unlink()
    store = opened(directory)
    for number in range(20):
        put(store, b"later %d" % number)
    store.close()
    log_file(directory).write_bytes(log)
    (directory / "checkpoint").unlink()
    (directory / "gateway-queues").unlink()
    store = opened(directory)
    assert bodies(store) == expected(3)
    assert put(store, b"next").queue_offset == 3
    assert bodies(store)[-1] == b"next"


def test_units_behind_a_gap_left_by_a_power_failure_are_erased(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    put(store, b"one")
    store.flush()
    for number in range(4):
        put(store, b"%d" % number)
    directory = killed(directory)
    queue = directory / "consumequeue" / "T" / "0" / f"{0:020d}"
    data = queue.read_bytes()
    second = store._queues.make("T", 0).unit(1)
    assert second is not None
    # Of the five units the second and third did not reach the disk, and of the log nothing after the first record.
    overwrite(queue, 20, b"\x00" * 40)
    size = log_file(directory).stat().st_size
    overwrite(log_file(directory), second[0], b"\x00" * (size - second[0]))
    (directory / "checkpoint").unlink()
    opened(directory).close()
    assert queue.read_bytes() == data[:20].ljust(200, b"\x00")
