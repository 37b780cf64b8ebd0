"""Registered brokers, the routes that follow, and the end of a registration."""

from __future__ import annotations

import contextlib
import gc
import itertools
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gateway.nameserver.addresses import AutoAddress
from gateway.nameserver.displaced import MAX_BEHIND
from gateway.nameserver.route_table import (
    DEFAULT_BROKER_TIMEOUT_MS,
    MAX_BROKERS_PER_NAME,
    Registration,
    RouteTable,
)
from gateway.remoting.turns import ENTRIES_PER_TURN, Work, finish
from gateway.settings.name_server import NameServerSettings
from gateway.tests.nameserver.registrations import SYSTEM_TOPICS, registration, slave, topics
from wire.bodies.route import BrokerData, QueueData, TopicRouteData
from wire.bodies.topics import DataVersion
from wire.message.flags import Permission, TopicFlag

CLUSTER = "DefaultCluster"
HERE = "10.0.0.1"
FORGETTING = NameServerSettings(delete_topic_with_broker_registration=True)


def table_of(*registrations: Registration, **rest: Any) -> RouteTable:
    table = RouteTable(**rest)
    for each in registrations:
        assert table.register(each, 0).refusal is None
    return table


def route_of(table: RouteTable, topic: str) -> TopicRouteData:
    route = table.route(topic, HERE)
    assert route is not None
    return route


def perms(table: RouteTable, topic: str) -> dict[str, int]:
    return {queue.broker_name: queue.perm for queue in route_of(table, topic).queue_datas}


# Registering


def test_a_registered_topic_has_a_route() -> None:
    table = table_of(registration(topics=topics("orders", read_queue_nums=4, write_queue_nums=3)))
    assert route_of(table, "orders") == TopicRouteData(
        queue_datas=[QueueData("broker-a", 4, 3, Permission.READ_WRITE, 0)],
        broker_datas=[BrokerData(CLUSTER, "broker-a", {0: "192.0.2.1:10911"})],
    )


def test_an_unknown_topic_has_none() -> None:
    assert table_of(registration("orders")).route("other", HERE) is None


def test_a_topic_on_two_brokers_has_both_in_its_route() -> None:
    table = table_of(registration("orders"), registration("orders", broker_name="broker-b", address="192.0.2.9:10911"))
    route = route_of(table, "orders")
    assert [queue.broker_name for queue in route.queue_datas] == ["broker-a", "broker-b"]
    assert [data.broker_addrs for data in route.broker_datas] == [
        {0: "192.0.2.1:10911"},
        {0: "192.0.2.9:10911"},
    ]


def test_slaves_are_in_the_route_and_their_topics_are_not_taken() -> None:
    table = table_of(registration("orders"), slave("orders", "only-on-slave"), slave(broker_id=2))
    (data,) = route_of(table, "orders").broker_datas
    assert data.broker_addrs == {0: "192.0.2.1:10911", 1: "192.0.2.2:10911", 2: "192.0.2.3:10911"}
    assert table.route("only-on-slave", HERE) is None


def test_a_slave_is_told_where_its_master_is_and_a_master_is_not() -> None:
    table = table_of()
    assert table.register(slave(), 0).master_address is None
    assert table.register(registration(), 0).master_address is None
    told = table.register(slave(), 0)
    assert (told.master_address, told.master_ha_address) == ("192.0.2.1:10911", "192.0.2.1:10912")


def test_only_the_first_registration_of_an_address_is_new() -> None:
    table = table_of()
    assert table.register(registration(), 0).is_new
    assert not table.register(registration(), 0).is_new


def test_topics_are_taken_again_only_with_another_data_version() -> None:
    table = table_of(registration("orders"))
    table.register(registration(topics=topics("orders", perm=4)), 0)
    assert perms(table, "orders") == {"broker-a": 6}
    table.register(registration(topics=topics("orders", perm=4), counter=2), 0)
    assert perms(table, "orders") == {"broker-a": 4}


@pytest.mark.parametrize("forgetful", [False, True])
def test_topics_that_are_missing_are_taken_with_the_same_data_version_too(forgetful: bool) -> None:
    """Some brokers tell of what changed only, and what told of a change may have been refused."""
    table = table_of(registration("orders", "bills"), settings=FORGETTING if forgetful else None)
    table.wipe_write_permission("broker-a")
    told = {**topics("notes"), "orders": topics(perm=2)["TBW102"]}
    table.register(registration(topics=told), 0)
    assert perms(table, "notes") == {"broker-a": Permission.READ_WRITE}
    assert perms(table, "orders") == {"broker-a": Permission.READ}, "it is known with this version"
    assert perms(table, "bills") == {"broker-a": Permission.READ}


