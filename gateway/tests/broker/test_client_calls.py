"""Questions that are passed on to clients, and clients that cannot be asked."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.client_calls import ask_client, check_version, find_consumer, members_of
from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.tests.broker.requests.small_broker import SmallBroker
from gateway.tests.remoting.conversation import outcome
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import GetConsumerRunningInfoRequest

QUESTION = GetConsumerRunningInfoRequest(consumer_group="g", client_id="c1")


@pytest.fixture
def broker(tmp_path: Any) -> SmallBroker:
    """A broker without topics."""
    return SmallBroker(tmp_path)


def client_of(broker: SmallBroker, client_id: str = "c1") -> ConnectedClient:
    return find_consumer(broker.consumers, "g", client_id, since_version=62)


def ask(client: ConnectedClient) -> list[Any]:
    return outcome(ask_client(client, RequestCode.GET_CONSUMER_RUNNING_INFO, QUESTION, timeout_s=10))


def test_an_answer_is_what_the_client_says(broker: SmallBroker) -> None:
    peer = broker.consumer("c1", "g", "t")
    answers = ask(client_of(broker))
    broker.server.reactor.advance(0)
    question = peer.received()[-1]
    assert question.ext_fields == {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "false"}
    peer.send(question.response(ResponseCode.SYSTEM_ERROR, "no", body=b"{}"))
    assert (answers[0].code, answers[0].remark, answers[0].body) == (ResponseCode.SYSTEM_ERROR, "no", b"{}")


def test_a_silent_client_is_a_timeout(broker: SmallBroker) -> None:
    broker.consumer("c1", "g", "t")
    answers = ask(client_of(broker))
    broker.server.reactor.advance(10)
    assert answers[0].code == ResponseCode.CONSUME_MSG_TIMEOUT


def test_a_client_that_leaves_while_asked_is_an_error(broker: SmallBroker) -> None:
    peer = broker.consumer("c1", "g", "t")
    answers = ask(client_of(broker))
    peer.leave()
    assert answers[0].code == ResponseCode.SYSTEM_ERROR


def test_a_client_that_is_not_there_or_too_old_is_refused(broker: SmallBroker) -> None:
    broker.consumer("c1", "g", "t")
    with pytest.raises(RequestRefused, match="not online"):
        client_of(broker, "c2")
    with pytest.raises(RequestRefused, match="too low"):
        check_version(client_of(broker), 100_000)
    assert [client.client_id for client in members_of(broker.consumers, "g")] == ["c1"]
    assert members_of(broker.consumers, "other") == []
