"""Subscription groups made, changed, deleted and listed by requests."""

from __future__ import annotations

import pytest

from gateway.tests.broker.requests.small_broker import SmallBroker
from wire.bodies.subscriptions import SubscriptionGroupConfig, SubscriptionGroupList, SubscriptionGroupTable
from wire.codes import RequestCode, ResponseCode
from wire.disk.config_json import GroupsFile


def test_a_group_is_created_changed_and_shown(broker: SmallBroker) -> None:
    peer = broker.connect()
    for config in (SubscriptionGroupConfig("g"), SubscriptionGroupConfig("g", retry_max_times=2)):
        answer = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.build())
        assert answer.code == ResponseCode.SUCCESS
        shown = peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": "g"})
        assert SubscriptionGroupConfig.parse(shown.body) == config


def test_the_body_of_an_old_client_takes_the_defaults_of_the_rest(broker: SmallBroker) -> None:
    body = b'{"brokerId":0,"consumeEnable":true,"groupName":"g","retryMaxTimes":3,"retryQueueNums":1}'
    peer = broker.connect()
    assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == ResponseCode.SUCCESS
    assert broker.groups.get("g") == SubscriptionGroupConfig("g", retry_max_times=3)


@pytest.mark.parametrize("config", [SubscriptionGroupConfig("a b"), SubscriptionGroupConfig("g", retry_queue_nums=-1)])
def test_a_group_that_cannot_be_is_refused_and_with_it_its_list(
    broker: SmallBroker, config: SubscriptionGroupConfig
) -> None:
    peer = broker.connect()
    one = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.build())
    body = SubscriptionGroupList([SubscriptionGroupConfig("good"), config]).build()
    several = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
    assert one.code == several.code == ResponseCode.INVALID_PARAMETER
    assert broker.groups.get("good") is None


def test_a_group_that_could_not_be_written_again_is_refused_and_others_are_still_stored(broker: SmallBroker) -> None:
    peer = broker.connect()
    for kept in ("[" * 60 + "]" * 60, '{"all":{"$ref":"$"}}'):
        body = f'{{"groupName":"g","groupRetryPolicy":{{"next":{kept}}},"of another version":{kept}}}'.encode()
        answer = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "deep" in (answer.remark or "")
    body = SubscriptionGroupConfig("h").build()
    assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == ResponseCode.SUCCESS
    assert "h" in GroupsFile.parse(broker.groups.path.read_bytes()).configs


def test_a_list_of_groups_is_made(broker: SmallBroker) -> None:
    body = SubscriptionGroupList([SubscriptionGroupConfig("a"), SubscriptionGroupConfig("b")]).build()
    answer = broker.connect().ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
    assert answer.code == ResponseCode.SUCCESS
    assert {"a", "b"} <= set(broker.groups.table())


@pytest.mark.parametrize(("flag", "left"), [("cleanOffset", -1), ("removeOffset", -1), ("other", 7)])
def test_a_deleted_group_loses_its_offsets_only_when_asked(broker: SmallBroker, flag: str, left: int) -> None:
    broker.groups.find("g")
    broker.offsets.commit("g", "t", 0, 7)
    fields = {"groupName": "g", flag: "true"}
    answer = broker.connect().ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields=fields)
    assert answer.code == ResponseCode.SUCCESS
    assert broker.groups.get("g") is None
    assert broker.offsets.query("g", "t", 0) == left


def test_the_deletion_of_a_group_that_does_not_exist_writes_no_offsets(broker: SmallBroker) -> None:
    broker.offsets.commit("g", "t", 0, 1)
    versions: list[int] = []
    for group in ("missing", "missing", "g"):
        broker.offsets.commit("other", "other", 0, len(versions))
        fields = {"groupName": group, "cleanOffset": "true"}
        assert broker.connect().ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields=fields).code == ResponseCode.SUCCESS
        versions.append(broker.offsets.data_version.counter)
    assert versions == [0, 0, 1], "one more with each write"


def test_a_system_group_is_not_deleted(broker: SmallBroker) -> None:
    answer = broker.connect().ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields={"groupName": "CID_RMQ_SYS_TRANS"})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert broker.groups.get("CID_RMQ_SYS_TRANS") is not None


def test_all_groups_are_listed_whole_or_by_the_page(broker: SmallBroker) -> None:
    peer = broker.connect()
    answer = peer.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    table = SubscriptionGroupTable.parse(answer.body)
    assert table.configs == broker.groups.table()
    assert table.data_version == broker.groups.data_version
    page = peer.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, fields={"groupSeq": "2", "maxGroupNum": "3"})
    assert list(SubscriptionGroupTable.parse(page.body).configs) == sorted(table.configs)[2:5]
    assert page.ext_fields == {"totalGroupNum": str(len(table.configs))}


def test_a_missing_group_is_said_to_be_missing_when_it_may_not_be_created(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    broker = SmallBroker(tmp_path_factory.mktemp("strict"), auto_create_subscription_group=False)
    answer = broker.connect().ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": "g"})
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_attributes_of_a_group_are_changed_one_by_one(broker: SmallBroker) -> None:
    peer = broker.connect()
    for attributes, code in (
        ({"+priority.factor": "50"}, ResponseCode.SUCCESS),
        ({}, ResponseCode.SUCCESS),
        ({"+priority.factor": "500"}, ResponseCode.INVALID_PARAMETER),
    ):
        body = SubscriptionGroupConfig("g", attributes=attributes).build()
        assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == code
    config = broker.groups.get("g")
    assert config is not None
    assert config.attributes == {"priority.factor": "50"}
