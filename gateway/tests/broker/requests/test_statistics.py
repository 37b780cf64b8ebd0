"""The ends of queues and the offsets of groups, as tools ask for them."""

from __future__ import annotations

from gateway.tests.broker.requests.small_broker import SmallBroker
from wire.bodies.message_queue import MessageQueue
from wire.bodies.tools.statistics import ConsumeStats, GroupList, OffsetWrapper, TopicOffset, TopicStatsTable
from wire.bodies.topics import TopicConfig, TopicList
from wire.codes import RequestCode, ResponseCode


def queue(topic: str, queue_id: int) -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


def test_the_queues_of_a_topic_are_shown_with_their_last_store_time(broker: SmallBroker) -> None:
    broker.topics.put(TopicConfig("t", 2, 2))
    broker.stand_in.put("t", 0, 100, 200, first=5)
    answer = broker.connect().ask(RequestCode.GET_TOPIC_STATS_INFO, fields={"topic": "t"})
    assert TopicStatsTable.parse(answer.body).offset_table == {
        queue("t", 0): TopicOffset(5, 7, 200),
        queue("t", 1): TopicOffset(0, 0, 0),
    }
    assert answer.body.startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:')


def test_statistics_of_an_unknown_topic_are_refused(broker: SmallBroker) -> None:
    answer = broker.connect().ask(RequestCode.GET_TOPIC_STATS_INFO, fields={"topic": "t"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def stats(broker: SmallBroker, **fields: str) -> dict[MessageQueue, OffsetWrapper]:
    answer = broker.connect().ask(RequestCode.GET_CONSUME_STATS, fields={"consumerGroup": "g", **fields})
    assert answer.code == ResponseCode.SUCCESS
    return dict(ConsumeStats.parse(answer.body).offset_table)


def test_the_progress_of_a_group_is_shown_for_what_it_consumes(broker: SmallBroker) -> None:
    for topic in ("t", "u"):
        broker.topics.put(TopicConfig(topic, 1, 1))
        broker.stand_in.put(topic, 0, 100, 200, 300)
        broker.offsets.commit("g", topic, 0, 2)
    broker.offsets.commit("g", "gone", 0, 2)
    progress = OffsetWrapper(broker_offset=3, consumer_offset=2, pull_offset=2, last_timestamp=200)
    assert stats(broker) == {queue("t", 0): progress, queue("u", 0): progress}
    assert stats(broker, topic="t") == {queue("t", 0): progress}
    assert stats(broker, topicList="u;t") == stats(broker)
    assert stats(broker, topic="gone") == {}


def test_topics_that_an_online_group_no_longer_subscribes_are_left_out(broker: SmallBroker) -> None:
    for topic in ("t", "u"):
        broker.topics.put(TopicConfig(topic, 1, 1))
        broker.offsets.commit("g", topic, 0, 0)
    broker.consumer("c1", "g", "t")
    assert stats(broker) == {queue("t", 0): OffsetWrapper(0, 0)}


def test_the_groups_of_a_topic_are_those_online_and_those_with_offsets(broker: SmallBroker) -> None:
    broker.consumer("c1", "online", "t")
    broker.offsets.commit("offline", "t", 0, 1)
    broker.offsets.commit("other", "u", 0, 1)
    answer = broker.connect().ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, fields={"topic": "t"})
    assert GroupList.parse(answer.body).group_list == ("offline", "online")
    answer = broker.connect().ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, fields={"group": "other"})
    assert TopicList.parse(answer.body).topic_list == ("u",)
