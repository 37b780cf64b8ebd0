from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.consumers import (
    CheckClientRequest,
    Connection,
    ConsumerConnection,
    ConsumerListByGroup,
    GetConsumerStatusBody,
    MessageQueue,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from wire.bodies.subscriptions import SubscriptionData
from wire.errors import BodyError
from wire.tests.bodies.consumers.test_subscriptions import subscriptions
from wire.tests.bodies.strategies import assert_comes_back, int32s, longs, texts
from wire.tests.message.strategies import QUICK

connections = st.builds(Connection, texts, texts, st.sampled_from(["JAVA", "GO"]), int32s)
message_queues = st.builds(MessageQueue, texts, texts, int32s)


def test_client_ids_are_a_list() -> None:
    assert ConsumerListByGroup(["c1", "c2"]).build() == b'{"consumerIdList":["c1","c2"]}'
    assert_comes_back(ConsumerListByGroup(("c1",)))


@QUICK
@given(st.lists(connections, max_size=3).map(tuple), subscriptions)
def test_connections_of_groups_come_back(found: tuple[Connection, ...], subscription: SubscriptionData) -> None:
    assert_comes_back(ProducerConnection(found))
    assert_comes_back(ConsumerConnection(found, {subscription.topic: subscription}, "CONSUME_POP", "BROADCASTING"))


def test_producers_are_listed_by_group() -> None:
    body = ProducerTableInfo({"g": (ProducerInfo("c", "127.0.0.1", "JAVA", 479, 1_700_000_000_000),)})
    assert body.build() == (
        b'{"data":{"g":[{"clientId":"c","language":"JAVA","lastUpdateTimestamp":1700000000000,'
        b'"remoteIP":"127.0.0.1","version":479}]}}'
    )
    assert_comes_back(body)


@QUICK
@given(st.dictionaries(message_queues, longs, max_size=3))
def test_offsets_of_clients_come_back(offsets: dict[MessageQueue, int]) -> None:
    assert_comes_back(GetConsumerStatusBody(message_queue_table=offsets))
    assert_comes_back(GetConsumerStatusBody(consumer_table={"client": offsets}))


def test_a_subscription_to_check_is_read() -> None:
    body = CheckClientRequest.parse(
        '{"clientId":"c","group":"g","subscriptionData":{"expressionType":"SQL92","subString":"a > 1","topic":"t"}}'
    )
    assert body.subscription == SubscriptionData("t", "a > 1", expression_type="SQL92")
    assert_comes_back(body)
    assert CheckClientRequest.parse("{}") == CheckClientRequest()


def test_a_damaged_body_is_refused() -> None:
    with pytest.raises(BodyError, match="topic is missing"):
        CheckClientRequest.parse('{"subscriptionData":{}}')
