"""Tests of messages that are read when they are asked for."""

from __future__ import annotations

import zlib

import pytest

from gateway.client.consume.pulled import PulledMessage, inner_messages, pulled_messages
from gateway.client.errors import MessageRefused
from gateway.client.message import MessageQueue
from wire.errors import BodyError, RecordError
from wire.message.batch import INNER_BATCH, BatchPart, build_batch, is_inner_batch
from wire.message.flags import SysFlag
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_blank, build_record, parse_record

QUEUE = MessageQueue("t", "broker-a", 3)


def record(offset: int, body: bytes, *, sys_flag: int = 0, born: str = "10.0.0.1", tags: str = "a") -> bytes:
    message = OutgoingMessage(
        "t",
        3,
        7,
        sys_flag,
        1000,
        pack_host(born, 1),
        pack_host("10.0.0.2", 2),
        2,
        0,
        body,
        build_properties({"TAGS": tags, "UNIQ_KEY": f"id{offset}"}),
    )
    return build_record(message, offset, 100 * offset, 2000)


def test_messages_know_their_offset_and_size_and_read_the_rest_later() -> None:
    rows = [record(5, b"one"), record(9, b"two" * 10), record(10, b"six", born="::1")]
    messages, sizes = pulled_messages(b"".join(rows), QUEUE)
    assert sizes == [len(row) for row in rows]
    assert [message.queue_offset for message in messages] == [5, 9, 10]
    assert [message.body for message in messages] == [b"one", b"two" * 10, b"six"]
    first = messages[0]
    assert (first.topic, first.tags, first.msg_id, first.flag, first.queue) == ("t", "a", "id5", 7, QUEUE)
    assert first.reconsume_times == 2
    assert first.body == b"one", "the same once the record is read"


def test_a_compressed_body_is_inflated() -> None:
    body = b"long" * 1000
    flags = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    (message,), _ = pulled_messages(record(0, zlib.compress(body), sys_flag=flags), QUEUE)
    assert message.body == body


def test_failures_on_this_client_count_as_redeliveries() -> None:
    (message,), _ = pulled_messages(record(0, b"x"), QUEUE)
    assert isinstance(message, PulledMessage)
    message.attempts = 3
    assert message.reconsume_times == 5


@pytest.mark.parametrize(
    "damaged",
    [
        record(0, b"x")[:-1],
        record(0, b"x") + b"\0" * 20,
        record(0, b"x") + b"\0" * 100,
        build_blank(200).ljust(200, b"\0"),
        b"\0\0\0\x08" + record(0, b"x")[4:],
    ],
    ids=["cut off", "short rest", "zeros", "filler", "size without room"],
)
def test_what_is_no_row_of_records_is_refused(damaged: bytes) -> None:
    with pytest.raises(RecordError):
        pulled_messages(damaged, QUEUE)


def test_a_body_longer_than_its_record_is_refused_when_it_is_read() -> None:
    whole = bytearray(record(0, b"x"))
    whole[84:88] = (10_000).to_bytes(4, "big")
    (message,), _ = pulled_messages(bytes(whole), QUEUE)
    with pytest.raises(RecordError):
        _ = message.body


def test_nothing_pulled_is_no_messages() -> None:
    assert pulled_messages(b"", QUEUE) == ([], [])


BATCH = build_batch(
    [BatchPart(number, b"%d" % number, build_properties({"UNIQ_KEY": f"ID{number}"})) for number in range(3)]
)


def stored(body: bytes, sys_flag: int = INNER_BATCH, offset: int = 40) -> bytes:
    host = pack_host("10.0.0.1", 1)
    properties = build_properties({"INNER_NUM": "3", "INNER_BASE": "40"})
    return build_record(OutgoingMessage("t", 3, 0, sys_flag, 1000, host, host, 1, 0, body, properties), offset, 7, 2000)


def test_its_messages_have_offsets_properties_and_flags_of_their_own() -> None:
    inner = inner_messages(parse_record(stored(BATCH)))
    assert [(each.queue_offset, each.flag, each.body, each.unique_key) for each in inner] == [
        (40, 0, b"0", "ID0"),
        (41, 1, b"1", "ID1"),
        (42, 2, b"2", "ID2"),
    ]
    assert {(each.topic, each.queue_id, each.sys_flag, each.reconsume_times) for each in inner} == {("t", 3, 0, 1)}


def test_only_both_flags_make_one() -> None:
    assert is_inner_batch(INNER_BATCH | SysFlag.COMPRESSED)
    assert not is_inner_batch(SysFlag.INNER_BATCH)
    assert not is_inner_batch(SysFlag.NEED_UNWRAP)


def test_a_compressed_batch_is_inflated_first() -> None:
    flags = INNER_BATCH | SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    inner = inner_messages(parse_record(stored(zlib.compress(BATCH), flags)))
    assert [(each.body, each.sys_flag) for each in inner] == [(b"0", 0), (b"1", 0), (b"2", 0)]


def test_what_is_no_batch_is_refused() -> None:
    with pytest.raises(BodyError):
        inner_messages(parse_record(stored(b"nonsense")))
    with pytest.raises(MessageRefused):
        inner_messages(parse_record(stored(b"nonsense", INNER_BATCH | SysFlag.COMPRESSED)))


def test_a_pull_takes_batches_apart_from_the_offset_on_that_was_asked_for() -> None:
    plain = stored(b"plain", 0, offset=43)
    messages, sizes = pulled_messages(stored(BATCH) + plain, QUEUE, first_offset=41)
    assert [(message.queue_offset, message.body, message.msg_id) for message in messages[:2]] == [
        (41, b"1", "ID1"),
        (42, b"2", "ID2"),
    ]
    assert (messages[2].body, len(sizes), sizes[2]) == (b"plain", 3, len(plain))
    assert {message.queue for message in messages} == {QUEUE}


def test_a_batch_that_cannot_be_read_is_given_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    messages, _ = pulled_messages(stored(b"nonsense"), QUEUE)
    assert [message.body for message in messages] == [b"nonsense"]
    assert "cannot be read" in caplog.text
