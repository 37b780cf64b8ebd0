"""Consumer groups: members, subscriptions, and who is told of changes."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestRefused
from gateway.membership import consumers
from gateway.membership.consumers import MAX_SUBSCRIPTIONS_PER_GROUP, ConsumerGroup
from gateway.membership.kept_subscriptions import MAX_CLIENT_SUBSCRIPTION_BYTES, KeptSubscriptions
from gateway.shares import Shares
from gateway.tests.membership.connected import Member, Members, consumer
from gateway.tests.membership.subscriptions import subscription
from wire.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from wire.bodies.subscriptions import SubscriptionGroupConfig


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path)


def two(members: Members, group: str = "g", **rest: str) -> tuple[Member, Member]:
    """Two members of a group that have heard of each other."""
    one, other = members.client("c1"), members.client("c2")
    for member in (one, other):
        member.consumes(group, "t", **rest)
    for member in (one, other):
        member.told_groups()
    return one, other


def test_everyone_is_told_when_a_member_joins_and_the_group_lists_it(members: Members) -> None:
    one, other = members.client("c1"), members.client("c2")
    one.consumes("g", "t")
    assert one.told_groups() == ["g"]
    other.consumes("g", "t")
    assert (one.told_groups(), other.told_groups()) == (["g"], ["g"])
    assert members.consumers.client_ids("g") == ["c1", "c2"]


def test_a_heartbeat_that_changes_nothing_tells_nobody(members: Members) -> None:
    one, other = two(members)
    one.consumes("g", "t")
    assert (one.told_groups(), other.told_groups()) == ([], [])


def test_the_others_are_told_when_a_connection_closes(members: Members) -> None:
    one, other = two(members)
    one.peer.leave()
    assert other.told_groups() == ["g"]
    assert members.consumers.client_ids("g") == ["c2"]


def test_the_others_are_told_when_a_member_says_goodbye(members: Members) -> None:
    one, other = two(members)
    members.heartbeats.unregister(one.channel, producer_group=None, consumer_group="g")
    assert (one.told_groups(), other.told_groups()) == ([], ["g"])


def test_everyone_is_told_when_the_set_of_topics_changes(members: Members) -> None:
    one, other = two(members)
    one.consumes("g", "t", "u")
    assert (one.told_groups(), other.told_groups()) == (["g"], ["g"])
    one.consumes("g", "u")
    assert (one.told_groups(), other.told_groups()) == (["g"], ["g"])


def test_nobody_is_told_when_only_an_expression_changes(members: Members) -> None:
    one, other = two(members)
    data = consumer("g")
    changed = type(data)("g", subscriptions=[subscription("t", 2, "A || B")])
    one.beats(HeartbeatData("c1", consumers=(changed,)))
    assert (one.told_groups(), other.told_groups()) == ([], [])
    known = members.consumers.subscription("g", "t")
    assert known is not None
    assert known.sub_string == "A || B"


def test_broadcasting_groups_are_told_nothing(members: Members) -> None:
    one, other = members.client("c1"), members.client("c2")
    for member in (one, other):
        member.consumes("g", "t", message_model="BROADCASTING")
    other.peer.leave()
    assert one.told_groups() == []
    group = members.consumers.group("g")
    assert group is not None
    assert group.is_broadcasting


def test_a_group_with_notices_switched_off_is_told_nothing(members: Members) -> None:
    members.groups.put(SubscriptionGroupConfig("g", notify_consumer_ids_changed_enable=False))
    one, other = members.client("c1"), members.client("c2")
    one.consumes("g", "t")
    other.consumes("g", "t")
    other.peer.leave()
    assert one.told_groups() == []


def test_an_older_subscription_does_not_replace_a_newer_one(members: Members) -> None:
    one = members.client("c1")
    one.consumes("g", "t", sub_version=5)
    one.consumes("g", "t", sub_version=4)
    known = members.consumers.subscription("g", "t")
    assert known is not None
    assert known.sub_version == 5


def test_subscriptions_last_until_the_last_member_leaves(members: Members) -> None:
    one, other = two(members)
    one.peer.leave()
    assert members.consumers.subscription("g", "t") is not None
    other.peer.leave()
    assert members.consumers.group("g") is None
    assert members.consumers.subscription("g", "t") is None
    assert members.consumers.client_ids("g") == []


def test_a_client_that_reconnected_is_listed_once_and_reached_at_its_new_connection(members: Members) -> None:
    old, new = members.client("c1"), members.client("c1")
    old.consumes("g", "t")
    new.consumes("g", "t")
    assert members.consumers.client_ids("g") == ["c1"]
    assert members.consumers.channel_of("g", "c1") is new.channel
    old.peer.leave()
    assert members.consumers.client_ids("g") == ["c1"]
    new.peer.leave()
    assert members.consumers.channel_of("g", "c1") is None


def test_the_groups_of_a_topic_are_those_that_subscribe_it(members: Members) -> None:
    members.client("c1").consumes("g1", "t", "u")
    members.client("c2").consumes("g2", "t")
    assert members.consumers.groups_of_topic("t") == ["g1", "g2"]
    assert members.consumers.groups_of_topic("u") == ["g1"]
    assert members.consumers.names() == ["g1", "g2"]


def test_the_limits_hold(tmp_path: Path) -> None:
    members = Members(tmp_path, max_groups=1)
    client = members.client("c1")
    client.consumes("a", "t")
    with pytest.raises(RequestRefused, match="1 consumer groups are connected, the limit"):
        client.consumes("b", "t")
    topics = [f"t{number}" for number in range(MAX_SUBSCRIPTIONS_PER_GROUP + 1)]
    with pytest.raises(RequestRefused, match="subscribes 5001 topics, the limit is 5000"):
        client.consumes("a", *topics)


def test_a_greedy_client_is_in_so_many_groups_and_an_honest_one_gets_through(tmp_path: Path) -> None:
    members = Members(tmp_path, consumers=Shares(1_000, 20))
    greedy = members.client("greedy")
    for number in range(20):
        greedy.consumes(f"g{number}", "t")
    with pytest.raises(RequestRefused, match="consumer groups of client greedy: 20, of all: 20"):
        greedy.consumes("more", "t")
    assert members.consumers.group("more") is None
    greedy.consumes("g0", "t")
    members.client("honest").consumes("more", "t")
    greedy.peer.leave()
    members.client("later").consumes("g0", "t")
    assert members.consumers.names() == ["g0", "more"]


def test_subscriptions_of_one_client_take_so_much_memory_and_an_honest_one_gets_through(tmp_path: Path) -> None:
    members = Members(tmp_path, kept=KeptSubscriptions(total=40_000, share=16_000))
    greedy = members.client("greedy")
    greedy.consumes("a", *(f"t{number}" for number in range(40)))
    with pytest.raises(RequestRefused, match="bytes of subscriptions, 7590 of them for group b"):
        greedy.consumes("b", *(f"t{number}" for number in range(25)))
    assert members.consumers.group("b") is not None
    assert members.consumers.subscription("b", "t0") is None
    members.client("honest").consumes("b", "t0")
    assert members.consumers.subscription("b", "t0") is not None
    greedy.consumes("a", "t0")
    greedy.consumes("c", *(f"t{number}" for number in range(25)))


def test_a_large_honest_client_and_many_members_are_far_from_the_limits(tmp_path: Path) -> None:
    kept = KeptSubscriptions()
    members = Members(tmp_path, kept=kept)
    topics = [f"topic-with-a-long-name-{number}" for number in range(50)]
    for client in (members.client("c1"), members.client("c2")):
        for number in range(100):
            client.consumes(f"group-{number}", *topics)
    assert len(members.consumers.names()) == 100
    assert kept.used < MAX_CLIENT_SUBSCRIPTION_BYTES / 10


def test_a_group_that_may_not_grow_keeps_what_it_has(tmp_path: Path) -> None:
    members = Members(tmp_path, kept=KeptSubscriptions(total=40_000, share=4_000))
    client = members.client("c1")
    client.consumes("a", "t")
    with pytest.raises(RequestRefused, match="bytes of subscriptions"):
        client.consumes("a", *(f"t{number}" for number in range(20)), sub_version=2)
    assert members.consumers.subscription("a", "t") is not None
    assert members.consumers.subscription("a", "t1") is None


def test_members_of_a_group_share_its_subscriptions_and_pay_one_after_the_other(tmp_path: Path) -> None:
    kept = KeptSubscriptions()
    members = Members(tmp_path, kept=kept)
    clients = [members.client(f"c{number}") for number in range(5)]
    topics = [f"t{number}" for number in range(10)]
    clients[0].consumes("g", *topics)
    alone = kept.used
    assert 3_000 < alone < 4_000
    for client in clients:
        client.consumes("g", *topics)
    assert kept.used == alone
    clients[1].consumes("g", *topics, sub_version=2)
    for client in clients[:4]:
        client.peer.leave()
        assert kept.used == alone
    clients[4].peer.leave()
    assert kept.used == 0


@pytest.mark.parametrize("tags", [0, 1, 20])
def test_subscriptions_are_charged_with_what_they_take(tmp_path: Path, tags: int) -> None:
    texts = [
        {
            "topic": f"topic-{number}",
            "expressionType": "TAG",
            "subVersion": 1_700_000_000_000 + number,
            "subString": " || ".join(f"t{tag}" for tag in range(tags)) or "*",
            "tagsSet": [f"t{tag}" for tag in range(tags)],
            "codeSet": [number * 1_000 + tag for tag in range(tags)],
        }
        for number in range(1_000)
    ]
    raw = json.dumps({"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": texts}]})
    kept = KeptSubscriptions()
    members = Members(tmp_path, kept=kept)
    HeartbeatData.parse(raw)  # makes the plans of the classes
    tracemalloc.start()
    try:
        members.client("c").beats(HeartbeatData.parse(raw))
        packed, _ = tracemalloc.get_traced_memory()
        assert members.consumers.subscription("g", "topic-7") is not None
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < kept.used < taken * 1.5
    assert packed < taken / 2


def test_long_tags_and_expressions_count(tmp_path: Path) -> None:
    kept = KeptSubscriptions()
    members = Members(tmp_path, kept=kept)
    wanted = SubscriptionData("t", sub_string="x" * 10_000, tags_set=frozenset({"y" * 5_000}))
    members.client("c1").beats(HeartbeatData("c1", consumers=(ConsumerData("g", subscriptions=(wanted,)),)))
    assert 15_000 < kept.used < 17_000


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5), max_size=4), min_size=1, max_size=8))
def test_of_each_topic_listed_last_the_newest_version_holds(heartbeats: list[dict[str, int]]) -> None:
    group = ConsumerGroup("g")
    model: dict[str, int] = {}
    for listed in heartbeats:
        group.subscriptions = group.merged([subscription(topic, version) for topic, version in listed.items()])
        assert group.subscriptions.keys() == listed.keys()
        model = {topic: max(version, model.get(topic, version)) for topic, version in listed.items()}
    assert {topic: known.sub_version for topic, known in group.subscriptions.items()} == model


@pytest.mark.parametrize("topic", ["t7", "TAG", "subVersion", "*", "SQL92", "topic", "\x81", "t"])
def test_whether_a_group_reads_a_topic_is_found_without_its_subscriptions(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic ``TAG`` let all groups unpack all of their subscriptions in one piece."""
    group = ConsumerGroup("g")
    group.subscriptions = {
        name: SubscriptionData(name, "a || TAG", frozenset({"TAG"}), frozenset({1}), 5, "SQL92")
        for name in ("t7", "t70")
    }
    unpacked: list[str] = []
    names = consumers._unpack_topics

    def everything(_packed: bytes) -> tuple[SubscriptionData, ...]:
        unpacked.append("everything")
        return ()

    def topics(packed: bytes) -> tuple[consumers._Subscribed, ...]:
        unpacked.append("topics")
        return names(packed)

    monkeypatch.setattr(consumers, "_unpack", everything)
    monkeypatch.setattr(consumers, "_unpack_topics", topics)
    assert group.reads(topic) == (topic == "t7")
    assert unpacked == (["topics"] if topic == "t7" else [])
