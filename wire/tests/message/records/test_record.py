from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from wire.errors import LocalError, RecordError
from wire.message.flags import SysFlag
from wire.message.properties import build_properties
from wire.message.record import (
    HEADS,
    LARGE_BODY_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_CACHED_TOPICS,
    OutgoingMessage,
    _topic_fields,
    build_blank,
    build_record,
    check_record,
    parse_record,
    parse_record_ends,
    parse_records,
    record_parts,
    record_size,
    reposition,
    restated,
    tail_start,
    write_record,
)
from wire.tests.message.layouts import declared_record
from wire.tests.message.samples import BROKER, CLIENT, CLIENT_V6, VECTOR, message, patched, record
from wire.tests.message.strategies import QUICK, int64s, messages

RECORD = declared_record()


def test_a_record_is_laid_out_as_documented() -> None:
    assert record() == VECTOR
    assert record_size(message()) == len(VECTOR) == 115


def declared_fields(outgoing: OutgoingMessage, place: tuple[int, int, int]) -> dict[str, Any]:
    """The record's fields as the specification takes them."""
    topic = outgoing.topic.encode()
    sys_flag = outgoing.sys_flag & ~SysFlag.HOSTS_MASK
    sys_flag |= SysFlag.BORN_HOST_V6 if len(outgoing.born_host) == 20 else 0
    sys_flag |= SysFlag.STORE_HOST_V6 if len(outgoing.store_host) == 20 else 0
    return {
        "total_size": record_size(outgoing),
        "magic": MAGIC_V2 if len(topic) > 127 else MAGIC_V1,
        "body_crc": zlib.crc32(outgoing.body) & 0x7FFFFFFF,
        "queue_id": outgoing.queue_id,
        "flag": outgoing.flag,
        "queue_offset": place[0],
        "commit_log_offset": place[1],
        "sys_flag": sys_flag,
        "born_at_ms": outgoing.born_at_ms,
        "born_host": outgoing.born_host,
        "stored_at_ms": place[2],
        "store_host": outgoing.store_host,
        "reconsume_times": outgoing.reconsume_times,
        "prepared_transaction_offset": outgoing.prepared_transaction_offset,
        "body_bytes": len(outgoing.body),
        "body": outgoing.body,
        "topic_bytes": len(topic),
        "topic": topic,
        "properties_bytes": len(outgoing.properties),
        "properties": outgoing.properties,
    }


places = st.tuples(int64s, int64s, int64s)


@QUICK
@given(messages, places)
def test_the_quick_writer_writes_what_is_declared(outgoing: OutgoingMessage, place: tuple[int, int, int]) -> None:
    built = build_record(outgoing, *place)
    assert built == RECORD.build(declared_fields(outgoing, place))
    assert len(built) == record_size(outgoing)


@QUICK
@given(messages, places, st.binary(max_size=10), st.booleans())
def test_the_quick_reader_reads_what_is_declared(
    outgoing: OutgoingMessage, place: tuple[int, int, int], around: bytes, viewed: bool
) -> None:
    built = RECORD.build(declared_fields(outgoing, place))
    buffer: bytes | memoryview = around + built + around
    stored = parse_record(memoryview(buffer) if viewed else buffer, len(around), check_crc=True)
    declared = RECORD.parse(built)
    for name in HEADS[0].names:
        assert getattr(stored, name) == declared[name]
    assert stored.body == outgoing.body
    assert type(stored.body) is bytes
    assert stored.topic == outgoing.topic
    assert stored.properties == outgoing.properties
    assert stored.property_map == dict(outgoing.property_map)
    assert check_record(buffer, len(around), place[1]) == len(built)


def test_a_topic_of_up_to_127_bytes_is_version_1_and_a_longer_one_version_2() -> None:
    short = parse_record(record(topic="t" * 127))
    long = parse_record(record(topic="%RETRY%" + "g" * 248))
    assert (short.magic, long.magic) == (MAGIC_V1, MAGIC_V2)
    assert long.topic == "%RETRY%" + "g" * 248
    assert (MAGIC_V1, MAGIC_V2, MAGIC_BLANK) == (-626843481, -626843477, -875286124)


