"""The sizes of bodies that a server reads in one piece; larger bodies are read in steps."""

from __future__ import annotations

import contextlib
import struct
import time
import zlib
from collections.abc import Callable
from itertools import chain

import msgspec
import pytest

from wire.bodies.declare import ENTRIES_PER_STEP, JsonObject, RequestBody, Undeclared, finish
from wire.bodies.fastjson import parse_json
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.message_queue import MessageQueue
from wire.bodies.registration import RegisterBrokerBody, TopicsAndMappings
from wire.bodies.route import TopicRouteData
from wire.bodies.subscriptions import SubscriptionData
from wire.bodies.tools.statistics import ConsumeStats, OffsetWrapper
from wire.bodies.topics import CreateTopicList, TopicConfig
from wire.errors import BodyError
from wire.tests.bodies.shapes import body_classes, shapes

MOST_SECONDS = 2.0
"""Of processor time; 0.3 s were measured for the slowest. Without limits each of these would take more than ten."""

AT_ONE_GO = [cls for cls in body_classes() if issubclass(cls, RequestBody) or cls is TopicRouteData]


def _keeps_undeclared(cls: type[JsonObject]) -> bool:
    marks = [getattr(declared.type, "__metadata__", ()) for declared in msgspec.structs.fields(cls)]
    return any(isinstance(mark, Undeclared) for mark in chain.from_iterable(marks))


@pytest.mark.parametrize("cls", AT_ONE_GO, ids=lambda cls: cls.__name__)
def test_the_largest_body_is_read_quickly(cls: type[JsonObject]) -> None:
    for name, shape in shapes(cls):
        if name.endswith("again and again"):
            continue
        largest, largest_lenient = int(0.8 * cls.MAX_BYTES), int(0.8 * min(cls.MAX_BYTES, cls.MAX_LENIENT_BYTES))
        for raw in (shape(largest), shape(largest_lenient)[:-1] + ",}"):
            assert len(raw) <= cls.MAX_BYTES, name
            start = time.thread_time()
            with contextlib.suppress(BodyError):
                cls.parse(raw.encode())
            assert time.thread_time() - start < MOST_SECONDS, name


@pytest.mark.parametrize("cls", AT_ONE_GO, ids=lambda cls: cls.__name__)
def test_a_larger_body_is_refused_before_it_is_read(cls: type[JsonObject]) -> None:
    with pytest.raises(BodyError, match=f"is over the limit of {cls.MAX_BYTES}"):
        cls.parse(b"{" + b" " * cls.MAX_BYTES + b"}")


def test_honest_bodies_are_far_from_the_limits() -> None:
    subscriptions = [SubscriptionData(f"a-topic-name-{at}", "TagA || TagB", frozenset({"a", "b"})) for at in range(10)]
    groups = [ConsumerData(group=f"a-consumer-group-name-{at}", subscriptions=subscriptions) for at in range(200)]
    heartbeat = HeartbeatData(client_id="10.0.0.1@4711", consumers=groups, producers=["p"] * 200)
    assert HeartbeatData.parse(heartbeat.build()) == HeartbeatData.from_json(heartbeat.to_json())
    topics = CreateTopicList(
        [TopicConfig(f"a-topic-name-{at}", attributes={"+message.type": "FIFO"}) for at in range(10_000)]
    )
    assert len(CreateTopicList.parse(topics.build()).configs) == 10_000


@pytest.mark.parametrize(
    "cls",
    [cls for cls in body_classes() if not _keeps_undeclared(cls)],
    ids=lambda cls: f"{cls.__module__}.{cls.__name__}",
)
def test_steps_give_what_one_go_gives(cls: type[JsonObject]) -> None:
    for name, shape in shapes(cls):
        value = parse_json(shape(30_000))
        assert _outcome(lambda value: finish(cls.from_json_in_steps(value)), value) == _outcome(cls.from_json, value), (
            name
        )


def _outcome(read: Callable[[object], object], value: object) -> object:
    try:
        return read(value)
    except BodyError as error:
        return str(error)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registration_that_is_no_json_is_refused_soon(compressed: bool) -> None:
    """As much as one frame may bring, of small values; without a limit for such texts it took half a second."""
    text = b"{" + b"1:[]," * 190_000 + b"1:1"
    parts = struct.pack(">i", 2) + b"{}" + struct.pack(">ii", 0, len(text)) + text
    raw = zlib.compress(parts) if compressed else text
    start = time.thread_time()
    with pytest.raises(BodyError, match=r"text that is no strict JSON of .* bytes is over the limit of 262144"):
        RegisterBrokerBody.parse(raw, compressed, 513)
    assert time.thread_time() - start < MOST_SECONDS


def test_a_tool_is_told_of_ten_thousand_queues() -> None:
    """The keys of the table are objects, which is no JSON."""
    offsets = {MessageQueue("a-topic-name", "broker-a", at): OffsetWrapper(10**9, 10**9, 10**9) for at in range(10_000)}
    stats = ConsumeStats(offset_table=offsets)
    assert len(ConsumeStats.parse(stats.build()).offset_table) == 10_000


def test_no_step_reads_many_entries() -> None:
    table = {f"t{at}": {"topicName": f"t{at}"} for at in range(ENTRIES_PER_STEP * 10)}
    value = {"topicConfigTable": table, **{f"unknown{at}": at for at in range(ENTRIES_PER_STEP * 10)}}
    assert sum(1 for _ in TopicsAndMappings.from_json_in_steps(value)) >= 19
