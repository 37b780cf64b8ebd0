"""Places in light queues: together, in a file that ends, when the disk is full, and after a kill at any point."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.store.put_result import PutStatus
from gateway.tests.store.small_store import (
    SMALL,
    Disk,
    bodies,
    killed,
    message,
    opened,
    overwrite,
    put,
    put_all,
    read_all,
)
from wire.message.record import OutgoingMessage

LIGHT = replace(SMALL, enable_lmq=True, enable_multi_dispatch=True)


def named(body: bytes, *queues: str, topic: str = "T") -> OutgoingMessage:
    return message(body, topic=topic, INNER_MULTI_DISPATCH=",".join(queues))


def test_messages_appended_together_have_places_behind_each_other(tmp_path: Path) -> None:
    store = opened(tmp_path, LIGHT)
    put(store, named(b"a", "%LMQ%x"))
    put_all(store, [named(b"b", "%LMQ%x", "%LMQ%x"), message(b"c"), named(b"d", "%LMQ%y", "%LMQ%x")])
    assert bodies(store, "%LMQ%x") == [b"a", b"b", b"d"]  # named twice is once, as rebuilt by Apache RocketMQ
    assert bodies(store, "%LMQ%y") == [b"d"]
    assert bodies(store) == [b"a", b"b", b"c", b"d"]


def test_a_full_disk_gives_the_places_back(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, LIGHT, disk=disk)
    put(store, named(b"a", "%LMQ%x"))
    disk.fail("write", "commitlog", errno.ENOSPC)
    assert put(store, named(b"lost", "%LMQ%x")).status is PutStatus.SERVICE_NOT_AVAILABLE
    disk.fault = None
    store.look_at_space(store.deletion.look())
    put(store, named(b"b", "%LMQ%x"))
    assert bodies(store, "%LMQ%x") == [b"a", b"b"]
    assert [found.property_map["INNER_MULTI_QUEUE_OFFSET"] for found in read_all(store, "%LMQ%x")] == ["0", "1"]


def test_places_are_right_when_a_file_of_the_log_ends(tmp_path: Path) -> None:
    store = opened(tmp_path, LIGHT)
    sent = [b"%04d" % number + bytes(500) for number in range(30)]
    for body in sent:
        put(store, named(body, "%LMQ%x"))
    assert store.max_commit_log_offset > LIGHT.mapped_file_size_commit_log
    assert bodies(store, "%LMQ%x") == sent
    assert bodies(opened(killed(tmp_path), LIGHT), "%LMQ%x") == sent


def test_retried_and_waiting_messages_go_to_no_light_queue(tmp_path: Path) -> None:
    store = opened(tmp_path, LIGHT)
    for topic in ("%RETRY%g", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"):
        put(store, named(b"a", "%LMQ%x", topic=topic))
        assert bodies(store, topic) == [b"a"]
    assert bodies(store, "%LMQ%x") == []


def test_copies_and_what_a_client_made_up_are_put_into_no_light_queue_again(tmp_path: Path) -> None:
    made_up: dict[str, Any] = {"INNER_MULTI_DISPATCH": "%LMQ%x", "INNER_MULTI_QUEUE_OFFSET": "9" * 18}
    before = opened(tmp_path)
    put(before, message(b"stored before", **made_up))
    before.close()
    store = opened(tmp_path, LIGHT)
    put(store, named(b"a", "%LMQ%x"))
    (stored,) = read_all(store, "%LMQ%x")
    copied: dict[str, Any] = stored.property_map
    put(store, message(b"a again", topic="%RETRY%g", **copied))
    store.close()
    shutil.rmtree(tmp_path / "consumequeue")
    for number, (settings, there) in enumerate([(LIGHT, [b"a"]), (SMALL, [])]):
        again = opened(killed(tmp_path, number), settings)
        assert bodies(again, "%LMQ%x") == there
        assert bodies(again, "%RETRY%g") == [b"a again"]
        assert bodies(again) == [b"stored before", b"a"]


def test_dead_letters_are_put_into_no_light_queue_and_those_of_an_apache_broker_stay_there(tmp_path: Path) -> None:
    dead: dict[str, Any] = {"INNER_MULTI_DISPATCH": "%LMQ%x", "INNER_MULTI_QUEUE_OFFSET": "1"}
    store = opened(tmp_path, LIGHT)
    put(store, named(b"a", "%LMQ%x"))
    put(store, message(b"dead", topic="%DLQ%g", **{**dead, "INNER_MULTI_QUEUE_OFFSET": "0"}))
    assert bodies(store, "%LMQ%x") == [b"a"]
    (letter,) = read_all(store, "%DLQ%g")
    assert letter.property_map == {"INNER_MULTI_DISPATCH": "%LMQ%x"}
    store.close()
    without = opened(tmp_path)  # it leaves the properties as they come, as those that an Apache broker has written
    put(without, message(b"apache", topic="%DLQ%g", **dead))
    without.close()
    shutil.rmtree(tmp_path / "consumequeue")
    again = opened(killed(tmp_path, 1), LIGHT)
    assert bodies(again, "%LMQ%x") == [b"a", b"apache"]
    assert bodies(again, "%DLQ%g") == [b"dead", b"apache"]


def test_a_damaged_unit_is_made_again_and_the_others_are_right(tmp_path: Path) -> None:
    store = opened(tmp_path, LIGHT)
    for body in (b"a", b"b", b"c"):
        put(store, named(body, "%LMQ%x"))
        put(store, message(b"of no light queue"))
    store.close()
    file = tmp_path / "consumequeue" / "%LMQ%x" / "0" / f"{0:020d}"
    sound = file.read_bytes()
    overwrite(file, 27, b"\x07")
    store = opened(tmp_path, LIGHT)
    assert store.mend_queue("%LMQ%x", 0, 0, 3) == 0
    assert bodies(store, "%LMQ%x") == [b"a", b"b", b"c"]
    assert file.read_bytes() == sound


def test_a_kill_at_any_point_leaves_light_queues_that_agree_with_the_log(tmp_path: Path) -> None:
    images: list[Path] = []

    def copy(_operation: str, _path: Path) -> None:
        images.append(tmp_path / f"image-{len(images)}")
        shutil.copytree(tmp_path / "store", images[-1])

    disk = Disk()
    store = opened(tmp_path / "store", LIGHT, disk=disk)
    put(store, named(b"0", "%LMQ%x"))
    disk.fault = copy
    put_all(store, [named(b"1", "%LMQ%x", "%LMQ%y"), message(b"2"), named(b"3", "%LMQ%y", "%LMQ%x")])
    put(store, named(b"4", "%LMQ%x"))
    copy("", tmp_path)
    disk.fault = None
    seen = set()
    for image in images:
        again = opened(image, LIGHT)
        there = bodies(again)
        seen.add(len(there))
        assert bodies(again, "%LMQ%x") == [body for body in there if body != b"2"]
        assert bodies(again, "%LMQ%y") == [body for body in there if body in (b"1", b"3")]
        put(again, named(b"next", "%LMQ%y"))
        assert bodies(again, "%LMQ%y")[-1:] == [b"next"]
    assert {1, 4, 5} <= seen
