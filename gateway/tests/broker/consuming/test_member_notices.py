"""Notices to the members of a consumer group to share out the queues again, as the members see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.codes import RequestCode, ResponseCode

NOTICE = (False, int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))
ANSWER = (True, int(ResponseCode.SUCCESS))


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


def beat(broker: WholeBroker, member: Peer, client_id: str, *groups: str) -> list[tuple[bool, int]]:
    """Send a heartbeat; what came to its client, in order: (whether it is an answer, code)."""
    wanted = (subscription("orders"),)
    data = HeartbeatData(client_id, consumers=tuple(ConsumerData(group, subscriptions=wanted) for group in groups))
    return [
        (command.is_response, command.code)
        for command in broker.ask_all(member, RequestCode.HEART_BEAT, body=data.build())
    ]


def test_a_member_is_told_of_its_own_join_after_the_answer_to_its_heartbeat(broker: WholeBroker) -> None:
    # A Java client that is told before would share out the queues while it waits for the answer. It sends one
    # heartbeat at a time: the one that should tell its subscriptions' new versions would be left out.
    assert beat(broker, broker.connect(), "c1", "g", "h") == [ANSWER, NOTICE, NOTICE]


def test_the_others_are_told_in_the_same_turn(broker: WholeBroker) -> None:
    first, second = broker.connect(), broker.connect()
    beat(broker, first, "c1", "g")
    assert beat(broker, second, "c2", "g") == [ANSWER, NOTICE]
    assert [command.code for command in first.received()] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]


def test_who_is_left_is_told_and_who_left_is_not(broker: WholeBroker) -> None:
    first, second = broker.connect(), broker.connect()
    beat(broker, first, "c1", "g")
    beat(broker, second, "c2", "g")
    first.received()
    second.leave()
    broker.turn()
    assert [command.code for command in first.received()] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
    assert second.received() == []
