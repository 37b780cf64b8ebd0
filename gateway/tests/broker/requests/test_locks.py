"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ as a client sees them."""

from __future__ import annotations

from gateway.tests.broker.requests.small_broker import SmallBroker
from wire.bodies.locks import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from wire.bodies.message_queue import MessageQueue
from wire.codes import RequestCode, ResponseCode

QUEUES = (MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1))


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
    queues = [MessageQueue("t", "b", number) for number in range(65_537)]
    body = LockBatchRequest("g", "c1", queues).build()
    answer = broker.connect().ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert not broker.locks.group_is_orderly("g")
