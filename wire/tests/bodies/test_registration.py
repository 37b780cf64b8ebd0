from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies import registration
from wire.bodies.declare import ENTRIES_PER_STEP
from wire.bodies.registration import MAPPINGS_SINCE_VERSION, MAX_PARTS, RegisterBrokerBody, likely_bytes
from wire.bodies.topics import DataVersion, TopicConfig, TopicQueueMapping
from wire.errors import BodyError, LocalError
from wire.tests.bodies.strategies import data_versions, texts
from wire.tests.message.strategies import QUICK

OLD = MAPPINGS_SINCE_VERSION - 1
NEW = MAPPINGS_SINCE_VERSION
VERSION = DataVersion(3, 1_700_000_000_000, 0)
BODY = RegisterBrokerBody(
    VERSION,
    {"tt": TopicConfig("tt"), "u": TopicConfig("u", 8, 4, 2, attributes={"+message.type": "FIFO"})},
    ("fs:1",),
)

words = st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"], exclude_characters=" "), min_size=1, max_size=8)
small = st.integers(0, 1000)
configs = st.builds(TopicConfig, words, small, small, small, attributes=st.dictionaries(texts, texts, max_size=2))
bodies = st.builds(
    RegisterBrokerBody,
    data_versions,
    st.lists(configs, max_size=4).map(lambda found: {config.topic_name: config for config in found}),
    st.lists(texts, max_size=2).map(tuple),
    st.lists(words, max_size=2).map(lambda names: {name: TopicQueueMapping(name, "b") for name in names}),
)


def part(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def test_the_plain_body_of_a_4_9_broker_is_read() -> None:
    text = (
        b'{"filterServerList":["fs:1"],"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,'
        b'"timestamp":1700000000000},"topicConfigTable":{"tt":{"order":false,"perm":6,"readQueueNums":16,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"tt","topicSysFlag":0,"writeQueueNums":16}}}}'
    )
    body = RegisterBrokerBody.parse(text, False, OLD)
    assert body == RegisterBrokerBody(VERSION, {"tt": TopicConfig("tt")}, ("fs:1",))


def test_the_compressed_body_is_laid_out_as_documented() -> None:
    plain = zlib.decompress(BODY.build(True, NEW))
    assert plain == (
        part(b'{"counter":3,"stateVersion":0,"timestamp":1700000000000}')
        + struct.pack(">i", 2)
        + part(b"tt 16 16 6 SINGLE_TAG")
        + part(b'u 8 4 2 SINGLE_TAG {"+message.type":"FIFO"}')
        + part(b'["fs:1"]')
        + struct.pack(">i", 0)
    )
    assert zlib.decompress(BODY.build(True, OLD)) == plain[:-4]


@QUICK
@given(bodies)
def test_bodies_come_back_in_both_forms(body: RegisterBrokerBody) -> None:
    assert RegisterBrokerBody.parse(body.build(False), False, NEW) == body
    assert RegisterBrokerBody.parse(body.build(True, NEW), True, NEW) == body
    without_mappings = RegisterBrokerBody.parse(body.build(True, OLD), True, OLD)
    assert without_mappings.topic_config_table == body.topic_config_table
    assert not without_mappings.topic_queue_mapping_info_map


def test_the_text_of_a_5_x_broker_with_empty_attributes_is_read() -> None:
    raw = zlib.compress(
        part(b'{"counter":1,"timestamp":2}') + struct.pack(">i", 1) + part(b"tt 16 16 6 SINGLE_TAG {}") + part(b"[]")
    )
    body = RegisterBrokerBody.parse(raw, True, OLD)
    assert body.topic_config_table == {"tt": TopicConfig("tt")}


def test_no_body_is_a_broker_without_topics() -> None:
    assert RegisterBrokerBody.parse(b"", False, NEW) == RegisterBrokerBody()
    assert RegisterBrokerBody.parse(b"", True, NEW) == RegisterBrokerBody()


HEAD = part(b'{"counter":1,"timestamp":2}')
ONE = struct.pack(">i", 1)


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        (b"", "cut off at byte 0"),
        (b"\x00\x00", "cut off at byte 0"),
        (struct.pack(">i", -1), "length -1 at byte 0"),
        (struct.pack(">i", 99) + b"{}", "a part of 99 bytes at byte 4 of 6"),
        (part(b"{"), "JSON text"),
        (part(b"[]"), "DataVersion is a JSON object"),
        (HEAD, "cut off"),
        (HEAD + struct.pack(">i", MAX_PARTS), "cut off"),
        (HEAD + struct.pack(">i", MAX_PARTS + 1), f"{MAX_PARTS + 1} topics, the limit is {MAX_PARTS}"),
        (HEAD + ONE + part(b"tt 16 16 6"), "has 4 words, not 5 or 6"),
        (HEAD + ONE + part(b"tt 16 x 6 SINGLE_TAG"), "writeQueueNums: 'x' is not"),
        (HEAD + ONE + part(b"tt 16 16 6 SINGLE_TAG {"), "JSON text"),
        (HEAD + ONE + part(b"tt 16 16 6 SINGLE_TAG []"), "attributes"),
        (HEAD + ONE + part(b"tt 16 16 6 SINGLE_TAG") + part(b"{}"), "filter servers are no array"),
        (HEAD + ONE + part(b"tt 16 16 6 SINGLE_TAG") + part(b"[1]"), "filter servers are no array"),
        (HEAD + ONE + part(b"tt 16 16 6 SINGLE_TAG") + part(b"[]"), "cut off"),
        (HEAD + ONE + part(b"tt 16 16 6 SINGLE_TAG") + part(b"[]") + ONE + part(b"{}"), "topic is missing"),
    ],
)
def test_a_damaged_compressed_body_is_refused(plain: bytes, reason: str) -> None:
    with pytest.raises(BodyError, match=reason):
        RegisterBrokerBody.parse(zlib.compress(plain), True, NEW)


