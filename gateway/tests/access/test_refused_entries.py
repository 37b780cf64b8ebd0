"""A body may have thousands of entries that its sender is refused: they cost little, and fill no log."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from gateway.access.audit import Told
from gateway.access.guard import MAX_NOTED, MORE
from gateway.access.needs import MAX_REFUSED
from gateway.membership.heartbeats import MAX_GROUPS_PER_HEARTBEAT
from gateway.remoting.declared import SUB, Kind, Need
from gateway.tests.access.accounts import FakeAccount, guard_of
from gateway.tests.access.test_guard import asked, broker_with
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand


def test_a_heartbeat_with_too_many_groups_is_refused_before_they_are_judged(tmp_path: Path) -> None:
    account = FakeAccount("shop")
    broker = broker_with(tmp_path, guard_of(account))
    groups = [{"groupName": f"g{number}"} for number in range(MAX_GROUPS_PER_HEARTBEAT + 1)]
    body = json.dumps({"clientID": "c", "consumerDataSet": groups}).encode()
    answer = asked(broker.connect(), RemotingCommand(RequestCode.HEART_BEAT, body=body), account)
    assert (answer.code, account.judged) == (ResponseCode.INVALID_PARAMETER, 0)
    broker.stop()


def test_the_refusals_of_one_request_are_noted_one_by_one_up_to_a_limit_and_all_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Told] = []
    account = FakeAccount("shop", Need(Kind.GROUP, "g", SUB))
    broker = broker_with(tmp_path, guard_of(account, told=told))
    peer = broker.connect()
    count = 3 * MAX_NOTED
    queues = [{"topic": f"t{number}", "brokerName": "broker-a", "queueId": 0} for number in range(count)]
    body = json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues}).encode()
    for _ in range(2):
        told.clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            answer = asked(peer, RemotingCommand(RequestCode.LOCK_BATCH_MQ, body=body), account)
        assert answer.code == ResponseCode.SUCCESS
        assert (
            len({one.resource for one in told[:MAX_NOTED]} & {f"Topic:t{number}" for number in range(count)})
            == MAX_NOTED
        )
        more = Told("shop", peer.channel.remote[0], RequestCode.LOCK_BATCH_MQ, "", "", MORE)
        assert told[MAX_NOTED:] == [more] * (count - MAX_NOTED)
        assert [record.message for record in caplog.records] == ["request refused"] * MAX_NOTED
    broker.stop()


def subscribing(*groups: tuple[str, list[str]]) -> bytes:
    """The body of a heartbeat of consumers."""
    subscriptions = [
        {"groupName": group, "subscriptionDataSet": [{"topic": topic, "subString": "*"} for topic in topics]}
        for group, topics in groups
    ]
    return json.dumps({"clientID": "c", "consumerDataSet": subscriptions}).encode()


COUNT = MAX_REFUSED + 100
NAMES = [f"t{number}" for number in range(COUNT)]
LOCKED = {
    "consumerGroup": "g",
    "clientId": "c",
    "mqSet": [{"topic": name, "brokerName": "b", "queueId": 0} for name in NAMES],
}
ACKED = [{"c": "g", "t": name, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 0, "it": 0, "b": "AQ=="} for name in NAMES]
REFUSED: dict[str, tuple[RequestCode, bytes]] = {
    "queues to lock": (RequestCode.LOCK_BATCH_MQ, json.dumps(LOCKED).encode()),
    "topics of one group": (RequestCode.HEART_BEAT, subscribing(("g", NAMES))),
    "topics of several groups": (RequestCode.HEART_BEAT, subscribing(("g", NAMES[:700]), ("g2", NAMES[700:]))),
    "acknowledgements": (RequestCode.BATCH_ACK_MESSAGE, json.dumps({"brokerName": "broker-a", "acks": ACKED}).encode()),
}


@pytest.mark.parametrize("entries", REFUSED)
def test_nothing_is_judged_after_many_refusals_of_a_request(tmp_path: Path, entries: str) -> None:
    account = FakeAccount("shop", Need(Kind.GROUP, "*", SUB))
    broker = broker_with(tmp_path, guard_of(account))
    code, body = REFUSED[entries]
    answer = asked(broker.connect(), RemotingCommand(code, body=body), account)
    assert answer.code == (ResponseCode.SUCCESS if code == RequestCode.LOCK_BATCH_MQ else ResponseCode.NO_PERMISSION)
    topics = [need.name for need in account.needs if need.kind is Kind.TOPIC]
    assert sorted(set(topics)) == sorted(NAMES[:MAX_REFUSED])
    assert len(topics) <= MAX_REFUSED + 1  # the answer tells of the first
    broker.stop()


def test_a_topic_of_many_groups_of_a_heartbeat_is_judged_once_and_a_retry_topic_for_each_group(tmp_path: Path) -> None:
    allowed = Need(Kind.GROUP, "*", SUB), Need(Kind.TOPIC, "orders", SUB)
    account = FakeAccount("shop", *allowed, denied=[Need(Kind.GROUP, "other", SUB)])
    broker = broker_with(tmp_path, guard_of(account))
    names = [f"g{number}" for number in range(20)]
    topics = ["orders", "secret", "%RETRY%other"]
    body = subscribing(*((name, [f"%RETRY%{name}", *topics]) for name in names))
    assert asked(broker.connect(), RemotingCommand(RequestCode.HEART_BEAT, body=body), account).code == 0
    judged = [(need.kind, need.name) for need in account.needs]
    assert judged.count((Kind.TOPIC, "orders")) == judged.count((Kind.TOPIC, "secret")) == 1
    for name in names:
        group = broker.parts.consumers.group(name)
        assert group is not None
        kept = [topic for topic in (f"%RETRY%{name}", *topics) if group.subscription(topic) is not None]
        assert kept == [f"%RETRY%{name}", "orders"]
    broker.stop()
