"""The judgement of ACL 1.0: what 4.9.8 permits by topics and groups, and what it leaves open to every account."""

from __future__ import annotations

import pytest

from gateway.access.plain.accounts import MAX_HOSTS, PlainAccount, PlainAccounts
from gateway.access.plain.addresses import parse_pattern
from gateway.remoting.declared import Action, Kind, Need

HOST = "10.1.2.3"
PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
CREATE, UPDATE, DELETE = Action.CREATE, Action.UPDATE, Action.DELETE
ENTRIES = {"in": "SUB", "out": "PUB", "both": "PUB|SUB", "none": "DENY", "%RETRY%g": "SUB", "%RETRY%denied": "DENY"}

USER = PlainAccount(
    name="user", secret=b"12345678", entries=ENTRIES, default_topic="PUB", default_group="SUB", is_admin=False
)
READER = PlainAccount(
    name="reader", secret=b"12345678", entries={"rmq_sys_wheel_timer": "SUB"}, default_topic="PUB|SUB"
)
STRANGER = PlainAccount(name="stranger", secret=b"12345678")
ADMIN = PlainAccount(name="admin", secret=b"12345678", is_admin=True)
BOUND = PlainAccount(name="bound", secret=b"12345678", is_admin=True, entries={"in": "SUB"})

JUDGED: tuple[tuple[PlainAccount, Kind, str, Action, bool, str], ...] = (
    (USER, Kind.TOPIC, "in", SUB, True, "topicPerms: in=SUB"),
    (USER, Kind.TOPIC, "in", PUB, False, "topicPerms: in=SUB"),
    (USER, Kind.TOPIC, "in", PUB | SUB, True, "topicPerms: in=SUB"),
    (USER, Kind.TOPIC, "both", PUB, True, "topicPerms: both=PUB|SUB"),
    (USER, Kind.TOPIC, "none", PUB, False, "topicPerms: none=DENY"),
    (USER, Kind.TOPIC, "none", GET, False, "topicPerms: none=DENY"),
    (USER, Kind.TOPIC, "other", PUB, True, "defaultTopicPerm: PUB"),
    (USER, Kind.TOPIC, "other", SUB, False, "defaultTopicPerm: PUB"),
    (USER, Kind.TOPIC, "%DLQ%g", SUB, False, "defaultTopicPerm: PUB"),
    (USER, Kind.GROUP, "g", SUB, True, "groupPerms: g=SUB"),
    (USER, Kind.GROUP, "denied", SUB, False, "groupPerms: denied=DENY"),
    (USER, Kind.GROUP, "denied", SUB | UPDATE, False, "groupPerms: denied=DENY"),
    (USER, Kind.GROUP, "other", SUB | UPDATE, True, "defaultGroupPerm: SUB"),
    (USER, Kind.TOPIC, "%RETRY%g", PUB, True, "groupPerms: g=SUB"),
    (USER, Kind.TOPIC, "%RETRY%denied", SUB, False, "groupPerms: denied=DENY"),
    # what 4.9.8 lets every account do: reading is for accounts that may send or receive
    (USER, Kind.TOPIC, "in", GET, True, "topicPerms: in=SUB"),
    (USER, Kind.TOPIC, "out", SUB | GET, False, "topicPerms: out=PUB"),
    (USER, Kind.TOPIC, "out", LIST, True, "topicPerms: out=PUB"),
    (USER, Kind.GROUP, "g", GET, True, "groupPerms: g=SUB"),
    # and changes are for admins
    (USER, Kind.TOPIC, "both", CREATE, False, "admin: false"),
    (USER, Kind.TOPIC, "both", UPDATE | DELETE, False, "admin: false"),
    (USER, Kind.GROUP, "g", UPDATE, False, "admin: false"),
    (USER, Kind.CLUSTER, "DefaultCluster", GET, False, "admin: false"),
    (USER, Kind.CLUSTER, "DefaultCluster", PUB | SUB, False, "admin: false"),
    (STRANGER, Kind.TOPIC, "any", PUB, False, "defaultTopicPerm: DENY"),
    (STRANGER, Kind.GROUP, "any", SUB, False, "defaultGroupPerm: DENY"),
    (STRANGER, Kind.TOPIC, "RMQ_SYS_TRACE_TOPIC", PUB, True, "every account may send to RMQ_SYS_TRACE_TOPIC"),
    (STRANGER, Kind.TOPIC, "RMQ_SYS_TRACE_TOPIC", SUB, False, "defaultTopicPerm: DENY"),
    # topics of the broker hold messages of every topic, so only entries with their names count
    (USER, Kind.TOPIC, "rmq_sys_REVIVE_LOG_c", PUB, False, "no topicPerms entry for rmq_sys_REVIVE_LOG_c"),
    (READER, Kind.TOPIC, "SCHEDULE_TOPIC_XXXX", SUB, False, "no topicPerms entry for SCHEDULE_TOPIC_XXXX"),
    (READER, Kind.TOPIC, "rmq_sys_REVIVE_LOG_c", SUB | GET, False, "no topicPerms entry for rmq_sys_REVIVE_LOG_c"),
    (READER, Kind.TOPIC, "RMQ_SYS_TRANS_HALF_TOPIC", GET, True, "defaultTopicPerm: PUB|SUB"),
    (READER, Kind.TOPIC, "rmq_sys_wheel_timer", SUB, True, "topicPerms: rmq_sys_wheel_timer=SUB"),
    (ADMIN, Kind.TOPIC, "SCHEDULE_TOPIC_XXXX", SUB, True, "admin: true"),
    (BOUND, Kind.TOPIC, "SCHEDULE_TOPIC_XXXX", SUB, False, "no topicPerms entry for SCHEDULE_TOPIC_XXXX"),
    (BOUND, Kind.TOPIC, "SCHEDULE_TOPIC_XXXX", GET, True, "admin: true"),
    # an admin passes everything only without entries
    (ADMIN, Kind.TOPIC, "any", PUB, True, "admin: true"),
    (ADMIN, Kind.GROUP, "any", SUB, True, "admin: true"),
    (ADMIN, Kind.CLUSTER, "DefaultCluster", UPDATE, True, "admin: true"),
    (BOUND, Kind.TOPIC, "in", SUB, True, "topicPerms: in=SUB"),
    (BOUND, Kind.TOPIC, "other", PUB, False, "defaultTopicPerm: DENY"),
    (BOUND, Kind.TOPIC, "other", SUB | GET, False, "defaultTopicPerm: DENY"),
    (BOUND, Kind.GROUP, "other", SUB | UPDATE, False, "defaultGroupPerm: DENY"),
    (BOUND, Kind.TOPIC, "other", CREATE, True, "admin: true"),
    (BOUND, Kind.TOPIC, "other", GET, True, "admin: true"),
    (BOUND, Kind.CLUSTER, "DefaultCluster", UPDATE, True, "admin: true"),
)


