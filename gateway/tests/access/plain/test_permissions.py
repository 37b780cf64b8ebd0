"""Permission words and entries of ACL 1.0."""

from __future__ import annotations

import pytest

from gateway.access.plain.permissions import WORDS, parse_entry, parse_word
from gateway.remoting.declared import Action


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_read_without_the_spaces_around_it(word: str) -> None:
    assert parse_word(f" {word} ") == word


def test_both_orders_permit_the_same() -> None:
    assert WORDS["PUB|SUB"] == WORDS["SUB|PUB"] == Action.PUB | Action.SUB
    assert not WORDS["DENY"]


@pytest.mark.parametrize(("word", "meant"), [("pub", "PUB"), ("PUB | SUB", "PUB|SUB"), ("deny", "DENY")])
def test_an_unknown_word_is_refused_with_the_word_that_was_meant(word: str, meant: str) -> None:
    with pytest.raises(ValueError, match="is no permission") as raised:
        parse_word(word)
    assert str(raised.value).endswith(f"or is {meant} meant?")


@pytest.mark.parametrize("word", ["", "ANY", "PUB,SUB", "PUB|SUB|DENY"])
def test_a_word_that_upstream_takes_as_deny_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="is no permission: expected DENY, PUB, SUB"):
        parse_word(word)


def test_an_entry_is_a_name_and_a_word() -> None:
    assert parse_entry(" orders = PUB|SUB ") == ("orders", "PUB|SUB")
    assert parse_entry("%DLQ%g=DENY") == ("%DLQ%g", "DENY")


@pytest.mark.parametrize("text", ["orders", "orders=", "=PUB", "orders:PUB", "a=b=PUB", "orders=PUB=", ""])
def test_an_entry_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"has not the form name=PERM|is no permission"):
        parse_entry(text)