def test_of_a_broker_of_this_process_only_topics_that_changed_are_taken_again() -> None:
    told = topics("orders", "bills")
    table = table_of(registration(topics=told))
    before = route_of(table, "orders").queue_datas[0]
    told = {**told, **topics("bills", perm=4), "orders": told["orders"]}
    table.register(registration(topics=told, counter=2), 0)
    assert route_of(table, "orders").queue_datas[0] is before
    assert perms(table, "bills") == {"broker-a": 4}


@pytest.mark.parametrize("change", ["delete", "wipe", "add", "leave", "wipe and tell"])
def test_what_somebody_else_changed_is_taken_again_from_a_broker_of_this_process(change: str) -> None:
    told = topics("orders")
    table = table_of(registration(topics=told))
    if change == "delete":
        table.delete_topic("orders")
    elif change == "add":
        table.add_queues("orders", [QueueData("broker-a", 1, 1, 2)])
    elif change == "leave":
        table.unregister("broker-a", 0, "192.0.2.1:10911")
    else:
        table.wipe_write_permission("broker-a")
    if change == "wipe and tell":
        table.register(registration(topics=told), 0)
        assert perms(table, "orders") == {"broker-a": 4}, "the same version changes nothing"
    table.register(registration(topics=dict(told), counter=2), 0)
    assert perms(table, "orders") == {"broker-a": 6}
    assert route_of(table, "orders").queue_datas[0].read_queue_nums == told["orders"].read_queue_nums


def test_unlisted_topics_stay_unless_the_setting_says_otherwise() -> None:
    kept = table_of(registration("orders", "old"), registration("orders", counter=2))
    assert kept.route("old", HERE) is not None
    forgotten = table_of(registration("orders", "old"), registration("orders", counter=2), settings=FORGETTING)
    assert forgotten.route("old", HERE) is None
    assert forgotten.route("orders", HERE) is not None


def test_an_address_that_changes_its_id_leaves_the_old_one() -> None:
    table = table_of(registration("orders"), slave())
    table.register(registration(broker_id=3, address="192.0.2.2:10911"), 0)
    assert table.group_addresses(CLUSTER, "broker-a", HERE) == {0: "192.0.2.1:10911", 3: "192.0.2.2:10911"}


def test_another_address_takes_over_an_id_and_the_old_one_is_forgotten() -> None:
    table = table_of(registration("orders"))
    table.register(registration("orders", address="192.0.2.50:10911"), 5)
    assert table.group_addresses(CLUSTER, "broker-a", HERE) == {0: "192.0.2.50:10911"}
    assert not table.heartbeat("192.0.2.1:10911", 6)
    assert table.heartbeat("192.0.2.50:10911", 6)


def test_an_address_with_an_older_state_version_does_not_take_over() -> None:
    newer, older = DataVersion(state_version=7), DataVersion(state_version=6)
    table = table_of(registration(data_version=newer))
    late = registration(address="192.0.2.50:10911", data_version=older)
    assert table.register(late, 0).outdated
    assert table.group_addresses(CLUSTER, "broker-a", HERE) == {0: "192.0.2.1:10911"}


def test_a_broker_that_tells_of_one_topic_only_has_to_be_known() -> None:
    one = {"orders": topics("orders")["orders"]}
    table = RouteTable()
    assert "tells of one topic only" in (table.register(registration(topics=one), 0).refusal or "")
    assert not table.heartbeat("192.0.2.1:10911", 0)
    assert table.cluster_info(HERE).broker_addr_table == {}
    table.register(registration(), 0)
    assert table.register(registration(topics=one, counter=2), 0).refusal is None
    assert table.route("orders", HERE) is not None


def test_brokers_and_topics_have_limits() -> None:
    table = table_of(
        registration("one"), settings=NameServerSettings(nameserver_brokers_limit=1, nameserver_topics_limit=3)
    )
    other = registration(broker_name="broker-b", address="192.0.2.9:10911")
    assert "1 brokers" in (table.register(other, 0).refusal or "")
    assert "more than 3 topics" in (table.register(registration("two", counter=2), 0).refusal or "")
    assert table.register(registration("one", counter=3), 0).refusal is None
    assert "3 topics are registered" in (table.add_queues("two", [QueueData("broker-a", 4, 4, 6)]) or "")
    assert table.add_queues("two", [QueueData("stranger", 4, 4, 6)]) is None


