"""Each kind of damage to each kind of file: the exact error or remark, and what survives.

The store is made in tiny files: a log of four files, a queue ``T/0`` of three files with all even messages, a queue
``U/1`` of three files with the odd ones, keys ``k0`` …, one deleted topic.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.metadata.saved.json_file import JsonFile
from gateway.schedule.delay_offsets import DelayOffsets
from gateway.store.errors import ForeignFile, LogBeginsLate, LogDamaged, StoreNotAccessible
from gateway.store.message_store import MessageStore
from gateway.store.reading.get_result import GetStatus
from gateway.tests.store.small_store import (
    LOG_FILE_BYTES,
    START_MS,
    Clock,
    Disk,
    killed,
    message,
    opened,
    overwrite,
    put,
    small_store,
)
from wire.disk.config_json import ConsumerOffsetsFile, DelayOffsetsFile, GroupsFile, KvConfigFile, TopicsFile
from wire.message.record import StoredMessage, parse_records

COUNT = 50
BODY = 500
QUEUES = (("T", 0), ("U", 1))
Damage = Callable[[Path], None]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    ``clean``: damaged after a proper stop; else after a kill without a checkpoint, so that all of the log is walked.
    ``error``: the kind that refuses the start. ``text``: of the error, or of one of the remarks; None: no remark.
    ``unreadable``: messages whose reading is answered MESSAGE_DAMAGED; ``gone``: messages the queue ends before.
    """

    damage: Damage
    clean: bool = True
    error: type[Exception] | None = None
    text: str | None = None
    unreadable: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()


