"""The program that measures replication, with a small log."""

from __future__ import annotations

from argparse import Namespace

import pytest

from benchmarks import replicated


def test_a_new_slave_catches_up() -> None:
    (found,) = replicated._catch_up(Namespace(mib=1, rounds=1, flush="SYNC_FLUSH"))

    assert found["mb_per_s"] > 0
    assert found["slave_of_master_mb"] == pytest.approx(found["slave_mb"] / found["master_mb"])
