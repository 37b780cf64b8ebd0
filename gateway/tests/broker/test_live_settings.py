"""Settings changed by a request: all or nothing, and in force at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.live_settings import LiveSettings
from gateway.errors import RequestRefused
from gateway.settings import Settings
from gateway.tests.broker.popping import POP, popping
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.transaction.checks.verdict import Act, HalfFacts, verdict
from gateway.transaction.limits import HOUR_MS
from wire.codes import RequestCode, ResponseCode
from wire.headers.send import ConsumerSendMsgBackRequest


class Follower:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Settings] = []

    def use(self, settings: Settings) -> None:
        self.told.append(settings)


def test_those_who_follow_are_told_of_changed_values_only() -> None:
    live, follower = LiveSettings(Settings()), Follower()
    live.follow(follower)
    live.follow(object())  # cannot go on with others
    live.change({"brokerPermission": "4", "listenPort": "10911", "fileReservedTime": "72"})
    live.change({"brokerPermission": "4"})
    (told,) = follower.told
    assert told is live.current
    assert (told.broker_permission, live.changes) == (4, 1)


@pytest.mark.parametrize(
    ("key", "value", "code", "reason"),
    [
        ("listenPort", "1", ResponseCode.NO_PERMISSION, "read at start only"),
        ("configBlackList", "", ResponseCode.NO_PERMISSION, "cannot be changed"),
        ("brokerPermission", "9", ResponseCode.INVALID_PARAMETER, "expected 2 \\(write\\)"),
        ("slaveReadEnable", "true", ResponseCode.INVALID_PARAMETER, "has no effect"),
        ("brokerPermision", "4", ResponseCode.INVALID_PARAMETER, "is no setting"),
        ("diskMaxUsedSpaceRatio", "101", ResponseCode.INVALID_PARAMETER, "an integer from 10 to 100"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_all_others(
    key: str, value: str, code: ResponseCode, reason: str
) -> None:
    live, follower = LiveSettings(Settings()), Follower()
    live.follow(follower)
    with pytest.raises(RequestRefused, match=reason) as refused:
        live.change({"autoCreateTopicEnable": "false", key: value})
    assert refused.value.code is code
    assert follower.told == []
    assert live.current.auto_create_topic_enable


def change(broker: WholeBroker, text: bytes) -> int:
    return broker.ask(broker.connect(), RequestCode.UPDATE_BROKER_CONFIG, body=text).code


def test_a_broker_can_be_drained_and_opened_again(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    broker.send(client)
    version = broker.parts.topics.data_version
    assert change(broker, b"brokerPermission=2\nautoCreateTopicEnable=false\n") == ResponseCode.SUCCESS
    assert broker.parts.topics.data_version != version
    pulled = broker.ask(client, RequestCode.PULL_MESSAGE, pulling())
    popped = broker.ask(client, POP, popping())
    polled = broker.ask(
        client, RequestCode.POLLING_INFO, fields={"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    )
    assert pulled.code == popped.code == polled.code == ResponseCode.NO_PERMISSION
    assert broker.send(client, "unknown").code == ResponseCode.TOPIC_NOT_EXIST
    assert change(broker, b"brokerPermission=4") == ResponseCode.SUCCESS
    assert broker.ask(client, RequestCode.PULL_MESSAGE, pulling()).code == ResponseCode.SUCCESS
    back = ConsumerSendMsgBackRequest(offset=0, group="group", delay_level=1)
    assert broker.ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, back).code == ResponseCode.NO_PERMISSION
    shown = broker.ask(client, RequestCode.GET_BROKER_CONFIG)
    assert b"brokerPermission=4" in shown.body


def test_topics_are_made_by_sends_when_that_is_switched_on(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", auto_create_topic_enable=False)
    client = broker.connect()
    assert broker.send(client).code == ResponseCode.TOPIC_NOT_EXIST
    assert change(broker, b"autoCreateTopicEnable=true") == ResponseCode.SUCCESS
    assert broker.send(client).code == ResponseCode.SUCCESS


def test_half_messages_are_given_up_at_the_age_at_which_files_are_deleted_now(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    assert change(broker, b"fileReservedTime=1") == ResponseCode.SUCCESS
    old = HalfFacts(stored_at_ms=0, due_at_ms=0, checks=0)
    limits = broker.parts.transactions.tables.limits  # asked anew for each half message
    assert verdict(old, limits, now_ms=HOUR_MS).act is not Act.DISCARD
    assert verdict(old, limits, now_ms=HOUR_MS + 1).act is Act.DISCARD


def test_text_that_is_no_configuration_is_refused(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    assert change(broker, b"brokerPermission") == ResponseCode.INVALID_PARAMETER
    assert change(broker, b"") == ResponseCode.SUCCESS
