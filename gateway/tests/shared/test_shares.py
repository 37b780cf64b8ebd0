"""However many greedy holders come, something is left for one that wants little."""

from __future__ import annotations

from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.shares import Shares, counted_host, oldest_of_greediest


def taken_by(shares: Shares[str], holder: str) -> int:
    """Take one by one until refused."""
    while shares.take(holder):
        pass
    return shares.held(holder)


def test_one_alone_gets_three_quarters() -> None:
    assert taken_by(Shares(1_000), "greedy") == 750


@pytest.mark.parametrize("greedy", [1, 2, 10, 90])
def test_a_small_holder_gets_through_whoever_is_greedy(greedy: int) -> None:
    shares: Shares[str] = Shares(100_000)
    for name in range(greedy):
        taken_by(shares, f"greedy {name}")
    for name in range(10):
        assert shares.take(f"honest {name}", 100)


def test_the_last_tenth_is_for_those_that_have_little() -> None:
    shares: Shares[str] = Shares(1_000)
    for name in range(20):
        taken_by(shares, f"greedy {name}")
    assert shares.used == 900 + 18  # the two that took most get no more; each of the others has one
    assert taken_by(shares, "honest") == 1


@pytest.mark.parametrize("total", [1, 2, 3])
def test_a_tiny_total_can_be_used_up(total: int) -> None:
    assert taken_by(Shares(total), "one") == total


def test_what_is_given_back_can_be_taken_by_others() -> None:
    shares: Shares[str] = Shares(8)
    assert taken_by(shares, "a") == 6
    shares.give_back("a", 6)
    assert (shares.used, shares.held("a")) == (0, 0)
    assert taken_by(shares, "b") == 6


def test_more_at_once_than_is_free_is_refused_whole() -> None:
    shares: Shares[str] = Shares(10)
    assert not shares.take("a", 11)
    assert shares.take("a", 8)
    assert shares.take("b")
    assert not shares.take("b")


def test_what_a_file_brings_back_counts_beyond_the_limit() -> None:
    shares: Shares[str] = Shares(4)
    shares.add("saved", 9)
    assert not shares.take("other")
    shares.give_back("saved", 8)
    assert shares.take("other")


def test_another_limit_takes_nothing_away() -> None:
    shares: Shares[str] = Shares(100)
    assert shares.take("a", 60)
    shares.resize(40)
    assert (shares.held("a"), shares.take("a"), shares.take("b")) == (60, False, False)
    shares.give_back("a", 30)
    assert shares.take("b")
    shares.resize(100, 31)
    assert (shares.take("a"), shares.take("a")) == (True, False)


def test_a_refusal_says_who_holds_what() -> None:
    shares: Shares[str] = Shares(4)
    taken_by(shares, "a")
    assert shares.refusal("a", "offsets of group a") == (
        "offsets of group a: 3, of all: 3, the limit is 4; one has 3 of it at most, "
        "and the last 0 are for those that have up to 1"
    )


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 5)), max_size=60))
def test_the_sum_is_kept_and_never_beyond_the_total(steps: list[tuple[int, int]]) -> None:
    shares: Shares[int] = Shares(20)
    for holder, amount in steps:
        if amount > 0:
            shares.take(holder, amount)
        elif shares.held(holder):
            shares.give_back(holder, min(-amount, shares.held(holder)) or 1)
    assert shares.used == sum(shares.held(holder) for holder in range(5)) <= 20


def test_the_oldest_of_who_has_most_gives_way() -> None:
    held = [("b", 1), ("a", 2), ("a", 3), ("c", 4)]
    assert oldest_of_greediest(held, itemgetter(0)) == ("a", 2)
    assert oldest_of_greediest(held[:1], itemgetter(0)) == ("b", 1)


def test_the_addresses_of_one_ipv6_network_are_one_host_where_the_greediest_gives_way() -> None:
    held = [("192.0.2.1", 1), ("192.0.2.1", 2), ("2001:db8::1", 3), ("2001:db8::2", 4), ("2001:db8::3", 5)]
    assert oldest_of_greediest(held, itemgetter(0)) == ("2001:db8::1", 3)


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:0:0:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:c000:207", "192.0.2.7"),
        ("", ""),
        ("broker-a", "broker-a"),
        ("a:b", "a:b"),
    ],
)
def test_what_counts_as_one_host(host: str, counted: str) -> None:
    assert counted_host(host) == counted
