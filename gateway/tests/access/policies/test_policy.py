"""The order of evaluation, as Apache RocketMQ 5.5.0 has it; cases where 5.3.x decided otherwise say so."""

from __future__ import annotations

import pytest

from gateway.access.policies.policy import MAX_SOURCES, NO_MATCH, EntryError, PolicyEntry, PolicyType
from gateway.access.policies.users import User, UserType
from gateway.remoting.declared import Action, Kind, Need
from gateway.tests.access.policies.sample_users import HERE, ORDERS, need, user
from wire.tests.growth import processor_seconds

Case = tuple[tuple[str, ...], str, bool]


@pytest.mark.parametrize(
    ("custom", "needed", "allowed"),
    [
        # nothing fits
        ((), "Topic:orders Pub", False),
        (("Topic:other Pub Allow",), "Topic:orders Pub", False),
        (("Group:orders Pub Allow",), "Topic:orders Pub", False),
        (("Topic:orders Sub Allow",), "Topic:orders Pub", False),
        (("Topic:Orders Pub Allow",), "Topic:orders Pub", False),
        (("Topic:orders Pub Allow 10.9.0.0/16",), "Topic:orders Pub", False),
        (("Topic:orders2* Pub Allow",), "Topic:orders Pub", False),
        # one fits
        (("Topic:orders Pub Allow",), "Topic:orders Pub", True),
        (("Topic:orders Pub Deny",), "Topic:orders Pub", False),
        (("Topic:ord* Pub Allow",), "Topic:orders Pub", True),
        (("Topic:orders* Pub Allow",), "Topic:orders Pub", True),
        (("Topic:* Pub Allow",), "Topic:orders Pub", True),
        (("* Pub Allow",), "Topic:orders Pub", True),
        (("* All Allow",), "Cluster:c Update", True),
        (("Topic:orders Pub Allow 10.1.0.0/16",), "Topic:orders Pub", True),
        (("Topic:orders Pub Allow 1.1.1.1,10.1.2.3",), "Topic:orders Pub", True),
        # one common action is enough
        (("Topic:orders Get Allow",), "Topic:orders Sub|Get", True),
        (("Topic:orders Pub,Sub Allow",), "Topic:orders Sub|Get", True),
        (("Topic:orders Sub Deny", "Topic:* Get Allow"), "Topic:orders Sub|Get", False),
        # a Deny of other actions hides nothing
        (("Topic:orders Sub Deny", "Topic:ord* Pub Allow"), "Topic:orders Pub", True),
        (("Topic:orders All Deny", "Topic:ord* Pub Allow"), "Topic:orders Pub", False),
        # a better entry from elsewhere hides nothing either
        (("Topic:orders Pub Deny 10.9.9.9", "Topic:* Pub Allow"), "Topic:orders Pub", True),
        # the best resource decides, wherever its entry stands
        (("Topic:orders Pub Allow", "Topic:ord* Pub Deny", "Topic:* Pub Deny", "* Pub Deny"), "Topic:orders Pub", True),
        (("* Pub Deny", "Topic:* Pub Deny", "Topic:ord* Pub Deny", "Topic:orders Pub Allow"), "Topic:orders Pub", True),
        (("Topic:orders Pub Deny", "* All Allow"), "Topic:orders Pub", False),
        (("Topic:* Pub Allow", "* Pub Deny"), "Topic:orders Pub", True),
        # 5.3.x: a literal name and a prefix were told apart by their positions (#9462)
        (("Topic:ord* Pub Allow", "Topic:orders Pub Deny"), "Topic:orders Pub", False),
        (("Topic:orders Pub Deny", "Topic:ord* Pub Allow"), "Topic:orders Pub", False),
        # 5.3.x: the shorter prefix was the better one (#9539)
        (("Topic:o* Pub Allow", "Topic:orde* Pub Deny"), "Topic:orders Pub", False),
        (("Topic:orde* Pub Deny", "Topic:o* Pub Allow"), "Topic:orders Pub", False),
        (("Topic:orde* Pub Allow", "Topic:o* Pub Deny"), "Topic:orders Pub", True),
        # 5.3.x: Allow came before Deny (#9784)
        (("Topic:orders Pub Allow", "Topic:orders Pub Deny"), "Topic:orders Pub", False),
        (("Topic:orders Pub Deny", "Topic:orders All Allow"), "Topic:orders Pub", False),
        (("Topic:* All Allow", "Topic:* Pub Deny"), "Topic:orders Pub", False),
        (("Topic:orders Pub Deny 10.9.9.9", "Topic:orders Pub Allow"), "Topic:orders Pub", True),
        # prefixes of other kinds
        (("Group:ord* Pub Deny", "Topic:o* Pub Allow"), "Topic:orders Pub", True),
        # topics of the broker hold messages of every topic, so only their own names count
        (("* All Allow", "Topic:orders All Deny"), "Topic:SCHEDULE_TOPIC_XXXX Sub", False),
        (("Topic:* All Allow",), "Topic:RMQ_SYS_TRANS_HALF_TOPIC Sub", False),
        (("Topic:RMQ_SYS_* All Allow",), "Topic:RMQ_SYS_TRANS_OP_HALF_TOPIC Sub|Get", False),
        (("Topic:* All Allow",), "Topic:TRANS_CHECK_MAX_TIME_TOPIC Sub", False),
        (("* All Allow",), "Topic:rmq_sys_wheel_timer Update", False),
        (("* All Allow",), "Topic:rmq_sys_REVIVE_LOG_c Pub", False),
        (("* Pub Deny", "Topic:rmq_sys_REVIVE_LOG_c Pub Allow"), "Topic:rmq_sys_REVIVE_LOG_c Pub", True),
        (("Topic:SCHEDULE_TOPIC_XXXX Sub Allow",), "Topic:SCHEDULE_TOPIC_XXXX Sub", True),
        (("* Get Allow",), "Topic:SCHEDULE_TOPIC_XXXX Get|List", True),
        (("Topic:* Pub Allow",), "Topic:RMQ_SYS_TRACE_TOPIC Pub", True),
        (("Group:* Sub Allow",), "Group:rmq_sys_g Sub", True),
    ],
)
def test_the_best_entry_decides(custom: tuple[str, ...], needed: str, allowed: bool) -> None:
    assert user(*custom).judge(need(needed), HERE).allowed is allowed
    assert user(*reversed(custom)).judge(need(needed), HERE).allowed is allowed