def test_topics_of_one_registration_have_a_limit() -> None:
    table = RouteTable(NameServerSettings(registration_topics_limit=3))
    assert "4 topics in one registration" in (table.register(registration("one", "two"), 0).refusal or "")
    assert table.register(registration("one"), 0).refusal is None


def test_brokers_of_one_connection_have_a_limit() -> None:
    table = table_of(registration(channel_id=7), settings=NameServerSettings(connection_brokers_limit=1))
    other = registration(broker_name="broker-b", address="192.0.2.9:10911", channel_id=7)
    assert "1 brokers are registered over this connection" in (table.register(other, 0).refusal or "")
    assert table.register(registration(channel_id=7, counter=2), 0).refusal is None
    assert table.register(structs.replace(other, channel_id=8), 0).refusal is None


def test_slaves_of_one_name_have_a_limit() -> None:
    """A stranger's would all be in the route of each topic of the name."""
    slaves = [slave(broker_id=number) for number in range(1, MAX_BROKERS_PER_NAME)]
    table = table_of(*slaves)
    one_more = slave(broker_id=MAX_BROKERS_PER_NAME)
    assert "63 slaves of broker-a are registered" in (table.register(one_more, 0).refusal or "")
    for there in (registration("orders"), slaves[5], registration(counter=2)):
        assert table.register(there, 0).refusal is None
    assert "63 slaves of broker-a are registered" in (table.register(one_more, 0).refusal or "")
    assert len(route_of(table, "orders").broker_datas[0].broker_addrs) == MAX_BROKERS_PER_NAME
    table.unregister("broker-a", 1, slaves[0].address)
    assert table.register(one_more, 0).refusal is None


def test_a_displaced_slave_does_not_come_back_beyond_the_limit() -> None:
    table = table_of(registration(), *(slave(broker_id=number) for number in range(1, MAX_BROKERS_PER_NAME)))
    stranger = slave(broker_id=MAX_BROKERS_PER_NAME, channel_id=2)
    assert table.register(structs.replace(stranger, broker_id=5), 0).is_new
    assert table.register(structs.replace(stranger, broker_name="elsewhere", channel_id=3), 0).is_new
    assert table.unregister("broker-a", 5, stranger.address)
    assert table.register(slave(broker_id=MAX_BROKERS_PER_NAME + 1), 0).is_new
    table.channel_closed(3)
    assert len(table.group_addresses(CLUSTER, "broker-a", HERE)) == MAX_BROKERS_PER_NAME


def test_topics_times_brokers_have_a_limit() -> None:
    table = table_of(registration("orders"), settings=NameServerSettings(nameserver_entries_limit=5))
    other = registration(broker_name="broker-b", address="192.0.2.9:10911")
    assert "5 pairs of topic and broker" in (
        table.register(structs.replace(other, topics=topics("a")), 0).refusal or ""
    )
    assert table.register(other, 0).refusal is None
    assert table.register(registration("orders", counter=2), 0).refusal is None, "these are there already"
    assert "5 pairs of topic and broker" in (table.add_queues("orders", [QueueData("broker-b", 4, 4, 6)]) or "")
    table.unregister("broker-a", 0, "192.0.2.1:10911")
    assert table.register(structs.replace(other, topics=topics("a"), data_version=DataVersion(2)), 0).refusal is None


def test_a_broker_without_topics_may_register() -> None:
    table = table_of(registration(topics={}))
    assert table.cluster_info(HERE).broker_addr_table["broker-a"].broker_addrs == {0: "192.0.2.1:10911"}


# Leaving


def test_an_unregistered_broker_takes_its_topics_along() -> None:
    table = table_of(registration("orders"))
    assert table.unregister("broker-a", 0, "192.0.2.1:10911")
    assert table.route("orders", HERE) is None
    assert table.topics() == []
    assert not table.unregister("broker-a", 0, "192.0.2.1:10911")


def test_an_unregistration_from_another_address_changes_nothing() -> None:
    table = table_of(registration("orders"))
    assert not table.unregister("broker-a", 0, "192.0.2.66:10911")
    assert table.route("orders", HERE) is not None


def test_without_its_master_a_broker_can_only_be_read() -> None:
    table = table_of(registration("orders"), slave())
    table.unregister("broker-a", 0, "192.0.2.1:10911")
    assert perms(table, "orders") == {"broker-a": Permission.READ}
    table.register(registration("orders"), 0)
    assert perms(table, "orders") == {"broker-a": Permission.READ_WRITE}


