"""HEART_BEAT, UNREGISTER_CLIENT and CHECK_CLIENT_CONFIG as a client sees them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.broker.requests.heartbeats import HeartbeatRequests
from gateway.delivery.filters.subscribed import SubscribedFilters
from gateway.settings import Settings
from gateway.tests.broker.requests.small_broker import SmallBroker
from gateway.tests.delivery.reactor_turns import ReactorTurns
from gateway.tests.desks import desk_of
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.bodies.consumers import CheckClientRequest
from wire.bodies.fastjson import MAX_REFERENCED_CHARS
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.subscriptions import SubscriptionData
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand

CONSUMER = ConsumerData("g", subscriptions=[subscription("t", 5, "A || B")])
HEARTBEAT = HeartbeatData("c1", producers=("p",), consumers=(CONSUMER,))

JAVA_HEARTBEAT = (
    b'{"clientID":"192.168.1.2@77#88","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":'
    b'[{"classFilterMode":false,"codeSet":[65],"expressionType":"TAG","subString":"A","subVersion":17,'
    b'"tagsSet":["A"],"topic":"t"},{"classFilterMode":false,"codeSet":[],"expressionType":"TAG",'
    b'"subString":"*","subVersion":17,"tagsSet":[],"topic":"%RETRY%g"}],"unitMode":false}],'
    b'"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
)


def beat(peer: Peer, body: bytes, version: int = 513) -> RemotingCommand:
    """Send a heartbeat; the answer, without the notices that came along."""
    answers = peer.ask_all(RequestCode.HEART_BEAT, body=body, version=version)
    (answer,) = (answer for answer in answers if answer.is_response)
    return answer


def test_a_heartbeat_is_taken_and_answered_with_a_version_that_allows_every_filter(
    broker: SmallBroker,
) -> None:
    answer = beat(broker.connect(), JAVA_HEARTBEAT, version=479)
    assert answer.code == ResponseCode.SUCCESS
    assert answer.version >= 232
    assert answer.ext_fields == {"IS_SUPPORT_HEART_BEAT_V2": "true"}
    assert broker.consumers.client_ids("g") == ["192.168.1.2@77#88"]
    assert broker.producers.groups() == ["CLIENT_INNER_PRODUCER"]
    subscription = broker.consumers.subscription("g", "t")
    assert subscription is not None
    assert subscription.code_set == {65}
    assert broker.topics.get("%RETRY%g") is not None


def test_a_heartbeat_whose_references_stand_for_millions_of_values_is_refused_and_the_next_is_taken(
    broker: SmallBroker,
) -> None:
    peer = broker.connect()
    subscriptions = ",".join(['{"topic":"t"}'] * 1_000)
    again = ",".join(['{"$ref":"$.consumerDataSet[0]"}'] * 1_000)
    answer = beat(
        peer,
        f'{{"clientID":"c1","consumerDataSet":[{{"groupName":"g","subscriptionDataSet":[{subscriptions}]}},{again}]}}'.encode(),
    )
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "$ref '$.consumerDataSet[0]'" in (answer.remark or "")
    assert f"the limit is {MAX_REFERENCED_CHARS}" in (answer.remark or "")
    assert beat(peer, HEARTBEAT.build()).code == ResponseCode.SUCCESS
    assert broker.consumers.client_ids("g") == ["c1"]


def test_a_heartbeat_with_a_fingerprint_is_told_whether_to_send_everything(broker: SmallBroker) -> None:
    peer = broker.connect()
    full = replace(HEARTBEAT, fingerprint=9)
    short = replace(full, without_sub=True)
    answers = [beat(peer, data.build()) for data in (short, full, short)]
    assert [answer.ext_fields["IS_SUB_CHANGE"] for answer in answers] == ["true", "true", "false"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"clientID":7,"consumerDataSet":"x"}', b"\xff\xfe"])
def test_a_body_that_is_no_heartbeat_is_an_error_and_the_connection_goes_on(broker: SmallBroker, body: bytes) -> None:
    peer = broker.connect()
    answer = beat(peer, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark
    assert beat(peer, HEARTBEAT.build()).code == ResponseCode.SUCCESS


def test_a_goodbye_is_answered_and_the_group_is_empty(broker: SmallBroker) -> None:
    peer = broker.connect()
    beat(peer, HEARTBEAT.build())
    fields = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
    answers = peer.ask_all(RequestCode.UNREGISTER_CLIENT, fields=fields)
    assert [answer.code for answer in answers if answer.is_response] == [ResponseCode.SUCCESS]
    assert (broker.producers.groups(), broker.consumers.names()) == ([], [])


@pytest.mark.parametrize("expression_type", ["TAG", None])
def test_a_tag_subscription_passes_the_check(broker: SmallBroker, expression_type: str | None) -> None:
    subscription = SubscriptionData("t", expression_type=expression_type or "")
    body = CheckClientRequest("c1", "g", None, subscription).build()
    assert broker.connect().ask(RequestCode.CHECK_CLIENT_CONFIG, body=body).code == ResponseCode.SUCCESS


def checked(peer: Peer, expression: str | None, expression_type: str = "SQL92") -> RemotingCommand:
    subscription = SubscriptionData("t", expression or "", expression_type=expression_type)
    body = CheckClientRequest("c1", "g", None, subscription).build()
    return peer.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)


def test_a_sql_subscription_passes_the_check(broker: SmallBroker) -> None:
    assert checked(broker.connect(), "a > 5").code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("expression", "expression_type", "reason"),
    [
        ("a >", "SQL92", 'Encountered "<EOF>" at line 1, column 3'),
        ("a > 'x'", "SQL92", "Value ''x'' cannot be compared."),
        ("", "SQL92", "Expression can't be null! SQL92"),
        ("(" * 1_000 + "a", "SQL92", "nested deeper than"),
        ("a > 5", "JAVA", "there are no expressions of type JAVA"),
    ],
)
def test_what_is_no_expression_fails_the_check_with_the_reason(
    broker: SmallBroker, expression: str, expression_type: str, reason: str
) -> None:
    answer = checked(broker.connect(), expression, expression_type)
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert reason in (answer.remark or "")


def test_a_check_without_a_subscription_passes(broker: SmallBroker) -> None:
    body = CheckClientRequest("c1", "g", None, None).build()
    assert broker.connect().ask(RequestCode.CHECK_CLIENT_CONFIG, body=body).code == ResponseCode.SUCCESS


def test_a_sql_subscription_fails_the_check_while_the_filter_is_off() -> None:
    settings = Settings(enable_property_filter=False)
    desk = desk_of(settings=settings, heartbeats=None, filters=SubscribedFilters(), filter_turns=ReactorTurns())
    heartbeats = HeartbeatRequests(desk)
    conversation = Conversation()
    heartbeats.register(conversation.dispatch)
    answer = checked(conversation.connect(), "a > 5")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "does not support consumer to filter message by SQL92" in (answer.remark or "")