@pytest.mark.parametrize(
    ("custom", "default", "allowed"),
    [
        ((), ("Topic:* Pub Allow",), True),
        (("Topic:* Pub Deny",), ("Topic:orders Pub Allow",), False),  # a bad Custom entry before a good Default one
        (("Topic:* Sub Deny",), ("Topic:orders Pub Allow",), True),
        (("* Pub Allow",), ("Topic:orders Pub Deny",), True),
        (("Topic:orders Pub Deny 10.9.9.9",), ("* Pub Allow",), True),
    ],
)
def test_default_entries_count_if_no_custom_one_fits(
    custom: tuple[str, ...], default: tuple[str, ...], allowed: bool
) -> None:
    assert user(*custom, default=default).judge(ORDERS, HERE).allowed is allowed


@pytest.mark.parametrize(
    ("custom", "default", "rule"),
    [
        (("Topic:ord* Sub,Pub Deny",), (), "Custom Topic:ord* Deny Sub,Pub"),
        ((), ("* All Allow 10.0.0.0/8",), "Default * Allow All from 10.0.0.0/8"),
        ((), (), NO_MATCH),
    ],
)
def test_a_verdict_names_its_rule(custom: tuple[str, ...], default: tuple[str, ...], rule: str) -> None:
    assert user(*custom, default=default).judge(ORDERS, HERE).rule == rule


def test_a_super_user_may_do_everything() -> None:
    ruling = User("root", "x", UserType.SUPER).judge(Need(Kind.CLUSTER, "c", Action.UPDATE), "unknown")

    assert (ruling.allowed, ruling.rule) == (True, "Super user")


