"""The ports a broker listens on: its own, and two below it that of the clients' VIP channel."""

from dataclasses import replace

import pytest

from gateway.broker.service import _listen_on
from gateway.settings import Settings


@pytest.mark.parametrize(("port", "ports"), [(10911, [10911, 10909]), (0, [0, 0]), (3, [3, 1]), (2, [2]), (1, [1])])
def test_the_vip_port_is_two_below_where_there_is_such_a_port(port: int, ports: list[int]) -> None:
    assert [listened for _, listened in _listen_on(replace(Settings(), listen_port=port))] == ports


def test_without_the_vip_channel_there_is_one_port() -> None:
    assert len(_listen_on(replace(Settings(), vip_channel_enable=False))) == 1