@pytest.mark.parametrize(("account", "kind", "name", "actions", "allowed", "rule"), JUDGED)
def test_a_need_is_judged(
    account: PlainAccount, kind: Kind, name: str, actions: Action, allowed: bool, rule: str
) -> None:
    ruling = account.judge(Need(kind, name, actions), HOST)
    assert (ruling.allowed, ruling.rule) == (allowed, rule)


def accounts(*white: str, of_user: str = "") -> PlainAccounts:
    user = PlainAccount(name="user", secret=b"12345678", white=parse_pattern(of_user))
    return PlainAccounts({"user": user}, [parse_pattern(text) for text in white])


def test_an_account_is_found_by_its_exact_name() -> None:
    assert accounts().find("user") is not None
    assert accounts().find("User") is None


def test_the_white_list_of_all_accounts_lets_requests_without_a_key_pass() -> None:
    known = accounts("10.9.9.9", "10.1.*.*")
    for key in (None, "user", "unknown"):
        assert known.unsigned(HOST, key) == "globalWhiteRemoteAddresses: 10.1.*.*"
        assert known.unsigned("10.2.0.1", key) is None


def test_the_white_list_of_an_account_lets_its_own_requests_pass() -> None:
    known = accounts(of_user="10.1.2.*")
    assert known.unsigned(HOST, "user") == "whiteRemoteAddress of user: 10.1.2.*"
    assert known.unsigned(HOST, "unknown") is None
    assert known.unsigned(HOST, None) is None
    assert known.unsigned("10.1.3.1", "user") is None


def test_empty_patterns_let_nobody_pass() -> None:
    known = accounts("", of_user="")
    assert known.unsigned(HOST, "user") is None
    assert known.unsigned("", "user") is None


def test_few_hosts_are_remembered() -> None:
    known = accounts("10.0.0.1")
    for number in range(MAX_HOSTS + 10):
        assert known.unsigned(f"10.1.{number >> 8}.{number & 255}", None) is None
    assert len(known._rules) <= MAX_HOSTS
    assert known.unsigned("10.0.0.1", None) == "globalWhiteRemoteAddresses: 10.0.0.1"


def test_a_secret_is_never_shown() -> None:
    assert "12345678" not in repr(USER)
