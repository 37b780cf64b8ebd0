"""The broker that a consumer is told to pull from next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.delivery.suggestion import memory_bytes, near_bytes, suggested_broker
from gateway.settings import Settings
from gateway.settings.replication import BrokerRole
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.codes import RequestCode, ResponseCode

GROUP = SubscriptionGroupConfig("group", broker_id=0, which_broker_when_consume_slowly=2)


def test_only_with_slave_read_enable_is_anybody_sent_to_a_slave() -> None:
    assert near_bytes(Settings(), 1000) is None
    assert near_bytes(Settings(slave_read_enable=True), 1000) == 400
    assert near_bytes(Settings(slave_read_enable=True, access_message_in_memory_max_ratio=25), 1000) == 250


def test_a_slave_sends_consumers_back_a_little_earlier() -> None:
    slave: dict[str, Any] = {"slave_read_enable": True, "broker_role": BrokerRole.SLAVE}
    assert near_bytes(Settings(**slave), 1000) == 300
    assert near_bytes(Settings(**slave, access_message_in_memory_max_ratio=5), 1000) == 0


@pytest.mark.parametrize(("behind", "broker_id"), [(0, 0), (400, 0), (401, 2), (-5, 0)])
def test_the_distance_from_the_end_decides(behind: int, broker_id: int) -> None:
    assert suggested_broker(GROUP, behind, 400) == broker_id


def test_the_memory_is_that_of_the_machine() -> None:
    total_kib = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0])
    assert memory_bytes() == pytest.approx(total_kib * 1024, rel=0.2)


@pytest.mark.parametrize(
    ("changed", "suggested"),
    [
        ({"slave_read_enable": True, "access_message_in_memory_max_ratio": 0}, ["2", "0"]),
        ({"slave_read_enable": True}, ["0", "0"]),
        ({"access_message_in_memory_max_ratio": 0}, ["0", "0"]),
    ],
    ids=["far", "near", "off"],
)
def test_a_pull_is_answered_with_it(tmp_path: Path, changed: dict[str, Any], suggested: list[str]) -> None:
    broker = WholeBroker(tmp_path, **changed)
    broker.parts.groups.put(GROUP)
    client = broker.connect()
    broker.send(client)

    answers = [broker.ask(client, RequestCode.PULL_MESSAGE, pulling(offset)) for offset in (0, 1)]

    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND]
    assert [answer.ext_fields["suggestWhichBrokerId"] for answer in answers] == suggested
    broker.stop()
