"""The subscription group table and subscriptionGroup.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.errors import RequestRefused
from gateway.metadata.groups import SYSTEM_GROUPS, Groups
from gateway.settings import BrokerSettings
from wire.bodies.fastjson import parse_json
from wire.bodies.subscriptions import SubscriptionGroupConfig, SubscriptionGroupTable
from wire.bodies.topics import DataVersion

Open = Callable[..., Groups]


@pytest.fixture
def open_groups(tmp_path: Path) -> Open:
    """Opens the table of one directory, as often as the test restarts the broker."""

    def open_with(*, auto_create: bool = True, max_groups: int = 1000) -> Groups:
        groups = Groups(
            path=tmp_path / "subscriptionGroup.json",
            settings=BrokerSettings(auto_create_subscription_group=auto_create),
            clock_ms=lambda: 1_000,
            max_groups=max_groups,
        )
        groups.load()
        return groups

    return open_with


def test_looking_a_group_up_creates_it_with_the_defaults_and_it_stays(open_groups: Open) -> None:
    made = open_groups().find("g")
    assert made == SubscriptionGroupConfig("g")
    assert (made.retry_max_times, made.retry_queue_nums, made.consume_enable) == (16, 1, True)
    assert open_groups(auto_create=False).find("g") == made


def test_a_plain_look_creates_nothing(open_groups: Open) -> None:
    groups = open_groups()
    assert groups.get("g") is None
    assert groups.table() == {}


def test_without_leave_only_groups_of_the_system_are_created(open_groups: Open) -> None:
    groups = open_groups(auto_create=False)
    assert groups.find("g") is None
    assert groups.find("CID_RMQ_SYS_TRANS") is not None


@pytest.mark.parametrize("name", ["", "../../x", "a@b", "g" * 256])
def test_a_group_of_an_illegal_name_does_not_exist(open_groups: Open, name: str) -> None:
    assert open_groups().find(name) is None
    assert open_groups().adopt(name) is None


def test_a_group_that_has_messages_is_made_also_beyond_the_limit(open_groups: Open) -> None:
    groups = open_groups(auto_create=False, max_groups=1)
    groups.put(SubscriptionGroupConfig("other", retry_max_times=3))
    assert groups.adopt("g") == groups.get("g") == SubscriptionGroupConfig("g")
    assert groups.adopt("other") == SubscriptionGroupConfig("other", retry_max_times=3)
    with pytest.raises(RequestRefused, match="the limit"):
        groups.put(SubscriptionGroupConfig("another"))
    assert sorted(open_groups(max_groups=1).table()) == ["g", "other"]


def test_the_system_groups_exist_after_start_and_cannot_be_deleted(open_groups: Open) -> None:
    groups = open_groups()
    groups.create_system_groups()
    version = groups.data_version
    groups.create_system_groups()
    assert groups.data_version == version
    for name in ("TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "SELF_TEST_C_GROUP"):
        assert name in groups.table()
        with pytest.raises(RequestRefused, match="system group"):
            groups.delete(name)


def test_a_group_is_changed_and_deleted_for_good(open_groups: Open) -> None:
    groups = open_groups()
    assert groups.put(SubscriptionGroupConfig("g", retry_max_times=3))
    assert not groups.put(SubscriptionGroupConfig("g", retry_max_times=3))
    changed = open_groups().get("g")
    assert changed is not None
    assert changed.retry_max_times == 3
    assert groups.delete("g")
    assert not groups.delete("g")
    assert open_groups().get("g") is None


def test_system_groups_are_made_in_a_full_table_so_that_the_broker_starts(open_groups: Open) -> None:
    groups = open_groups(max_groups=1)
    groups.put(SubscriptionGroupConfig("g"))
    groups.create_system_groups()
    assert sorted(groups.table()) == sorted(["g", *SYSTEM_GROUPS])


def test_the_limit_of_groups_holds(open_groups: Open) -> None:
    groups = open_groups(max_groups=1)
    groups.find("a")
    with pytest.raises(RequestRefused, match=r"subscription groups made automatically for clients: 1, of all: 1"):
        groups.find("b")
    with pytest.raises(RequestRefused, match="the broker has 1 subscription groups, the limit"):
        groups.put(SubscriptionGroupConfig("b"))


def test_a_greedy_host_is_refused_while_others_make_groups(open_groups: Open) -> None:
    groups = open_groups(max_groups=100)
    for number in range(75):
        groups.find(f"g{number}", "192.0.2.1")
    with pytest.raises(RequestRefused, match=r"made automatically for 192\.0\.2\.1: 75, of all: 75"):
        groups.find("more", "192.0.2.1")
    assert groups.find("g0", "192.0.2.1") is not None
    assert groups.find("more", "192.0.2.2") is not None
    groups.delete("g0")
    assert groups.find("again", "192.0.2.1") is not None


def test_the_addresses_of_one_ipv6_network_make_groups_as_one_host(open_groups: Open) -> None:
    groups = open_groups(max_groups=100)
    for number in range(75):
        groups.find(f"g{number}", f"2001:db8::{number:x}")
    with pytest.raises(RequestRefused, match=r"made automatically for 2001:db8::ffff: 75, of all: 75"):
        groups.find("more", "2001:db8::ffff")
    assert groups.find("more", "2001:db8:0:1::1") is not None
    groups.delete("g0")
    assert groups.find("again", "2001:db8::ffff") is not None


def test_what_apache_wrote_and_we_do_not_know_survives_a_change(open_groups: Open, tmp_path: Path) -> None:
    path = tmp_path / "subscriptionGroup.json"
    path.write_text(
        '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":5},'
        '"forbiddenTable":{"g":{"t":1}},"later":[1],'
        '"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":5,"newThing":{"a":1}}}}'
    )
    groups = open_groups()
    groups.put(SubscriptionGroupConfig("g", retry_max_times=6))
    written = parse_json(path.read_bytes())
    assert written["forbiddenTable"] == {"g": {"t": 1}}
    assert written["later"] == [1]
    assert written["subscriptionGroupTable"]["g"]["newThing"] == {"a": 1}
    assert written["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 6


def test_a_forbidden_topic_stays_forbidden_until_it_is_allowed(open_groups: Open) -> None:
    groups = open_groups()
    assert groups.may_read("g", "t")
    groups.set_readable("g", "t", False)
    groups.set_readable("g", "t", False)
    again = open_groups()
    assert (again.may_read("g", "t"), again.may_read("g", "u"), again.may_read("h", "t")) == (False, True, True)
    assert again.forbidden() == {"g": {"t": 4}}
    again.set_readable("g", "t", True)
    assert open_groups().forbidden() == {}


def test_what_else_is_forbidden_to_a_group_stays(open_groups: Open) -> None:
    groups = open_groups()
    groups.set_readable("g", "t", False)
    groups.path.write_text(groups.path.read_text().replace('"t":4', '"t":6'))
    again = open_groups()
    again.set_readable("g", "t", True)
    assert again.forbidden() == {"g": {"t": 2}}
    assert again.may_read("g", "t")


def test_a_deleted_group_is_forbidden_nothing_and_there_is_a_limit(open_groups: Open) -> None:
    groups = open_groups(max_groups=2)
    groups.find("g")
    groups.set_readable("g", "t", False)
    groups.set_readable("g", "u", False)
    with pytest.raises(RequestRefused):
        groups.set_readable("g", "v", False)
    groups.delete("g")
    assert groups.forbidden() == {}


def test_a_slaves_groups_are_the_masters_with_what_is_forbidden_to_them(open_groups: Open) -> None:
    groups = open_groups()
    groups.put(SubscriptionGroupConfig("old"))
    groups.set_readable("old", "t", False)
    version = DataVersion(counter=7, timestamp=5)
    master = SubscriptionGroupTable({"g": SubscriptionGroupConfig("g")}, version, {"g": {"t": 4}})
    assert groups.follow(master) == ["old"]
    for table in (groups, open_groups()):
        assert dict(table.table()) == {"g": SubscriptionGroupConfig("g")}
        assert not table.may_read("g", "t")
        assert table.may_read("old", "t")
        assert table.data_version == version


def test_a_slave_takes_its_masters_groups_above_its_own_limit_up_to_another_one(
    open_groups: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = open_groups(max_groups=2)
    monkeypatch.setattr("gateway.metadata.named_configs.MAX_FOLLOWED", 4)
    tables = {
        count: SubscriptionGroupTable(
            {name: SubscriptionGroupConfig(name) for name in "abcde"[:count]}, DataVersion(counter=count)
        )
        for count in (4, 5)
    }
    groups.follow(tables[4])
    with pytest.raises(RequestRefused, match="the master has 5 subscription groups, a slave takes 4 at most"):
        groups.follow(tables[5])
    assert "".join(open_groups(max_groups=2).table()) == "abcd"
    with pytest.raises(RequestRefused, match="has 2 subscription groups, the limit"):  # once it is the master
        groups.put(SubscriptionGroupConfig("more"))
    groups.put(SubscriptionGroupConfig("a", retry_max_times=3))
