"""Queues written with extensions: what a reader finds, also after kills, lost files, a full disk and another broker."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.settings.store import StoreSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.reading.get_result import GetStatus
from gateway.store.reading.wanted import Wanted
from gateway.tests.store.apache_directory import MESSAGES, SETTINGS, unpacked
from gateway.tests.store.queues.test_extended_units import ALL_RED, numbers
from gateway.tests.store.small_store import (
    SMALL,
    START_MS,
    Clock,
    Disk,
    bodies,
    killed,
    message,
    opened,
    overwrite,
    put,
    put_all,
)
from wire.disk.consume_queue import UNIT
from wire.disk.queue_extension import END_MARK, ExtensionUnit, is_address, position_of
from wire.message.record import parse_records
from wire.message.tags import tags_code

EXTENDED = replace(SMALL, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=200)
"""Five units with a bit map of 14 bytes fit a file, eight without."""
FIRST = "consumequeue_ext/T/0/00000000000000000000"
ALL = 1 << 20


def bit_map_of(_topic: str, properties: Mapping[str, str]) -> bytes:
    return bytes(13) + properties["n"].encode()[-1:] if "n" in properties else b""


def extended(
    directory: Path, *, settings: StoreSettings = EXTENDED, clock: Clock | None = None, disk: Disk | None = None
) -> MessageStore:
    surroundings = StoreSurroundings(clock_ms=clock or Clock(), files=disk or Disk())
    store = MessageStore(directory, settings, surroundings, bit_map_of=bit_map_of)
    store.open()
    return store


def fill(store: MessageStore, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        tag, body = "AB"[number % 2], b"%d" % number
        put(store, message(body, TAGS=tag, n=str(number)) if number % 3 else message(body, TAGS=tag))


def codes(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[int]:
    count = store.max_offset(topic, queue_id)
    return [
        code
        for first in range(0, count, 10)
        for _, _, code in UNIT.iter_unpack(store.queue_units(topic, queue_id, first, 10))
    ]


def units(directory: Path, found: list[int], topic: str = "T", file_bytes: int = 200) -> list[ExtensionUnit]:
    """The extension units behind addresses, as any reader of the files finds them."""
    units = []
    for code in found:
        position = position_of(code)
        start = position - position % file_bytes
        data = (directory / "consumequeue_ext" / topic / "0" / f"{start:020d}").read_bytes()
        units.append(ExtensionUnit.parse(data, position - start))
    return units


def tagged(store: MessageStore, tag: str) -> list[bytes]:
    """Bodies of the messages that a consumer by tag gets."""
    found: list[bytes] = []
    offset = store.min_offset("T", 0)
    while offset < store.max_offset("T", 0):
        result = store.get_messages("T", 0, offset, 32, ALL, Wanted(lambda code: code == tags_code(tag)))
        if result.status is GetStatus.FOUND:
            found += [record.body for record in parse_records(b"".join(result.parts))]
        offset = result.next_begin_offset
    return found


def in_turn(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, count) if number % 2 == 0]


def test_a_unit_keeps_tags_code_store_time_and_bit_map_in_the_extension(tmp_path: Path) -> None:
    clock = Clock()
    store = extended(tmp_path, clock=clock)
    put(store, message(TAGS="A", n="7"))
    clock.now_ms += 5
    put(store, message())
    store.flush()
    found = codes(store)
    assert [position_of(code) for code in found] == [0, 34]
    assert units(tmp_path, found) == [
        ExtensionUnit(tags_code("A"), START_MS, bytes(13) + b"7"),
        ExtensionUnit(0, START_MS + 5),
    ]


def test_files_end_as_apache_rocketmq_ends_them(tmp_path: Path) -> None:
    store = extended(tmp_path)
    put_all(store, [message(n="1") for _ in range(7)])
    store.flush()
    assert [position_of(code) for code in codes(store)] == [0, 34, 68, 102, 136, 200, 234]
    files = sorted((tmp_path / "consumequeue_ext/T/0").iterdir())
    assert [(file.name, file.stat().st_size) for file in files] == [(f"{start:020d}", 200) for start in (0, 200)]
    assert files[0].read_bytes()[170:174] == END_MARK


def test_without_the_setting_nothing_is_written_there(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, 5)
    assert not (tmp_path / "consumequeue_ext").exists()
    assert not any(map(is_address, codes(store)))


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_writing_goes_on_where_the_extension_ends(tmp_path: Path, how: str) -> None:
    directory = tmp_path / "s"
    store = extended(directory)
    fill(store, 17)
    store.flush()
    if how == "closed":
        store.close()
    again = extended(killed(directory) if how == "killed" else directory)
    fill(again, 8, 17)
    again.flush()
    found = codes(again)
    positions = [position_of(code) for code in found]
    assert positions == sorted(set(positions))
    kept = units(again._paths.root, found)
    assert [unit.tags_code for unit in kept] == [tags_code("AB"[number % 2]) for number in range(25)]
    assert tagged(again, "A") == in_turn(25)
    assert bodies(again) == [b"%d" % number for number in range(25)]


def test_messages_that_recovery_finds_need_no_extension_and_those_behind_them_have_one(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = extended(directory)
    fill(store, 6)
    store.flush()
    fill(store, 6, 6)
    again = extended(killed(directory))
    fill(again, 6, 12)
    kinds = [is_address(code) for code in codes(again)]
    assert kinds == [True] * 6 + [False] * 6 + [True] * 6
    positions = [position_of(code) for code in codes(again) if is_address(code)]
    assert positions[6] == positions[5] + (34 if 5 % 3 else 20), "no gap: Apache RocketMQ would end there"
    assert tagged(again, "A") == in_turn(18)
    assert tagged(again, "B") == [b"%d" % number for number in range(18) if number % 2]


def test_what_lies_behind_the_end_is_erased(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    disk = Disk()
    store = extended(directory, disk=disk)
    fill(store, 2)
    store.flush()
    fill(store, 20, 2)
    disk.fail("write", "consumequeue/T")  # after the extension was written
    assert not store.flush()
    image = killed(directory)
    assert len(list((image / "consumequeue_ext/T/0").iterdir())) > 2
    again = extended(image)
    put(again, message(b"new", TAGS="A"))
    again.flush()
    assert len(list((image / "consumequeue_ext/T/0").iterdir())) == 1
    assert not (image / FIRST).read_bytes()[20 + 34 + 20 :].strip(b"\x00")


def test_a_lost_extension_is_never_written_over_with_other_messages(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = extended(directory)
    fill(store, 10)
    store.close()
    shutil.rmtree(directory / "consumequeue_ext")
    again = extended(directory)
    fill(again, 10, 10)
    found = [position_of(code) for code in codes(again)]
    assert min(found[10:]) == -(-10 * 32_767 // 200) * 200, "behind whatever ten messages can have had"
    assert tagged(again, "A") == sorted([*[b"%d" % n for n in range(10)], *in_turn(20, 10)], key=int)


def test_a_damaged_last_unit_is_not_written_over(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = extended(directory)
    fill(store, 3)
    store.close()
    overwrite(directory / FIRST, 54, b"\x00\x00")
    again = extended(directory)
    fill(again, 3, 3)
    found = [position_of(code) for code in codes(again)]
    assert found[:3] == [0, 20, 54]
    assert found[3] == 200
    assert tagged(again, "A") == in_turn(6)
    assert tagged(again, "B") == [b"1", b"2", b"3", b"5"], "message 2 is given out, as nobody knows its tag"


def test_a_unit_larger_than_a_file_keeps_its_tags_code(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = MessageStore(
        directory,
        EXTENDED,
        StoreSurroundings(clock_ms=Clock(), files=Disk()),
        bit_map_of=lambda _topic, _properties: bytes(200),
    )
    store.open()
    put(store, message(TAGS="A"))
    assert codes(store) == [tags_code("A")]


def test_a_full_disk_is_tried_again_and_leaves_no_gap(tmp_path: Path) -> None:
    disk = Disk()
    store = extended(tmp_path, disk=disk)
    fill(store, 2)
    disk.fail("write", "consumequeue/T", errno.ENOSPC)
    fill(store, 3, 2)
    assert not store.flush()
    assert store.max_offset("T", 0) == 5
    disk.fault = None
    fill(store, 1, 5)
    assert store.flush()
    assert [position_of(code) for code in codes(store)] == [0, 20, 54, 88, 108, 142]
    assert tagged(store, "A") == in_turn(6)


def test_an_extension_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    disk = Disk()
    store = extended(tmp_path, disk=disk)
    disk.fail("truncate", "consumequeue_ext", errno.ENOSPC)
    fill(store, 2)
    assert not store.flush()
    assert tagged(store, "A") == in_turn(2), "read from memory"
    disk.fault = None
    fill(store, 1, 2)
    assert store.flush()
    assert tagged(store, "A") == in_turn(3)
    assert [unit.tags_code for unit in units(tmp_path, codes(store))] == [tags_code("AB"[n % 2]) for n in range(3)]


def test_units_are_read_from_memory_until_their_files_are_made_and_of_both_while_they_are_written(
    tmp_path: Path,
) -> None:
    store = extended(tmp_path)
    fill(store, 12)
    assert not (tmp_path / "consumequeue_ext").exists()
    assert tagged(store, "A") == in_turn(12)
    store.flush()
    assert len(list((tmp_path / FIRST).parent.iterdir())) == 2
    fill(store, 12, 12)
    assert tagged(store, "A") == in_turn(24), "some units in files, some held, in three files"
    before = codes(store)
    store.flush()
    assert codes(store) == before


def test_the_extension_is_on_disk_before_the_units_that_lead_there(tmp_path: Path) -> None:
    disk = Disk()
    store = extended(tmp_path, disk=disk)
    fill(store, 2)
    disk.calls.clear()
    assert store.flush()
    synced = [path for operation, path in disk.calls if operation == "sync"]
    extension, queue = tmp_path / FIRST, tmp_path / "consumequeue/T/0" / f"{0:020d}"
    assert synced.index(extension) < synced.index(queue)
    for made in (extension.parent, extension.parent.parent, extension.parent.parent.parent, tmp_path):
        assert made in synced


def test_a_failed_sync_of_the_extension_stops_the_store(tmp_path: Path) -> None:
    disk = Disk()
    store = extended(tmp_path, disk=disk)
    fill(store, 2)
    disk.fail("sync", "consumequeue_ext")
    assert not store.flush()
    assert store.refusal is not None


def test_files_of_expired_messages_go(tmp_path: Path) -> None:
    store = extended(tmp_path)
    for number in range(60):
        put(store, message(b"%02d" % number * 200, TAGS="A", n="1"))
    store.flush()
    for path in (tmp_path / "commitlog").iterdir():
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    before = sorted(int(path.name) for path in (tmp_path / "consumequeue_ext/T/0").iterdir())
    assert store.delete_expired(START_MS + 400 * 86_400_000, asked=True) > 1
    low = store.min_offset("T", 0)
    after = sorted(int(path.name) for path in (tmp_path / "consumequeue_ext/T/0").iterdir())
    assert low >= 10
    assert after == before[low // 5 :], "five units a file"
    put(store, message(b"next", TAGS="A", n="1"))
    assert position_of(codes(store)[-1]) == after[-1] + 200
    assert len(tagged(store, "A")) == 61 - low


def test_a_deleted_topic_takes_its_extension_along(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = extended(directory)
    fill(store, 12)
    store.flush()
    fill(store, 1)  # and one that is held
    store.delete_topic("T")
    assert list((directory / "consumequeue_ext").iterdir()) == []
    assert list((directory / "deleted").iterdir()) == []
    fill(store, 3)
    assert [position_of(code) for code in codes(store)] == [0, 20, 54]
    assert tagged(store, "A") == in_turn(3)
    assert tagged(extended(killed(directory)), "A") == in_turn(3)


def test_a_kill_between_the_parts_of_a_deletion_does_no_harm(tmp_path: Path) -> None:
    disk = Disk()
    directory = tmp_path / "s"
    store = extended(directory, disk=disk)
    fill(store, 12)
    store.flush()
    left = killed(directory)
    shutil.rmtree(left / "consumequeue" / "T")  # the extension is still there
    again = extended(left)
    fill(again, 4, 12)
    assert tagged(again, "A") == in_turn(16)


def test_a_topic_goes_also_when_its_extension_cannot_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    store = extended(tmp_path, disk=disk)
    fill(store, 12)
    rename = disk.rename

    def refusing(source: Path, target: Path) -> None:
        if "consumequeue_ext" in str(source):
            raise OSError(errno.EACCES, "no", str(source))
        rename(source, target)

    monkeypatch.setattr(disk, "rename", refusing)
    store.delete_topic("T")
    assert store.max_offset("T", 0) == 0
    fill(store, 2)
    assert tagged(store, "A") == in_turn(2)
    assert tagged(store, "B") == [b"1"]


def test_light_queues_have_extensions_of_their_own(tmp_path: Path) -> None:
    store = extended(tmp_path, settings=replace(EXTENDED, enable_lmq=True, enable_multi_dispatch=True))
    put(store, message(b"0", TAGS="A"))
    put(store, message(b"1", TAGS="A", INNER_MULTI_DISPATCH="%LMQ%a"))
    assert [position_of(code) for code in codes(store)] == [0, 20]
    assert [position_of(code) for code in codes(store, "%LMQ%a")] == [0]
    store.flush()
    (kept,) = units(tmp_path, codes(store, "%LMQ%a"), "%LMQ%a")
    assert kept.tags_code == tags_code("A")


def test_writing_goes_on_in_a_directory_of_apache_rocketmq(tmp_path: Path) -> None:
    """Its files are smaller than configured here, and stay so."""
    directory = unpacked(tmp_path / "apache")
    settings = replace(SETTINGS, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=1 << 20)
    store = extended(directory, settings=settings)
    put(store, message(b"new", topic="Ext", TAGS="red", n="180"))
    raw = store.queue_units("Ext", 0, MESSAGES - 1, 2)
    before, after = (position_of(code) for _, _, code in UNIT.iter_unpack(raw))
    assert after == before + 34
    assert {path.stat().st_size for path in (directory / "consumequeue_ext/Ext/0").iterdir()} == {4096}
    assert numbers(store) == [*ALL_RED, MESSAGES]
