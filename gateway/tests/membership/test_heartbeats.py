"""Heartbeats, their absence, and the end of connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import RequestRefused
from gateway.membership.heartbeats import MAX_GROUPS_PER_HEARTBEAT
from gateway.remoting.turns import ENTRIES_PER_TURN, finish
from gateway.tests.membership.connected import Members, consumer
from gateway.tests.metadata.saved.test_write_behind import HeldThread
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.disk.config_json import GroupsFile


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path)


def test_a_consumers_heartbeat_makes_its_group_and_its_retry_topic(members: Members) -> None:
    members.client("c1").consumes("g", "t")
    assert members.groups.get("g") is not None
    assert members.topics.get("%RETRY%g") == TopicConfig("%RETRY%g", 1, 1, 6)


def test_the_retry_topic_follows_the_groups_settings(members: Members) -> None:
    members.groups.put(SubscriptionGroupConfig("g", retry_queue_nums=3))
    members.groups.put(SubscriptionGroupConfig("none", retry_queue_nums=0))
    members.topics.put(TopicConfig("ordered", order=True))
    members.client("c1").consumes("g", "ordered", unit_mode=True)
    members.client("c2").consumes("none", "t")
    assert members.topics.get("%RETRY%g") == TopicConfig("%RETRY%g", 3, 3, 6, topic_sys_flag=2, order=True)
    assert members.topics.get("%RETRY%none") is None


def test_a_group_with_a_very_long_name_goes_without_a_retry_topic(members: Members) -> None:
    longest = "g" * 248
    members.client("c1").consumes(longest, "t")
    members.client("c2").consumes(longest + "g", "t")
    assert members.consumers.names() == [longest, longest + "g"]
    assert members.topics.get(f"%RETRY%{longest}") is not None
    assert members.topics.get(f"%RETRY%{longest}g") is None


def test_groups_that_may_not_exist_are_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    members = Members(tmp_path, auto_create_subscription_group=False)
    members.groups.put(SubscriptionGroupConfig("known"))
    data = HeartbeatData(
        "c1",
        producers=("p", "../../p"),
        consumers=(consumer("unknown", "t"), consumer("a b", "t"), consumer("known", "t")),
    )
    members.client("c1").beats(data)
    assert members.consumers.names() == ["known"]
    assert members.producers.groups() == ["p"]


def test_a_client_that_is_silent_for_too_long_is_closed_and_gone(members: Members) -> None:
    quiet, lively = members.client("c1"), members.client("c2")
    quiet.produces("p")
    quiet.consumes("g", "t")
    lively.consumes("g", "t")
    members.pass_time(110_000)
    lively.consumes("g", "t")
    lively.told_groups()
    members.pass_time(10_000)
    assert not quiet.channel.closed
    members.pass_time(1)
    assert quiet.channel.closed
    assert members.consumers.client_ids("g") == ["c2"]
    assert members.producers.groups() == []
    assert lively.told_groups() == ["g"]
    assert len(members.heartbeats.clients) == 1


def test_a_group_that_heartbeats_no_longer_name_is_left_after_the_same_time(members: Members) -> None:
    client = members.client("c1")
    client.produces("old", "kept")
    client.consumes("g", "t")
    for _ in range(5):
        members.pass_time(30_000)
        client.produces("kept")
    assert members.producers.groups() == ["kept"]
    assert members.consumers.names() == []
    assert not client.channel.closed


@pytest.mark.parametrize("is_silent", [True, False])
def test_many_groups_that_no_heartbeat_names_are_left_in_turns(members: Members, is_silent: bool) -> None:
    """Nine hundred thousand members that left their groups at once took 0.9 s in one piece."""
    clients = [members.client(f"c{number}") for number in range(3)]
    for client in clients:
        client.produces(*(f"p{number}" for number in range(ENTRIES_PER_TURN - 1)))
    gone = members.client("gone")
    gone.produces("p0")
    members.now_ms += 120_001
    for client in [] if is_silent else clients:
        client.produces("other")
    work = members.heartbeats.close_silent()
    for left in (2, 1, 0):
        next(work)
        assert sum("p1" in client.producer_groups for client in members.heartbeats.clients) == left
        gone.peer.leave()
    finish(work)
    assert members.producers.groups() == ([] if is_silent else ["other"])


def test_a_goodbye_of_a_client_nobody_knows_is_no_error(members: Members) -> None:
    members.heartbeats.unregister(members.client("c1").channel, producer_group="p", consumer_group="g")


def test_a_goodbye_ends_only_the_groups_it_names(members: Members) -> None:
    client = members.client("c1")
    client.produces("p1", "p2")
    client.consumes("g", "t")
    members.heartbeats.unregister(client.channel, producer_group="p1", consumer_group=None)
    assert (members.producers.groups(), members.consumers.names()) == (["p2"], ["g"])


def test_a_heartbeat_of_a_closed_connection_leaves_nothing_behind(members: Members) -> None:
    client = members.client("c1")
    channel = client.channel
    client.peer.leave()
    members.heartbeats.receive(channel, 0, 513, HeartbeatData("c1", producers=("p",)))
    assert members.producers.groups() == []


def test_a_heartbeat_over_a_limit_is_refused(members: Members) -> None:
    client = members.client("c1")
    groups = tuple(f"p{number}" for number in range(MAX_GROUPS_PER_HEARTBEAT + 1))
    with pytest.raises(RequestRefused, match="names 1001 groups, the limit is 1000"):
        client.produces(*groups)
    for client_id in ("", "c" * 1025):
        with pytest.raises(RequestRefused, match="clientID has"):
            client.beats(HeartbeatData(client_id))


class TestSecondVersion:
    """Heartbeats with a fingerprint, which leave unchanged subscriptions out."""

    FULL = HeartbeatData("c1", consumers=(consumer("g", "t"),), fingerprint=77)
    SHORT = HeartbeatData("c1", consumers=(consumer("g"),), fingerprint=77, without_sub=True)

    def test_subscriptions_stay_while_they_are_left_out(self, members: Members) -> None:
        client = members.client("c1")
        client.beats(self.FULL)
        assert client.beats(self.SHORT) is False
        assert members.consumers.subscription("g", "t") is not None

    def test_a_broker_that_knows_nothing_asks_for_everything(self, members: Members) -> None:
        client = members.client("c1")
        assert client.beats(self.SHORT) is True
        assert members.consumers.client_ids("g") == ["c1"]
        client.beats(self.FULL)
        assert client.beats(self.SHORT) is False

    def test_a_broker_that_knows_other_subscriptions_asks_for_everything(self, members: Members) -> None:
        client, other = members.client("c1"), members.client("c2")
        client.beats(self.FULL)
        other.beats(HeartbeatData("c2", consumers=(consumer("g", "t", "u"),), fingerprint=88))
        assert client.beats(self.SHORT) is True

    def test_without_a_fingerprint_an_empty_list_means_no_subscriptions(self, members: Members) -> None:
        client = members.client("c1")
        client.beats(self.FULL)
        client.beats(HeartbeatData("c1", consumers=(consumer("g"),), without_sub=True))
        assert members.consumers.subscription("g", "t") is None


def test_a_first_heartbeat_of_a_thousand_groups_writes_each_table_twice(tmp_path: Path) -> None:
    """The second write has all changes that came during the first one."""
    thread = HeldThread()
    members = Members(tmp_path, in_thread=thread)
    groups = [consumer(f"g{number}", "t") for number in range(MAX_GROUPS_PER_HEARTBEAT)]
    members.client("c1").beats(HeartbeatData("c1", consumers=groups))
    for _ in range(4):  # two of the groups, two of their retry topics
        thread.run_one()
    assert not thread.waiting
    assert len(GroupsFile.parse((tmp_path / "groups.json").read_bytes()).configs) == MAX_GROUPS_PER_HEARTBEAT