def test_a_slave_that_becomes_the_master_can_be_written_to() -> None:
    table = table_of(registration("orders", channel_id=1), slave("orders", channel_id=2))
    table.channel_closed(1)
    assert perms(table, "orders") == {"broker-a": Permission.READ}
    table.register(slave("orders", broker_id=1, channel_id=2), 0)
    assert perms(table, "orders") == {"broker-a": Permission.READ}
    promoted = structs.replace(slave("orders", channel_id=2), broker_id=0)
    table.register(promoted, 0)
    assert perms(table, "orders") == {"broker-a": Permission.READ_WRITE}
    table.wipe_write_permission("broker-a")
    table.register(promoted, 0)
    assert perms(table, "orders") == {"broker-a": Permission.READ}, "it holds the place already"


def test_a_master_that_becomes_a_slave_leaves_no_master_behind() -> None:
    table = table_of(registration("orders"), registration("orders", broker_id=1, counter=2))
    assert perms(table, "orders") == {"broker-a": Permission.READ}


def test_a_slave_that_leaves_takes_nothing_but_itself() -> None:
    table = table_of(registration("orders"), slave())
    table.unregister("broker-a", 1, "192.0.2.2:10911")
    assert perms(table, "orders") == {"broker-a": Permission.READ_WRITE}
    assert table.group_addresses(CLUSTER, "broker-a", HERE) == {0: "192.0.2.1:10911"}


def test_an_unregistration_of_another_id_changes_nothing() -> None:
    table = table_of(registration("orders"))
    assert not table.unregister("broker-a", 1, "192.0.2.1:10911")
    assert table.group_addresses(CLUSTER, "broker-a", HERE) == {0: "192.0.2.1:10911"}
    assert table.heartbeat("192.0.2.1:10911", 0)


@pytest.mark.parametrize("change", [{"broker_name": "broker-b"}, {"cluster": "Other"}])
def test_an_address_with_another_name_or_cluster_is_another_broker(change: dict[str, Any]) -> None:
    table = table_of(registration("orders"), registration("bills", **change))
    assert table.route("orders", HERE) is None
    assert table.route("bills", HERE) is not None
    assert len(table.expire(DEFAULT_BROKER_TIMEOUT_MS + 1)) == 1
    assert table.cluster_info(HERE).broker_addr_table == {}


def test_a_silent_broker_expires_after_two_minutes() -> None:
    table = table_of(registration("orders"))
    assert table.expire(DEFAULT_BROKER_TIMEOUT_MS) == []
    (lost,) = table.expire(DEFAULT_BROKER_TIMEOUT_MS + 1)
    assert lost.broker_name == "broker-a"
    assert table.route("orders", HERE) is None


def test_a_broker_may_name_its_own_time() -> None:
    table = table_of(registration(timeout_ms=1_000))
    assert len(table.expire(1_001)) == 1


def test_a_heartbeat_is_a_sign_of_life() -> None:
    table = table_of(registration())
    assert table.heartbeat("192.0.2.1:10911", 100_000)
    assert table.expire(200_000) == []
    assert not table.heartbeat("192.0.2.66:10911", 100_000)


def test_a_closed_channel_removes_the_brokers_that_registered_over_it() -> None:
    table = table_of(
        registration("orders", channel_id=7),
        registration("bills", broker_name="broker-b", address="192.0.2.9:10911", channel_id=8),
    )
    assert [live.broker_name for live in table.channel_closed(7)] == ["broker-a"]
    assert table.route("orders", HERE) is None
    assert table.route("bills", HERE) is not None


def test_the_data_version_of_a_broker_can_be_asked_for() -> None:
    table = table_of(registration(counter=5))
    held = table.data_version("192.0.2.1:10911")
    assert held is not None
    assert held.counter == 5
    assert table.data_version("192.0.2.66:10911") is None


# Leaving piece by piece


def test_a_broker_that_leaves_is_out_of_every_route_before_its_topics_are_forgotten() -> None:
    works: list[Work[None]] = []
    table = table_of(
        registration("orders"),
        registration("orders", broker_name="broker-b", address="192.0.2.9:10911", cluster="Other"),
        in_turns=works.append,
    )
    table.unregister("broker-a", 0, "192.0.2.1:10911")
    assert perms(table, "orders") == {"broker-b": 6}
    table.unregister("broker-b", 0, "192.0.2.9:10911")
    assert len(works) == 1, "one work for all that leave"
    assert table.route("orders", HERE) is None
    assert (table.topics(), finish(table.topics_with_flags(0)), finish(table.topics_of_cluster("Other"))) == (
        [],
        [],
        [],
    )
    table.delete_topic("orders")
    finish(works[0])
    assert table.topics() == []


