"""The version of a table."""

from __future__ import annotations

from gateway.metadata.saved.saved_table import next_version
from wire.bodies.topics import DataVersion


def test_a_change_counts_up_takes_the_time_and_leaves_the_controllers_part_alone() -> None:
    version = DataVersion(counter=3, timestamp=50, state_version=7)
    assert next_version(version, 100) == DataVersion(counter=4, timestamp=100, state_version=7)
