"""One checksum, whichever library computes it."""

from __future__ import annotations

import importlib.util
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import checksum


@given(st.binary(max_size=10_000), st.integers(0, 40))
def test_it_is_that_of_zlib(data: bytes, start: int) -> None:
    assert checksum.crc32(data) == zlib.crc32(data)
    assert checksum.crc32(memoryview(data)[start:]) == zlib.crc32(data[start:])
    assert checksum.crc32(bytearray(data)) == zlib.crc32(data)


def test_a_known_value() -> None:
    assert checksum.crc32(b"123456789") == 0xCBF43926


def test_the_tests_run_with_the_quick_one() -> None:
    assert checksum.crc32 is not zlib.crc32


def test_zlib_does_when_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    monkeypatch.delitem(sys.modules, "isal.isal_zlib", raising=False)
    spec = importlib.util.find_spec("wire.checksum")
    assert spec is not None
    assert spec.loader is not None
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    assert alone.crc32 is zlib.crc32