def test_a_broker_that_comes_back_keeps_what_it_tells_while_its_past_is_forgotten() -> None:
    works: list[Work[None]] = []
    table = table_of(registration("orders", "old"), in_turns=works.append)
    table.unregister("broker-a", 0, "192.0.2.1:10911")
    table.register(registration("orders", "new"), 0)
    assert table.route("old", HERE) is None
    for work in works:
        finish(work)
    assert set(table.topics()) == {*SYSTEM_TOPICS, "orders", "new"}
    assert perms(table, "orders") == {"broker-a": 6}


def test_a_broker_that_shares_one_of_many_topics_changes_none_of_the_others() -> None:
    table = table_of(registration("orders", "bills", "rest"))
    table.register(registration("orders", broker_name="broker-b", address="192.0.2.9:10911"), 0)
    assert perms(table, "orders").keys() == {"broker-a", "broker-b"}
    assert perms(table, "bills").keys() == {"broker-a"}
    table.delete_topic("bills")
    assert table.route("bills", HERE) is None
    table.unregister("broker-a", 0, "192.0.2.1:10911")
    assert perms(table, "orders").keys() == {"broker-b"}
    assert table.route("rest", HERE) is None
    table.register(registration("rest"), 0)
    assert perms(table, "rest").keys() == {"broker-a"}


def test_the_topics_of_one_broker_take_little_memory_and_leave_no_garbage() -> None:
    table = RouteTable()
    names = [f"topic-{number}" for number in range(2_000)]
    taken = registration(*names)
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        table.register(taken, 0)
        held_bytes, _ = tracemalloc.get_traced_memory()
        table.unregister("broker-a", 0, "192.0.2.1:10911")
        left_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held_bytes < 150 * len(names)
    assert left_bytes < 5 * len(names)


def test_whoever_comes_and_goes_without_a_pause_leaves_no_more_behind_than_it_brings() -> None:
    works: list[Work[None]] = []
    table = RouteTable(in_turns=works.append)
    for number in range(50):
        names = [f"topic-{number}-{index}" for index in range(20)]
        table.register(registration(*names, broker_name=f"broker-{number}", address="192.0.2.1:10911"), 0)
    (work,) = works
    pieces = 1 + sum(1 for _ in work)
    assert pieces <= 2, "the topics of 49 brokers would be 980 entries more"
    assert len(table.topics()) == 22


# Asking


def test_an_open_address_is_where_the_asking_client_reached_us() -> None:
    table = table_of(registration("orders", address=AutoAddress(10911)))
    addresses = []
    for reached_at in ("127.0.0.1", "172.17.0.2"):
        route = table.route("orders", reached_at)
        assert route is not None
        addresses.append(route.broker_datas[0].broker_addrs[0])
    assert addresses == ["127.0.0.1:10911", "172.17.0.2:10911"]


def test_clusters_list_their_brokers() -> None:
    table = table_of(registration(), registration(broker_name="broker-b", address="192.0.2.9:10911", cluster="Other"))
    info = table.cluster_info(HERE)
    assert info.cluster_addr_table == {CLUSTER: ["broker-a"], "Other": ["broker-b"]}
    assert set(info.broker_addr_table) == {"broker-a", "broker-b"}
    assert table.group_addresses("Other", "broker-a", HERE) == {}
    assert table.group_addresses("Other", "broker-c", HERE) == {}


def test_topic_lists() -> None:
    table = table_of(
        registration("orders"),
        registration("bills", broker_name="broker-b", address="192.0.2.9:10911", cluster="Other"),
    )
    assert set(table.topics()) == {*SYSTEM_TOPICS, "orders", "bills"}
    assert set(finish(table.topics_of_cluster("Other"))) == {*SYSTEM_TOPICS, "bills"}
    assert finish(table.topics_of_cluster("none")) == []
    assert table.system_topics(HERE) == ([CLUSTER, "Other", "broker-a", "broker-b"], "192.0.2.1:10911")
    assert RouteTable().system_topics(HERE) == ([], None)


