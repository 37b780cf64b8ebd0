"""``store repair``: shows first, keeps the originals, and leaves a directory that is intact, dense and served."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.store.disk.files import DiskSpace, FileLayer
from gateway.store.errors import LogBeginsLate, LogCutShort, LogDamaged
from gateway.store.message_store import MessageStore
from gateway.store_tool.repair.stand_in import HIDDEN_TOPIC, STAND_IN_TAG
from gateway.tests.store.small_store import LOG_FILE_BYTES, Clock, opened, put, read_all, small_store
from gateway.tests.store.small_store import message as outgoing
from gateway.tests.store_tool.checks import test_verification as damages
from gateway.tests.store_tool.small_directory import (
    COUNT,
    TOPICS,
    fill,
    flip,
    index_file,
    log_file,
    queue_file,
    records,
    run,
    tree,
    write,
)
from wire.message.record import HEADS, StoredMessage, parse_record

SHAPE = damages.SHAPE
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


def test_a_repair_that_is_not_on_the_disk_in_the_end_says_so(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(directory / "consumequeue")
    monkeypatch.setattr(MessageStore, "flush", lambda self: False)
    result = run("repair", directory, "--apply")
    assert result.exit_code == 1
    assert "could not be flushed to the disk; repair it again" in result.stderr
    monkeypatch.undo()
    assert run("repair", directory, "--apply").exit_code == 0
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


def test_a_newer_log_behind_an_older_first_file_is_kept(directory: Path, original: Path, tmp_path: Path) -> None:
    """A backup was copied over a newer directory: the start refuses, the repair loses only what was overwritten."""
    older = tmp_path / "older"
    fill(older, 20)
    shutil.copytree(older, directory, dirs_exist_ok=True)
    with pytest.raises(LogDamaged, match=r"store repair"):
        small_store(directory).open()
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    whole = everything(Path(shutil.copytree(original, tmp_path / "whole")))
    lost = LOG_FILE_BYTES
    for name, messages in everything(directory).items():
        after = {message.body for message in messages}
        assert all(message.body in after for message in whole[name] if message.commit_log_offset >= lost), name


def test_damage_that_meets_a_lost_queue_file_is_mended_at_once(directory: Path) -> None:
    """The messages that only the neighbours in their queue tell of get the room between those that units tell of."""
    positions = records(directory)
    first, (end, size) = positions[3][0], positions[14]
    write(log_file(directory), first, bytes(end + size - first))
    queue_file(directory, "orders", 0).unlink()
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    queues = everything(directory)
    assert all([m.queue_offset for m in found] == list(range(len(found))) for found in queues.values())
    (kept,) = (directory / "recovered").iterdir()
    lost = (kept / "report").read_text().count("message lost: ")
    assert f"{lost} messages could not be saved" in done.stdout
    replaced = [m for found in queues.values() for m in found if m.property_map.get("TAGS") == STAND_IN_TAG]
    assert {(m.topic, m.queue_id) for m in replaced} >= {("orders", 0), ("stock", 0)}
    assert run("verify", directory).exit_code == 0


def test_an_intact_index_stays_when_a_queue_is_made_again(directory: Path) -> None:
    before = {path.name: path.stat().st_ino for path in (directory / "index").iterdir()}
    flip(queue_file(directory), 45)
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert "index file" not in done.stdout
    assert {path.name: path.stat().st_ino for path in (directory / "index").iterdir()} == before
    (kept,) = (directory / "recovered").iterdir()
    assert (kept / "checkpoint").exists()


def test_an_index_that_a_start_would_not_believe_is_kept_aside(directory: Path) -> None:
    before = {path.name: path.read_bytes() for path in (directory / "index").iterdir()}
    (directory / "checkpoint").unlink()
    flip(queue_file(directory), 45)
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert "deleted" not in done.stdout
    (kept,) = (directory / "recovered").iterdir()
    assert {path.name: path.read_bytes() for path in (kept / "index").iterdir()} == before
    assert run("verify", directory).exit_code == 0


@pytest.mark.parametrize("linked", ["consumequeue/orders", "consumequeue/orders/0", "index", "config", "commitlog"])
def test_what_a_link_leads_to_on_another_disk_is_repaired_there(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(directory / linked, elsewhere)
    (directory / linked).symlink_to(elsewhere)
    rename = FileLayer.rename

    def between_disks(files: FileLayer, source: Path, target: Path) -> None:
        if source.resolve().is_relative_to(elsewhere) != target.parent.resolve().is_relative_to(elsewhere):
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(source))
        rename(files, source, target)

    monkeypatch.setattr(FileLayer, "rename", between_disks)
    flip(queue_file(directory), 45)
    flip(index_file(directory, 1), SHAPE.entry_position(3) + 1)
    (directory / "config" / "topics.json").write_bytes(b"{")
    position, _ = records(directory)[4]
    flip(log_file(directory), position + 92)
    damaged = queue_file(directory).read_bytes()
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert (directory / linked).is_symlink()
    (kept,) = (directory / "recovered").iterdir()
    assert (kept / "consumequeue" / "orders" / "0" / queue_file(directory).name).read_bytes() == damaged
    assert (kept / "config" / "topics.json").read_bytes() == b"{"
    assert run("verify", directory).exit_code == 0


def test_a_lost_first_file_is_a_finding_and_its_loss_can_be_accepted(directory: Path) -> None:
    log_file(directory).unlink()
    found = run("verify", directory)
    assert found.exit_code == 1
    what = "is missing: the log begins at 8192, but only what lies below 0 was deleted as expired; fix: restore it"
    assert f"{directory / 'commitlog' / ('0' * 20)}: {what}" in found.stdout
    with pytest.raises(LogBeginsLate):
        small_store(directory).open()
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert "accept that the log begins at 8192: 8192 bytes of messages are lost" in done.stdout
    assert run("verify", directory).exit_code == 0
    store = opened(directory)
    assert put(store, b"next").status.is_stored
    store.close()
    assert run("verify", directory).exit_code == 0


def test_files_that_were_deleted_as_expired_are_no_finding(directory: Path) -> None:
    store = opened(directory, delay_of=lambda level: level * 1000)
    assert store.delete_expired(1 << 45, asked=True) > 1
    store.close()
    assert run("verify", directory).exit_code == 0
    assert run("repair", directory).exit_code == 0
    opened(directory).close()


def test_without_a_log_nothing_can_be_repaired_and_the_exit_code_says_so(directory: Path) -> None:
    shutil.rmtree(directory / "commitlog")
    for arguments in ((), ("--apply",)):
        result = run("repair", directory, *arguments)
        assert result.exit_code == 1
        assert "holds no commit log file" in result.stdout
        assert "Nothing of this can be repaired here" in result.stdout


@pytest.mark.parametrize("kind", ["directory", "pipe"])
@pytest.mark.parametrize(
    "name",
    [
        "checkpoint",
        "gateway-queues",
        "gateway-index",
        "transaction/checks",
        "config/delayOffset.json",
        "config/topics.json",
    ],
)
def test_what_stands_where_a_file_belongs_is_found_and_moved_away(directory: Path, name: str, kind: str) -> None:
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    found = run("verify", directory)
    assert found.exit_code == 1
    assert f"{path}: is a {kind}" in found.stdout
    assert "a file belongs there; fix: rocketmq-gateway store repair" in found.stdout
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert run("verify", directory).exit_code == 0
    opened(directory).close()


@pytest.mark.parametrize("name", ["consumequeue", "index", "transaction", "config"])
def test_a_file_that_stands_where_a_directory_belongs_is_found_and_moved_away(directory: Path, name: str) -> None:
    whole = everything(directory)
    shutil.rmtree(directory / name, ignore_errors=True)
    (directory / name).write_bytes(b"what is this")
    assert f"{directory / name}: is a file, a directory belongs there; fix: " in run("verify", directory).stdout
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert run("verify", directory).exit_code == 0
    (kept,) = (directory / "recovered").iterdir()
    assert (kept / name).read_bytes() == b"what is this"
    assert {key: len(found) for key, found in everything(directory).items()} == {
        key: len(found) for key, found in whole.items()
    }


def test_names_that_are_no_text_are_left_alone(directory: Path) -> None:
    (directory / "consumequeue" / "\udcff" / "0").mkdir(parents=True)
    (directory / "config" / "\udcff.json").touch()
    found = run("verify", directory)
    assert found.exit_code == 1
    assert r"config/\xff.json: is empty" in found.stdout
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    opened(directory).close()


def test_a_copy_of_a_log_file_behind_the_end_is_moved_away(directory: Path) -> None:
    end = LOG_FILE_BYTES * len(list((directory / "commitlog").iterdir()))
    copy = directory / "commitlog" / f"{end:020d}"
    shutil.copyfile(log_file(directory), copy)
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert f"move {copy} away: it is a copy of another commit log file" in done.stdout
    (kept,) = (directory / "recovered").iterdir()
    assert (kept / "commitlog" / copy.name).read_bytes() == log_file(directory).read_bytes()
    assert run("verify", directory).exit_code == 0
    assert sum(map(len, everything(directory).values())) == COUNT - COUNT // 10


def test_a_log_file_that_was_made_longer_gets_its_size_back(directory: Path) -> None:
    os.truncate(log_file(directory, 1), 100 << 30)
    found = run("verify", directory)
    assert f"{log_file(directory, 1)}: has {100 << 30} bytes, a commit log file here has 8192" in found.stdout
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    assert log_file(directory, 1).stat().st_size == LOG_FILE_BYTES
    assert run("verify", directory).exit_code == 0


def test_a_repair_for_which_the_disk_has_no_room_changes_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(queue_file(directory), 45)
    monkeypatch.setattr(FileLayer, "disk_space", lambda _files, _path: DiskSpace(1 << 30, 8192))
    before = tree(directory)
    result = run("repair", directory, "--apply")
    assert result.exit_code == 2
    assert "8 KiB are free; make room there. Nothing was changed" in result.stderr
    after = tree(directory)
    assert {**after, "lock": None} == {**before, "lock": None}


def test_a_disk_that_is_full_is_called_so(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(queue_file(directory), 45)

    def full(_files: FileLayer, _fd: int, _data: bytes, _offset: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FileLayer, "pwrite", full)
    result = run("repair", directory, "--apply")
    assert result.exit_code == 2
    assert "No space left on device (" in result.stderr
    assert "/report); make room on that disk and run the command again" in result.stderr


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


def test_a_log_file_of_a_name_far_beyond_the_others_is_refused(directory: Path) -> None:
    last = log_file(directory, -1)
    size = last.stat().st_size
    far = last.with_name(f"{size << 40:020d}")
    far.write_bytes(last.read_bytes())
    for position, _ in records(directory, -1):
        write(far, position + HEADS[0].offset("commit_log_offset"), (int(far.name) + position).to_bytes(8, "big"))
    before = tree(directory)
    result = run("repair", directory)
    assert result.exit_code == 2, result.output
    assert far.name in result.output
    assert "files are missing before" in result.output
    assert tree(directory) == before


def test_a_record_whose_topic_no_queue_can_have_is_one_lost_message(tmp_path: Path) -> None:
    store = opened(tmp_path)
    results = [put(store, outgoing(b"x", topic="aab")) for _ in range(5)]
    store.close()
    content = log_file(tmp_path).read_bytes()
    write(log_file(tmp_path), content.index(b"aab", results[2].commit_log_offset), b"a/b")
    assert run("verify", tmp_path).exit_code == 1
    assert "\n1 messages could not be saved" in run("repair", tmp_path, "--apply").stdout
    assert run("verify", tmp_path).exit_code == 0