def test_address_bits_follow_the_hosts() -> None:
    stored = parse_record(record(sys_flag=SysFlag.COMPRESSED | SysFlag.STORE_HOST_V6, born_host=CLIENT_V6))
    assert stored.sys_flag == SysFlag.COMPRESSED | SysFlag.BORN_HOST_V6
    assert stored.born_host == CLIENT_V6
    assert stored.store_host == BROKER


def test_the_checksum_covers_the_body_without_its_sign_bit() -> None:
    assert zlib.crc32(b"Hello") > 0x7FFFFFFF
    assert parse_record(record()).body_crc == zlib.crc32(b"Hello") - 0x80000000
    assert parse_record(record(body=b"")).body_crc == 0


def test_ids_are_derived_from_the_record() -> None:
    stored = parse_record(record(properties=b"UNIQ_KEY\x01ABC\x02"))
    assert stored.offset_message_id == "7F00000100002A9F00000000000004D2"
    assert stored.unique_key == "ABC"
    assert parse_record(record()).unique_key is None
    assert repr(stored) == "<StoredMessage TopicTest/3 at 5, commit log 1234, 118 bytes>"
    assert repr(message()) == "<OutgoingMessage TopicTest/3 body 5 bytes>"


def test_properties_are_decoded_once() -> None:
    stored = parse_record(record())
    assert stored.property_map is stored.property_map
    assert message().property_map == {"TAGS": "TagA"}
    known = {"TAGS": "other"}
    assert message(property_map=known).property_map is known


def test_the_body_can_be_left_out() -> None:
    stored = parse_record(record(), with_body=False)
    assert stored.body == b""
    assert stored.body_bytes == 5
    assert stored.property_map == {"TAGS": "TagA"}


@QUICK
@given(st.lists(messages, max_size=5))
def test_a_row_of_records_is_read_to_its_end(outgoing: list[OutgoingMessage]) -> None:
    row = b"".join(build_record(one, at, at, at) for at, one in enumerate(outgoing))
    stored = parse_records(memoryview(row))
    assert [one.topic for one in stored] == [one.topic for one in outgoing]
    assert [one.queue_offset for one in stored] == list(range(len(outgoing)))


def test_a_row_of_records_must_fill_its_buffer() -> None:
    with pytest.raises(RecordError, match="cut off: 3 bytes left"):
        parse_records(VECTOR + b"abc")
    with pytest.raises(RecordError, match="end-of-file filler"):
        parse_records(VECTOR + build_blank(100))


@pytest.mark.parametrize("born_host", [CLIENT, CLIENT_V6])
def test_repositioning_changes_place_and_time_only(born_host: bytes) -> None:
    before = record(born_host=born_host)
    moved = reposition(memoryview(before), queue_offset=77, commit_log_offset=88, stored_at_ms=99)
    assert moved == build_record(message(born_host=born_host), 77, 88, 99)
    assert before == record(born_host=born_host), "the record given is not changed"


@QUICK
@given(messages, places)
def test_a_restated_message_differs_in_place_and_properties_only(
    outgoing: OutgoingMessage, place: tuple[int, int, int]
) -> None:
    before = build_record(outgoing, *place)
    for source in (outgoing, parse_record(before)):
        moved = restated(source, "elsewhere", 7, b"a\x01b")
        assert (moved.topic, moved.queue_id, moved.property_map) == ("elsewhere", 7, {"a": "b"})
        assert build_record(restated(moved, outgoing.topic, outgoing.queue_id, outgoing.properties), *place) == before


