"""Who may copy, and which reports fit: one row per rule."""

from __future__ import annotations

import pytest

from gateway.replication.master.verdicts import (
    fault_of_later,
    in_turn,
    may_copy,
    plain_host,
    slaves_at,
)
from gateway.settings import Address

MASTER, ONE, TWO = Address("10.0.0.1", 10911), Address("10.0.0.2", 10911), Address("slave.example", 10911)
MEMBERS = {2: TWO, 0: MASTER, 1: ONE}
HOSTS = {"10.0.0.1": ["10.0.0.1"], "10.0.0.2": ["10.0.0.2"], "slave.example": ["10.0.0.3", "2001:db8::3"]}


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("10.0.0.2", {1: ONE}),
        ("::ffff:10.0.0.2", {1: ONE}),
        ("10.0.0.3", {2: TWO}),
        ("2001:db8::3", {2: TWO}),
        ("10.0.0.1", {}),
        ("10.0.0.9", {}),
    ],
)
def test_a_slave_is_at_its_registered_host_and_the_master_is_none(host: str, found: dict[int, Address]) -> None:
    assert slaves_at(host, MEMBERS, HOSTS) == found


def test_a_host_name_without_addresses_is_nobodys() -> None:
    assert slaves_at("10.0.0.3", MEMBERS, {"slave.example": []}) == {}


@pytest.mark.parametrize(
    ("hosts", "slaves", "may"),
    [
        ("registered", {1: ONE}, True),
        ("registered", {}, False),
        ("10.0.0.0/8", {}, True),
        ("10.0.0.2", {1: ONE}, True),
        ("192.168.0.0/16,10.0.0.3", {1: ONE}, False),
    ],
)
def test_registered_hosts_or_those_of_the_setting_may_copy(hosts: str, slaves: dict[int, Address], may: bool) -> None:
    assert may_copy("::ffff:10.0.0.2", hosts, slaves) is may


def test_an_address_in_ipv6_is_the_same_host() -> None:
    assert [plain_host(text) for text in ("::ffff:10.0.0.2", "2001:DB8::1", "a.b")] == [
        "10.0.0.2",
        "2001:db8::1",
        "a.b",
    ]


def test_a_peer_is_first_taken_for_a_slave_that_has_no_connection() -> None:
    slaves = {1: ONE, 2: ONE, 3: ONE}
    assert in_turn(slaves, ()) == [1, 2, 3]
    assert in_turn(slaves, {1, 3}) == [2, 1, 3]


@pytest.mark.parametrize(
    ("report", "fault"),
    [
        (10, None),
        (15, None),
        (20, None),
        (21, "it reports 21 bytes, and 20 were sent"),
        (10**18, "it reports 1000000000000000000 bytes, and 20 were sent"),
        (9, "it reports 9 bytes after 10"),
    ],
)
def test_a_later_report_lies_between_the_one_before_and_what_was_sent(report: int, fault: str | None) -> None:
    assert fault_of_later(report, 10, 20) == fault
