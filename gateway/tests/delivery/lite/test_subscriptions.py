"""The subscriptions of clients to lite topics."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.delivery.lite.subscriptions import LiteClient, LiteSubscriptions
from gateway.errors import RequestRefused

CHANNEL: Any = object()


@pytest.fixture
def table() -> LiteSubscriptions:
    return LiteSubscriptions()


def told(table: LiteSubscriptions, client_id: str, *queues: str, group: str = "g", parent: str = "p") -> LiteClient:
    client = table.told(group, client_id, parent, CHANNEL, 1_000)
    for queue in queues:
        table.add(client, queue)
    return client


def test_subscriptions_are_counted_for_every_client(table: LiteSubscriptions) -> None:
    first, second = told(table, "1", "a", "b"), told(table, "2", "a")
    assert not table.add(first, "a"), "it has it already"
    assert (table.count, len(table)) == (3, 2)
    assert table.subscribers("a", "p") == [first, second]
    assert table.subscribers("b", "p") == [first]
    table.drop(first)
    assert (table.count, list(table), table.subscribers("b", "p")) == (1, [second], [])


def test_who_has_all_lite_topics_of_a_parent_counts_once(table: LiteSubscriptions) -> None:
    client = told(table, "1")
    assert table.add_all(client)
    assert not table.add_all(client)
    assert table.count == 1
    assert table.subscribers("anything", "p") == [client]
    assert table.subscribers("anything", "other") == []
    table.drop(client)
    assert (table.count, table.subscribers("anything", "p")) == (0, [])


def test_what_is_not_subscribed_to_any_more_is_not_ready(table: LiteSubscriptions) -> None:
    client = told(table, "1", "a")
    client.ready["a"] = None
    assert table.remove(client, "a")
    assert not table.remove(client, "a")
    assert (client.ready, table.count) == ({}, 0)


def test_a_client_of_two_groups_is_two(table: LiteSubscriptions) -> None:
    first, second = told(table, "1", "a"), told(table, "1", "a", group="h")
    assert table.find("g", "1") is first
    assert table.find("h", "1") is second
    assert table.of_group("h") == [second]
    assert table.find("i", "1") is None


def test_another_parent_takes_the_place_of_the_first(table: LiteSubscriptions) -> None:
    told(table, "1", "a")
    again = told(table, "1", "b", parent="q")
    assert list(table) == [again]
    assert table.subscribers("a", "p") == []
    assert table.count == 1


def test_silent_clients_are_those_that_told_nothing_since(table: LiteSubscriptions) -> None:
    silent = told(table, "1", "a")
    other: Any = object()
    assert table.told("g", "2", "p", other, 2_000).channel is other
    assert table.silent_since(1_000) == []
    assert table.silent_since(1_001) == [silent]
    table.told("g", "1", "p", CHANNEL, 3_000)
    assert table.silent_since(2_000) == []


def test_subscribers_are_found_by_their_group(table: LiteSubscriptions) -> None:
    first, second, stranger = told(table, "1", "a"), told(table, "2", "a"), told(table, "3", "a", group="h")
    everything = told(table, "4", group="h")
    table.add_all(everything)
    assert table.groups("a", "p") == ["g", "h"]
    assert tuple(map(list, table.subscribers_of("a", "p", "g"))) == ([first, second], [])
    assert tuple(map(list, table.subscribers_of("a", "p", "h"))) == ([stranger], [everything])
    assert tuple(map(list, table.subscribers_of("b", "p", "h"))) == ([], [everything])
    assert table.groups("b", "q") == []


def test_one_connection_cannot_bring_all_clients_there_may_be() -> None:
    table, greedy, honest = LiteSubscriptions(max_clients=100), object(), object()
    for number in range(75):
        table.told("g", str(number), "p", greedy, 1_000)  # type: ignore[arg-type]
    with pytest.raises(RequestRefused, match="clients with lite topics of this connection: 75, of all: 75"):
        table.told("g", "more", "p", greedy, 1_000)  # type: ignore[arg-type]
    table.told("g", "more", "p", honest, 1_000)  # type: ignore[arg-type]
    table.told("g", "0", "p", honest, 2_000)  # type: ignore[arg-type]
    table.told("g", "again", "p", greedy, 2_000)  # type: ignore[arg-type]
    for client in list(table):
        table.drop(client)
    assert (len(table), table.count) == (0, 0)


def test_the_last_subscriptions_are_for_connections_that_have_few() -> None:
    table, greedy, honest = LiteSubscriptions(limit=100), object(), object()
    taker = table.told("g", "greedy", "p", greedy, 1_000)  # type: ignore[arg-type]
    count = 0
    while table.has_room(taker):
        table.add(taker, str(count := count + 1))
    assert count == 90
    other = table.told("g", "honest", "p", honest, 1_000)  # type: ignore[arg-type]
    assert table.has_room(other)
    table.add(other, "a")
    assert not table.has_room(other)
    table.told("g", "greedy", "p", honest, 2_000)  # type: ignore[arg-type]
    assert table.count == 91
    table.drop(taker)
    table.drop(other)
    assert table.count == 0