def test_what_is_no_record_or_no_place_is_not_repositioned() -> None:
    with pytest.raises(RecordError, match="cut off"):
        reposition(VECTOR[:90], queue_offset=0, commit_log_offset=0, stored_at_ms=0)
    with pytest.raises(LocalError, match="cannot be placed"):
        reposition(VECTOR, queue_offset=2**63, commit_log_offset=0, stored_at_ms=0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"topic": "t" * 256}, "topic takes 256 bytes, the limit is 255"),
        ({"topic": "漢" * 86}, "topic takes 258 bytes"),
        ({"properties": bytes(32768)}, "properties take 32768 bytes, the limit is 32767"),
        ({"born_host": bytes(4)}, "hosts take 4 and 8 bytes"),
        ({"store_host": bytes(16)}, "hosts take 8 and 16 bytes"),
        ({"queue_id": 2**31}, "does not fit a record"),
        ({"flag": -(2**31) - 1}, "does not fit a record"),
        ({"sys_flag": 2**31}, "does not fit a record"),
        ({"reconsume_times": 2**70}, "does not fit a record"),
        ({"born_at_ms": 2**63}, "does not fit a record"),
        ({"prepared_transaction_offset": -(2**63) - 1}, "does not fit a record"),
    ],
)
@pytest.mark.parametrize("body", [b"Hello", bytes(LARGE_BODY_BYTES)])
def test_what_a_record_cannot_hold_is_not_written(changes: dict[str, Any], reason: str, body: bytes) -> None:
    outgoing = message(body=body, **changes)
    out = BytesWriter()
    out.write(b"before")
    with pytest.raises(LocalError, match=reason):
        write_record(out, outgoing, 5, 1234, 1)
    assert out.getvalue() == b"before"
    with pytest.raises(LocalError, match=reason):
        record_parts(outgoing, 5, 1234, 1)
    with pytest.raises(LocalError, match=reason):
        build_record(outgoing, 5, 1234, 1)


def test_a_record_that_cannot_be_written_leaves_nothing() -> None:
    wrong: Any = "text"
    out = BytesWriter()

    def write_wrong() -> None:
        outgoing = message(property_map={})
        outgoing.properties = wrong  # compiled, it is refused here
        write_record(out, outgoing, 5, 1234, 1)

    with pytest.raises(TypeError):
        write_wrong()
    assert out.getvalue() == b""


def test_offsets_beyond_their_fields_are_not_written() -> None:
    for place in ((2**63, 0, 0), (0, 2**63, 0), (0, 0, 2**63)):
        with pytest.raises(LocalError, match="does not fit a record"):
            build_record(message(), *place)


@pytest.mark.parametrize("body_bytes", [0, LARGE_BODY_BYTES - 1, LARGE_BODY_BYTES, LARGE_BODY_BYTES + 1])
def test_records_are_the_same_however_they_are_written(body_bytes: int) -> None:
    outgoing = message(body=b"x" * body_bytes, topic="t" * 200)
    out = BytesWriter()
    assert write_record(out, outgoing, 7, 8, 9) == record_size(outgoing) == len(out)
    assert build_record(outgoing, 7, 8, 9) == b"".join(record_parts(outgoing, 7, 8, 9)) == out.getvalue()


@pytest.mark.parametrize("changes", [{"topic": "t" * 256}, {"born_host": bytes(4)}])
def test_what_a_record_cannot_hold_has_no_size(changes: dict[str, Any]) -> None:
    with pytest.raises(LocalError):
        record_size(message(**changes))


def test_properties_of_32767_bytes_fit() -> None:
    properties = build_properties({"a": "x" * (32767 - 3)})
    assert parse_record(record(properties=properties)).properties == properties


def test_the_cache_of_topics_is_bounded() -> None:
    for number in range(MAX_CACHED_TOPICS + 5):
        record_size(message(topic=f"topic-{number}"))
    assert len(_topic_fields) <= MAX_CACHED_TOPICS


def test_a_topic_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(RecordError, match="not UTF-8"):
        parse_record(patched(94, "ff"))


@QUICK
@given(messages)
def test_the_two_ends_of_a_record_say_all_but_the_body(outgoing: OutgoingMessage) -> None:
    whole = build_record(outgoing, 5, 1234, 99)
    tail_at = tail_start(whole)
    found, parsed = parse_record_ends(whole[:200], whole[tail_at:]), parse_record(whole)
    assert found.has_body == (not outgoing.body)
    assert parsed.has_body
    for name in (*HEADS[0].names, "topic", "properties"):
        assert getattr(found, name) == getattr(parsed, name), name
    assert found.property_map == parsed.property_map


@pytest.mark.parametrize(("start", "tail"), [(50, -22), (200, -21), (200, -23), (0, -22)])
def test_ends_that_do_not_belong_together_are_refused(start: int, tail: int) -> None:
    with pytest.raises(RecordError):
        parse_record_ends(VECTOR[:start], VECTOR[tail:])
    with pytest.raises(RecordError):
        tail_start(patched(84, "ffffffff"))
