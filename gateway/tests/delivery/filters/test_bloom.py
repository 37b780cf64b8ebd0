"""Bloom filters against values of Apache RocketMQ 5.5.0's ``BloomFilter`` and of Guava's ``murmur3_128``."""

from __future__ import annotations

import pytest

from gateway.delivery.filters.bloom import BloomShape, bit_map, low_64_bits

HASHES = {
    "": 0,
    "a": -8839064797231613815,
    "group#topic": -6537322255664656092,
    "GID_x#T": -8820698132466173133,
    "ConsumerGroup#orders": 1876844155772876095,
    "日本#語": 1551607986517433949,
    "%RETRY%g#%RETRY%g": 942196631180424096,
    "a much longer group name than sixteen bytes#and a topic": -8607519007211765748,
}
POSITIONS = {
    "group#topic": (79, 21, 21),
    "GID_x#T": (4, 83, 84),
    "ConsumerGroup#orders": (64, 63, 79),
    "日本#語": (107, 57, 7),
    "%RETRY%g#%RETRY%g": (24, 0, 88),
    "a much longer group name than sixteen bytes#and a topic": (82, 46, 80),
    "g_small#Ext": (95, 77, 106),
    "g_large#Ext": (15, 6, 34),
}
GROUPS = (1, 2, 5, 8, 32, 33, 64, 100, 1000, 4096)
SHAPES = {  # error rate → bits of a group, bits of a map by number of groups
    1: (7, (16, 24, 48, 80, 312, 320, 616, 960, 9592, 39264)),
    5: (5, (8, 16, 32, 56, 200, 208, 400, 624, 6240, 25544)),
    10: (4, (8, 16, 24, 40, 160, 160, 312, 480, 4800, 19632)),
    20: (3, (8, 8, 24, 32, 112, 112, 216, 336, 3352, 13728)),
    30: (2, (8, 8, 16, 24, 88, 88, 168, 256, 2512, 10272)),
    50: (1, (8, 8, 8, 16, 48, 48, 96, 152, 1448, 5912)),
    99: (1, (8, 8, 8, 8, 8, 8, 8, 8, 24, 88)),
}


@pytest.mark.parametrize("text", HASHES)
def test_hashes_are_those_of_guava(text: str) -> None:
    assert low_64_bits(text.encode()) == HASHES[text] % 2**64


@pytest.mark.parametrize("text", POSITIONS)
def test_bits_of_a_group_are_those_of_apache_rocketmq(text: str) -> None:
    assert BloomShape().positions(*text.split("#")) == POSITIONS[text]


@pytest.mark.parametrize("error_percent", SHAPES)
def test_sizes_are_those_of_apache_rocketmq(error_percent: int) -> None:
    bits_of_group, bits = SHAPES[error_percent]
    shapes = [BloomShape(error_percent, groups) for groups in GROUPS]
    assert [shape.bits_of_group for shape in shapes] == [bits_of_group] * len(GROUPS)
    assert tuple(shape.bits for shape in shapes) == bits


def test_every_bit_has_its_place_in_a_map() -> None:
    assert bit_map((79, 21, 21), 112) == bytes([0, 0, 32, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0])
