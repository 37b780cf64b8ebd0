"""Ports at which a server is found again after a crash."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from gateway.client.testing.ports import CHOICE, free_port

LINUX_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not LINUX_RANGE.exists(), reason="only Linux tells its range in a file")
def test_no_outgoing_connection_gets_one_of_them() -> None:
    first = int(LINUX_RANGE.read_text().split()[0])
    if first < CHOICE.stop:
        pytest.skip(f"this machine gives ports from {first} on to outgoing connections")
    assert {free_port() for _ in range(50)} <= set(CHOICE)


def test_the_port_and_that_of_the_vip_channel_are_free() -> None:
    port = free_port()
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", port))
        two.bind(("127.0.0.1", port - 2))


def test_a_port_is_given_once_with_those_that_its_broker_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    given = free_port()
    taken = [given, given - 2, given + 2]
    chosen = taken + random.choices(CHOICE, k=1_000)
    monkeypatch.setattr(random, "choices", lambda *_, **__: chosen)
    assert free_port() not in taken