def test_topics_are_found_by_their_flags() -> None:
    both = TopicFlag.UNIT | TopicFlag.UNIT_SUBSCRIPTION
    plain = registration("plain").topics
    flagged = {
        name: topics(name, topic_sys_flag=flag)[name]
        for name, flag in (("unit", TopicFlag.UNIT), ("sub", TopicFlag.UNIT_SUBSCRIPTION), ("both", both))
    }
    table = table_of(registration(topics={**plain, **flagged}))
    assert finish(table.topics_with_flags(TopicFlag.UNIT)) == ["unit", "both"]
    assert finish(table.topics_with_flags(TopicFlag.UNIT_SUBSCRIPTION)) == ["sub", "both"]
    assert finish(table.topics_with_flags(TopicFlag.UNIT_SUBSCRIPTION, TopicFlag.UNIT)) == ["sub"]


# Changing


def test_a_deleted_topic_is_gone_until_its_broker_tells_of_it_again() -> None:
    table = table_of(registration("orders"))
    table.delete_topic("orders")
    assert table.route("orders", HERE) is None
    table.register(registration("orders", counter=2), 0)
    assert table.route("orders", HERE) is not None
    table.delete_topic("never heard of")


def test_a_topic_can_be_deleted_in_one_cluster() -> None:
    table = table_of(
        registration("orders"),
        registration("orders", broker_name="broker-b", address="192.0.2.9:10911", cluster="Other"),
    )
    table.delete_topic("orders", "Other")
    assert perms(table, "orders") == {"broker-a": 6}


def test_queues_are_added_on_known_brokers_up_to_the_first_unknown_one() -> None:
    table = table_of(registration("old"), registration(broker_name="broker-b", address="192.0.2.9:10911"))
    named = [QueueData(name, 4, 4, 4) for name in ("broker-a", "stranger", "broker-b")]
    table.add_queues("old", named)
    assert perms(table, "old") == {"broker-a": 4}
    table.add_queues("new", named)
    assert table.route("new", "192.0.2.1") is None
    table.add_queues("new", [named[0], named[2]])
    assert perms(table, "new") == {"broker-a": 4, "broker-b": 4}


@pytest.mark.parametrize("change", ["taken", "dropped", "forgotten"])
def test_many_topics_of_a_registration_are_taken_in_steps(change: str) -> None:
    """A registration of 100,000 topics held up everybody for a second."""
    table = RouteTable(settings=FORGETTING, in_turns=lambda _work: None)
    told = registration(*(f"topic-{number}" for number in range(5 * ENTRIES_PER_TURN)), channel_id=1)
    expected_steps = 5
    if change != "taken":
        table.register(told, 0)
    if change == "dropped":
        told = registration("one", counter=2, channel_id=1)
    elif change == "forgotten":
        table.channel_closed(1)
        expected_steps = 10
    sizes = [len(table.topics())]
    steps = table.register_in_steps(told, 0)
    with contextlib.suppress(StopIteration):
        while True:
            next(steps)
            sizes.append(len(table.topics()))
    sizes.append(len(table.topics()))
    assert len(sizes) > expected_steps
    assert sizes[-1] == len(told.topics)
    assert max(abs(after - before) for before, after in itertools.pairwise(sizes)) <= ENTRIES_PER_TURN + 3


def test_a_broker_that_leaves_while_its_topics_are_taken_is_refused_and_gone() -> None:
    table = RouteTable()
    many = [f"topic-{number}" for number in range(5 * ENTRIES_PER_TURN)]
    steps = table.register_in_steps(registration(*many, channel_id=1), 0)
    for _ in range(3):
        next(steps)
    assert [live.broker_name for live in table.channel_closed(1)] == ["broker-a"]
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert "left while" in end.value.value.refusal
    assert table.topics() == []
    assert table.register(registration("orders"), 0).refusal is None
    assert set(table.topics()) == set(registration("orders").topics)


def test_write_permission_is_wiped_and_given_back() -> None:
    table = table_of(registration("orders"))
    assert table.wipe_write_permission("broker-a") == 3
    assert perms(table, "orders") == {"broker-a": Permission.READ}
    table.register(registration("orders"), 0)
    assert perms(table, "orders") == {"broker-a": Permission.READ}
    assert table.add_write_permission("broker-a") == 3
    assert perms(table, "orders") == {"broker-a": Permission.READ_WRITE}
    assert table.wipe_write_permission("stranger") == 0


# A connection that registers another one's broker

