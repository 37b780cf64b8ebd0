"""Answers about so many topics, groups or queues that no frame holds them: a sentence that says so, and pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.listed import MAX_LISTED
from gateway.broker.requests.queue_rows import MAX_ROWS, ROWS_PER_PIECE
from gateway.membership import consumers
from gateway.metadata.offsets import PAIRS_PER_TURN
from gateway.remoting.turns import ENTRIES_PER_TURN
from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.subscriptions import SubscriptionData, SubscriptionGroupConfig, SubscriptionGroupTable
from wire.bodies.tools.statistics import ConsumeStats
from wire.bodies.topics import TopicConfig, TopicConfigTable
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.admin import GetConsumeStatsInBrokerRequest
from wire.headers.declare import parse_header
from wire.headers.groups import GetAllSubscriptionGroupRequest, GetAllSubscriptionGroupResponse
from wire.headers.topics import GetAllTopicConfigRequest, GetAllTopicConfigResponse, GetConsumeStatsRequest

LISTS = {
    RequestCode.GET_CONSUME_STATS: ("topicList", ";", {"consumerGroup": "group"}),
    RequestCode.QUERY_CORRECTION_OFFSET: ("filterGroups", ",", {"compareGroup": "group", "topic": "orders"}),
}


@pytest.mark.parametrize("code", LISTS)
@pytest.mark.parametrize("name", ["t", ""])
def test_a_field_that_lists_too_many_names_is_refused_in_words(
    broker: WholeBroker, code: RequestCode, name: str
) -> None:
    """A list of 8 MB was split, made a set and looked up in one piece, which took more than a second."""
    field, separator, others = LISTS[code]
    client = broker.connect()
    broker.send(client)
    most = broker.ask(client, code, fields={**others, field: separator.join([name] * MAX_LISTED)})
    assert most.code == ResponseCode.SUCCESS
    answer = broker.ask(client, code, fields={**others, field: separator.join([name] * (MAX_LISTED + 1))})
    assert (answer.code, answer.remark) == (
        ResponseCode.INVALID_PARAMETER,
        f"{field} lists more than {MAX_LISTED} names, the limit; ask with several requests",
    )


ONE_GROUP = {
    RequestCode.GET_BROKER_CONSUME_STATS: {"isOrder": "false"},
    RequestCode.GET_CONSUME_STATS: {"consumerGroup": "group"},
}

LONG = {"note": "x" * 100_000}
"""What another version keeps with a topic or group: 200 of them do not fit into a frame."""


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def test_all_topics_are_given_in_pages_when_no_frame_holds_them(broker: WholeBroker) -> None:
    broker.parts.topics.put_all([TopicConfig(f"topic-{number:03}", extra=LONG) for number in range(200)])
    client, code = broker.connect(), RequestCode.GET_ALL_TOPIC_CONFIG
    refused = broker.ask(client, code)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "does not fit into one frame; ask for pages (topicSeq and maxTopicNum)" in str(refused.remark)
    found: set[str] = set()
    total = first = 0
    while first <= total:
        answer = broker.ask(client, code, GetAllTopicConfigRequest(topic_seq=first, max_topic_num=100))
        total = parse_header(GetAllTopicConfigResponse, answer.ext_fields).total_topic_num or 0
        found.update(TopicConfigTable.parse(answer.body).configs)
        first += 100
    assert found == set(broker.parts.topics.table())


def test_all_groups_are_given_in_pages_when_no_frame_holds_them(broker: WholeBroker) -> None:
    broker.parts.groups.put_all([SubscriptionGroupConfig(f"group-{number:03}", extra=LONG) for number in range(200)])
    client, code = broker.connect(), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    assert "ask for pages (groupSeq and maxGroupNum)" in str(broker.ask(client, code).remark)
    answer = broker.ask(client, code, GetAllSubscriptionGroupRequest(group_seq=0, max_group_num=50))
    assert len(SubscriptionGroupTable.parse(answer.body).configs) == 50
    header = parse_header(GetAllSubscriptionGroupResponse, answer.ext_fields)
    assert header.total_group_num == len(broker.parts.groups.table())


def test_offsets_that_no_frame_holds_are_refused_in_words(broker: WholeBroker) -> None:
    offsets, end = broker.parts.offsets, "x" * 110
    for number in range(50_000):
        offsets.keep(f"group-{end}-{end}", f"topic-{number:05}-{end}", 0, 1)
    answer = broker.ask(broker.connect(), RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "offsets of all groups: " in str(answer.remark)
    assert "ask for single groups" in str(answer.remark)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"}),
        (RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "group"}),
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "group"}),
        (RequestCode.QUERY_CORRECTION_OFFSET, {"compareGroup": "group", "topic": "orders"}),
        (RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "group", "destGroup": "group", "offline": "true"}),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "group", "removeOffset": "true"}),
        (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}),
    ],
)
def test_a_search_through_all_offsets_goes_on_in_later_turns(
    broker: WholeBroker, code: RequestCode, fields: dict[str, str]
) -> None:
    for number in range(2 * PAIRS_PER_TURN):
        broker.parts.offsets.keep(f"group-{number}", "elsewhere", 0, 1)
    broker.parts.offsets.keep("group", "orders", 0, 1)
    broker.parts.groups.find("group")
    broker.parts.topics.put_all([TopicConfig("orders")])
    peer = broker.connect()
    assert peer.ask_all(code, fields=fields) == []
    assert broker.parts.offsets.query("group", "orders", 0) == 1
    broker.reactor.advance(0)
    assert [answer.code for answer in peer.received()] == [ResponseCode.SUCCESS]


def wide_topics(broker: WholeBroker, count: int, queues: int) -> list[str]:
    topics = [f"wide-{number}" for number in range(count)]
    broker.parts.topics.put_all([TopicConfig(topic, queues, queues) for topic in topics])
    for topic in topics:
        broker.parts.offsets.keep("group", topic, 0, 0)
    return topics


def test_progress_in_more_queues_than_a_frame_holds_is_refused_before_they_are_read(broker: WholeBroker) -> None:
    topics = wide_topics(broker, 3, 65_536)
    broker.parts.groups.find("group")
    client = broker.connect()
    for code, header in (
        (RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group="group", topic_list=";".join(topics))),
        (RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group="group")),
        (RequestCode.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerRequest(is_order=False)),
    ):
        answer = broker.ask(client, code, header)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"196608 queues do not fit into one frame, the limit is {MAX_ROWS}" in str(answer.remark)


def test_a_topic_that_is_named_many_times_is_looked_at_once(broker: WholeBroker) -> None:
    (topic,) = wide_topics(broker, 1, 40)
    header = GetConsumeStatsRequest(consumer_group="group", topic_list=";".join([topic] * MAX_LISTED))
    answer = broker.ask(broker.connect(), RequestCode.GET_CONSUME_STATS, header)
    assert len(ConsumeStats.parse(answer.body).offset_table) == 40


@pytest.mark.parametrize("code", [RequestCode.GET_CONSUME_STATS, RequestCode.GET_BROKER_CONSUME_STATS])
def test_the_subscriptions_of_a_group_are_unpacked_once_for_all_its_topics(
    broker: WholeBroker, code: RequestCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were unpacked twice for each topic: 5,000 subscriptions and 2,000 topics took three seconds in one piece."""
    topics = wide_topics(broker, 50, 1)
    broker.subscribe(broker.connect(), topic=topics[0])
    unpacked: list[bytes] = []
    unpack = consumers._unpack

    def counted(packed: bytes) -> tuple[SubscriptionData, ...]:
        unpacked.append(packed)
        return unpack(packed)

    monkeypatch.setattr(consumers, "_unpack", counted)
    answer = broker.ask(broker.connect(), code, fields=ONE_GROUP[code])
    assert answer.code == ResponseCode.SUCCESS
    assert b"wide-0" in (answer.body or b"")
    assert b"wide-1" not in (answer.body or b"")
    assert len(unpacked) == 1


