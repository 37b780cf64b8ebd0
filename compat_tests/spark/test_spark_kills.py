"""A seed of `python -m compat_tests.spark.kills`, which runs as many as are wanted."""

from __future__ import annotations

from typing import Any

from compat_tests.spark.kills import run_seed


def test_kills_at_any_point_neither_lose_nor_double_what_was_committed(spark: Any) -> None:
    assert run_seed(spark, 4)
