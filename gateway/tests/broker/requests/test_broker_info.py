"""What the broker tells tools about itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from gateway.broker.live_settings import LiveSettings
from gateway.broker.requests.broker_info import BrokerInfo
from gateway.broker.requests.throughput import Throughput, Totals
from gateway.settings.properties import parse_properties_file
from gateway.settings.tree import Settings
from gateway.telemetry.metrics import Registry
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.bodies.fastjson import parse_json
from wire.bodies.kv_table import KVTable
from wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from gateway.store.message_store import MessageStore


@pytest.fixture
def peer(tmp_path: Path) -> Peer:
    """A tool connected to a broker that runs for 90,061 seconds and has stored 600 messages."""
    now_ms = [1_000_000]
    puts = [0]
    store = SimpleNamespace(
        min_commit_log_offset=0,
        max_commit_log_offset=5000,
        flushed_offset=4000,
        dispatch_behind_bytes=12,
        message_at=lambda offset: SimpleNamespace(stored_at_ms=777),
    )
    registry = Registry()
    registry.counter("rocketmq_gateway_log_syncs_total", "Syncs").value = 17
    server = Conversation()
    info = BrokerInfo(
        live=LiveSettings(Settings(store_path_root_dir=tmp_path, broker_name="broker=a")),
        store=cast("MessageStore", store),
        throughput=Throughput(lambda: Totals(puts[0], 0, 0, 0), lambda: now_ms[0], lambda ms: 0),
        clock_ms=lambda: now_ms[0],
        version_text="test-1",
        delay_offsets=lambda: {1: (3, 7)},
        registry=registry,
        store_id="store-1",
        timers=None,
    )
    info.register(server.dispatch)
    now_ms[0] += 90_061_000
    puts[0] = 600
    return server.connect()


def test_the_settings_in_effect_are_shown_as_a_properties_file(peer: Peer) -> None:
    answer = peer.ask(RequestCode.GET_BROKER_CONFIG)
    shown = {entry.key: entry.value for entry in parse_properties_file(answer.body, "answer")}
    assert shown["brokerName"] == "broker=a"
    assert shown["flushDiskType"] == "SYNC_FLUSH"
    assert shown["autoCreateTopicEnable"] == "true"
    assert parse_json(answer.ext_fields["version"])["timestamp"] == 1_000_000


def test_the_figures_are_those_that_tools_look_for(peer: Peer) -> None:
    table = KVTable.parse(peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body).table
    expected = {
        "brokerVersionDesc": "test-1",
        "storeId": "store-1",
        "runtime": "[ 1 days, 1 hours, 1 minutes, 1 seconds ]",
        "earliestMessageTimeStamp": "777",
        "commitLogMaxOffset": "5000",
        "remainHowManyDataToFlush": "1000 B",
        "scheduleMessageOffset_1": "3,7",
        "msgPutTotalTodayNow": "600",
        "msgPutTotalTodayMorning": "0",
        "dispatchBehindBytes": "12",
        "rocketmq_gateway_log_syncs_total": "17",
    }
    assert {name: table[name] for name in expected} == expected
    for name in (
        "putTps",
        "getTransferredTps",
        "sendThreadPoolQueueSize",
        "pullThreadPoolQueueSize",
        "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueHeadWaitTimeMills",
        "pageCacheLockTimeMills",
        "commitLogDiskRatio",
        "timerReadBehind",
        "timerOffsetBehind",
        "timerCongestNum",
        "timerEnqueueTps",
        "timerDequeueTps",
        "brokerActive",
    ):
        assert name in table
    assert len(table["putTps"].split(" ")) == 3


def test_changed_settings_are_shown_with_another_version(peer: Peer) -> None:
    before = parse_json(peer.ask(RequestCode.GET_BROKER_CONFIG).ext_fields["version"])
    assert peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=5").code == ResponseCode.SUCCESS
    answer = peer.ask(RequestCode.GET_BROKER_CONFIG)
    assert b"fileReservedTime=5\n" in answer.body
    assert parse_json(answer.ext_fields["version"])["counter"] == before["counter"] + 1


def test_settings_read_at_start_are_not_changed_and_it_is_said_what_to_do_instead(peer: Peer) -> None:
    answer = peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerName=other")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark is not None
    assert "restart" in answer.remark
