"""The figures that people are shown; the requests that ask for them are tested with a whole broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.metadata.names import CHECK_MAX_TOPIC
from gateway.tests.transaction.world import COMMIT, ROLLBACK, World
from gateway.transaction.operators.overview import Selection
from gateway.transaction.replies import source_text
from gateway.transaction.states import State


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def give_up_all(world: World) -> None:
    world.connect("g")
    world.wait(200)  # a silent group is asked slowly


def test_who_asked_is_shown_with_address_or_name() -> None:
    assert source_text(("producer", ("10.0.0.7", 40212))) == "producer 10.0.0.7:40212"
    assert source_text(("operator", "alice@host")) == "operator alice@host"


def test_the_producer_asked_last_and_the_next_check_are_shown(world: World) -> None:
    world.connect("g", "p9")
    half = world.send("k1")
    overview = world.transactions.overview
    assert overview.described(overview.listed(half.queue_offset)).last_producer == "127.0.0.1:10911"
    world.wait(7)
    shown = overview.described(overview.listed(half.queue_offset))
    assert (shown.last_producer, shown.checks, shown.waits_for_producer) == ("p9:1", 1, False)
    assert shown.next_check_in_ms is not None
    assert 28_000 <= shown.next_check_in_ms <= 30_000


def test_a_half_message_whose_record_is_gone_is_shown_without_it(world: World) -> None:
    half = world.send("k1")
    del world.log.records[half.commit_log_offset]
    overview = world.transactions.overview
    shown = overview.described(overview.listed(half.queue_offset))
    assert (shown.half_offset, shown.state, shown.topic) == (0, "PENDING", "")


def test_a_settled_one_has_no_next_check_and_says_who_decided(world: World) -> None:
    half = world.send("k1")
    world.end(half, COMMIT)
    world.end(half, ROLLBACK)
    listed = world.transactions.overview.listed(half.queue_offset)
    assert (listed.state, listed.next_check_in_ms, listed.conflicts) == (State.COMMITTED, None, 1)
    assert listed.decided_by == "producer 127.0.0.2:1"


def test_point_21_a_settled_one_has_the_age_of_its_record_and_no_count_of_checks(world: World) -> None:
    half = world.send("k1")
    world.end(half, COMMIT)
    world.wait(28 * 60)
    overview = world.transactions.overview
    shown = overview.described(overview.listed(half.queue_offset), overview.find("k1"))
    assert (shown.age_ms, shown.checks) == (28 * 60_000, None)


def test_of_several_with_one_key_the_newest_is_found(world: World) -> None:
    world.send("same")
    world.send("same")
    found = world.transactions.overview.find("same")
    assert found is not None
    assert found.queue_offset == 1


def test_a_key_of_digits_is_found_when_it_is_no_half_offset(world: World) -> None:
    world.send("4711")
    found = world.transactions.overview.find("4711")
    assert found is not None
    assert found.unique_key == "4711"


def test_what_was_given_up_is_listed_in_pages_with_what_became_of_it(world: World) -> None:
    for number in range(5):
        world.send(f"k{number}", topic=("orders", "payments")[number % 2])
    give_up_all(world)
    overview = world.transactions.overview
    page, after = overview.given_up(Selection(max_count=2))
    assert ([entry.transaction_id for entry in page], after) == (["k0", "k1"], 1)
    page, after = overview.given_up(Selection(max_count=10, after=1))
    assert ([entry.transaction_id for entry in page], after) == (["k2", "k3", "k4"], None)
    page, _ = overview.given_up(Selection(topic="payments"))
    assert [entry.transaction_id for entry in page] == ["k1", "k3"]
    assert {(entry.checks, entry.reason, entry.state) for entry in page} == {
        (3, "no outcome after 3 checks", "DISCARDED")
    }
    found = overview.find_given_up("k1")
    assert found is not None
    assert found.topic == CHECK_MAX_TOPIC
