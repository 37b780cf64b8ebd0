"""Requests of tools to a name server about configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.nameserver.running import RunningNameServer
from gateway.tests.remoting.conversation import Peer
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import parse_header
from wire.headers.name_server import (
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListByNamespaceRequest,
    PutKVConfigRequest,
)

PUT = PutKVConfigRequest(namespace="n", key="k", value="v")
GET = GetKVConfigRequest(namespace="n", key="k")


@pytest.fixture
def peer(tmp_path: Path) -> Peer:
    return RunningNameServer(tmp_path).connect()


def test_a_value_is_put_got_listed_and_deleted(peer: Peer) -> None:
    assert peer.ask(RequestCode.PUT_KV_CONFIG, PUT).code == ResponseCode.SUCCESS
    answer = peer.ask(RequestCode.GET_KV_CONFIG, GET)
    assert parse_header(GetKVConfigResponse, answer.ext_fields).value == "v"
    answer = peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequest(namespace="n"))
    assert KVTable.parse(answer.body).table == {"k": "v"}
    delete = DeleteKVConfigRequest(namespace="n", key="k")
    assert peer.ask(RequestCode.DELETE_KV_CONFIG, delete).code == ResponseCode.SUCCESS
    assert peer.ask(RequestCode.DELETE_KV_CONFIG, delete).code == ResponseCode.SUCCESS
    assert peer.ask(RequestCode.GET_KV_CONFIG, GET).code == ResponseCode.QUERY_NOT_FOUND


def test_what_is_not_there_is_refused_by_name(peer: Peer) -> None:
    answer = peer.ask(RequestCode.GET_KV_CONFIG, GET)
    assert (answer.code, answer.remark) == (
        ResponseCode.QUERY_NOT_FOUND,
        "No config item, Namespace: n Key: k",
    )
    answer = peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequest(namespace="n"))
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


def test_settings_are_told_as_properties(peer: Peer) -> None:
    answer = peer.ask(RequestCode.GET_NAMESRV_CONFIG)
    assert answer.code == ResponseCode.SUCCESS
    lines = answer.body.decode().splitlines()
    assert "enableAllTopicList=true" in lines
    assert "scanNotActiveBrokerInterval=5000" in lines
    [path] = [line for line in lines if line.startswith("kvConfigPath=")]
    assert path.endswith(".json"), "point 10: what is in effect, though the setting was left empty"


def test_settings_cannot_be_changed_from_afar(peer: Peer) -> None:
    answer = peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false")
    assert answer.code == ResponseCode.NO_PERMISSION
