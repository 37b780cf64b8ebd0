"""Addresses are read as text; nothing is resolved."""

import pytest

from gateway.settings.addresses import (
    Address,
    Advertised,
    addresses_expected,
    advertised_expected,
    host_expected,
    interface_expected,
    is_loopback,
    parse_address,
    parse_addresses,
    parse_advertised,
)

BAD = [
    "",
    ":1",
    "h:",
    "h:0",
    "h:65536",
    "h:x",
    "h:-1",
    "h:１",
    "a b:1",
    "[::1",
    "[::1]x",
    "[zz]:1",
    "1:2:3",
    "h/x:1",
    "256.1.1.1:1",
    "1.2.3:1",
    "-h:1",
    "a..b:1",
    "h\x00:1",
    "ü:1",
]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        (" name-server.local:1 ", ("name-server.local", 1)),
        ("rmq_broker.1:1", ("rmq_broker.1", 1)),
        ("mq.example.org.:1", ("mq.example.org.", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_host_and_port_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", [*BAD, "host", "::1"])
def test_an_address_without_a_good_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the caller says what was expected)
        parse_address(text)


@pytest.mark.parametrize("text", ["127.0.0.1:9876", "[fe80::1]:10911"])
def test_an_address_prints_as_it_is_written(text: str) -> None:
    assert str(parse_address(text)) == text


def test_several_addresses_keep_their_order() -> None:
    assert parse_addresses("a:1; b:2,c:3;") == (Address("a", 1), Address("b", 2), Address("c", 3))
    assert parse_addresses("") == ()
    assert addresses_expected("a:1;b:2") is None
    assert addresses_expected("a:1;b") == "HOST:PORT, several separated by ';'"


@pytest.mark.parametrize(
    ("text", "advertised"),
    [
        ("auto", (None, None)),
        (" AUTO", (None, None)),
        ("mq.example.org", ("mq.example.org", None)),
        ("10.0.0.1:30911", ("10.0.0.1", 30911)),
        ("::1", ("::1", None)),
        ("[::1]", ("::1", None)),
        ("[::1]:5", ("::1", 5)),
    ],
)
def test_what_we_advertise_is_read(text: str, advertised: tuple[str | None, int | None]) -> None:
    assert parse_advertised(text) == Advertised(*advertised)
    assert advertised_expected(text) is None


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_advertised_is_refused(text: str) -> None:
    assert advertised_expected(text) == "auto, HOST or HOST:PORT"


def test_a_broker_ip_has_no_port() -> None:
    assert host_expected("") is None
    assert host_expected("10.0.0.1") is None
    assert host_expected("256.1.1.1") == "a host name or IP address without a port"
    assert host_expected("10.0.0.1:1") == "a host name or IP address without a port"


@pytest.mark.parametrize(("text", "good"), [("0.0.0.0", True), ("::", True), ("localhost", False), ("", False)])
def test_an_interface_is_an_ip_address(text: str, good: bool) -> None:
    assert (interface_expected(text) is None) is good


@pytest.mark.parametrize(("text", "loopback"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False)])
def test_loopback_is_only_this_machine(text: str, loopback: bool) -> None:
    assert is_loopback(text) is loopback
