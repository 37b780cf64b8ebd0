"""A broker's address as clients are told it."""

from __future__ import annotations

import pytest

from gateway.nameserver.addresses import AutoAddress, seen_from


def test_a_given_address_is_told_as_it_is() -> None:
    assert seen_from("broker-a.example:10911", "10.0.0.1") == "broker-a.example:10911"


@pytest.mark.parametrize(
    ("reached_at", "told"), [("10.0.0.1", "10.0.0.1:10911"), ("2001:db8::7", "[2001:db8::7]:10911")]
)
def test_an_open_address_is_where_the_client_reached_us(reached_at: str, told: str) -> None:
    assert seen_from(AutoAddress(10911), reached_at) == told


def test_an_open_address_is_logged_as_such() -> None:
    assert str(AutoAddress(10911)) == "auto:10911"
