"""Tests of messages that are read when they are asked for."""

from __future__ import annotations

import gc
import zlib

import pytest

from gateway.client import compression
from gateway.client.compression import ROOM, RoomUsedUp
from gateway.client.consume.pulled import RECORDS_FOR_ONE, PulledMessage, inner_messages, pulled_messages
from gateway.client.errors import MessageRefused
from gateway.client.message import MessageQueue
from wire.errors import BodyError, RecordError
from wire.message.batch import (
    INNER_BATCH,
    MAX_INNER_MESSAGES,
    BatchPart,
    build_batch,
    build_part,
    is_inner_batch,
    parse_batch,
)
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
    messages, sizes, _ = pulled_messages(b"".join(rows), QUEUE, asked=3)
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
    (message,), _, _ = pulled_messages(record(0, zlib.compress(body), sys_flag=flags), QUEUE, asked=1)
    assert message.body == body


def test_failures_on_this_client_count_as_redeliveries() -> None:
    (message,), _, _ = pulled_messages(record(0, b"x"), QUEUE, asked=1)
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
        pulled_messages(damaged, QUEUE, asked=2)


def test_a_body_longer_than_its_record_is_refused_when_it_is_read() -> None:
    whole = bytearray(record(0, b"x"))
    whole[84:88] = (10_000).to_bytes(4, "big")
    (message,), _, _ = pulled_messages(bytes(whole), QUEUE, asked=1)
    with pytest.raises(RecordError):
        _ = message.body


def test_nothing_pulled_is_no_messages() -> None:
    assert pulled_messages(b"", QUEUE, asked=1) == ([], [], None)


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
    messages, sizes, _ = pulled_messages(stored(BATCH) + plain, QUEUE, asked=4, first_offset=41)
    assert [(message.queue_offset, message.body, message.msg_id) for message in messages[:2]] == [
        (41, b"1", "ID1"),
        (42, b"2", "ID2"),
    ]
    assert (messages[2].body, len(sizes), sizes[2]) == (b"plain", 3, len(plain))
    assert {message.queue for message in messages} == {QUEUE}


def test_a_batch_that_cannot_be_read_is_given_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    messages, _, _ = pulled_messages(stored(b"nonsense"), QUEUE, asked=1)
    assert [message.body for message in messages] == [b"nonsense"]
    assert "cannot be read" in caplog.text


ZLIB_BATCH = INNER_BATCH | SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB


def bomb(offset: int, count: int) -> bytes:
    """A compressed batch of empty messages: 22 bytes each, and a hundredth of it on the way."""
    return stored(zlib.compress(build_part(0, b"", b"") * count, 9), ZLIB_BATCH, offset)


def test_the_messages_of_an_answer_have_a_limit_and_the_rest_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [bomb(offset * 20_000, 20_000) for offset in range(20)]
    taken: list[int] = []
    split: list[int] = []

    def counting(body: bytes) -> list[BatchPart]:
        parts = parse_batch(body)
        split.append(len(parts))
        return parts

    monkeypatch.setattr("gateway.client.consume.pulled.parse_batch", counting)
    at: int | None = 0
    while at is not None:
        messages, sizes, at = pulled_messages(
            b"".join(records[(at or 0) // 20_000 :]), QUEUE, asked=32, first_offset=at or 0
        )
        assert len(messages) == len(sizes) <= 32 + MAX_INNER_MESSAGES
        assert sum(split) <= 2 * (32 + MAX_INNER_MESSAGES)
        split.clear()
        taken += [message.queue_offset for message in messages]
    assert taken == list(range(400_000)), "nothing is lost"


def test_the_records_of_an_answer_have_a_limit() -> None:
    rows = [record(offset, b"x") for offset in range(10)]
    messages, _, left_at = pulled_messages(b"".join(rows), QUEUE, asked=4)
    assert (len(messages), left_at) == (4 * RECORDS_FOR_ONE, 8)
    assert pulled_messages(b"".join(rows), QUEUE, asked=5).left_at is None


def test_a_whole_batch_more_than_was_asked_for_is_taken() -> None:
    rows = [record(offset, b"x") for offset in range(31)] + [bomb(31, MAX_INNER_MESSAGES)]
    messages, _, left_at = pulled_messages(b"".join(rows), QUEUE, asked=32)
    assert (len(messages), left_at) == (31 + MAX_INNER_MESSAGES, None)


def test_the_batches_of_an_answer_share_what_is_free() -> None:
    # 44 KB each and 0.1 KB on the way: one is free, what the others take beyond 32 times their size counts.
    rows = b"".join(bomb(offset * 2_000, 2_000) for offset in range(10))
    before = ROOM.held_bytes
    messages, _, _ = pulled_messages(rows, QUEUE, asked=32)
    assert len(messages) == 20_000
    held = ROOM.held_bytes - before
    assert held > 10 * (22 * 2_000 - 32 * 200) - compression.FREE_BYTES
    del messages
    gc.collect()
    assert ROOM.held_bytes == before


def test_batches_without_room_are_left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ROOM, "limit_bytes", ROOM.held_bytes)
    rows = [bomb(offset * 2_000, 2_000) for offset in range(3)]
    messages, _, left_at = pulled_messages(b"".join(rows), QUEUE, asked=32)
    assert (len(messages), left_at) == (2_000, 2_000)
    with pytest.raises(RoomUsedUp, match="let go of messages"):
        pulled_messages(bomb(0, 20_000), QUEUE, asked=32)
