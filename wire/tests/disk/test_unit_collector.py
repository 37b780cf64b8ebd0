"""Units out of log bytes: the same as the reader of single records finds, whatever is wrong with the bytes."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from wire.disk.consume_queue import UNIT
from wire.disk.unit_collector import UnitCollector
from wire.errors import RecordError
from wire.message.flags import SysFlag
from wire.message.record import OutgoingMessage, build_blank, build_record, parse_record
from wire.message.tags import tags_code

V4 = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
V6 = bytes(15) + b"\x01" + (10911).to_bytes(4, "big")
START = 1 << 33
Found = dict[tuple[str, int], list[tuple[int, int, int, int]]]


def _code(topic: str, properties: Mapping[str, str], stored_at_ms: int) -> int:
    return stored_at_ms + 1000 if topic == "LATER" else tags_code(properties.get("TAGS"))


def _collector(**others: object) -> UnitCollector:
    return UnitCollector(unit_code=_code, special_topics=("LATER",), **others)  # type: ignore[arg-type]


def _log(numbers: random.Random, count: int) -> bytes:
    data = bytearray()
    topics = ["A", "B" * 127, "C" * 200, "LATER", "ümläut"]
    properties = [
        b"",
        b"TAGS\x01x\x02",
        b"K\x01v\x02TAGS\x01y",
        b"MYTAGS\x01z\x02",
        b"TAGS\x01a\x02TAGS\x01b\x02",
        b"T\x01TAGS\x01q\x02",
    ]
    offsets: dict[tuple[str, int], int] = {}
    for _ in range(count):
        topic, queue_id = numbers.choice(topics), numbers.randrange(3)
        flags = numbers.choice([0, 0, 0, int(SysFlag.TRANSACTION_PREPARED), int(SysFlag.TRANSACTION_COMMIT)])
        born, store = numbers.choice([V4, V6]), numbers.choice([V4, V6])
        body = numbers.randbytes(numbers.randrange(40))
        outgoing = OutgoingMessage(topic, queue_id, 0, flags, 5, born, store, 0, 0, body, numbers.choice(properties))
        offset = offsets[topic, queue_id] = offsets.get((topic, queue_id), -1) + 1
        data += build_record(outgoing, offset, START + len(data), 1000 + len(data))
    return bytes(data)


def _expected(data: bytes) -> tuple[int, Found]:
    """Return the end of the intact records and their units, found by ``parse_record``, record by record."""
    at = 0
    found: Found = {}
    while at < len(data):
        try:
            message = parse_record(data, at, check_crc=True)
        except RecordError:
            break
        if message.commit_log_offset != START + at or message.queue_id < 0 or "/" in message.topic:
            break
        if not message.topic or "\0" in message.topic:
            break
        at += message.total_size
        if not message.sys_flag & SysFlag.TRANSACTION_PREPARED:
            code = _code(message.topic, message.property_map, message.stored_at_ms)
            unit = (message.queue_offset, message.commit_log_offset, message.total_size, code)
            found.setdefault((message.topic, message.queue_id), []).append(unit)
    return at, found


def _collected(collector: UnitCollector) -> Found:
    return {
        (queue.topic, queue.queue_id): [
            (first + number, *unit)
            for first, units in queue.runs
            for number, unit in enumerate(UNIT.iter_unpack(units))
        ]
        for queue in collector.queues()
    }


@pytest.mark.parametrize("seed", range(8))
def test_intact_records_give_the_units_that_single_records_give(seed: int) -> None:
    data = _log(random.Random(seed), 60)
    collector = _collector()
    assert collector.take(data, START) == len(data)
    end, found = _expected(data)
    assert (end, collector.records) == (len(data), 60)
    assert _collected(collector) == found
    assert collector.last_stored_at_ms == parse_record(data, _last(data)).stored_at_ms
    one_by_one = _collector()
    at = 0
    while at < len(data):
        message = parse_record(data, at)
        one_by_one.add(message)
        at += message.total_size
    assert _collected(one_by_one) == found


def _last(data: bytes) -> int:
    at = last = 0
    while at < len(data):
        last = at
        at += parse_record(data, at).total_size
    return last


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_ends_it_where_the_reader_of_single_records_ends(seed: int) -> None:
    numbers = random.Random(seed)
    data = bytearray(_log(numbers, 12))
    for _ in range(25):
        changed = bytearray(data)
        changed[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
        collector = _collector()
        taken = collector.take(bytes(changed), START)
        end, found = _expected(bytes(changed))
        assert taken == end
        assert _collected(collector) == found


def test_bytes_that_end_anywhere_give_whole_records_only() -> None:
    data = _log(random.Random(1), 3)
    ends = [_expected(data[:size])[0] for size in range(len(data) + 1)]
    assert [_collector().take(data[:size], START) for size in range(len(data) + 1)] == ends
    assert _collector().take(data + build_blank(100), START) == len(data)
    assert _collector().take(bytes(200), START) == 0


def test_only_wanted_queues_and_messages_after_a_deletion_are_collected() -> None:
    data = _log(random.Random(2), 60)
    _, found = _expected(data)
    name = max(found, key=lambda name: len(found[name]))
    collector = _collector(only={name})
    assert collector.take(data, START) == len(data)
    assert _collected(collector) == {name: found[name]}
    limit = found[name][2][1]
    collector = _collector(not_below=lambda topic, _queue_id: limit if topic == name[0] else 0)
    collector.take(data, START)
    assert _collected(collector)[name] == found[name][2:]
    collector = _collector()
    collector.stop_collecting()
    assert collector.take(data, START) == len(data)
    assert (_collected(collector), collector.records) == ({}, 60)


@pytest.mark.parametrize(
    ("topic", "queue_id"), [("a/b", 0), ("..", 0), (".", 0), ("a\0b", 0), ("a", -1), ("ä" * 128, 0)]
)
def test_what_cannot_name_a_directory_is_no_queue(topic: str, queue_id: int) -> None:
    short = topic if len(topic.encode()) <= 255 else "a"
    record = build_record(OutgoingMessage(short, queue_id, 0, 0, 0, V4, V4, 0, 0, b""), 0, START, 1)
    message = parse_record(record)
    message.topic = topic
    with pytest.raises(RecordError, match="no queue can be called"):
        _collector().add(message)
    if short == topic:
        assert _collector().take(record, START) == 0


def test_a_message_in_light_queues_is_left_to_the_other_reader_and_has_a_unit_in_each() -> None:
    pairs = b"INNER_MULTI_DISPATCH\x01%LMQ%a,other,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x013,,4\x02TAGS\x01x"
    data = build_record(OutgoingMessage("A", 1, 0, 0, 5, V4, V4, 0, 0, b"body", pairs), 7, START, 1000)
    for only, names in ((None, {("A", 1), ("%LMQ%a", 0), ("%LMQ%b", 0)}), ({("%LMQ%b", 0)}, {("%LMQ%b", 0)})):
        collector = _collector(only=only, light_queues=True)
        assert collector.take(data, START) == 0
        collector.add(parse_record(data))
        found = _collected(collector)
        assert found.keys() == names
        place = (START, len(data), tags_code("x"))
        assert found == {
            name: [(offset, *place)]
            for name, offset in ((("A", 1), 7), (("%LMQ%a", 0), 3), (("%LMQ%b", 0), 4))
            if name in names
        }


def test_a_batch_is_left_to_the_other_reader_and_has_a_unit_for_each_message() -> None:
    pairs = b"INNER_BASE\x017\x02INNER_NUM\x013\x02TAGS\x01x"
    data = build_record(OutgoingMessage("A", 1, 0, 0xC0, 5, V4, V4, 0, 0, b"body", pairs), 7, START, 1000)
    collector = _collector()
    assert collector.take(data, START) == 0
    collector.add(parse_record(data))
    place = (START, len(data), tags_code("x"))
    assert _collected(collector) == {("A", 1): [(7, *place), (8, *place), (9, *place)]}
