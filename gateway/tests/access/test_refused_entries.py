"""A body may have thousands of entries that its sender is refused: they cost little, and fill no log."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from gateway.access.audit import Told
from gateway.access.guard import MAX_NOTED, MORE
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
