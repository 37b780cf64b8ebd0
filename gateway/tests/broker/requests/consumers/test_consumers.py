"""Connected clients, as clients and tools ask for them."""

from __future__ import annotations

from gateway.tests.broker.requests.small_broker import SmallBroker
from gateway.tests.remoting.conversation import request
from wire.bodies.consumers import (
    ConsumerConnection,
    ConsumerListByGroup,
    ProducerConnection,
    ProducerTableInfo,
)
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode


def test_the_client_ids_of_a_group_are_listed(broker: SmallBroker) -> None:
    peer = broker.consumer("c1", "g", "t")
    broker.consumer("c2", "g", "t")
    peer.received()
    answer = peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields={"consumerGroup": "g"})
    assert answer.code == ResponseCode.SUCCESS
    assert ConsumerListByGroup.parse(answer.body).client_ids == ("c1", "c2")
    assert answer.body == b'{"consumerIdList":["c1","c2"]}'


def test_members_are_listed_at_once_while_long_lists_are_made_for_another(broker: SmallBroker) -> None:
    broker.topics.put_all([TopicConfig(f"topic-{number}") for number in range(3_000)])
    consumer, greedy = broker.consumer("c1", "g", "t"), broker.connect()
    consumer.received()
    greedy.send(*(request(RequestCode.GET_ALL_TOPIC_CONFIG, opaque=number) for number in range(500)))
    for _ in range(3):
        answer = consumer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields={"consumerGroup": "g"})
        assert ConsumerListByGroup.parse(answer.body).client_ids == ("c1",)


def test_a_group_nobody_is_in_is_an_error_with_its_name(broker: SmallBroker) -> None:
    answer = broker.connect().ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields={"consumerGroup": "g"})
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")


def test_the_connections_and_subscriptions_of_a_group_are_shown(broker: SmallBroker) -> None:
    broker.consumer("c1", "g", "t")
    answer = broker.connect().ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, fields={"consumerGroup": "g"})
    body = ConsumerConnection.parse(answer.body)
    (connection,) = body.connections
    assert (connection.client_id, connection.language, connection.version) == ("c1", "JAVA", 513)
    assert connection.client_addr.startswith("192.0.2.7:")
    assert list(body.subscriptions) == ["t"]
    assert (body.consume_type, body.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")


def test_connections_of_a_group_that_is_not_online_are_refused(broker: SmallBroker) -> None:
    answer = broker.connect().ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, fields={"consumerGroup": "g"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE


def test_the_connections_of_producers_are_shown(broker: SmallBroker) -> None:
    peer = broker.connect()
    peer.ask(RequestCode.HEART_BEAT, body=HeartbeatData("c1", producers=("p",)).build())
    answer = peer.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, fields={"producerGroup": "p"})
    (connection,) = ProducerConnection.parse(answer.body).connections
    assert connection.client_id == "c1"
    (info,) = ProducerTableInfo.parse(peer.ask(RequestCode.GET_ALL_PRODUCER_INFO).body).groups["p"]
    assert (info.client_id, info.last_update_timestamp) == ("c1", broker.now_ms)
    host, port = peer.channel.remote
    assert (info.remote_ip, connection.client_addr) == (f"/{host}:{port}", f"{host}:{port}")  # point 10: with its port


def test_connections_of_unknown_producers_are_refused(broker: SmallBroker) -> None:
    answer = broker.connect().ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, fields={"producerGroup": "p"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "the producer group[p] not exist"
