"""EntryTokens: each counts once, for its host, for a while, and there are so many at most."""

from __future__ import annotations

from collections.abc import Callable

from gateway.replication.master.tokens import MAX_TOKENS, TOKEN_S, EntryTokens
from wire.replication.entry import TOKEN_BYTES

HOST, OTHER = "10.0.0.2", "10.0.0.3"


def counted() -> Callable[[int], bytes]:
    """Return a source of bytes that differ each time."""
    numbers = iter(range(1_000_000))
    return lambda count: next(numbers).to_bytes(count, "big")


def test_a_token_counts_once() -> None:
    tokens = EntryTokens(counted())
    one, two = tokens.give(HOST, 1, 0.0), tokens.give(HOST, 2, 0.0)
    assert one != two
    assert len(one) == TOKEN_BYTES
    assert [tokens.redeem(value, HOST, 1.0) for value in (two, one, two, one)] == [2, 1, None, None]


def test_a_token_counts_for_the_host_that_asked_and_stays_its_own() -> None:
    tokens = EntryTokens(counted())
    value = tokens.give(HOST, 1, 0.0)
    assert tokens.redeem(value, OTHER, 0.0) is None
    assert tokens.redeem(value, HOST, 0.0) == 1


def test_a_token_counts_for_a_while() -> None:
    tokens = EntryTokens(counted())
    values = [tokens.give(HOST, 1, 5.0) for _ in range(2)]
    assert tokens.redeem(values[0], HOST, 5.0 + TOKEN_S - 0.001) == 1
    assert tokens.redeem(values[1], HOST, 5.0 + TOKEN_S) is None
    tokens.give(HOST, 1, 5.0 + TOKEN_S)
    assert len(tokens) == 1


def test_whoever_asks_too_often_loses_tokens_and_others_keep_theirs() -> None:
    tokens = EntryTokens(counted())
    honest = tokens.give(OTHER, 1, 0.0)
    many = [tokens.give(HOST, 2, 0.0) for _ in range(3 * MAX_TOKENS)]
    assert len(tokens) == MAX_TOKENS
    assert tokens.redeem(many[0], HOST, 0.0) is None
    assert tokens.redeem(many[-1], HOST, 0.0) == 2
    assert tokens.redeem(honest, OTHER, 0.0) == 1


def test_whoever_asks_with_many_addresses_of_one_ipv6_network_loses_tokens_and_others_keep_theirs() -> None:
    tokens = EntryTokens(counted())
    honest = [tokens.give(OTHER, number, 0.0) for number in range(2)]
    many = [tokens.give(f"2001:db8::{number:x}", 2, 0.0) for number in range(3 * MAX_TOKENS)]
    assert tokens.redeem(many[-1], "2001:db8::1", 0.0) is None, "a token counts for its address"
    assert [tokens.redeem(value, OTHER, 0.0) for value in honest] == [0, 1]


def test_other_bytes_are_no_token() -> None:
    tokens = EntryTokens(counted())
    tokens.give(HOST, 1, 0.0)
    for value in (b"", b"\xff" * TOKEN_BYTES, bytes(TOKEN_BYTES - 1)):
        assert tokens.redeem(value, HOST, 0.0) is None


def test_a_token_that_was_asked_for_over_tls_counts_over_tls_alone_and_for_the_same_certificate() -> None:
    tokens = EntryTokens(counted())
    for shown, others in ((b"", (None, b"one")), (b"one", (None, b"", b"two"))):
        value = tokens.give(HOST, 1, 0.0, shown)
        assert [tokens.redeem(value, HOST, 0.0, other) for other in others] == [None] * len(others)
        assert tokens.redeem(value, HOST, 0.0, shown) == 1


def test_a_token_that_was_asked_for_without_tls_counts_on_every_connection_of_its_host() -> None:
    tokens = EntryTokens(counted())
    for shown in (None, b"", b"one"):
        assert tokens.redeem(tokens.give(HOST, 1, 0.0), HOST, 0.0, shown) == 1