def _make(directory: Path, *, clean: bool) -> tuple[Path, list[int]]:
    """The store to be damaged, and where in the log its messages lie."""
    store = opened(directory)
    places = []
    for number in range(COUNT):
        topic, queue_id = QUEUES[number % 2]
        outgoing = message(b"%04d" % number * (BODY // 4), topic=topic, queue_id=queue_id, KEYS=f"k{number}")
        places.append(put(store, outgoing).commit_log_offset)
        if number == COUNT // 2:
            put(store, message(b"deleted soon", topic="Gone"))
            store.delete_topic("Gone")
    if clean:
        store.close()
        return directory, places
    store.flush()
    directory = killed(directory)
    (directory / "checkpoint").unlink()
    return directory, places


def _read(store: MessageStore) -> tuple[set[int], set[int]]:
    """The numbers of the messages that consumers get, and of those that are answered as damaged."""
    got, unreadable = set(), set()
    for place, (topic, queue_id) in enumerate(QUEUES):
        offset, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        while offset < end:
            result = store.get_messages(topic, queue_id, offset, 7, 1 << 20)
            if result.status is GetStatus.MESSAGE_DAMAGED:
                assert re.search(r"message \d+ of \w/\d is damaged \(.*; stop the broker and run", result.remark)
                assert f"rocketmq-gateway store repair {store._paths.root}" in result.remark
                unreadable.add(offset * 2 + place)
                offset += 1
                continue
            assert result.status is GetStatus.FOUND, result
            for found in parse_records(b"".join(result.parts)):
                number = _number(found)
                assert (found.topic, found.queue_id) == (topic, queue_id)
                assert number == found.queue_offset * 2 + place
                got.add(number)
            offset = result.next_begin_offset
    return got, unreadable


def _number(found: StoredMessage) -> int:
    assert found.body == found.body[:4] * (BODY // 4), "never wrong bytes"
    return int(found.body[:4])


# --- kinds of damage ---------------------------------------------------------------------------------------------


def _path(name: str) -> Callable[[Path], Path]:
    return lambda root: root / name


def _write(name: str, position: int, data: bytes) -> Damage:
    return lambda root: overwrite(root / name, position, data)


def _flip(name: str, position: int, bit: int = 1) -> Damage:
    def damage(root: Path) -> None:
        overwrite(root / name, position, bytes(((root / name).read_bytes()[position] ^ bit,)))

    return damage


def _cut(name: str, size: int) -> Damage:
    return lambda root: os.truncate(root / name, size)


def _swap(one: str, other: str) -> Damage:
    def damage(root: Path) -> None:
        kept = (root / one).read_bytes()
        (root / one).write_bytes((root / other).read_bytes())
        (root / other).write_bytes(kept)

    return damage


def _copy(source: str, target: str) -> Damage:
    def damage(root: Path) -> None:
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / source, root / target)

    return damage


def _remove(name: str) -> Damage:
    return lambda root: shutil.rmtree(root / name) if (root / name).is_dir() else (root / name).unlink()


def _link(name: str) -> Damage:
    """Move the file elsewhere and leave a symbolic link."""

    def damage(root: Path) -> None:
        target = root.parent / "elsewhere"
        shutil.move(root / name, target)
        (root / name).symlink_to(target)

    return damage


def _dangle(name: str) -> Damage:
    def damage(root: Path) -> None:
        (root / name).unlink()
        (root / name).symlink_to(root.parent / "nowhere" / "at all")

    return damage


def _directory(name: str) -> Damage:
    def damage(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        (root / name).mkdir(parents=True)

    return damage


def _file_for(name: str) -> Damage:
    def damage(root: Path) -> None:
        shutil.rmtree(root / name)
        (root / name).write_bytes(b"what is this")

    return damage


def _pipe(name: str) -> Damage:
    def damage(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        (root / name).parent.mkdir(exist_ok=True)
        os.mkfifo(root / name)

    return damage


def _text(name: str, content: bytes = b"what is this") -> Damage:
    def damage(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)

    return damage


# --- the table ---------------------------------------------------------------------------------------------------

LOG = [f"commitlog/{number * LOG_FILE_BYTES:020d}" for number in range(5)]
T = [f"consumequeue/T/0/{number * 200:020d}" for number in range(4)]
U = [f"consumequeue/U/1/{number * 200:020d}" for number in range(4)]
RECORD = 600
"""Bytes of each of the first ten records; the body of one begins 88 bytes in."""
REPAIR = r"damaged at byte \d+ \(commit log offset \d+\): .* Nothing was changed.*'rocketmq-gateway store repair /"
REBUILT = r"1 consume queues had lost files and were rebuilt from the commit log"

ROWS: dict[str, Row] = {
    # commit log, below what a start walks: noticed when it is read
    "log: zeroed page": Row(_write(LOG[0], 2 * RECORD, bytes(700)), unreadable=(2, 3)),
    "log: flipped bit in a body": Row(_flip(LOG[0], 4 * RECORD + 100), unreadable=(4,)),
    "log: flipped bit in a size": Row(_flip(LOG[0], 4 * RECORD + 3), unreadable=(4,)),
    "log: flipped bit in a place": Row(_flip(LOG[0], 4 * RECORD + 35), unreadable=(4,)),
    "log: flipped bit in a queue offset": Row(_flip(LOG[0], 4 * RECORD + 27), unreadable=(4,)),
    "log: wrong magic": Row(_write(LOG[0], 4 * RECORD + 4, b"\xca\xfe\xba\xbe"), unreadable=(4,)),
    "log: length beyond the file": Row(_write(LOG[0], 4 * RECORD, b"\x7f\xff\xff\xff"), unreadable=(4,)),
    "log: two files swapped": Row(
        _swap(LOG[0], LOG[1]), error=ForeignFile, text="begins with the records of commit log offset 8192"
    ),
    # commit log, in the walked range: the start is refused
    "log, killed: zeroed page": Row(
        _write(LOG[0], 2 * RECORD, bytes(700)),
        clean=False,
        error=LogDamaged,
        text="nothing is written here",
    ),
    "log, killed: flipped bit in a body": Row(
        _flip(LOG[0], 4 * RECORD + 100), clean=False, error=LogDamaged, text=r"body checksum is 0x\w+, the record"
    ),
    "log, killed: flipped bit in a size": Row(
        _flip(LOG[0], 4 * RECORD + 3), clean=False, error=LogDamaged, text="the parts take 600 bytes"
    ),
    "log, killed: flipped bit in a place": Row(
        _flip(LOG[0], 4 * RECORD + 35), clean=False, error=LogDamaged, text="the record says it lies at 2401"
    ),
    "log, killed: wrong magic": Row(
        _write(LOG[0], 4 * RECORD + 4, b"\xca\xfe\xba\xbe"),
        clean=False,
        error=LogDamaged,
        text="unknown magic 0xcafeba",
    ),
    "log, killed: length beyond the file": Row(
        _write(LOG[0], 4 * RECORD, b"\x7f\xff\xff\xff"), clean=False, error=LogDamaged, text="cut off: 5792 bytes"
    ),
    "log, killed: two files swapped": Row(
        _swap(LOG[0], LOG[1]), clean=False, error=ForeignFile, text="begins with the records of commit log offset 8192"
    ),
    "log, killed: a topic that leads elsewhere": Row(
        _write(LOG[0], 4 * RECORD + 88 + 500 + 1, b"/"), clean=False, error=LogDamaged, text="no queue can be called 0"
    ),
    "log, killed: flipped bit in a queue offset": Row(
        _flip(LOG[0], 4 * RECORD + 27), clean=False, text=r"T/0: messages 2 to 2 are not in the commit log", gone=(4,)
    ),
    # commit log files as a whole
    "log: truncated": Row(
        _cut(LOG[1], 5000),
        error=ForeignFile,
        text="has 5000 bytes, a commit log file here has 8192; restore it .*store repair /",
    ),
    "log: missing in between": Row(
        _remove(LOG[1]), error=ForeignFile, text="is missing: .* is followed by .*store repair /"
    ),
    "log: the first file missing": Row(
        _remove(LOG[0]),
        error=LogBeginsLate,
        text="begins at offset 8192, but only what lies below 0 was deleted as expired; .*repair /.* --apply",
    ),
    "log: all of it missing": Row(_remove("commitlog"), error=ForeignFile, text="holds no commit log file, but"),
    "log: copied behind the end": Row(
        _copy(LOG[0], LOG[4]), error=ForeignFile, text="begins with the records of commit log offset 0: .*, or a copy"
    ),
    "log: foreign file": Row(
        _text("commitlog/notes.txt"), text="notes.txt is not a commit log file and was left alone"
    ),
    "log: symbolic link": Row(_link(LOG[1])),
    "log: dangling link": Row(_dangle(LOG[1]), error=StoreNotAccessible, text="No such file or directory"),
    "log: a directory": Row(_directory(LOG[1]), error=StoreNotAccessible, text="Is a directory"),
    # consume queues: derived, made again from the log
    "queue: zeroed page": Row(_write(T[2], 0, bytes(100)), text=REBUILT),
    "queue: flipped bit in a place": Row(_flip(T[0], 4 * 20 + 7), unreadable=(8,)),
    "queue: flipped bit in a size": Row(_flip(T[0], 4 * 20 + 8, 64), unreadable=(8,)),
    "queue: place beyond the log": Row(_flip(T[0], 4 * 20 + 1, 64), unreadable=(8,)),
    "queue: truncated": Row(_cut(T[1], 60), text=REBUILT),
    "queue: two files swapped": Row(_swap(T[0], T[1]), text=REBUILT),
    "queue: files of two queues swapped": Row(_swap(T[0], U[0]), unreadable=tuple(range(20))),
    "queue: copied behind the end": Row(_copy(T[0], T[3])),
    "queue, killed: copied behind the end": Row(
        _copy(T[0], T[3]), clean=False, text="does not go on where the file before"
    ),
    "queue: missing in between": Row(_remove(T[1]), text=REBUILT),
    "queue: missing": Row(_remove("consumequeue/T"), text=REBUILT),
    "queues: all missing": Row(_remove("consumequeue"), text="2 consume queues had lost files"),
    "queue, killed: missing": Row(_remove("consumequeue/T"), clean=False, text=REBUILT),
    "queue: foreign file": Row(_text("consumequeue/T/0/notes"), clean=False, text="notes is not a consume queue file"),
    "queue: foreign directory": Row(_text("consumequeue/T/x/y"), text="consumequeue/T/x is not a consume queue"),
    "queue: foreign file among topics": Row(
        _text("consumequeue/file"), text="consumequeue/file is not a consume queue"
    ),
    "queue: symbolic link": Row(_link(T[1])),
    "queue: a file for a directory": Row(_text("consumequeue/T/7"), text="consumequeue/T/7 is not a consume queue"),
    # checkpoint
    "checkpoint: zeroed": Row(_text("checkpoint", bytes(4096))),
    "checkpoint: flipped bit": Row(_flip("checkpoint", 2060)),
    "checkpoint: flipped time": Row(_flip("checkpoint", 3)),
    "checkpoint: truncated": Row(_cut("checkpoint", 17)),
    "checkpoint: empty": Row(_cut("checkpoint", 0)),
    "checkpoint: other version": Row(_write("checkpoint", 2055, b"\x09")),
    "checkpoint: symbolic link": Row(_link("checkpoint")),
    "checkpoint: a directory": Row(
        _directory("checkpoint"), error=ForeignFile, text="is a directory, a file belongs there"
    ),
    "checkpoint: a pipe": Row(_pipe("checkpoint"), error=ForeignFile, text="is a pipe, .* a file belongs there"),
    # names that stand for something else
    "consumequeue: a file": Row(
        _file_for("consumequeue"), error=ForeignFile, text="is a file, a directory belongs there; .*store repair /"
    ),
    "index: a file": Row(_file_for("index"), error=ForeignFile, text="is a file, a directory belongs there"),
    "transaction: a file": Row(_text("transaction"), error=ForeignFile, text="is a file, a directory belongs there"),
    "delayOffset.json: a directory": Row(
        _directory("config/delayOffset.json"), error=ForeignFile, text="delayOffset.json is a directory, a file"
    ),
    "consumerOffset.json: a pipe": Row(
        _pipe("config/consumerOffset.json"), error=ForeignFile, text="consumerOffset.json is a pipe"
    ),
    "gateway-queues: a directory": Row(_directory("gateway-queues"), error=ForeignFile, text="is a directory"),
    "gateway-index: a directory": Row(_directory("gateway-index"), error=ForeignFile, text="is a directory"),
    "queue: a topic that is no text": Row(
        _directory("consumequeue/T\udcff/0"), text=r"T\\xff is not a consume queue and was left"
    ),
    # our own files
    "gateway-queues: zeroed": Row(_text("gateway-queues", bytes(100))),
    "gateway-queues: flipped bit": Row(_flip("gateway-queues", 40)),
    "gateway-queues: truncated": Row(_cut("gateway-queues", 40)),
    "gateway-queues: other version": Row(_write("gateway-queues", 1, b"9")),
    "gateway-deleted: flipped bit": Row(_flip("gateway-deleted", 20), text="gateway-deleted is not used"),
    "gateway-deleted: missing": Row(_remove("gateway-deleted")),
    "lock: foreign content": Row(_text("lock", b"\xff" * 100)),
    "lock: a directory": Row(_directory("lock"), error=ForeignFile, text="is a directory, a file belongs there"),
    "abort: left behind": Row(_text("abort", b"")),
    "abort: a directory": Row(_directory("abort"), error=ForeignFile, text="is a directory, a file belongs there"),
}


def _contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and not path.is_symlink()}


def _age(directory: Path, before: dict[Path, bytes]) -> None:
    """Damage of a test comes within the tick of the clock that the files were written in; in life it does not."""
    for path, content in _contents(directory).items():
        if content != before.get(path):
            later_ns = path.stat().st_mtime_ns + 50_000_000
            os.utime(path, ns=(later_ns, later_ns))


@pytest.mark.parametrize("name", ROWS)
def test_damage_leads_to_a_clear_error_or_a_clean_recovery(tmp_path: Path, name: str) -> None:
    row = ROWS[name]
    directory, _ = _make(tmp_path / "s", clean=row.clean)
    before = _contents(directory)
    row.damage(directory)
    _age(directory, before)
    store = small_store(directory)
    if row.error is not None:
        with pytest.raises(row.error) as caught:
            store.open()
        assert row.text is not None
        assert re.search(row.text, str(caught.value)), str(caught.value)
        assert str(directory) in str(caught.value)
        if row.error is LogDamaged:
            assert re.search(REPAIR, str(caught.value)), str(caught.value)
        return
    remarks = [remark for remark in store.open().remarks if "newer than the checkpoint" not in remark]
    assert any(re.search(row.text, remark) for remark in remarks) if row.text else remarks == [], remarks
    got, unreadable = _read(store)
    assert unreadable == set(row.unreadable)
    assert got == set(range(COUNT)) - unreadable - set(row.gone), "nothing intact is lost"
    if row.clean and name != "gateway-deleted: missing":
        assert store.max_offset("Gone", 0) == 0, "a deleted topic stays deleted"
    following = message(b"%04d" % COUNT * (BODY // 4), topic="T")
    assert put(store, following).queue_offset == COUNT // 2
    store.close()
    store = opened(directory)
    assert _read(store)[0] - {COUNT} == got


def test_the_layout_the_table_counts_on(tmp_path: Path) -> None:
    directory, places = _make(tmp_path / "s", clean=True)
    assert places[:11] == [number * RECORD for number in range(11)]
    assert places[13] == LOG_FILE_BYTES
    assert sorted(path.name for path in (directory / "commitlog").iterdir()) == [Path(name).name for name in LOG[:4]]
    assert sorted(path.name for path in (directory / "consumequeue/T/0").iterdir()) == [
        Path(name).name for name in T[:3]
    ]


@pytest.mark.parametrize("name", [LOG[1], T[1], "checkpoint", "lock"])
def test_a_file_that_may_not_be_opened_is_named(tmp_path: Path, name: str) -> None:
    directory, _ = _make(tmp_path / "s", clean=False)
    (directory / "checkpoint").touch()

    class Forbidding(Disk):
        def open(self, path: Path, *, create: bool = False) -> int:
            if path == directory / name:
                raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return super().open(path, create=create)

    with pytest.raises(StoreNotAccessible, match="Permission denied") as caught:
        small_store(directory, disk=Forbidding()).open()
    assert str(directory / name) in str(caught.value)
    assert "this user may write to" in str(caught.value)


def test_a_clock_set_back_by_a_day_keeps_times_and_offsets_rising(tmp_path: Path) -> None:
    directory, _ = _make(tmp_path / "s", clean=True)
    store = opened(directory, clock=Clock(START_MS - 86_400_000))
    assert put(store, message(b"a day earlier", topic="T")).stored_at_ms >= START_MS
    assert [found.body for found in store.query_by_key("T", "k0", 10, 0, 1 << 60)] == [b"0000" * (BODY // 4)]
    assert _read_times(store) == sorted(_read_times(store))


def _read_times(store: MessageStore) -> list[int]:
    result = store.get_messages("T", 0, 0, 100, 1 << 20)
    return [found.stored_at_ms for found in parse_records(b"".join(result.parts))]


# --- key index ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", ["zeroed", "flipped head", "truncated", "removed", "foreign", "copied"], ids=lambda name: f"index: {name}"
)
def test_a_damaged_index_never_hides_what_is_stored_nor_shows_what_is_not(tmp_path: Path, damage: str) -> None:
    directory, _ = _make(tmp_path / "s", clean=True)
    path = sorted((directory / "index").iterdir())[-1]
    size = path.stat().st_size
    if damage == "zeroed":
        path.write_bytes(bytes(size))
    elif damage == "flipped head":
        overwrite(path, 36, b"\xff")
    elif damage == "truncated":
        os.truncate(path, size - 30)
    elif damage == "removed":
        path.unlink()
    elif damage == "foreign":
        (path.parent / "notes").write_bytes(b"?")
    else:
        shutil.copyfile(path, path.with_name(f"{int(path.name) + 1:017d}"))
    store = opened(directory)
    for number in range(COUNT):
        topic, _ = QUEUES[number % 2]
        found = store.query_by_key(topic, f"k{number}", 10, 0, 1 << 60)
        assert [_number(one) for one in found] in ([number], []), "never another message"
        if damage in ("removed", "foreign", "flipped head", "copied"):
            assert found, f"k{number}"


# --- tables ------------------------------------------------------------------------------------------------------

TABLES = {
    "topics.json": TopicsFile.parse,
    "subscriptionGroup.json": GroupsFile.parse,
    "consumerOffset.json": ConsumerOffsetsFile.parse,
    "delayOffset.json": DelayOffsetsFile.parse,
    "kvConfig.json": KvConfigFile.parse,
}
HALF = b'{\n\t"offsetTable":{\n\t\t"a@b":{0:'


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "content", [b"", HALF, bytes(4096), b"\xff\xfe{}", b"[1]"], ids=["empty", "half", "zeros", "binary", "list"]
)
def test_a_table_that_cannot_be_read_is_restored_from_its_backup(
    tmp_path: Path, name: str, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = JsonFile(tmp_path / name)
    file.write(b"{}")
    file.write(b"{ }")
    file.path.write_bytes(content)
    assert JsonFile(tmp_path / name).load(TABLES[name]) is not None
    assert "configuration file restored from its backup" in caplog.text
    file.backup_path.write_bytes(HALF)
    with pytest.raises(GatewayError, match=rf"cannot read .*{re.escape(name)}.*; repair or remove the file"):
        JsonFile(tmp_path / name).load(TABLES[name])


def test_delay_offsets_half_written_are_those_of_the_backup(tmp_path: Path) -> None:
    path = tmp_path / "delayOffset.json"
    JsonFile(path).write(DelayOffsetsFile({3: 7}).build())
    JsonFile(path).write(DelayOffsetsFile({3: 9}).build())
    path.write_bytes(path.read_bytes()[:20])
    assert DelayOffsets(path, lambda work, told: told(work())).load() == {3: 7}


def test_point_20_a_directory_of_another_user_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    monkeypatch.setattr(os, "getegid", lambda: 54_322)
    denied = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "lock"))
    said = str(StoreNotAccessible(tmp_path, denied))
    owner = tmp_path.stat().st_uid
    assert f"belongs to user {owner}, and this process runs as user 54321" in said
    assert f"run 'chown -R 54321:54322 {tmp_path}' as root" in said
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path))
    assert "make room on that disk" in str(StoreNotAccessible(tmp_path, full))
