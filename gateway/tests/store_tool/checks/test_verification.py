"""``store verify``: each kind of damage is found, named with its place, and nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.store_tool.checks import verification
from gateway.tests.store.small_store import SMALL, Clock, message, opened, put, put_all
from gateway.tests.store_tool.small_directory import (
    COUNT,
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
from wire.disk.consume_queue import UNIT, UNIT_BYTES
from wire.disk.index_file import ENTRY, HEAD_BYTES, IndexHead, IndexShape
from wire.message.batch import INNER_BATCH
from wire.message.flags import SysFlag
from wire.message.record import HEADS, StoredMessage, parse_record

SHAPE = IndexShape(16, 64)


def test_an_intact_directory_has_no_findings_and_is_not_changed(directory: Path) -> None:
    before = tree(directory)
    result = run("verify", directory)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{directory}: intact ({COUNT} messages, 0 MiB of commit log, ")
    assert result.stdout.count("\n") == 1
    assert tree(directory) == before


def test_further_units_of_batches_and_in_light_queues_are_no_damage(tmp_path: Path) -> None:
    store = opened(tmp_path, replace(SMALL, enable_lmq=True, enable_multi_dispatch=True))
    put(store, message(b"a", INNER_MULTI_DISPATCH="%LMQ%x"))
    put_all(store, [message(b"batch", sys_flag=INNER_BATCH, INNER_NUM="3")])
    put(store, message(b"b"))
    assert store.max_offset("T", 0) == 5
    store.close()
    result = run("verify", tmp_path)
    assert result.exit_code == 0, result.output
    flip(queue_file(tmp_path, "T"), 3 * UNIT_BYTES + 7)
    assert run("verify", tmp_path).exit_code == 1
    assert run("repair", tmp_path, "--apply").exit_code == 0
    assert run("verify", tmp_path).exit_code == 0


def test_several_processes_find_what_one_finds(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    position, _ = records(directory, 1)[3]
    flip(log_file(directory, 1), position + 95)
    flip(queue_file(directory), 45)
    one = json.loads(run("verify", directory, "--json").stdout)
    monkeypatch.setattr(verification, "POOL_FROM_BYTES", 0)
    monkeypatch.setattr(verification, "STRETCH_BYTES", 3000)
    several = json.loads(run("verify", directory, "--json", "--jobs", "2").stdout)
    assert len(one["damage"]) >= 2
    assert sorted(map(str, one["damage"])) == sorted(map(str, several["damage"]))


def _body(directory: Path) -> str:
    position, _ = records(directory)[5]
    flip(log_file(directory), position + 90)
    return f"{log_file(directory)} byte {position} (commit log offset {position}): body checksum is 0x"


def _zeroed(directory: Path) -> str:
    position, _ = records(directory)[5]
    write(log_file(directory), position, bytes(1200))
    return f"{log_file(directory)} byte {position} (commit log offset {position}): nothing is written here; "


def _magic(directory: Path) -> str:
    position, _ = records(directory)[5]
    write(log_file(directory), position + 4, b"\xca\xfe\xba\xbe")
    return f"{log_file(directory)} byte {position} (commit log offset {position}): unknown magic 0xcafebabe; "


def _length(directory: Path) -> str:
    position, _ = records(directory)[5]
    write(log_file(directory), position, (7_000_000).to_bytes(4, "big"))
    left = 8192 - position
    return (
        f"{log_file(directory)} byte {position} (commit log offset {position}): cut off: {left} bytes left of 7000000; "
    )


def _moved(directory: Path) -> str:
    position, _ = records(directory)[5]
    flip(log_file(directory), position + HEADS[0].offset("commit_log_offset") + 6)
    what = f"the record says it lies at {position + 256 if not position & 256 else position - 256}, found at {position}"
    return f"{log_file(directory)} byte {position} (commit log offset {position}): {what}; "


def _swapped(directory: Path) -> str:
    one, other = log_file(directory), log_file(directory, 1)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return f"{one} byte 0 (commit log offset 0): the record says it lies at 8192, found at 0; "


def _truncated(directory: Path) -> str:
    os.truncate(log_file(directory, 1), 5000)
    return f"{log_file(directory, 1)}: has 5000 bytes, a commit log file here has 8192; fix: "


def _missing_log_file(directory: Path) -> str:
    path = log_file(directory, 1)
    path.unlink()
    following = directory / "commitlog" / f"{16384:020d}"
    return f"{following}: does not follow {0:020d}: {8192:020d} is missing; fix: "


def _no_log(directory: Path) -> str:
    shutil.rmtree(directory / "commitlog")
    return f"{directory / 'commitlog'}: holds no commit log file, but there are consume queues; fix: restore its files"


def _filler(directory: Path) -> str:
    position = sum(records(directory)[-1])
    flip(log_file(directory), position + 3)
    stated = (8192 - position) ^ 1
    what = f"the filler says {stated} bytes, {8192 - position} are left of the file"
    return f"{log_file(directory)} byte {position} (commit log offset {position}): {what}; fix: "


def _tail(directory: Path) -> str:
    position = sum(records(directory, 2)[-1])
    write(log_file(directory, 2), position, b"\x00\x00\x00\xc8\xda\xa3\x20\xa7torn")
    what = "the parts take 91 bytes, the record says 200"
    return f"{log_file(directory, 2)} byte {position} (commit log offset {16384 + position}): {what}; fix: "


def _queue_offset(directory: Path) -> str:
    position, _ = records(directory)[5]
    message = parse_record(log_file(directory).read_bytes(), position)
    flip(log_file(directory), position + HEADS[0].offset("queue_offset") + 7, 0x40)
    name = f"{message.topic} queue {message.queue_id} offset {message.queue_offset}"
    said = message.queue_offset ^ 0x40
    return (
        f"{log_file(directory)} byte {position} (commit log offset {position}) ({name}): "
        f"the record says queue offset {said}, its consume queue unit says otherwise; fix: "
    )


def _unit(directory: Path) -> str:
    offset, size, code = UNIT.unpack_from(queue_file(directory).read_bytes(), 2 * UNIT_BYTES)
    write(queue_file(directory), 2 * UNIT_BYTES, UNIT.pack(offset, size + 1, code))
    what = f"the unit has size {size + 1} instead of {size}"
    return f"{queue_file(directory)} byte 40 (commit log offset {offset}) (orders queue 0 offset 2): {what}; fix: "


def _no_unit(directory: Path) -> str:
    write(queue_file(directory), 3 * UNIT_BYTES, bytes(2 * UNIT_BYTES))
    return f"{queue_file(directory)} byte 60 (orders queue 0 offset 3): messages 3 … 4 have no unit; fix: "


def _no_queue(directory: Path) -> str:
    shutil.rmtree(directory / "consumequeue" / "stock" / "1")
    path = directory / "consumequeue" / "stock" / "1" / f"{0:020d}"
    return f"{path} byte 0 (stock queue 1 offset 0): messages 0 … "


def _queue_size(directory: Path) -> str:
    os.truncate(queue_file(directory), 100)
    return f"{queue_file(directory)} (orders queue 0): has 100 bytes, a consume queue file here has 200; fix: "


def _stray_unit(directory: Path) -> str:
    path = queue_file(directory, "stock", 0, -1)
    used = -(-len(path.read_bytes().rstrip(b"\x00")) // UNIT_BYTES)
    write(path, used * UNIT_BYTES, UNIT.pack(0, 200, 0))
    offset = int(path.name) // UNIT_BYTES + used
    return f"{path} byte {used * UNIT_BYTES} (stock queue 0 offset {offset}): unit {offset} leads to no message"


def _entry(directory: Path) -> str:
    flip(index_file(directory), SHAPE.entry_position(3) + 1)
    return f"{index_file(directory)} byte {SHAPE.entry_position(3)} (commit log offset "


def _chain(directory: Path) -> str:
    position = SHAPE.entry_position(40)
    flip(index_file(directory), position + ENTRY.offset("previous_entry") + 3, 0x20)
    return f"{index_file(directory)} byte {position}: entry 40 says the one before it is "


def _slot(directory: Path) -> str:
    data = index_file(directory).read_bytes()
    slot = next(slot for slot in range(16) if data[HEAD_BYTES + 4 * slot + 3])
    flip(index_file(directory), HEAD_BYTES + 4 * slot + 3, 0x10)
    return f"{index_file(directory)} byte {HEAD_BYTES + 4 * slot}: slot {slot} leads to entry "


def _index_size(directory: Path) -> str:
    os.truncate(index_file(directory), 1000)
    what = "has 1000 bytes; with maxHashSlotNum=5000000 and maxIndexNum=20000000 it has 420000040"
    return f"{index_file(directory)}: {what}; fix: "


def _no_index_file(directory: Path) -> str:
    index_file(directory, 1).unlink()
    return " keys of messages from "


def _checkpoint(directory: Path) -> str:
    write(directory / "checkpoint", 0, (1 << 50).to_bytes(8, "big"))
    return f"{directory / 'checkpoint'} byte 0: says the log is on disk up to 1125899906842624 ms after 1970, the last"


def _config(directory: Path) -> str:
    (directory / "config" / "topics.json").write_bytes(b'{"dataVersion":{"cou')
    return f"{directory / 'config' / 'topics.json'}: cannot be read: "


def _backup(directory: Path) -> str:
    (directory / "config" / "topics.json.bak").write_bytes(b"")
    return f"{directory / 'config' / 'topics.json.bak'}: is empty; fix: rocketmq-gateway store repair {directory} moves"


def _delay_unit(directory: Path) -> str:
    path = queue_file(directory, "SCHEDULE_TOPIC_XXXX", 2)
    offset, size, code = UNIT.unpack_from(path.read_bytes(), UNIT_BYTES)
    write(path, UNIT_BYTES, UNIT.pack(offset + 7, size, code))
    return f"offset 1): the unit has commit log offset {offset + 7} instead of {offset}; fix: "


def _zeros_behind(directory: Path) -> str:
    path = directory / "config" / "topics.json"
    end = path.stat().st_size
    os.truncate(path, 600 << 20)
    return f"{path}: cannot be read: from byte {end} on there are only zeros; fix: "


DAMAGES: list[Callable[[Path], str]] = [
    _body,
    _zeroed,
    _magic,
    _length,
    _moved,
    _swapped,
    _truncated,
    _missing_log_file,
    _no_log,
    _filler,
    _tail,
    _queue_offset,
    _unit,
    _no_unit,
    _no_queue,
    _queue_size,
    _stray_unit,
    _entry,
    _chain,
    _slot,
    _index_size,
    _no_index_file,
    _checkpoint,
    _config,
    _backup,
    _delay_unit,
]


def test_a_huge_table_of_zeros_is_not_read(directory: Path) -> None:
    assert _zeros_behind(directory) in run("verify", directory).stdout


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_each_damage_is_named_with_its_place_and_its_remedy(directory: Path, damage: Callable[[Path], str]) -> None:
    expected = damage(directory)
    before = tree(directory)
    result = run("verify", directory)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert any(expected in line for line in lines), f"{expected!r} is not in\n{result.stdout}"
    assert all("; fix: " in line for line in lines[:-1] if not line.startswith("Note: "))
    assert "finding" in lines[-1]
    assert tree(directory) == before


def test_what_a_kill_leaves_is_told_of_and_does_not_count(tmp_path: Path) -> None:
    fill(tmp_path / "data", close=False)
    copy = shutil.copytree(tmp_path / "data", tmp_path / "killed")
    position = sum(records(copy, 2)[-1])
    write(log_file(copy, 2), position, b"\x00\x00\x00\xc8\xda\xa3\x20\xa7torn")
    result = run("verify", copy)
    assert result.exit_code == 0, result.output
    assert f"After a kill: {log_file(copy, 2)} byte {position} " in result.stdout
    assert "fix: the next start settles it" in result.stdout
    assert "Note: the file abort is there" in result.stdout


def test_json_has_the_same_findings_for_programs(directory: Path) -> None:
    position, size = records(directory)[5]
    flip(log_file(directory), position + 90)
    values = json.loads(run("verify", directory, "--json").stdout)
    assert (values["clean"], values["messages"], values["killed"]) == (False, COUNT - 1, False)
    (record,) = [finding for finding in values["damage"] if finding["kind"] == "record"]
    assert record["position"] == record["commit_log_offset"] == position
    assert record["commit_log_end"] == position + size
    assert record["fix"] == f"rocketmq-gateway store repair {directory}"


# --- any flipped byte ------------------------------------------------------------------------------------------------


def free_bytes(message: StoredMessage, position: int) -> set[int]:
    """Bytes of a record that nothing else on disk repeats: what is in them cannot be checked, by any broker.

    flag, born time, both hosts, reconsume times, the offset of a prepared message, bits of sys_flag but for those that
    hide a message or lengthen its hosts, and properties other than TAGS, KEYS and UNIQ_KEY. A property of one of
    these names is an index entry or a tags code, so a change of its value is found; a change of any name may make one.
    The store time stands in whole seconds in the index and decides nothing else.
    """
    head = HEADS[0]
    free: set[int] = set()
    for name in ("flag", "born_at_ms", "born_host", "store_host", "reconsume_times", "prepared_transaction_offset"):
        start = position + head.offset(name)
        free |= set(range(start, start + _width(name)))
    start = position + head.offset("stored_at_ms")
    free |= set(range(start, start + 8))
    return free


def _width(name: str) -> int:
    names = list(HEADS[0])
    following = names.index(name) + 1
    return HEADS[0].offset(names[following]) - HEADS[0].offset(name)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_byte_of_a_record_is_found(directory: Path, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(records(directory)) - 1), label="record")
    position, size = records(directory)[number]
    message = parse_record(log_file(directory).read_bytes(), position)
    properties_at = position + size - len(message.properties)
    flags_at = position + HEADS[0].offset("sys_flag")
    free = (
        free_bytes(message, position) | set(range(properties_at, position + size)) | set(range(flags_at, flags_at + 4))
    )
    byte = data.draw(st.sampled_from([at for at in range(position, position + size) if at not in free]), label="byte")
    mask = data.draw(st.integers(1, 255), label="mask")
    _is_found(directory, log_file(directory), byte, mask)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_byte_of_a_tag_or_key_is_found(directory: Path, data: st.DataObject) -> None:
    content = log_file(directory).read_bytes()
    name = data.draw(st.sampled_from([b"TAGS\x01", b"KEYS\x01", b"UNIQ_KEY\x01"]), label="property")
    places = [at + len(name) for at in range(len(content)) if content.startswith(name, at)]
    start = data.draw(st.sampled_from(places), label="place")
    if b"SCHEDULE_TOPIC_XXXX" in content[start - 100 : start] and name == b"TAGS\x01":
        return  # units of delayed messages hold a time instead
    byte = data.draw(st.integers(start, content.index(b"\x02", start) - 1), label="byte")
    mask = data.draw(st.integers(1, 31), label="mask")
    if content[byte] ^ mask in (1, 2, 32):
        return
    _is_found(directory, log_file(directory), byte, mask)


@pytest.mark.parametrize("bit", [SysFlag.TRANSACTION_PREPARED, SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6])
def test_a_flag_that_hides_or_reshapes_a_record_is_found(directory: Path, bit: int) -> None:
    position, _ = records(directory)[4]
    _is_found(directory, log_file(directory), position + HEADS[0].offset("sys_flag") + 3, bit)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_byte_of_a_unit_is_found(directory: Path, data: st.DataObject) -> None:
    files = sorted((directory / "consumequeue").glob("*/*/*"))
    path = data.draw(st.sampled_from(files), label="file")
    used = -(-len(path.read_bytes().rstrip(b"\x00")) // UNIT_BYTES) * UNIT_BYTES
    byte = data.draw(st.integers(0, used - 1), label="byte")
    _is_found(directory, path, byte, data.draw(st.integers(1, 255), label="mask"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_byte_of_an_index_file_in_use_is_found(directory: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted((directory / "index").iterdir())), label="file")
    head = IndexHead.parse(path.read_bytes())
    end = SHAPE.entry_position(head.next_entry)
    first = SHAPE.entry_position(1)
    # Entry 0 is never used.
    places = [at for at in range(end) if not SHAPE.entry_position(0) <= at < first]
    byte = data.draw(st.sampled_from(places), label="byte")
    _is_found(directory, path, byte, data.draw(st.integers(1, 255), label="mask"))


def _is_found(directory: Path, path: Path, byte: int, mask: int) -> None:
    flip(path, byte, mask)
    try:
        result = run("verify", directory)
        assert result.exit_code == 1, f"byte {byte} of {path} changed by {mask:#x}, and nothing was found"
    finally:
        flip(path, byte, mask)


def test_messages_of_a_deleted_topic_need_no_queue(directory: Path) -> None:
    store = opened(directory, clock=Clock())
    store.delete_topic("stock")
    assert put(store, message(b"new", topic="stock")).queue_offset == 0
    store.close()
    result = run("verify", directory)
    assert result.exit_code == 0, result.output


def _last_record(directory: Path, topic: str) -> tuple[Path, int]:
    """File and position of the last record of a topic."""
    for number in reversed(range(len(list((directory / "commitlog").iterdir())))):
        data = log_file(directory, number).read_bytes()
        for position, _ in reversed(records(directory, number)):
            if parse_record(data, position).topic == topic:
                return log_file(directory, number), position
    raise AssertionError("there is one")


@pytest.mark.parametrize("offset", [2**40, 2**62])
def test_a_queue_offset_far_beyond_the_others_is_one_finding(directory: Path, offset: int) -> None:
    path, position = _last_record(directory, "stock")
    write(path, position + HEADS[0].offset("queue_offset"), offset.to_bytes(8, "big"))
    shutil.rmtree(directory / "consumequeue" / "stock")
    result = run("verify", directory)
    assert result.exit_code == 1, result.output
    assert f"… {offset - 1} are not in the log" in result.stdout
