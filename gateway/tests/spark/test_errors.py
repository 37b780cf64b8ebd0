"""Errors say what, where and what to do."""

from __future__ import annotations

import pickle

import pytest

from gateway.spark.errors import BodyUnreadable, DataLoss, SparkSourceError


@pytest.mark.parametrize("error", [DataLoss("t/b/0", 3, 9, "gone"), BodyUnreadable("t/b/0", 7, "is damaged")])
def test_errors_travel_from_the_workers(error: SparkSourceError) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_loss_counts_and_names_the_way_out() -> None:
    loss = DataLoss("t/b/0", 3, 9, "gone")
    assert loss.count == 6
    assert "offsets 3 to 8" in str(loss)
    assert "failOnDataLoss=false" in str(loss)
