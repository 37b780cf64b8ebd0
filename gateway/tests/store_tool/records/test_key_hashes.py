"""Hashes of many keys are those of each of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store_tool.records.key_hashes import index_key_hashes, index_key_hashes_alike
from wire.message.java_hash import index_key_hash, unsigned_hash
from wire.tests.message.strategies import QUICK

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
