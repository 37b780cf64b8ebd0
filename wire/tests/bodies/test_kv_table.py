"""A table of names and values, as Java writes it."""

from __future__ import annotations

from wire.bodies.tools.statistics import KVTable
from wire.tests.bodies.strategies import assert_comes_back


def test_it_comes_back() -> None:
    assert KVTable({"a": "1"}).build() == b'{"table":{"a":"1"}}'
    assert_comes_back(KVTable({"a": "1"}))
