"""Offsets of groups as a whole: copied, compared, listed."""

from __future__ import annotations

import pytest

from gateway.broker.requests.rare.group_offsets import NO_CORRECTION
from gateway.remoting.turns import finish
from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.tools.statistics import ConsumerOffsetTable, CorrectionOffsets
from wire.codes import RequestCode, ResponseCode
from wire.disk.config_json import DelayOffsetsFile
from wire.headers.offsets import CloneGroupOffsetRequest, QueryCorrectionOffsetRequest


def clone(broker: WholeBroker, topic: str | None = "orders", dest: str = "copy", offline: bool = False) -> int:
    header = CloneGroupOffsetRequest(src_group="group", dest_group=dest, topic=topic, offline=offline)
    return broker.ask(broker.connect(), RequestCode.CLONE_GROUP_OFFSET, header).code


@pytest.fixture(autouse=True)
def copy(broker: WholeBroker) -> None:
    """The group that gets the offsets."""
    broker.parts.groups.put(SubscriptionGroupConfig(group_name="copy"))


def test_a_group_begins_where_another_one_is(broker: WholeBroker) -> None:
    offsets = broker.parts.offsets
    offsets.commit("group", "orders", 0, 2)
    offsets.commit("group", "other", 0, 9)
    assert clone(broker) == ResponseCode.SUCCESS
    assert (offsets.of_topic("copy", "orders"), offsets.of_topic("copy", "other")) == ({0: 2}, {})
    assert clone(broker, topic=None) == ResponseCode.SUCCESS
    assert offsets.of_topic("copy", "other") == {0: 9}


def test_what_an_online_group_no_longer_subscribes_is_copied_only_when_asked(broker: WholeBroker) -> None:
    broker.parts.offsets.commit("group", "other", 0, 9)
    broker.subscribe(broker.connect())
    clone(broker, topic="other")
    assert broker.parts.offsets.of_topic("copy", "other") == {}
    clone(broker, topic="other", offline=True)
    assert broker.parts.offsets.of_topic("copy", "other") == {0: 9}


def test_a_group_that_does_not_exist_gets_no_offsets(broker: WholeBroker) -> None:
    """As for a commit: groups have a limit, and offsets of made-up groups would take the room of others."""
    broker.parts.offsets.commit("group", "orders", 0, 2)
    assert clone(broker, dest="made-up") == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert finish(broker.parts.offsets.groups_of("orders")) == ["group"]
    assert broker.parts.groups.get("made-up") is None


def test_a_name_that_no_group_may_have_gets_no_offsets(broker: WholeBroker) -> None:
    assert clone(broker, dest="a@b") == ResponseCode.INVALID_PARAMETER


def correction(broker: WholeBroker, filtered: str | None = None) -> dict[int, int]:
    header = QueryCorrectionOffsetRequest(compare_group="compared", filter_groups=filtered, topic="orders")
    answer = broker.ask(broker.connect(), RequestCode.QUERY_CORRECTION_OFFSET, header)
    return dict(CorrectionOffsets.parse(answer.body).correction_offsets)


def test_the_correction_is_the_lowest_offset_of_all_groups(broker: WholeBroker) -> None:
    for group, first, second in (("compared", 1, 0), ("ahead", 2, 2), ("behind", 0, 1)):
        broker.parts.offsets.commit(group, "orders", 0, first)
        broker.parts.offsets.commit(group, "orders", 1, second)
    assert correction(broker) == {0: 0, 1: 0}
    assert correction(broker, "behind") == {0: 1, 1: 0}
    assert correction(broker, "behind,compared") == {0: NO_CORRECTION, 1: NO_CORRECTION}


def test_all_offsets_and_those_of_the_delay_levels_are_listed(broker: WholeBroker) -> None:
    broker.send(broker.connect(), properties={"DELAY": "2"})
    broker.wait(6)
    broker.parts.offsets.commit("group", "orders", 1, 2)
    answer = broker.ask(broker.connect(), RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert ConsumerOffsetTable.parse(answer.body).offset_table["orders@group"] == {1: 2}
    answer = broker.ask(broker.connect(), RequestCode.GET_ALL_DELAY_OFFSET)
    assert answer.code == ResponseCode.SUCCESS
    assert DelayOffsetsFile.parse(answer.body).offset_table == {2: 1}
