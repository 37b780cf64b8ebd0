"""``store repair``: shows first, keeps the originals, and leaves a directory that is intact, dense and served."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.store.errors import LogCutShort, LogDamaged
from gateway.store_tool.stand_in import HIDDEN_TOPIC, STAND_IN_TAG
from gateway.tests.store.small_store import Clock, opened, put, read_all, small_store
from gateway.tests.store_tool import test_verification as damages
from gateway.tests.store_tool.small_directory import COUNT, TOPICS, flip, log_file, records, run, tree, write
from wire.message.record import StoredMessage, parse_record

NOT_REPAIRABLE = {"_no_log", "_swapped", "_index_size"}
REPAIRABLE = [damage for damage in damages.DAMAGES if damage.__name__ not in NOT_REPAIRABLE]


def everything(directory: Path) -> dict[tuple[str, int], list[StoredMessage]]:
    """All messages of all queues, read as a consumer reads them."""
    store = opened(directory, clock=Clock(), delay_of=lambda level: level * 1000)
    try:
        return {(topic, queue_id): read_all(store, topic, queue_id) for topic in TOPICS for queue_id in (0, 1)}
    finally:
        store.close()


@pytest.mark.parametrize("damage", REPAIRABLE, ids=lambda damage: damage.__name__.strip("_"))
def test_after_a_repair_all_is_intact_and_queues_have_no_hole(
    directory: Path, original: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    whole = everything(Path(shutil.copytree(original, tmp_path / "whole")))
    damage(directory)
    before = tree(directory)
    plan = run("repair", directory)
    assert plan.exit_code == 1
    assert "To be done:" in plan.stdout
    assert f"Nothing was changed. To do it: rocketmq-gateway store repair {directory} --apply" in plan.stdout
    assert tree(directory) == before

    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert "The originals are in " in done.stdout
    verified = run("verify", directory)
    assert verified.exit_code == 0, verified.output
    assert not (directory / "abort").exists()

    found = everything(directory)
    for name, messages in found.items():
        assert [message.queue_offset for message in messages] == list(range(len(messages))), name
        assert len(messages) == len(whole[name]), name
        for message, expected in zip(messages, whole[name], strict=True):
            if message.property_map.get("TAGS") != STAND_IN_TAG:
                assert message.body == expected.body
    verified = run("verify", directory)
    assert verified.exit_code == 0, verified.output


def test_a_damaged_message_becomes_one_that_says_so(directory: Path) -> None:
    position, size = records(directory)[4]
    lost = parse_record(log_file(directory).read_bytes(), position)
    flip(log_file(directory), position + 92)
    damaged = log_file(directory).read_bytes()[position : position + size]
    assert run("repair", directory, "--apply").exit_code == 0
    (stand_in,) = [m for m in everything(directory)[lost.topic, lost.queue_id] if m.commit_log_offset == position]
    assert (stand_in.queue_offset, stand_in.total_size) == (lost.queue_offset, size)
    assert stand_in.property_map == {"TAGS": STAND_IN_TAG}
    assert stand_in.body.startswith(b"This message was damaged on disk")
    (kept,) = (directory / "recovered").iterdir()
    assert (kept / "commitlog" / f"{position:020d}.bytes").read_bytes() == damaged
    report = (kept / "report").read_text()
    assert f"message lost: {lost.topic} queue {lost.queue_id} offset {lost.queue_offset}\n" in report
    assert "body checksum is 0x" in report


def test_recovery_refuses_what_repair_then_mends(directory: Path) -> None:
    position, _ = records(directory)[4]
    flip(log_file(directory), position + 92)
    (directory / "abort").touch()
    (directory / "checkpoint").unlink()
    with pytest.raises(LogDamaged, match=f"rocketmq-gateway store repair {directory}"):
        small_store(directory).open()
    assert run("repair", directory, "--apply").exit_code == 0
    store = opened(directory)
    assert put(store, b"next").queue_offset == 0
    store.close()


@pytest.mark.parametrize("into_record", [0, 30], ids=["between records", "within a record"])
def test_repair_accepts_the_loss_of_a_log_cut_short(directory: Path, into_record: int) -> None:
    last = len(list((directory / "commitlog").iterdir())) - 1
    path = log_file(directory, last)
    while not any(path.read_bytes()):  # made in advance
        last -= 1
        path = log_file(directory, last)
    size = path.stat().st_size
    cut = records(directory, last)[-1][0] + into_record
    os.truncate(path, cut)
    os.truncate(path, size)
    with pytest.raises(LogCutShort, match=f"rocketmq-gateway store repair {directory} --apply"):
        small_store(directory).open()
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    verified = run("verify", directory)
    assert verified.exit_code == 0, verified.output
    store = small_store(directory)
    assert store.open().remarks == []
    assert put(store, b"next").commit_log_offset == int(path.name) + cut - into_record
    store.close()


def test_without_consume_queues_the_row_of_offsets_tells_which_messages_are_lost(directory: Path) -> None:
    """A zeroed page and lost queues: what stood there is found by its neighbours in the queues."""
    first, _ = records(directory)[10]
    end, size = records(directory)[14]
    write(log_file(directory), first, bytes(end + size - first))
    shutil.rmtree(directory / "consumequeue")
    assert run("repair", directory, "--apply").exit_code == 0
    queues = everything(directory)
    assert all([m.queue_offset for m in found] == list(range(len(found))) for found in queues.values())
    replaced = [m for found in queues.values() for m in found if m.property_map.get("TAGS") == STAND_IN_TAG]
    assert len(replaced) >= 4
    assert run("verify", directory).exit_code == 0


def test_what_stood_in_no_queue_is_filled_with_what_no_queue_shows(directory: Path) -> None:
    last_of_file, size = records(directory)[-1]
    shutil.rmtree(directory / "consumequeue")
    write(log_file(directory), last_of_file, bytes(size - 30))
    assert run("repair", directory, "--apply").exit_code == 0
    content = log_file(directory).read_bytes()
    message = parse_record(content, last_of_file)
    assert message.topic in (HIDDEN_TOPIC, *TOPICS, "SCHEDULE_TOPIC_XXXX")
    assert not (directory / "consumequeue" / HIDDEN_TOPIC).exists()
    assert run("verify", directory).exit_code == 0


def test_a_torn_tail_is_cut_and_kept(directory: Path) -> None:
    damages._tail(directory)
    result = run("repair", directory, "--apply")
    assert result.exit_code == 0, result.output
    assert list((directory / "recovered").glob("*.tail"))
    assert sum(map(len, everything(directory).values())) < COUNT


def test_an_intact_directory_is_left_alone(directory: Path) -> None:
    before = tree(directory)
    result = run("repair", directory, "--apply")
    assert (result.exit_code, result.stdout) == (0, "Nothing has to be repaired.\n")
    after = tree(directory)
    assert after.pop("lock")
    before.pop("lock", None)
    assert after == before


def test_swapped_files_are_not_overwritten_but_named(directory: Path) -> None:
    damages._swapped(directory)
    before = tree(directory)
    result = run("repair", directory, "--apply")
    assert result.exit_code == 2
    name = log_file(directory)
    assert f"Error: {name} holds the records of commit log offset 8192; give it the name {8192:020d}" in result.stderr
    after = tree(directory)
    assert {key: value for key, value in after.items() if key != "lock"} == {
        key: value for key, value in before.items() if key != "lock"
    }


def test_an_unreadable_file_without_backup_is_moved_away(directory: Path) -> None:
    path = directory / "config" / "consumerOffset.json"
    path.write_bytes(b"{")
    path.with_name("consumerOffset.json.bak").unlink()
    assert "moves it away; there is no readable backup" in run("verify", directory).stdout
    assert run("repair", directory, "--apply").exit_code == 0
    assert not path.exists()
    (kept,) = (directory / "recovered").iterdir()
    assert (kept / "config" / "consumerOffset.json").read_bytes() == b"{"


def test_a_directory_that_may_not_be_written_is_refused(directory: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    directory.chmod(0o500)
    try:
        assert run("repair", directory, "--apply").exit_code == 2
    finally:
        directory.chmod(0o700)
