"""The log as bytes for a replica: whole durable records of one file, and the records by which logs are compared."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from gateway.in_thread import in_this_thread
from gateway.store.durability.surroundings import BatchObserver
from gateway.store.log import log_bytes as module
from gateway.store.log.log_bytes import MAX_COMPARED
from gateway.store.message_store import MessageStore
from gateway.tests.store.durability.test_added_stage import Gate
from gateway.tests.store.small_store import (
    ASYNC,
    LOG_FILE_BYTES,
    SMALL,
    log_file,
    message,
    opened,
    put,
    remove_first,
)


def filled(directory: Path, count: int = 40, size: int = 300) -> tuple[MessageStore, list[int]]:
    """A store over several files, and where its records start."""
    store = opened(directory)
    places = [put(store, bytes([number]) * size).commit_log_offset for number in range(count)]
    return store, places


def whole_log(directory: Path, end: int) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((directory / "commitlog").iterdir()))[:end]


def copied(store: MessageStore, limit: int, start: int = 0) -> list[tuple[int, bytes]]:
    """All parts that a replica would get."""
    parts = []
    while part := store.log_bytes(start, limit):
        parts.append((start, part))
        start += len(part)
    assert part == b""
    return parts


@pytest.mark.parametrize("limit", [0, 1, 500, 1000, 5000, 1 << 20])
def test_the_parts_are_the_log_and_each_ends_with_a_record_or_a_file(tmp_path: Path, limit: int) -> None:
    store, places = filled(tmp_path)

    parts = copied(store, limit)

    assert b"".join(part for _, part in parts) == whole_log(tmp_path, store.durable_end)
    ends = {*range(LOG_FILE_BYTES, store.durable_end, LOG_FILE_BYTES), *(place + places[1] for place in places)}
    for start, part in parts:
        assert start // LOG_FILE_BYTES == (start + len(part) - 1) // LOG_FILE_BYTES
        assert start + len(part) in ends
        assert len(part) <= limit or sum(start <= place < start + len(part) for place in places) <= 1


def test_a_large_limit_gives_all_of_a_file_at_once(tmp_path: Path) -> None:
    store, _ = filled(tmp_path)

    assert [start for start, _ in copied(store, 1 << 20)] == list(range(0, store.durable_end, LOG_FILE_BYTES))


def test_from_inside_a_record_the_rest_of_it_comes_first(tmp_path: Path) -> None:
    store, places = filled(tmp_path)

    assert store.log_bytes(places[3] + 100, 1 << 20) == whole_log(tmp_path, places[4])[places[3] + 100 :]


def test_from_behind_a_filler_the_zeros_up_to_the_end_of_the_file_come(tmp_path: Path) -> None:
    store, places = filled(tmp_path)
    last = max(place for place in places if place < LOG_FILE_BYTES)
    filler = 2 * last - places[places.index(last) - 1]

    assert store.log_bytes(filler, 0) == whole_log(tmp_path, LOG_FILE_BYTES)[filler:]
    assert store.log_bytes(filler + 20, 8) == bytes(LOG_FILE_BYTES - filler - 20)


def test_what_is_gone_is_none_and_the_end_is_empty(tmp_path: Path) -> None:
    store, _ = filled(tmp_path)
    remove_first(store._log.files)

    assert store.log_bytes(0, 1000) is None
    assert store.log_bytes(store.durable_end, 1000) == b""
    assert store.log_bytes(store.durable_end + 5000, 1000) == b""


def test_nothing_that_is_not_on_disk_is_given(tmp_path: Path) -> None:
    store = opened(tmp_path, ASYNC, in_thread=in_this_thread)
    put(store, b"first")
    store.flush_log()
    end = store.durable_end
    put(store, b"second")

    assert store.durable_end == end < store.max_commit_log_offset
    assert store.log_bytes(end, 1000) == b""
    store.flush_log()
    assert store.durable_end == store.max_commit_log_offset
    assert store.log_bytes(end, 1000) == whole_log(tmp_path, store.durable_end)[end:]


@pytest.mark.parametrize("settings", [SMALL, ASYNC], ids=["sync", "async"])
def test_a_batch_that_a_stage_holds_is_given_once_it_is_on_disk(tmp_path: Path, settings: object) -> None:
    gates: list[Gate] = []

    def gate(after: BatchObserver) -> Gate:
        gates.append(Gate(after))
        return gates[0]

    store = opened(tmp_path, settings, stage=gate)  # type: ignore[arg-type]
    store.append(message(b"held"), lambda result: None)

    assert store.stored_end == 0
    assert store.flush_stored()
    assert store.durable_end == store.max_commit_log_offset > 0
    assert store.log_bytes(0, 0) == whole_log(tmp_path, store.durable_end)
    gates[0].let_pass()
    assert store.stored_end == store.durable_end


def test_the_compared_records_are_the_last_the_first_and_some_in_between(tmp_path: Path) -> None:
    store, places = filled(tmp_path, count=200)

    begins = store.record_begins(store.durable_end, 0)

    assert begins[0] == places[-1]
    assert begins[-1] == 0
    assert set(begins) <= set(places)
    assert begins == sorted(begins, reverse=True)
    assert 5 <= len(begins) <= MAX_COMPARED
    steps = [before - after for before, after in pairwise(begins)]
    assert steps[-1] > steps[0]


def test_the_record_before_any_place_is_found(tmp_path: Path) -> None:
    store, places = filled(tmp_path)
    size = places[1] - places[0]

    for place in range(1, store.durable_end, 97):
        whole = [begin for begin in places if begin + size <= place]
        found = store.record_begins(place, 0)
        assert (found[0] if found else None) == (whole[-1] if whole else None)


def test_a_record_larger_than_the_window_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW_BYTES", 512)
    store, places = filled(tmp_path, count=9, size=3000)

    assert store.record_begins(store.durable_end, 0)[0] == places[-1]


def test_nothing_before_the_begin_is_compared(tmp_path: Path) -> None:
    store, places = filled(tmp_path)
    second = next(place for place in places if place >= LOG_FILE_BYTES)

    assert store.record_begins(store.durable_end, LOG_FILE_BYTES)[-1] == second
    assert store.record_begins(LOG_FILE_BYTES, LOG_FILE_BYTES) == []
    assert opened(tmp_path / "empty").record_begins(0, 0) == []


def test_a_record_whose_bytes_lie_in_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    store, places = filled(tmp_path, count=3)
    outer = put(store, log_file(tmp_path).read_bytes()[places[1] : places[2]])

    assert store.record_begins(store.durable_end, 0)[0] == outer.commit_log_offset