HONEST = registration("orders", channel_id=1)
STRANGERS: dict[str, dict[str, Any]] = {
    "the same": {},
    "another address": {"address": "192.0.2.66:10911"},
    "another id": {"broker_id": 5},
    "another name": {"broker_name": "broker-z"},
    "another cluster": {"cluster": "other"},
    "another name and id": {"broker_name": "broker-z", "broker_id": 5},
}
"""What a stranger's registration has otherwise than that of the honest broker."""


@pytest.mark.parametrize("channel_id", [1, None])
@pytest.mark.parametrize("otherwise", STRANGERS.values(), ids=STRANGERS)
def test_a_broker_that_a_stranger_registered_stays_when_the_strangers_connection_closes(
    otherwise: dict[str, Any], channel_id: int | None
) -> None:
    honest = structs.replace(HONEST, channel_id=channel_id)
    table = table_of(honest)
    before = route_of(table, "orders")
    table.register(registration(channel_id=2, counter=7, **otherwise), 0)
    table.channel_closed(2)
    assert route_of(table, "orders") == before
    assert list(table.cluster_info(HERE).broker_addr_table) == ["broker-a"]
    assert table.data_version(HONEST.address) != HONEST.data_version, "it is asked to tell all of it again"
    assert table.register(structs.replace(honest, data_version=DataVersion(8)), 1).refusal is None
    assert table.unregister("broker-a", 0, HONEST.address)
    assert table.route("orders", HERE) is None