@pytest.mark.parametrize("code", [RequestCode.GET_CONSUME_STATS, RequestCode.GET_BROKER_CONSUME_STATS])
def test_a_list_of_more_topics_than_a_turn_looks_at_is_made_in_turns(broker: WholeBroker, code: RequestCode) -> None:
    wide_topics(broker, 3 * ENTRIES_PER_TURN, 1)
    broker.parts.groups.find("group")
    looked_at: list[str] = []
    get = broker.parts.topics.get

    def counted(topic: str) -> TopicConfig | None:
        looked_at.append(topic)
        return get(topic)

    broker.parts.topics.get = counted  # type: ignore[method-assign]
    peer = broker.connect()
    peer.send(RemotingCommand(code, ext_fields=ONE_GROUP[code]))
    assert len(looked_at) == ENTRIES_PER_TURN


STATISTICS = {
    RequestCode.GET_BROKER_CONSUME_STATS: {"isOrder": "false"},
    RequestCode.GET_CONSUME_STATS: {"consumerGroup": "group"},
    RequestCode.GET_TOPIC_STATS_INFO: {"topic": "wide-0"},
    RequestCode.QUERY_CONSUME_TIME_SPAN: {"topic": "wide-0", "group": "group"},
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: {
        "topic": "wide-0",
        "group": "group",
        "timestamp": "-1",
        "isForce": "true",
    },
}


@pytest.mark.parametrize("code", STATISTICS)
def test_of_a_hundred_statistics_that_nobody_reads_one_is_made(broker: WholeBroker, code: RequestCode) -> None:
    """They were all begun at once: a gigabyte of rows, and two seconds in which nobody else was answered."""
    wide_topics(broker, 1, 2 * ENTRIES_PER_TURN)
    broker.parts.groups.find("group")
    works: list[tuple[Callable[[], object], Callable[[Any], object]]] = []
    broker.in_thread = lambda work, done: works.append((work, done))
    peer = broker.connect()
    peer.send(*(RemotingCommand(code, opaque=number, ext_fields=STATISTICS[code]) for number in range(100)))
    peer.transport.full()
    assert (len(works), broker.parts.cold_reads.count) == (1, 1), "the first piece of the first one"
    pieces = 0
    while works:
        pieces += 1
        work, done = works.pop()
        done(work())
        broker.turn()
        if pieces == 3:  # of the second one
            peer.leave()
    assert pieces <= 2 * ENTRIES_PER_TURN // ROWS_PER_PIECE + 4, "the pieces of one list, and a table that is saved"
    assert broker.parts.turns.count == 0
