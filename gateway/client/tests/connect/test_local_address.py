import socket
from ipaddress import ip_address
from typing import Any

import pytest

from gateway.client.connect.local_address import local_address


def test_it_is_an_address() -> None:
    assert ip_address(local_address()).version == 4


def test_a_machine_without_a_way_out_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(self: Any, address: Any) -> None:
        raise OSError("network is unreachable")

    class NoWay(socket.socket):
        connect = unreachable

    monkeypatch.setattr(socket, "socket", NoWay)
    assert local_address() == "127.0.0.1"
