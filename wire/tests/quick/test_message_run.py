"""A batch taken apart: its messages keep their properties, and its records are those of its messages one by one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import BodyError, LocalError
from wire.message.batch import BatchPart, build_batch
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage, build_record, parse_record
from wire.message.record_layout import MAX_TOPIC_BYTES
from wire.message.tags import tags_code
from wire.quick.message_run import MessageRun
from wire.tests.message.strategies import QUICK, hosts, int32s, int64s, property_maps, topics

HOST = bytes(8)
HOST_V6 = bytes(20)
OUTER = {"UNIQ_KEY": "outer", "WAIT": "true"}


def batch(*parts: BatchPart, outer: dict[str, str] = OUTER, **changed: object) -> OutgoingMessage:
    message = OutgoingMessage(
        "orders", 3, 0, 1, 99, HOST, HOST, 2, 0, build_batch(parts), build_properties(outer), outer
    )
    for name, value in changed.items():
        setattr(message, name, value)
    return message


def run_of(*properties: Mapping[str, str], outer: dict[str, str] = OUTER) -> MessageRun:
    parts = [BatchPart(number, b"%d" % number, build_properties(one)) for number, one in enumerate(properties)]
    return MessageRun(batch(*parts, outer=outer))


def alone(run: MessageRun, queue_offset: int, commit_log_offset: int, stored_at_ms: int) -> list[bytes]:
    """The records of the messages, each made by itself."""
    records = []
    for message in run.messages():
        records.append(build_record(message, queue_offset, commit_log_offset, stored_at_ms))
        queue_offset += 1
        commit_log_offset += len(records[-1])
    return records


def told(run: MessageRun) -> list[tuple[str, str | None, str | None, int]]:
    """Return the facts of each message without its properties."""
    return [(key, form.keys, form.tag, form.code) for key, form in zip(run.unique_keys, run.forms, strict=True)]


def found(run: MessageRun) -> list[tuple[str, str | None, str | None, int]]:
    """Return the same facts, read from the properties with which each message is stored."""
    maps = [message.property_map for message in run.messages()]
    return [
        (map_.get("UNIQ_KEY", ""), map_.get("KEYS"), map_.get("TAGS"), tags_code(map_.get("TAGS"))) for map_ in maps
    ]


# -- properties -------------------------------------------------------------------------------------------------


def test_messages_are_what_the_batch_is_but_for_flag_body_and_properties() -> None:
    messages = run_of({"a": "1"}, {"a": "2"}).messages()
    assert len(messages) == 2
    for number, message in enumerate(messages):
        assert (message.topic, message.queue_id, message.sys_flag, message.born_at_ms) == ("orders", 3, 1, 99)
        assert (message.reconsume_times, message.flag, message.body) == (2, number, b"%d" % number)
        assert message.property_map == {"a": str(number + 1)} == parse_properties(message.properties)


@pytest.mark.parametrize("key", [b"A\x02TAGS\x01blue", b"A\x02UNIQ_KEY\x01B", b"A\x01" + b"B" * 9, b"\xff" * 11])
def test_what_stands_in_the_place_of_a_key_is_not_taken_for_one(key: bytes) -> None:
    raws = [b"UNIQ_KEY\x01" + one + b"\x02WAIT\x01true\x02" for one in (b"A" * len(key), key)]
    run = MessageRun(batch(*[BatchPart(0, b"", raw) for raw in raws]))
    assert told(run) == found(run)


@pytest.mark.parametrize("raw", [b"", b"a\x01b", b"a\x01b\x02", b"UNIQ_KEY\x01own\x02TAGS\x01red\x02"])
def test_messages_keep_the_property_strings_they_came_with(raw: bytes) -> None:
    run = MessageRun(batch(BatchPart(0, b"0", raw), outer={**OUTER, "KEYS": "all", "TAGS": "blue"}))
    (message,) = run.messages()
    assert message.properties == raw
    assert parse_record(run.build(0, 0, 0)).properties == raw
    assert told(run) == found(run)


def test_light_queues_are_noticed_wherever_they_are_named() -> None:
    assert not run_of({}, {}).names_light_queues
    assert run_of({}, {"INNER_MULTI_DISPATCH": "%LMQ%x"}, {}).names_light_queues
    assert not run_of({}, outer={"INNER_MULTI_DISPATCH": "%LMQ%x"}).names_light_queues


def test_messages_that_differ_in_their_unique_keys_only_are_checked_once() -> None:
    seen: list[dict[str, str]] = []
    parts = [
        BatchPart(0, b"", build_properties({"UNIQ_KEY": f"{number:08X}", "TAGS": tag}))
        for number, tag in enumerate(("a", "a", "b", "b"))
    ]
    MessageRun(batch(*parts), lambda properties: seen.append(dict(properties)))
    assert seen == [{"UNIQ_KEY": "00000000", "TAGS": "a"}, {"UNIQ_KEY": "00000002", "TAGS": "b"}]


def test_a_message_that_is_refused_refuses_the_batch() -> None:
    def check(properties: Mapping[str, str]) -> None:
        if "DELAY" in properties:
            raise ValueError("no delays here")

    with pytest.raises(ValueError, match="no delays here"):
        MessageRun(batch(BatchPart(0, b"", b"UNIQ_KEY\x01a\x02"), BatchPart(0, b"", b"DELAY\x011\x02")), check)


# -- records ----------------------------------------------------------------------------------------------------


def test_records_know_their_places() -> None:
    run = run_of({"UNIQ_KEY": "A"}, {"UNIQ_KEY": "B"}, {"k": "v"})
    records = alone(run, 7, 1_000, 99)
    assert run.build(7, 1_000, 99) == b"".join(records)
    assert run.sizes == [len(record) for record in records]
    assert (run.count, run.size, run.largest) == (3, sum(run.sizes), max(run.sizes))


# Strings that a quick look takes for something else: other names that end like these, names that come twice, values
# that go on behind what looks like an end, pairs that are none, and text that is no UTF-8.
_odd_strings = st.lists(
    st.sampled_from(
        [
            *(b"UNIQ_KEY\x01AA00\x02", b"UNIQ_KEY\x01BB11\x02", b"UNIQ_KEY\x01AB\x02", b"UNIQ_KEY\x01A-_1\x02"),
            *(b"UNIQ_KEY\x01\x02", b"UNIQ_KEY\x01", b"UNIQ_KEY", b"XUNIQ_KEY\x01CC22\x02", b"UNIQ_KEY\x01A\x01B1\x02"),
            *(b"UNIQ_KEY\x01\xff\xfe00\x02", "UNIQ_KEY\x01é漢\x02".encode(), b"TAGS\x01a\x02", b"TAGS\x01bb\x02"),
            *(b"KEYS\x01k1 k2\x02", b"KEYS\x01\x02", b"WAIT\x01true\x02", b"\x02", b"\x01\x02", b"\xe6", b"k\x01v"),
            b"INNER_MULTI_DISPATCH\x01%LMQ%x\x02",
        ]
    ),
    max_size=5,
).map(b"".join)
_alike = st.builds(
    lambda key, rest: b"UNIQ_KEY\x01%s\x02" % key + rest,
    st.text("0123456789ABCDEF", min_size=8, max_size=8).map(str.encode),
    st.sampled_from([b"", b"WAIT\x01true\x02", b"TAGS\x01a\x02", b"WAIT\x01true"]),
)
_strings = _alike | _odd_strings | property_maps.map(build_properties)
_parts = st.builds(BatchPart, int32s, st.binary(max_size=200), _strings)


@QUICK
@given(
    parts=st.lists(_parts, max_size=12),
    outer=st.sampled_from([OUTER, {}, {"TAGS": "o", **OUTER}, {"KEYS": "o p", "CLUSTER": "c"}]) | property_maps,
    topic=topics,
    numbers=st.tuples(int32s, int32s, int64s, int32s, int64s),
    hosts_=st.tuples(hosts, hosts),
    places=st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**62)),
)
def test_records_are_those_of_the_messages_one_by_one(
    parts: list[BatchPart],
    outer: dict[str, str],
    topic: str,
    numbers: tuple[int, int, int, int, int],
    hosts_: tuple[bytes, bytes],
    places: tuple[int, int, int],
) -> None:
    queue_id, sys_flag, born_at_ms, reconsume_times, prepared = numbers
    whole = OutgoingMessage(
        *(topic, queue_id, 0, sys_flag, born_at_ms, *hosts_, reconsume_times, prepared),
        *(build_batch(parts), build_properties(outer), parse_properties(build_properties(outer))),
    )
    if len(topic.encode()) > MAX_TOPIC_BYTES:
        with pytest.raises(LocalError, match="topic takes"):
            MessageRun(whole)
        return
    run = MessageRun(whole)
    records = alone(run, *places)
    assert run.build(*places) == b"".join(records)
    assert run.sizes == [len(record) for record in records]
    assert told(run) == found(run)
    assert run.names_light_queues == any("INNER_MULTI_DISPATCH" in one.property_map for one in run.messages())
    for message, part in zip(run.messages(), parts, strict=True):
        own = parse_properties(part.properties)
        assert (message.flag, message.body) == (part.flag, part.body)
        assert (message.properties, message.property_map) == (part.properties, own)


def test_what_fits_no_record_is_refused() -> None:
    with pytest.raises(BodyError):
        MessageRun(batch(body=b"\0" * 30))
    with pytest.raises(LocalError, match="hosts take"):
        MessageRun(batch(BatchPart(0, b"", b""), born_host=b"1"))
    with pytest.raises(LocalError, match="does not fit"):
        MessageRun(batch(BatchPart(0, b"", b""), born_at_ms=1 << 63)).build(0, 0, 0)


def test_an_empty_batch_has_no_records() -> None:
    run = MessageRun(batch())
    assert (run.count, run.size, run.build(0, 0, 0), run.messages()) == (0, 0, b"", [])
