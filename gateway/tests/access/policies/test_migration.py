from __future__ import annotations

import pytest

from gateway.access.plain.accounts import PlainAccount, PlainAccounts
from gateway.access.plain.addresses import parse_pattern
from gateway.access.policies.access_file import build_users, parse_users
from gateway.access.policies.migration import migrated, migrated_user
from gateway.access.policies.policy import PolicyType
from gateway.access.policies.users import User, Users
from gateway.remoting.declared import Action, Kind, Need
from gateway.tests.access.policies.sample_users import HERE, need

ENTRIES = {
    "orders": "PUB|SUB",
    "secret": "DENY",
    "in": "PUB",
    "%RETRY%g": "SUB",
    "%RETRY%closed": "DENY",
    "odd*": "PUB",
}
SHOP = PlainAccount(name="shopuser", secret=b"12345678", default_topic="SUB", entries=ENTRIES)


def test_permissions_become_entries() -> None:
    policies = migrated_user(SHOP).policies

    assert list(map(str, policies[PolicyType.CUSTOM])) == [
        "Topic:orders Allow Pub,Sub,Get",
        "Topic:secret Deny All",
        "Topic:in Allow Pub,Get",
        "Topic:in Deny Sub",
        "Group:g Allow Sub,Get",
        "Group:closed Deny All",
    ]
    assert list(map(str, policies[PolicyType.DEFAULT])) == [
        "Topic:* Allow Sub,Get",
        "Topic:RMQ_SYS_TRACE_TOPIC Allow Pub",
        "Group:* Deny All",
    ]


def test_a_user_has_the_key_of_its_account_and_an_admin_is_super() -> None:
    admin = migrated_user(PlainAccount(name="root-user", secret="geheimß".encode(), is_admin=True))

    assert (admin.secret, admin.is_admin, migrated_user(SHOP).is_admin) == ("geheimß".encode(), True, False)


@pytest.mark.parametrize("name", ["orders", "secret", "in", "other", "RMQ_SYS_TRACE_TOPIC"])
@pytest.mark.parametrize("actions", [Action.PUB, Action.SUB, Action.GET, Action.SUB | Action.GET])
def test_a_topic_is_judged_as_before(name: str, actions: Action) -> None:
    wanted = Need(Kind.TOPIC, name, actions)

    assert migrated_user(SHOP).judge(wanted, HERE).allowed == SHOP.judge(wanted, HERE).allowed


@pytest.mark.parametrize("wanted", ["Group:g Sub", "Group:closed Sub", "Group:other Get", "Cluster:c Update"])
def test_a_group_and_the_cluster_are_judged_as_before(wanted: str) -> None:
    assert migrated_user(SHOP).judge(need(wanted), HERE).allowed == SHOP.judge(need(wanted), HERE).allowed


def test_users_who_are_there_stay_and_white_lists_are_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    white = PlainAccount(name="white-user", secret=b"12345678", white=parse_pattern("10.1.*.*"))
    plain = PlainAccounts({"shopuser": SHOP, "white-user": white}, [parse_pattern("*")])

    made = list(migrated(plain, {"shopuser": User("shopuser", "another")}))

    assert [user.name for user in made] == ["white-user"]
    assert [record.facts for record in caplog.records] == [  # type: ignore[attr-defined]
        {"addresses": "*"},
        {"user": "white-user", "addresses": "10.1.*.*"},
    ]


def test_a_start_after_the_migration_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    white = PlainAccount(name="shopuser", secret=b"12345678", white=parse_pattern("10.1.*.*"))
    plain = PlainAccounts({"shopuser": white}, [parse_pattern("*")])

    assert list(migrated(plain, {"shopuser": User("shopuser", "another")})) == []
    assert caplog.records == []


def test_users_of_accounts_can_be_written() -> None:
    users = Users({"shopuser": migrated_user(SHOP)})

    assert parse_users(build_users(users)) == users
