"""Tags codes that a queue keeps in its extension: no filter mistakes an address for a tag, whatever is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.store.disk.files import FileLayer
from gateway.store.message_store import MessageStore
from gateway.store.queues import extended_units
from gateway.store.reading.get_result import GetStatus
from gateway.store.reading.wanted import ChooseRecords, Wanted
from gateway.tests.store.apache_directory import MESSAGES, SETTINGS, unpacked
from gateway.tests.store.small_store import Disk, opened, overwrite
from wire.disk.consume_queue import UNIT
from wire.disk.queue_extension import HEAD, LAST_ADDRESS, is_address
from wire.message.record import parse_records
from wire.message.tags import tags_code

ALL = 1 << 20
RED = tags_code("red")
EXTENSION = "consumequeue_ext/Ext/0/00000000000000000000"
ALL_RED = list(range(0, MESSAGES, 3))


def is_red(code: int) -> bool:
    return code == RED


def numbers(
    store: MessageStore,
    accepts: Callable[[int], bool] | None = is_red,
    accepts_extension: Callable[[int, bytes], bool] | None = None,
    choose: ChooseRecords | None = None,
) -> list[int]:
    """The messages of topic Ext that a consumer with a filter gets, read in several steps."""
    found: list[int] = []
    offset = 0
    while offset < MESSAGES:
        result = store.get_messages("Ext", 0, offset, 32, ALL, Wanted(accepts, choose, accepts_extension))
        if result.status is GetStatus.FOUND:
            found += [int(record.property_map["n"]) for record in parse_records(b"".join(result.parts))]
        else:
            assert result.status is GetStatus.NO_MATCHED_MESSAGE
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return unpacked(tmp_path / "store")


def test_a_consumer_by_tag_gets_what_apache_rocketmq_stored_with_an_extension(directory: Path) -> None:
    store = opened(directory, SETTINGS)
    assert all(is_address(code) for _, _, code in UNIT.iter_unpack(store.queue_units("Ext", 0, 0, MESSAGES)))
    assert numbers(store) == ALL_RED
    assert numbers(store, lambda code: code == tags_code("green")) == list(range(1, MESSAGES, 3))
    assert numbers(store, lambda code: code == tags_code("blue")) == []
    assert numbers(store, None) == list(range(MESSAGES))


def test_a_filter_by_record_sees_what_a_filter_by_tag_lets_through(directory: Path) -> None:
    store = opened(directory, SETTINGS)
    seen: list[int] = []

    def looked_at(_: bytes, start: int, units: bytes, _least: int) -> tuple[list[int], int]:
        sizes = [size for _, size, _ in UNIT.iter_unpack(units)]
        seen.extend(sizes)
        return list(range(len(sizes))), len(sizes)

    assert numbers(store, choose=looked_at) == ALL_RED
    assert len(seen) == len(ALL_RED)


def test_no_message_is_passed_over_for_an_extension_that_is_gone(directory: Path) -> None:
    shutil.rmtree(directory / "consumequeue_ext")
    assert numbers(opened(directory, SETTINGS)) == list(range(MESSAGES))


def test_no_message_is_passed_over_for_a_file_of_the_extension_that_is_gone(directory: Path) -> None:
    (directory / EXTENSION).unlink()
    found = numbers(opened(directory, SETTINGS))
    assert set(found) > set(ALL_RED)
    assert found[-15:] == ALL_RED[-15:]  # of the file that is still there


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, b"\x00\x00"),
        (0, b"\x7f\xff"),
        (0, b"\xff\xff"),
        (HEAD.offset("bitmap_bytes"), b"\x00\x01"),
        (HEAD.offset("bitmap_bytes"), b"\x80\x00"),
        (HEAD.offset("tags_code"), LAST_ADDRESS.to_bytes(8, "big", signed=True)),
        (HEAD.offset("stored_at_ms"), bytes(8)),
    ],
)
def test_a_message_whose_extension_unit_is_damaged_is_given_out(directory: Path, at: int, data: bytes) -> None:
    overwrite(directory / EXTENSION, 20 + at, data)  # that of message 1, which is green
    assert numbers(opened(directory, SETTINGS)) == sorted([*ALL_RED, 1])


@pytest.mark.parametrize("address", [-(2**63) + 4090, -(2**63) + 8192, -(2**60), -(2**33), LAST_ADDRESS - 2**56])
def test_a_message_whose_address_leads_nowhere_is_given_out(directory: Path, address: int) -> None:
    at = UNIT.size + UNIT.offset("tags_code")
    overwrite(directory / "consumequeue/Ext/0" / f"{0:020d}", at, address.to_bytes(8, "big", signed=True))
    store = opened(directory, SETTINGS)
    assert numbers(store) == sorted([*ALL_RED, 1])


def test_a_file_in_place_of_the_extension_is_one_that_is_gone(directory: Path) -> None:
    shutil.rmtree(directory / "consumequeue_ext" / "Ext" / "0")
    (directory / "consumequeue_ext" / "Ext" / "0").write_bytes(b"x")
    assert numbers(opened(directory, SETTINGS)) == list(range(MESSAGES))


def test_an_extension_is_opened_in_a_thread_and_then_read_at_once(directory: Path) -> None:
    store = opened(directory, SETTINGS)
    assert store.get_messages_now("Ext", 0, 0, 32, ALL, Wanted(is_red)) is None
    waited = store.get_messages("Ext", 0, 0, 180, ALL, Wanted(is_red))
    at_once = store.get_messages_now("Ext", 0, 0, 180, ALL, Wanted(is_red))
    assert at_once is not None
    assert (at_once.parts, at_once.next_begin_offset) == (waited.parts, waited.next_begin_offset)


def test_what_is_not_in_memory_is_left_to_a_thread(directory: Path) -> None:
    class Forgetful(Disk):
        def pread_now(self, fd: int, count: int, offset: int) -> bytes | None:
            return None if "consumequeue_ext" in str(self.open_fds[fd]) else super().pread_now(fd, count, offset)

    store = opened(directory, SETTINGS, disk=Forgetful())
    assert store.get_messages("Ext", 0, 0, 180, ALL, Wanted(is_red)).count == len(ALL_RED)
    assert store.get_messages_now("Ext", 0, 0, 180, ALL, Wanted(is_red)) is None


def test_a_short_window_reads_the_same(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extended_units, "WINDOW_BYTES", 50)
    assert numbers(opened(directory, SETTINGS)) == ALL_RED


def test_the_extension_is_read_in_one_go(directory: Path) -> None:
    class Counting(FileLayer):
        reads = 0

        def pread(self, fd: int, count: int, offset: int) -> bytes:
            Counting.reads += 1
            return super().pread(fd, count, offset)

    store = opened(directory, SETTINGS, disk=Counting())
    numbers(store)
    Counting.reads = 0
    store.get_messages("Ext", 0, 0, 180, ALL, Wanted(is_red))
    with_extension, Counting.reads = Counting.reads, 0
    store.get_messages("Ext", 0, 0, 180, ALL)
    assert with_extension - Counting.reads < 90  # the units' two files take few reads, the records one each