@pytest.mark.parametrize(
    ("resource", "actions", "sources", "decision", "text"),
    [
        (None, ["Pub"], None, "Allow", "The resource is null. "),
        ("orders", ["Pub"], None, "Allow", "The resource is null. 'orders'"),
        ("Topic:orders", None, None, "Allow", "The actions is empty. "),
        ("Topic:orders", [""], None, "Allow", "The actions is empty. "),
        ("Topic:orders", ["Pub", "Any"], None, "Allow", "The actions can not be Any. "),
        ("Topic:orders", ["Pub", "Write"], None, "Deny", "The actions is empty. 'Write'"),
        ("Topic:orders", ["Pub"], ["*"], "Allow", "The source ip is invalid. '*'"),
        ("Topic:orders", ["Pub"], [""], "Allow", "The source ip is empty. "),
        ("Topic:orders", ["Pub"], None, None, "The decision is null or illegal. "),
        ("Topic:orders", ["Pub"], None, "Grant", "The decision is null or illegal. 'Grant'"),
    ],
)
def test_a_wrong_entry_is_refused_with_the_words_of_the_reference(
    resource: str | None, actions: list[str] | None, sources: list[str] | None, decision: str | None, text: str
) -> None:
    with pytest.raises(EntryError) as caught:
        PolicyEntry.of(resource, actions, sources, decision)

    assert str(caught.value).startswith(text)


def test_words_may_be_in_any_case_and_twice() -> None:
    known = PolicyEntry.of("TOPIC:Orders", ["pub", "PUB", "all"], [" 10.0.0.1 "], "deny")

    assert str(known) == "Topic:Orders Deny Pub,All from 10.0.0.1"


def test_sources_are_read_once_and_an_address_is_looked_for_once_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = ",".join(f"10.0.{number // 200}.{number % 200}" for number in range(MAX_SOURCES - 2))
    judged = user(f"Topic:orders Pub Allow {sources},2001:db8::/32,192.168.0.0/16")
    (known,) = judged.policies[PolicyType.CUSTOM]
    assert len(known._networks) == 3
    reads: list[str] = []
    monkeypatch.setattr("gateway.access.policies.policy.network_of", reads.append)
    monkeypatch.setattr("gateway.access.policies.resources.network_of", reads.append)
    hosts = ["10.0.1.53", "::ffff:10.0.0.0", "2001:db8::1%eth0", "192.168.255.255", "10.0.1.54", "2001:db9::", "", "a"]
    assert [judged.judge(ORDERS, host).allowed for host in hosts] == [True] * 4 + [False] * 4
    assert reads == []


def test_an_entry_with_too_many_sources_is_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    monkeypatch.setattr("gateway.access.policies.policy.network_of", reads.append)
    with pytest.raises(EntryError, match="An entry has 257 addresses, at most 256 are allowed: write networks"):
        PolicyEntry.of("Topic:orders", ["Pub"], ["10.0.0.1"] * 257, "Allow")
    assert reads == []


def test_only_the_entry_that_decides_is_written_as_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = user(*(f"Topic:t{number} Pub Allow" for number in range(100)), "Topic:orders Pub Allow")
    write, written = PolicyEntry.__str__, list[PolicyEntry]()

    def counted(entry: PolicyEntry) -> str:
        written.append(entry)
        return write(entry)

    monkeypatch.setattr(PolicyEntry, "__str__", counted)
    assert judged.judge(ORDERS, HERE).rule == "Custom Topic:orders Allow Pub"
    assert written == [judged.policies[PolicyType.CUSTOM][-1]]


def test_ten_thousand_entries_are_judged_as_quickly_as_ten() -> None:
    def seconds_to_judge(count: int) -> float:
        entries = [f"Topic:t{number} Pub Allow" for number in range(count)]
        entries += [f"Topic:p{number}-{'x' * (number % 50)}* Pub Deny" for number in range(count)]
        judged = user(*entries, "Topic:orders Pub Allow", "Topic:o* Sub Deny")
        assert judged.judge(ORDERS, HERE).allowed

        def judge() -> None:
            for _ in range(1_000):
                judged.judge(need("Topic:nothing Pub"), HERE)

        return min(processor_seconds(judge) for _ in range(3))

    assert seconds_to_judge(10_000) < 8 * seconds_to_judge(10), "one by one, they take hundreds of times as long"
