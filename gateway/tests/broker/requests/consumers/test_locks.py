"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ as a client sees them."""

from __future__ import annotations

import pytest

from gateway.tests.broker.requests.small_broker import SmallBroker
from wire.bodies.message_queue import LockBatchRequest, LockBatchResponse, MessageQueue, UnlockBatchRequest
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode

QUEUES = (MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1))


@pytest.fixture(autouse=True)
def known(broker: SmallBroker) -> None:
    """The broker knows topic ``t`` and group ``g``."""
    broker.topics.put(TopicConfig("t", 2, 2))
    broker.groups.find("g")


def lock(broker: SmallBroker, client_id: str, *queues: MessageQueue) -> tuple[MessageQueue, ...]:
    body = LockBatchRequest("g", client_id, queues).build()
    answer = broker.connect().ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert answer.code == ResponseCode.SUCCESS
    return tuple(LockBatchResponse.parse(answer.body).queues)


def test_queues_are_locked_for_one_client_until_it_gives_them_back(broker: SmallBroker) -> None:
    assert lock(broker, "c1", *QUEUES) == QUEUES
    assert lock(broker, "c2", *QUEUES) == ()
    body = UnlockBatchRequest("g", "c1", QUEUES[:1]).build()
    assert broker.connect().ask_all(RequestCode.UNLOCK_BATCH_MQ, body=body, oneway=True) == []
    assert lock(broker, "c2", *QUEUES) == QUEUES[:1]
    assert broker.connect().ask(RequestCode.UNLOCK_BATCH_MQ, body=body).code == ResponseCode.SUCCESS


def test_the_java_form_of_the_body_is_understood(broker: SmallBroker) -> None:
    body = b'{"clientId":"c1","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":0,"topic":"t"}]}'
    answer = broker.connect().ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert answer.body == b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"t"}]}'


def test_a_request_without_a_client_is_refused(broker: SmallBroker) -> None:
    body = LockBatchRequest("g", "", QUEUES).build()
    assert broker.connect().ask(RequestCode.LOCK_BATCH_MQ, body=body).code == ResponseCode.INVALID_PARAMETER
    answer = broker.connect().ask(RequestCode.LOCK_BATCH_MQ, body=b'{"consumerGroup":"g"}')
    assert answer.code == ResponseCode.SYSTEM_ERROR


def test_too_many_queues_in_one_request_are_refused(broker: SmallBroker) -> None:
    queues = [MessageQueue("t", "b", number) for number in range(16_385)]
    body = LockBatchRequest("g", "c1", queues).build()
    answer = broker.connect().ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert not broker.locks.group_is_orderly("g")


def test_nobody_gets_a_queue_that_does_not_exist(broker: SmallBroker) -> None:
    made_up = [MessageQueue(topic, "b", 0) for topic in ("unknown", "x" * 15_000)] + [
        MessageQueue("t", "b", queue_id) for queue_id in (2, -1, 2**31 - 1)
    ]
    assert lock(broker, "c1", *made_up, QUEUES[0]) == QUEUES[:1]


def test_a_group_that_does_not_exist_locks_nothing(broker: SmallBroker) -> None:
    body = LockBatchRequest("unknown", "c1", QUEUES).build()
    answer = broker.connect().ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert (answer.code, tuple(LockBatchResponse.parse(answer.body).queues)) == (ResponseCode.SUCCESS, ())
    assert not broker.locks.group_is_orderly("unknown")


def test_other_names_of_the_broker_do_not_make_other_locks(broker: SmallBroker) -> None:
    assert lock(broker, "c1", MessageQueue("t", "a", 0))
    assert lock(broker, "c2", MessageQueue("t", "b" * 15_000, 0)) == ()


def test_a_client_id_that_is_too_long_is_refused(broker: SmallBroker) -> None:
    body = LockBatchRequest("g", "c" * 1_025, QUEUES).build()
    assert broker.connect().ask(RequestCode.LOCK_BATCH_MQ, body=body).code == ResponseCode.INVALID_PARAMETER
