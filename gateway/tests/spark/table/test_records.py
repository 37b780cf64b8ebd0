"""Finding the records of a pull body."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.spark.table.records import Records, by_hosts, host_flags, queue_offsets, record_starts, slices
from gateway.tests.spark.messages import CLIENT, HOST, record
from wire.errors import RecordError
from wire.message.message_id import pack_host
from wire.message.record import parse_records

MAGIC = bytes.fromhex("DAA320A7")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.booleans(), st.sampled_from(("orders", "t" * 200))), max_size=20))
def test_every_reader_finds_the_same_records(parts: list[tuple[bytes, bool, str]]) -> None:
    v6 = pack_host("2001:db8::1", 5)
    raws = [
        record(offset, body, topic=topic, born_host=v6 if is_v6 else CLIENT)
        for offset, (body, is_v6, topic) in enumerate(parts)
    ]
    buffer = b"".join(raws)
    starts = record_starts(buffer)
    assert starts.tolist() == [sum(map(len, raws[:place])) for place in range(len(raws))]
    assert queue_offsets(buffer, starts).tolist() == list(range(len(raws)))
    messages = list(parse_records(buffer))
    for places, records in by_hosts(buffer, starts):
        chosen = messages if places is None else [messages[place] for place in places]
        assert records.bodies().to_pylist() == [message.body for message in chosen]
        assert records.properties().to_pylist() == [message.properties for message in chosen]
        assert records.integers("stored_at_ms").tolist() == [message.stored_at_ms for message in chosen]
        assert [row.tobytes() for row in records.hosts("born_host")] == [message.born_host for message in chosen]


def test_a_body_that_looks_like_a_record_is_none() -> None:
    inner = record(7, b"inside")
    raws = [record(0, MAGIC), record(1, inner + inner), record(2, b"\0\0\0\x10" + MAGIC * 3)]
    assert len(record_starts(b"".join(raws))) == 3


def test_nothing_holds_no_records() -> None:
    assert len(record_starts(b"")) == 0
    assert host_flags(b"", record_starts(b"")).tolist() == []
    [(places, records)] = by_hosts(b"", record_starts(b""))
    assert (places, len(records)) == (None, 0)
    assert records.bodies().to_pylist() == []


def test_hosts_of_one_kind_are_one_group_and_of_two_kinds_two() -> None:
    v6 = pack_host("2001:db8::1", 5)
    buffer = record(0) + record(1, store_host=v6) + record(2)
    groups = {
        int(records.integers("queue_offset")[0]): places for places, records in by_hosts(buffer, record_starts(buffer))
    }
    assert {offset: places.tolist() for offset, places in groups.items() if places is not None} == {0: [0, 2], 1: [1]}


@pytest.mark.parametrize("cut", [1, 3, 50, 91, 95])
def test_a_record_cut_off_is_refused_wherever_it_is_cut(cut: int) -> None:
    buffer = record(0) + record(1)
    with pytest.raises(RecordError):
        record_starts(buffer[: len(record(0)) + cut])


def test_a_record_whose_parts_do_not_add_up_is_refused() -> None:
    good = record(0, b"body", b"A\x01b\x02")
    whole = len(good)
    for place, value in ((84, 0xFF), (87, 0x40), (whole - 5, 9), (whole - 6, 0x80), (7, 0)):
        bad = bytearray(good + record(1))
        bad[place] = value
        with pytest.raises(RecordError):
            Records(bytes(bad), np.array([0, whole]), 0)


@pytest.mark.parametrize("topic", ["orders", "t" * 200])
def test_a_byte_that_changes_in_one_of_many_alike_records_is_never_passed_over(topic: str) -> None:
    good = b"".join(record(offset, topic=topic) for offset in range(3))
    size = len(good) // 3
    starts = np.arange(0, 3 * size, size)
    for place in range(3 * size):
        bad = bytearray(good)
        bad[place] ^= 0x05
        try:
            messages = list(parse_records(bytes(bad)))
        except RecordError:
            with pytest.raises((RecordError, IndexError)):
                Records(bytes(bad), starts, 0)
            continue
        records = Records(bytes(bad), starts, 0)
        assert records.bodies().to_pylist() == [message.body for message in messages]
        assert records.properties().to_pylist() == [message.properties for message in messages]
        assert records.integers("flag").tolist() == [message.flag for message in messages]
        assert [row.tobytes() for row in records.hosts("store_host")] == [message.store_host for message in messages]
        assert records.same_host("store_host") == (HOST if bytes(bad).count(HOST) == 3 else None)
        assert records.all_of_topic(topic.encode()) == all(message.topic == topic for message in messages)


def test_sizes_that_lead_nowhere_are_refused() -> None:
    for size in (0, 5, -1, 2**31 - 1):
        bad = size.to_bytes(4, "big", signed=True) + record(0)[4:]
        with pytest.raises(RecordError):
            record_starts(bad)


def test_slices_are_taken_without_what_lies_between() -> None:
    found = slices(b"..one..two.", np.array([2, 7]), np.array([3, 3]))
    assert found.to_pylist() == [b"one", b"two"]
    assert slices(b"abc", np.array([0, 1, 3]), np.array([1, 2, 0])).to_pylist() == [b"a", b"bc", b""]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 50])
def test_some_bytes_are_no_record(size: int) -> None:
    with pytest.raises(RecordError):
        record_starts(bytes(size))
