"""A broker's address as clients are told it."""

from __future__ import annotations

import pytest

from gateway.nameserver.addresses import AutoAddress, as_seen, seen_from


def test_a_given_address_is_told_as_it_is() -> None:
    assert seen_from("broker-a.example:10911", "10.0.0.1") == "broker-a.example:10911"


@pytest.mark.parametrize(
    ("reached_at", "told"), [("10.0.0.1", "10.0.0.1:10911"), ("2001:db8::7", "[2001:db8::7]:10911")]
)
def test_an_open_address_is_where_the_client_reached_us(reached_at: str, told: str) -> None:
    assert seen_from(AutoAddress(10911), reached_at) == told


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("127.0.0.1:10911", AutoAddress(10911)),
        ("[::1]:10921", AutoAddress(10921)),
        ("192.0.2.1:10911", "192.0.2.1:10911"),
        ("mq.example.org:10911", "mq.example.org:10911"),
        ("127.0.0.1", "127.0.0.1"),
        ("", ""),
    ],
)
def test_a_loopback_address_of_a_near_broker_is_open(given: str, kept: object) -> None:
    assert as_seen(given) == kept


def test_an_open_address_is_logged_as_such() -> None:
    assert str(AutoAddress(10911)) == "auto:10911"
