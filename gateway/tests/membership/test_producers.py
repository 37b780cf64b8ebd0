"""Producer groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import RequestRefused
from gateway.shares import Shares
from gateway.tests.membership.connected import Members


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path)


def test_connections_of_a_group_are_picked_in_turn(members: Members) -> None:
    clients = [members.client(f"c{number}") for number in range(3)]
    for client in clients:
        client.produces("g")
    picked = [members.producers.pick("g") for _ in range(6)]
    assert picked == [client.channel for client in clients] * 2


def test_a_connection_that_was_tried_is_not_picked_again(members: Members) -> None:
    one, other = members.client("c1"), members.client("c2")
    one.produces("g")
    other.produces("g")
    assert members.producers.pick("g", exclude={one.channel}) is other.channel
    assert members.producers.pick("g", exclude={one.channel, other.channel}) is None
    assert members.producers.pick("unknown") is None


def test_a_group_ends_with_its_last_member(members: Members) -> None:
    one, other = members.client("c1"), members.client("c2")
    one.produces("g", "h")
    other.produces("g")
    one.peer.leave()
    assert members.producers.groups() == ["g"]
    assert members.producers.pick("g") is other.channel
    other.peer.leave()
    assert members.producers.groups() == []
    assert members.producers.members("g") == []
    assert members.producers.pick("g") is None


def test_the_limit_of_groups_holds(tmp_path: Path) -> None:
    members = Members(tmp_path, max_groups=2)
    client = members.client("c1")
    with pytest.raises(RequestRefused, match="2 producer groups are connected, the limit"):
        client.produces("a", "b", "c")


def test_a_greedy_client_is_in_so_many_groups_and_an_honest_one_gets_through(tmp_path: Path) -> None:
    members = Members(tmp_path, producers=Shares(1_000, 20))
    greedy = members.client("greedy")
    greedy.produces(*(f"g{number}" for number in range(20)))
    with pytest.raises(RequestRefused, match="producer groups of client greedy: 20, of all: 20"):
        greedy.produces("more")
    assert "more" not in members.producers.groups()
    greedy.produces("g0")
    members.client("honest").produces("more", "g0")
    greedy.peer.leave()
    assert members.producers.groups() == ["g0", "more"]


def test_members_of_a_group_share_its_name(members: Members) -> None:
    clients = [members.client(f"c{number}") for number in range(3)]
    for client in clients:
        client.produces("".join(["group", "-", "1"]))
    names = {id(next(iter(client.producer_groups))) for client in members.heartbeats.clients}
    assert len(names) == 1
