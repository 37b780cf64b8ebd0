"""A stream over two brokers that come and go: each offset is read once, or its number is reported as lost."""

from __future__ import annotations

import pytest

from gateway.tests.spark.reading.two_brokers import Driver, World

SEEDS = 50


@pytest.mark.parametrize("fails", [False, True], ids=["goes on", "fails"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_point_12_each_offset_is_read_once_and_only_what_is_gone_is_told_of(seed: int, fails: bool) -> None:
    driver = Driver(World(seed), fails=fails)
    driver.run(60)
    driver.finish()
    driver.check()