def test_what_is_no_zlib_stream_is_refused() -> None:
    with pytest.raises(BodyError, match="no zlib stream"):
        RegisterBrokerBody.parse(b"not compressed", True, NEW)
    with pytest.raises(BodyError, match="cut off within the zlib stream"):
        RegisterBrokerBody.parse(BODY.build(True)[:-6], True, NEW)


@pytest.mark.parametrize("compressed", [False, True])
def test_many_topics_are_read_in_many_steps(compressed: bool) -> None:
    topics = {f"topic-{at}": TopicConfig(f"topic-{at}") for at in range(5_000)}
    body = RegisterBrokerBody(VERSION, topics)
    steps = RegisterBrokerBody.parse_in_steps(body.build(compressed), compressed, NEW)
    assert sum(1 for _ in steps) >= 5_000 // ENTRIES_PER_STEP
    assert RegisterBrokerBody.parse(body.build(compressed), compressed, NEW) == body


def test_the_table_of_many_topics_is_made_in_many_steps() -> None:
    """One with 200,000 topics took half a second of a busy machine."""
    many = {name: TopicConfig(name) for name in map(str, range(10 * ENTRIES_PER_STEP))}
    raw = RegisterBrokerBody(topic_config_table=many).build(compressed=True)
    count = sum(1 for _ in RegisterBrokerBody.parse_in_steps(raw, True, NEW))
    assert count >= 2 * 9, "once for the topics, and once for their table"
    assert RegisterBrokerBody.parse(raw, True, NEW).topic_config_table == many


def test_large_topics_are_read_in_many_steps() -> None:
    attributes = "".join(f"a{at}:1," for at in range(10_000)).encode()
    topics = b"".join(part(b"t%d 1 1 6 S {%b}" % (at, attributes)) for at in range(20))
    raw = zlib.compress(HEAD + struct.pack(">i", 20) + topics + part(b"[]"))
    assert sum(1 for _ in RegisterBrokerBody.parse_in_steps(raw, True, OLD)) >= 20


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MAX_INFLATED_BYTES", 1000)
    with pytest.raises(BodyError, match="larger than 1000 bytes"):
        RegisterBrokerBody.parse(zlib.compress(bytes(1_000_000)), True, NEW)
    assert RegisterBrokerBody.parse(BODY.build(True), True, NEW) == BODY


@QUICK
@given(st.binary(max_size=60), st.booleans(), st.sampled_from([OLD, NEW]))
def test_any_bytes_are_a_registration_or_a_body_error(raw: bytes, compressed: bool, version: int) -> None:
    for body in (raw, zlib.compress(raw), zlib.compress(HEAD + ONE + raw)):
        try:
            RegisterBrokerBody.parse(body, compressed, version)
        except BodyError:
            continue


@pytest.mark.parametrize("name", ["two words", ""])
def test_a_topic_that_is_no_word_is_not_compressed(name: str) -> None:
    with pytest.raises(LocalError, match="cannot be written as words"):
        RegisterBrokerBody(VERSION, {name: TopicConfig(name)}).build(True)


def test_how_long_a_compressed_body_is_can_be_guessed_from_its_beginning() -> None:
    few = RegisterBrokerBody(topic_config_table={"orders": TopicConfig("orders")})
    for compressed in (False, True):
        assert likely_bytes(few.build(compressed), compressed) < 1_000
    assert likely_bytes(few.build(True), True) == len(zlib.decompress(few.build(True)))
    bomb = zlib.compress(bytes(32 << 20), 9)
    assert likely_bytes(bomb, True) > 16 << 20
    many = zlib.compress(b"".join(b"topic-%d 8 8 6 SINGLE_TAG" % number for number in range(100_000)))
    assert 1 << 20 < likely_bytes(many, True) < 8 << 20
    assert likely_bytes(b"no zlib stream", True) == 14
