"""Tests of the figures of memory in use."""

from __future__ import annotations

import platform

import pytest

from gateway.telemetry.memory_in_use import BLOCKS, HEAP, watch_memory
from gateway.telemetry.metrics import Registry

MIB = 1 << 20


def _figures() -> dict[str, float]:
    registry = Registry()
    watch_memory(registry)
    return {sample.name: sample.value for sample in registry.samples()}


def test_small_objects_are_blocks_while_they_live() -> None:
    before = _figures()[BLOCKS]
    kept = [str(number) for number in range(50_000, 90_000)]
    assert 40_000 <= _figures()[BLOCKS] - before < 41_000
    kept.clear()
    assert _figures()[BLOCKS] - before < 1_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library does not tell")
@pytest.mark.parametrize("size", [4_096, 8 * MIB])
def test_large_objects_are_bytes_of_the_heap_while_they_live(size: int) -> None:
    """The C library keeps objects of more than 128 KiB apart from its heap."""
    before = _figures()[HEAP]
    kept = [bytearray(size) for _ in range(32 * MIB // size)]
    assert 32 * MIB <= _figures()[HEAP] - before < 34 * MIB
    kept.clear()
    assert _figures()[HEAP] - before < MIB
