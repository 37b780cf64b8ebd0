from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.message.java_hash import hash_on, index_key_hash, java_string_hash, unsigned_hash
from wire.tests.message.strategies import QUICK


def hash_by_definition(text: str) -> int:
    hashed = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        hashed = (31 * hashed + int.from_bytes(raw[at : at + 2], "big")) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("polygenelubricants", -(2**31)),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("The quick brown fox jumps over the lazy dog", -609428141),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
    ],
)
def test_the_hash_is_what_java_computes(text: str, expected: int) -> None:
    assert hash_by_definition(text) == expected
    assert java_string_hash(text) == expected


any_text = st.text(st.characters(exclude_categories=[]), max_size=80) | st.text(
    st.characters(codec="ascii"), max_size=80
)


@QUICK
@given(any_text)
def test_any_text_hashes_as_defined(text: str) -> None:
    assert java_string_hash(text) == hash_by_definition(text)
    assert unsigned_hash(text) == hash_by_definition(text) & 0xFFFFFFFF


def test_every_character_counts_as_its_utf_16_units() -> None:
    for first in range(0, 0x11_0000, 0x1000):
        text = "".join(map(chr, range(first, first + 0x1000)))
        assert java_string_hash(text) == hash_by_definition(text)


@QUICK
@given(any_text, any_text, any_text)
def test_a_hash_goes_on_from_that_of_a_head(head: str, skipped: str, rest: str) -> None:
    whole = hash_by_definition(head + rest) & 0xFFFFFFFF
    assert hash_on(unsigned_hash(head), rest) == whole
    assert hash_on(unsigned_hash(head), skipped + rest, len(skipped)) == whole


@QUICK
@given(any_text, any_text)
def test_index_hashes_are_of_topic_and_key_and_never_negative(topic: str, key: str) -> None:
    hashed = hash_by_definition(f"{topic}#{key}")
    assert index_key_hash(topic, key) == (0 if hashed == -(2**31) else abs(hashed))


def test_the_hash_without_a_positive_counterpart_becomes_zero() -> None:
    topic, _, key = _split_with_minimum_hash().partition("#")
    assert hash_by_definition(f"{topic}#{key}") == -(2**31)
    assert index_key_hash(topic, key) == 0


def _split_with_minimum_hash() -> str:
    """A text with a # whose hash is -2^31: its last seven characters are digits in base 31."""
    prefix = "topic#"
    missing = (2**31 - (hash_by_definition(prefix + "0" * 7) & 0xFFFFFFFF)) % 2**32
    digits = []
    for exponent in range(6, -1, -1):
        digit, missing = divmod(missing, 31**exponent)
        digits.append(chr(ord("0") + digit))
    return prefix + "".join(digits)
