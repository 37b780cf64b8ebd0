"""The broker tells clients which queues to consume, and how; tools set how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.rare.assignments import Assignments
from gateway.settings.pop import RequestMode
from gateway.tests.broker.popping import filled
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.desks import desk_of
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.codes import RequestCode, ResponseCode

QUERY, SET = RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def ask(broker: WholeBroker, client: Peer, code: RequestCode, **changed: Any) -> Any:
    body = {"consumerGroup": "group", "topic": "orders", **changed}
    return broker.ask(client, code, body=json.dumps(body).encode())


def queues(broker: WholeBroker, client: Peer, **changed: Any) -> list[tuple[int, str]] | None:
    values = {"clientId": "client-1", "strategyName": "AVG", "messageModel": "CLUSTERING", **changed}
    answer = ask(broker, client, QUERY, **values)
    assert answer.code == ResponseCode.SUCCESS
    found = json.loads(answer.body).get("messageQueueAssignments")
    return None if found is None else [(each["messageQueue"]["queueId"], each["mode"]) for each in found]


def test_queues_are_pulled_unless_a_tool_says_otherwise(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    broker.subscribe(client)
    assert queues(broker, client) == [(number, "PULL") for number in range(4)]
    assert ask(broker, client, SET, mode="POP", popShareQueueNum=0).code == ResponseCode.SUCCESS
    assert queues(broker, client) == [(-1, "POP")]
    again = broker.restart()
    client = again.connect()
    again.subscribe(client)
    assert queues(again, client) == [(-1, "POP")]


def test_queues_are_popped_by_default_when_the_setting_says_so(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", default_message_request_mode=RequestMode.POP)
    client = filled(broker, "a")
    broker.subscribe(client)
    assert queues(broker, client) == [(-1, "POP")]
    broker.parts.topics.ensure("%RETRY%group", 1, 6)
    assert queues(broker, client, topic="%RETRY%group") == [(0, "PULL")]


def test_a_broadcasting_client_gets_every_queue(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    found = queues(broker, client, messageModel="BROADCASTING")
    assert found is not None
    assert len(found) == 4


@pytest.mark.parametrize("changed", [{"clientId": "stranger"}, {"strategyName": "OTHER"}, {"topic": "missing"}])
def test_who_cannot_be_answered_keeps_what_he_has(broker: WholeBroker, changed: dict[str, str]) -> None:
    client = filled(broker, "a")
    broker.subscribe(client)
    assert queues(broker, client, **changed) is None


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"topic": "%RETRY%group"}, ResponseCode.NO_PERMISSION),
        ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": "../x"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"mode": "PUSH"}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_modes_that_cannot_be_are_refused(broker: WholeBroker, changed: dict[str, str], code: ResponseCode) -> None:
    client = filled(broker, "a")
    assert ask(broker, client, SET, **{"mode": "POP", **changed}).code == code


def test_all_modes_can_be_asked_for(broker: WholeBroker) -> None:
    client = filled(broker, "a")
    ask(broker, client, SET, mode="POP", popShareQueueNum=3)
    answer = broker.ask(client, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    mode = {"consumerGroup": "group", "mode": "POP", "popShareQueueNum": 3, "topic": "orders"}
    assert json.loads(answer.body) == {"messageRequestModeMap": {"orders": {"group": mode}}}


def test_a_topic_with_too_many_queues_on_all_brokers_is_not_shared_out(broker: WholeBroker) -> None:
    parts = broker.parts
    table = {f"broker-{number}": 65_536 for number in range(5)}

    async def queues_of(topic: str) -> dict[str, int]:
        return table

    desk = desk_of(
        settings=parts.settings,
        topics=parts.topics,
        groups=parts.groups,
        consumers=parts.consumers,
        modes=parts.modes,
        read_queues=queues_of,
        turns=parts.turns,
    )
    asked = {"topic": "orders", "consumerGroup": "group", "clientId": "client-1", "messageModel": "CLUSTERING"}
    conversation = Conversation()
    Assignments(desk).register(conversation.dispatch)
    answer = conversation.connect().ask(QUERY, body=json.dumps({**asked, "strategyName": "AVG"}).encode())
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "topic orders has 327680 queues on 5 brokers, the limit is 262144",
    )
