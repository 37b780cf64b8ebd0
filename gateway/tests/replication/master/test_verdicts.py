"""Who may copy, and which reports fit: one row per rule."""

from __future__ import annotations

import pytest

from gateway.replication.master.verdicts import (
    fault_of_entry,
    fault_of_language,
    fault_of_later,
    in_turn,
    is_listed,
    may_copy,
    plain_host,
    slaves_at,
)
from gateway.settings import Address
from gateway.settings.tls import TlsMode

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
    assert may_copy("::ffff:10.0.0.2", hosts, slaves, is_guarded=False) is may


@pytest.mark.parametrize(
    ("hosts", "slaves", "may"),
    [
        ("registered", {1: ONE}, True),
        ("registered", {}, False),
        ("10.0.0.2", {}, True),
        ("192.168.0.0/16", {1: ONE}, True),
        ("192.168.0.0/16", {}, False),
    ],
)
def test_where_accounts_are_checked_registered_hosts_may_copy_beside_those_of_the_setting(
    hosts: str, slaves: dict[int, Address], may: bool
) -> None:
    assert may_copy("10.0.0.2", hosts, slaves, is_guarded=True) is may


@pytest.mark.parametrize(
    ("mode", "is_tls", "listed", "said"),
    [
        ("disabled", False, False, None),
        ("disabled", True, True, "switched off"),
        ("permissive", False, False, None),
        ("permissive", True, False, None),
        ("enforcing", True, False, None),
        ("enforcing", False, False, "gateway.replicaHosts"),
        ("enforcing", False, True, None),
    ],
)
def test_the_mode_of_the_ports_decides_by_the_first_byte(mode: str, is_tls: bool, listed: bool, said: str) -> None:
    fault = fault_of_language(TlsMode(mode), is_tls=is_tls, is_listed=listed)
    assert fault is None if said is None else said in str(fault)


@pytest.mark.parametrize(
    ("proven", "listed", "token", "said"),
    [
        (True, False, True, None),
        (False, True, False, None),
        (False, True, True, None),
        (False, False, True, "used already"),
        (False, False, False, "innerClientAuthenticationCredentials"),
    ],
)
def test_a_token_or_a_listed_address_enters(proven: bool, listed: bool, token: bool, said: str | None) -> None:
    fault = fault_of_entry(is_proven=proven, is_listed=listed, has_token=token)
    assert fault is None if said is None else said in str(fault)


def test_only_addresses_in_the_setting_are_listed() -> None:
    assert is_listed("::ffff:10.0.0.2", "10.0.0.0/8")
    assert not is_listed("11.0.0.2", "10.0.0.0/8")
    assert not is_listed("10.0.0.2", "registered")


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
