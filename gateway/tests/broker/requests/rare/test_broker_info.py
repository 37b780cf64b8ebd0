"""The broker's answers about itself, for tools."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from gateway.broker.cold_reads import ColdReads
from gateway.broker.figures.throughput import Throughput, Totals, Traffic
from gateway.broker.live_settings import LiveSettings
from gateway.broker.requests.rare.broker_info import MAX_CONFIG_BYTES, BrokerInfo
from gateway.in_thread import in_this_thread
from gateway.metadata.names import SCHEDULE_TOPIC
from gateway.schedule.redirect import DelayLevels
from gateway.settings.files import properties
from gateway.settings.files.properties import parse_properties_file
from gateway.settings.tree import Settings
from gateway.telemetry.metrics import Registry
from gateway.tests.desks import desk_of
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.bodies.fastjson import parse_json
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    pass


@pytest.fixture
def peer(tmp_path: Path) -> Peer:
    """A tool connected to a broker that runs for 90,061 seconds and has stored 600 messages."""
    now_ms = [1_000_000]
    puts = [0]
    traffic = Traffic()
    for messages, waited_ms in ((3, 0), (1, 9), (1, 10), (5, 700)):
        traffic.stored(messages, waited_ms)
    traffic.read(40)
    store = SimpleNamespace(
        min_commit_log_offset=0,
        max_commit_log_offset=5000,
        flushed_offset=4000,
        stored_end=4500,
        shown_end=4500,
        dispatch_behind_bytes=12,
        max_offset=lambda topic, queue_id: 7 if (topic, queue_id) == (SCHEDULE_TOPIC, 0) else 0,
        head_at=lambda offset: SimpleNamespace(stored_at_ms=777),
    )
    registry = Registry()
    registry.counter("rocketmq_gateway_log_syncs_total", "Syncs").value = 17
    server = Conversation()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "storeId.json").write_text('{"storeId": "store-1"}')
    desk = desk_of(
        live=LiveSettings(
            Settings(store_path_root_dir=tmp_path, broker_name="broker=a", tls_key_password="geheim"), lambda: None
        ),
        store=store,
        cold_reads=ColdReads(in_this_thread, threads=1, limit=1),
        throughput=Throughput(lambda: Totals(puts[0], 0, 0, 0), lambda: now_ms[0], lambda ms: 0),
        clock=lambda: now_ms[0],
        booted=(1_000_000, 1_000),
        traffic=traffic,
        name_servers=lambda reached_at: f"{reached_at}:9876",
        levels=DelayLevels.parse("1s 5s"),
        delays=SimpleNamespace(offsets=lambda: {1: 3}),
        registry=registry,
        timers=None,
    )
    BrokerInfo(desk).register(server.dispatch)
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
    assert shown["tls.server.keyPassword"] == "******"
    assert b"geheim" not in answer.body


def test_the_figures_are_those_that_tools_look_for(peer: Peer) -> None:
    table = KVTable.parse(peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body).table
    expected = {
        "brokerVersionDesc": "V5_5_0",
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


def test_point_10_the_figures_are_those_that_an_exporter_looks_for(peer: Peer) -> None:
    table = KVTable.parse(peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body).table
    expected = {
        "dispatchMaxBuffer": "0",
        "getMessageEntireTimeMax": "40",
        "remainTransientStoreBufferNumbs": "2147483647",
        "putMessageTimesTotal": "10",
        "putMessageSizeTotal": "3500",
        "putMessageAverageSize": "350.0",
        "putMessageEntireTimeMax": "700",
        "putMessageDistributeTime": (
            "[<=0ms]:3 [0~10ms]:1 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:5 "
            "[1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0"
        ),
        "sendThreadPoolQueueCapacity": "10000",
        "pullThreadPoolQueueCapacity": "100000",
        "queryThreadPoolQueueCapacity": "20000",
    }
    assert {name: table[name] for name in expected} == expected
    assert table["getTransferedTps"] == table["getTransferredTps"]


def test_point_10_settings_left_empty_are_shown_as_what_they_come_to(peer: Peer, tmp_path: Path) -> None:
    answer = peer.ask(RequestCode.GET_BROKER_CONFIG)
    shown = {entry.key: entry.value for entry in parse_properties_file(answer.body, "answer")}
    host = peer.channel.local[0]
    assert shown["storePathCommitLog"] == str(tmp_path / "commitlog")
    assert shown["kvConfigPath"] == str(tmp_path / "namesrv" / "kvConfig.json")
    assert (shown["brokerIP1"], shown["namesrvAddr"]) == (host, f"{host}:9876")
    assert shown["metricsPromExporterHost"] == shown["bindAddress"]


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


def test_settings_of_a_request_are_read_as_far_as_the_first_unknown_one(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of ``a=`` was read to its end, which took 0.9 s in one piece."""
    read: list[str] = []
    parse = properties._parse_entry

    def counted(line: str, number: int, name: str) -> properties.PropertyLine:
        read.append(line)
        return parse(line, number, name)

    monkeypatch.setattr(properties, "_parse_entry", counted)
    answer = peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=5\n" + b"a=\n" * 10_000)
    assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, "a is no setting")
    assert len(read) == 2
    assert b"fileReservedTime=72\n" in peer.ask(RequestCode.GET_BROKER_CONFIG).body
    answer = peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=5\n" + b"#" * MAX_CONFIG_BYTES)
    assert (answer.code, answer.remark) == (
        ResponseCode.INVALID_PARAMETER,
        f"the request: {MAX_CONFIG_BYTES + 19} bytes is too long, limit {MAX_CONFIG_BYTES}",
    )
    assert len(read) == 2
