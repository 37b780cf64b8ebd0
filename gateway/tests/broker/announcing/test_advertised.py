"""The operator is told of an address that clients are told and that nobody listens on (point 17)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.announcing.advertised import fixed_address, is_of_this_machine, unheard, unheard_at
from gateway.settings import Address, Settings


def fault(port: int = 10911, /, **settings: Any) -> str | None:
    """Return the fault of an address, on a machine that has the address 10.0.0.5 besides its loopback ones."""
    own = {"127.0.0.1", "127.0.0.2", "10.0.0.5", "::1", "2001:db8::5", "2001:0db8::0005", "localhost", "mq.example.org"}
    made = Settings(**settings)
    address = fixed_address(made, port)
    assert address is not None
    return unheard(made, address, port, own.__contains__)


def test_point_17_an_address_of_the_network_is_not_heard_on_loopback() -> None:
    assert fault(broker_ip1="10.0.0.5") == (
        "clients are told 10.0.0.5:10911 (brokerIP1), but only 127.0.0.1 is listened on, so they are refused unless "
        "something forwards: listen there with --bind 10.0.0.5 (bindAddress), or leave brokerIP1 out"
    )


@pytest.mark.parametrize(
    ("bind", "advertise", "key", "cure"),
    [
        ("127.0.0.1", "mq.example.org", "gateway.advertise", "--bind 0.0.0.0"),
        ("127.0.0.1", "2001:db8::5", "gateway.advertise", "--bind 2001:db8::5"),
        ("127.0.0.1", "127.0.0.2", "gateway.advertise", "--bind 127.0.0.2"),
        ("10.0.0.5", "127.0.0.1", "gateway.advertise", "--bind 127.0.0.1"),
        ("10.0.0.5", "localhost", "gateway.advertise", "--bind 0.0.0.0"),
        ("10.0.0.5", "203.0.113.7", "gateway.advertise", "--bind 203.0.113.7"),
        ("0.0.0.0", "203.0.113.7", "gateway.advertise", "no address of this machine"),
        ("0.0.0.0", "2001:db8::5", "gateway.advertise", "--bind 2001:db8::5"),
        ("127.0.0.1", "127.0.0.1:30911", "gateway.advertise", "--port 30911"),
        ("0.0.0.0", "mq.example.org:30911", "gateway.advertise", "--port 30911"),
    ],
)
def test_an_address_that_is_not_listened_on_is_named_with_its_setting_and_a_cure(
    bind: str, advertise: str, key: str, cure: str
) -> None:
    text = fault(bind_address=bind, advertise=advertise, broker_ip1="192.0.2.1")
    assert text is not None
    assert f"({key})" in text
    assert cure in text
    assert "refused unless something forwards" in text


@pytest.mark.parametrize(
    ("bind", "advertise"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "localhost:10911"),
        ("::1", "localhost"),
        ("10.0.0.5", "10.0.0.5"),
        ("10.0.0.5", "mq.example.org"),
        ("0.0.0.0", "10.0.0.5"),
        ("0.0.0.0", "127.0.0.1"),
        ("0.0.0.0", "mq.example.org"),
        ("0.0.0.0", "localhost"),
        ("::", "10.0.0.5"),
        ("::", "2001:db8::5"),
        ("2001:db8::5", "[2001:0db8::0005]:10911"),
    ],
)
def test_an_address_that_is_listened_on_is_not_worth_a_word(bind: str, advertise: str) -> None:
    assert fault(bind_address=bind, advertise=advertise) is None


def test_the_port_is_the_one_that_is_open() -> None:
    assert fault(4711, bind_address="10.0.0.5", broker_ip1="10.0.0.5") is None


def test_without_an_address_of_its_own_a_broker_tells_each_client_another() -> None:
    assert fixed_address(Settings(), 10911) is None


def test_the_system_knows_the_addresses_of_this_machine() -> None:
    assert is_of_this_machine("127.0.0.1")
    assert is_of_this_machine("mq.example.org"), "a name is not looked up"
    assert not is_of_this_machine("192.0.2.1"), "an address of documents"


def test_point_17_a_name_server_elsewhere_is_told_an_address_that_has_to_be_listened_on() -> None:
    name_server = Address("ns1", 9876)
    text = unheard_at(Settings(), name_server, "10.0.0.5")
    assert text is not None
    assert text.startswith("clients of the name server ns1:9876 are told 10.0.0.5")
    assert "--bind 10.0.0.5" in text
    for heard in (Settings(bind_address="0.0.0.0"), Settings(bind_address="10.0.0.5"), Settings(broker_ip1="x")):
        assert unheard_at(heard, name_server, "10.0.0.5") is None
    assert unheard_at(Settings(), name_server, "127.0.0.1") is None