@pytest.mark.parametrize("otherwise", STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_stays_no_longer_than_the_brokers_next_registration(otherwise: dict[str, Any]) -> None:
    table = table_of(HONEST, registration(channel_id=2, counter=7, **otherwise))
    assert table.register(HONEST, 0).refusal is None
    assert table.channel_closed(2) == [] or otherwise.get("broker_name")
    assert [live.broker_name for live in table.channel_closed(1)] == ["broker-a"]
    assert table.cluster_info(HERE).broker_addr_table == {}


def test_a_restarted_broker_stays_when_its_former_connection_closes_later() -> None:
    table = table_of(HONEST, registration("orders", channel_id=2, counter=2))
    assert table.channel_closed(1) == []
    assert route_of(table, "orders")
    assert [live.broker_name for live in table.channel_closed(2)] == ["broker-a"]
    assert table.route("orders", HERE) is None


def test_a_broker_whose_own_connection_closed_meanwhile_is_not_put_back() -> None:
    for otherwise in STRANGERS.values():
        table = table_of(HONEST, registration(channel_id=2, **otherwise))
        table.channel_closed(1)
        table.channel_closed(2)
        assert table.cluster_info(HERE).broker_addr_table == {}
        assert table.topics() == []


def test_the_last_of_the_open_connections_has_the_broker() -> None:
    table = table_of(HONEST, *(registration(channel_id=channel, timeout_ms=channel) for channel in (2, 3, 4)))
    table.channel_closed(3)
    table.channel_closed(4)
    assert [live.timeout_ms for live in table.expire(3)] == [2]
    assert [live.broker_name for live in table.channel_closed(1)] == ["broker-a"]
    assert table.channel_closed(2) == []
    assert table.cluster_info(HERE).broker_addr_table == {}


def test_a_broker_is_put_back_when_a_stranger_unregisters_at_its_place() -> None:
    table = table_of(HONEST, registration(channel_id=2, address="192.0.2.66:10911"))
    assert table.unregister("broker-a", 0, "192.0.2.66:10911")
    assert route_of(table, "orders").broker_datas[0].broker_addrs == {0: HONEST.address}


def test_a_broker_that_unregistered_is_not_put_back() -> None:
    table = table_of(HONEST, registration(channel_id=2, counter=7))
    assert table.unregister("broker-a", 0, HONEST.address)
    table.channel_closed(2)
    assert table.route("orders", HERE) is None


def test_a_broker_that_was_wiped_stays_wiped() -> None:
    table = table_of(HONEST)
    table.wipe_write_permission("broker-a")
    table.register(registration(channel_id=2, broker_id=5), 0)
    table.channel_closed(2)
    assert perms(table, "orders") == {"broker-a": Permission.READ}


def test_a_displaced_broker_that_has_another_place_meanwhile_leaves_nothing_behind() -> None:
    """Found by chance: a place that nobody left any more, and one that was left twice."""
    elsewhere = structs.replace(HONEST, broker_id=1)
    table = table_of(
        elsewhere, registration(broker_name="broker-b", channel_id=2), structs.replace(HONEST, channel_id=2)
    )
    assert [live.broker_id for live in table.expire(DEFAULT_BROKER_TIMEOUT_MS + 1)] == [0, 1]
    assert table.cluster_info(HERE).broker_addr_table == {}
    second = structs.replace(slave(channel_id=2), broker_name="broker-b")
    table = table_of(structs.replace(second, address=HONEST.address, channel_id=1), second, HONEST)
    assert {str(live.address) for live in table.expire(DEFAULT_BROKER_TIMEOUT_MS + 1)} == {
        HONEST.address,
        second.address,
    }
    assert table.cluster_info(HERE).broker_addr_table == {}


def test_few_registrations_are_remembered_behind_one() -> None:
    connections = range(2, 2 + 3 * MAX_BEHIND)
    table = table_of(HONEST, *(registration(channel_id=channel) for channel in connections))
    for channel in connections[MAX_BEHIND:]:
        table.channel_closed(channel)
    assert route_of(table, "orders")
    for channel in connections[:MAX_BEHIND]:
        table.channel_closed(channel)
    assert route_of(table, "orders"), "the first ones are"


# Any sequence of all this

BROKERS = st.sampled_from(["broker-a", "broker-b"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["register", "unregister", "expire", "close", "heartbeat", "wipe", "open", "delete", "turn"]),
        BROKERS,
        st.integers(0, 2),
        st.integers(1, 4),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_whatever_happens_the_tables_agree_with_each_other(
    steps: list[tuple[str, str, int, int, int]],
) -> None:
    works: list[Work[None]] = []
    prompt, late, now_ms = RouteTable(), RouteTable(in_turns=works.append), 0
    for step in steps:
        now_ms += 30_000
        if step[0] == "turn":
            while works:
                finish(works.pop())
            continue
        for table in (prompt, late):
            take(table, step, now_ms)
            check(table)
        assert sorted(late.topics()) == sorted(prompt.topics())
        for topic in late.topics():
            assert perms(late, topic) == perms(prompt, topic)
    check_that_all_expire(late, now_ms)
    for channel_id in range(1, 5):
        prompt.channel_closed(channel_id)
    assert prompt.cluster_info(HERE).broker_addr_table == {}
    assert prompt.topics() == []


def take(table: RouteTable, taken: tuple[str, str, int, int, int], now_ms: int) -> None:
    step, name, broker_id, host, number = taken
    address = f"192.0.2.{host}:10911"
    if step == "register":
        table.register(
            registration(
                *(f"topic-{index}" for index in range(number)),
                broker_name=name,
                broker_id=broker_id,
                address=address,
                channel_id=1 + (host + number) % 4,
                counter=number,
            ),
            now_ms,
        )
    elif step == "unregister":
        table.unregister(name, broker_id, address)
    elif step == "expire":
        table.expire(now_ms)
    elif step == "close":
        table.channel_closed(host)
    elif step == "heartbeat":
        table.heartbeat(address, now_ms)
    elif step == "wipe":
        table.wipe_write_permission(name)
    elif step == "open" and table.group_addresses(CLUSTER, name, HERE).get(0):
        table.add_write_permission(name)
    else:
        table.delete_topic(f"topic-{number}")


def check(table: RouteTable) -> None:
    """Every route leads to known brokers, and no broker is known without an address."""
    info = table.cluster_info(HERE)
    known = info.broker_addr_table
    assert sorted(name for names in info.cluster_addr_table.values() for name in names) == sorted(known)
    assert all(data.broker_addrs for data in known.values())
    for topic in table.topics():
        route = route_of(table, topic)
        names = [queue.broker_name for queue in route.queue_datas]
        assert names == [data.broker_name for data in route.broker_datas]
        assert set(names) <= set(known)
        for queue, data in zip(route.queue_datas, route.broker_datas, strict=True):
            assert 0 in data.broker_addrs or not queue.perm & Permission.WRITE


def check_that_all_expire(table: RouteTable, now_ms: int) -> None:
    """Each address that is known has its time, and so have those that another connection's registration displaced."""
    known = table.cluster_info(HERE).broker_addr_table
    placed = {address for data in known.values() for address in data.broker_addrs.values()}
    late_ms = now_ms + DEFAULT_BROKER_TIMEOUT_MS + 1
    assert placed <= {str(lost.address) for lost in table.expire(late_ms)}
    assert table.expire(late_ms) == []
    assert table.cluster_info(HERE).broker_addr_table == {}
