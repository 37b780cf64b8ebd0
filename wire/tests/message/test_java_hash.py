from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.message import java_hash
from wire.message.java_hash import (
    MAX_CACHED_HEADS,
    MAX_CACHED_TOPICS,
    index_key_hash,
    index_key_hashes,
    index_key_hashes_alike,
    java_string_hash,
    unsigned_hash,
)
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


@pytest.mark.parametrize("length", [7, 8, 9, 191, 192, 200, 201, 255, 256, 257, 300, 1000, 5000])
@pytest.mark.parametrize("letter", ["~", "é", "\U0001f600"])
def test_block_and_cache_boundaries_do_not_show(length: int, letter: str) -> None:
    text = (letter * length)[:length]
    assert java_string_hash(text) == hash_by_definition(text)
    assert java_string_hash(text) == hash_by_definition(text), "the second time comes from the cache"


def test_the_cache_of_heads_is_bounded() -> None:
    for number in range(MAX_CACHED_HEADS + 10):
        java_string_hash(f"{number:012d}{number:08d}")
    assert len(java_hash._heads) <= MAX_CACHED_HEADS
    java_string_hash("x" * 1000)
    assert all(len(head) <= java_hash.MAX_CACHED_HEAD_CHARS for head in java_hash._heads)


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


_key = st.text(st.characters(codec="ascii"), max_size=70) | st.text(st.characters(exclude_categories=[]), max_size=20)
_topics_and_keys = st.lists(st.tuples(st.sampled_from(["T", "Orders", "%RETRY%group", "täglich"]), _key), max_size=60)


@QUICK
@given(_topics_and_keys)
def test_many_keys_hash_as_each_of_them(asked: list[tuple[str, str]]) -> None:
    topics, keys = [topic for topic, _ in asked], [key for _, key in asked]
    assert index_key_hashes(topics, keys) == [index_key_hash(topic, key) for topic, key in asked]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65])
def test_lanes_of_every_width_hold_the_largest_sums(length: int) -> None:
    keys = ["\x7f" * length, "\0" * length, *(chr(48 + number % 60) * length for number in range(3000))]
    assert index_key_hashes(["T"] * len(keys), keys) == [index_key_hash("T", key) for key in keys]


def test_a_hash_that_java_cannot_make_positive_is_zero_among_many() -> None:
    topic, key = _lowest()
    assert unsigned_hash(f"{topic}#{key}") == 0x8000_0000
    assert index_key_hashes([topic] * 20, [key] * 20) == [0] * 20
    assert index_key_hash(topic, key) == 0


def _lowest() -> tuple[str, str]:
    """A topic and a key whose hash is Integer.MIN_VALUE: seven digits in base 31 are free, so one is quickly found."""
    wanted = (0x8000_0000 - unsigned_hash("T#" + "@" * 7)) % 2**32
    digits = []
    for _ in range(7):
        wanted, digit = divmod(wanted, 31)
        digits.append(digit)
    assert wanted == 0
    return "T", "".join(chr(ord("@") + digit) for digit in reversed(digits))


@pytest.mark.parametrize("length", [1, 4, 5, 8, 12, 16, 20, 31, 32, 33, 64, 65])
@pytest.mark.parametrize("shared", [0, 3, 7, 24, 32])
@pytest.mark.parametrize("topics", [["T"], ["T", "täglich"] * 750])
@pytest.mark.parametrize("count", [4, 1500])
def test_keys_of_one_length_hash_as_each_of_them(length: int, shared: int, topics: list[str], count: int) -> None:
    shared = min(shared, length)
    topics = topics[:count]
    keys = ["x" * shared + f"{number * 7919:0{length}d}"[-length:][shared:] for number in range(count)]
    expected = [index_key_hash(topic, key) for topic, key in zip(topics * (count // len(topics)), keys, strict=True)]
    found = index_key_hashes_alike(topics, "".join(keys).encode(), length, shared_chars=shared)
    assert found.tolist() == expected


@pytest.mark.parametrize("shared", [0, 7])
def test_the_hash_of_keys_of_one_length_is_never_negative(shared: int) -> None:
    topic, key = _lowest()
    assert index_key_hashes_alike([topic], key.encode() * 20, len(key), shared_chars=shared).tolist() == [0] * 20


def test_the_parts_of_topics_are_bounded() -> None:
    topics = [f"topic-{number}" for number in range(MAX_CACHED_TOPICS * 2)]
    for start in range(0, len(topics), 100):
        part = topics[start : start + 100]
        assert index_key_hashes(part, ["k" * 32] * len(part)) == [index_key_hash(topic, "k" * 32) for topic in part]
    assert len(java_hash._topic_parts[32]) <= MAX_CACHED_TOPICS
