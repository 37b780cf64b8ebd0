"""Values that follow from the settings of the broker."""

import pytest

from gateway.settings.addresses import Address, Advertised
from gateway.settings.broker import BrokerSettings, name_expected, permission_expected


@pytest.mark.parametrize(
    ("advertise", "broker_ip1", "expected"),
    [
        ("auto", "", Advertised(None, None)),
        ("auto", "10.0.0.1", Advertised("10.0.0.1", None)),
        ("auto", "[::1]", Advertised("::1", None)),
        ("mq:30911", "10.0.0.1", Advertised("mq", 30911)),
    ],
)
def test_our_key_wins_over_apaches_address(advertise: str, broker_ip1: str, expected: Advertised) -> None:
    assert BrokerSettings(advertise=advertise, broker_ip1=broker_ip1).advertised == expected


def test_name_servers_are_a_list() -> None:
    assert BrokerSettings().name_server_addresses == ()
    settings = BrokerSettings(namesrv_addr="a:1;b:2")
    assert settings.name_server_addresses == (Address("a", 1), Address("b", 2))


def test_the_broker_is_named_after_the_machine() -> None:
    assert BrokerSettings().broker_name


@pytest.mark.parametrize(("text", "good"), [("2", True), ("4", True), ("6", True), ("0", False), ("7", False)])
def test_a_permission_reads_writes_or_both(text: str, good: bool) -> None:
    assert (permission_expected(text) is None) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [("broker-a", True), ("host.example_1", True), ("ns%b|c", True), ("", False), ("a b", False), ("a\n", False)],
)
def test_a_broker_name_is_made_of_what_clients_may_send(text: str, good: bool) -> None:
    assert (name_expected(text) is None) is good
