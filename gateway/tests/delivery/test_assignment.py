"""Queues shared out by the broker: each to one client when pulled, to some or all when popped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.assignment import OrderedQueues, assigned, assigned_for_pop
from wire.bodies.message_queue import MessageQueue


def queues(count: int, *brokers: str) -> OrderedQueues:
    return OrderedQueues("orders", dict.fromkeys(brokers or ("a",), count))


def test_queues_are_in_the_order_of_brokers_and_numbers() -> None:
    ordered = OrderedQueues("orders", {"b": 2, "c": 0, "a": 3})
    made = [MessageQueue("orders", name, number) for name, number in (("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1))]
    assert (list(ordered), len(ordered), ordered[-1], ordered[1:4]) == (made, 5, made[-1], made[1:4])
    assert (list(OrderedQueues("orders", {})), OrderedQueues("orders", {"a": 0}).every_broker) == ([], [])


def numbers(found: list[MessageQueue] | None) -> list[int] | None:
    return None if found is None else [queue.queue_id for queue in found]


@pytest.mark.parametrize(
    ("strategy", "client", "expected"),
    [
        ("AVG", "c1", [0, 1, 2]),
        ("AVG", "c2", [3, 4, 5]),
        ("AVG", "c3", [6, 7]),
        ("AVG_BY_CIRCLE", "c1", [0, 3, 6]),
        ("AVG_BY_CIRCLE", "c3", [2, 5]),
        ("AVG", "stranger", None),
        ("MACHINE_ROOM", "c1", None),
    ],
)
def test_pulled_queues_have_one_owner(strategy: str, client: str, expected: list[int] | None) -> None:
    assert numbers(assigned(strategy, ["c3", "c1", "c2"], client, queues(8))) == expected


def test_popped_queues_are_everyones_unless_said_otherwise() -> None:
    clients = ["c1", "c2", "c3"]
    every = [MessageQueue("orders", "a", -1), MessageQueue("orders", "b", -1)]
    for share in (-1, 0, 2, 9):
        assert assigned_for_pop("AVG", clients, "c2", queues(4, "b", "a"), share) == every


def test_popped_queues_can_be_shared_with_the_next_clients_only() -> None:
    clients = ["c1", "c2", "c3", "c4"]
    assert numbers(assigned_for_pop("AVG", clients, "c1", queues(8), 1)) == [0, 1, 2, 3]
    assert numbers(assigned_for_pop("AVG", clients, "c4", queues(8), 1)) == [6, 7, 0, 1]


def test_more_clients_than_queues_share_them() -> None:
    clients = [f"c{number}" for number in range(5)]
    assert [numbers(assigned_for_pop("AVG", clients, client, queues(2), 1)) for client in clients] == [
        [0],
        [1],
        [0],
        [1],
        [0],
    ]
    assert assigned_for_pop("AVG", clients, "c0", queues(0), 1) == []


@pytest.mark.parametrize(("strategy", "client"), [("OTHER", "c1"), ("AVG", "stranger")])
def test_who_is_unknown_gets_no_answer(strategy: str, client: str) -> None:
    assert assigned_for_pop(strategy, ["c1"], client, queues(2), 0) is None


@given(st.integers(1, 20), st.integers(1, 12), st.sampled_from(["AVG", "AVG_BY_CIRCLE"]))
def test_every_queue_is_pulled_by_exactly_one_client(count: int, members: int, strategy: str) -> None:
    clients = [f"c{number:02}" for number in range(members)]
    shares = [assigned(strategy, clients, client, queues(count)) or [] for client in clients]
    assert sorted(queue.queue_id for share in shares for queue in share) == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(1, 20), st.integers(1, 12), st.integers(0, 14))
def test_every_queue_is_popped_by_someone(count: int, members: int, share: int) -> None:
    clients = [f"c{number:02}" for number in range(members)]
    found = [assigned_for_pop("AVG", clients, client, queues(count), share) or [] for client in clients]
    assert all(found)
    ids = {queue.queue_id for mine in found for queue in mine}
    assert ids == {-1} or ids == set(range(count))
