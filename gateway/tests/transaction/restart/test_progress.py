"""Progress on disk follows the outcomes and is never ahead of the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.metadata.names import HALF_TOPIC
from gateway.tests.transaction.world import COMMIT, World
from gateway.transaction.restart import progress


def test_the_half_offset_follows_within_seconds(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.wait(2)
    world.end(world.send("k1"), COMMIT)
    world.send("k2")
    world.wait(2)
    assert world.offsets.table[HALF_TOPIC] == 1


def test_progress_waits_until_the_log_is_on_disk(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.wait(2)
    flushed = world.log.flushed_offset
    world.end(world.send("k1"), COMMIT)
    end, world.log.flushed_offset = world.log.flushed_offset, flushed
    world.wait(5)
    assert world.offsets.table[HALF_TOPIC] == 0
    world.log.flushed_offset = end
    world.wait(2)
    assert world.offsets.table[HALF_TOPIC] == 1


def test_the_mark_moves_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MARK_STEP_BYTES", 2_000)
    world = World(tmp_path)
    journal = world.journal
    marks = set()
    for number in range(20):
        world.end(world.send(f"k{number}"), COMMIT)
        world.wait(2)
        marks.add(journal.mark)
    assert 3 <= len(marks) <= 8
    assert journal.mark <= world.log.flushed_offset


def test_the_mark_does_not_reach_what_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk refuses it, and what is stored in its place later was never looked at."""
    monkeypatch.setattr(progress, "MARK_STEP_BYTES", 1)
    world = World(tmp_path)
    world.end(world.send("k1"), COMMIT)
    world.log.holds = True
    world.log.append(world.message("k2", "g", "orders", None), lambda _: None)
    world.wait(2)
    world.log.flushed_offset = world.log.max_commit_log_offset
    world.wait(2)
    assert 0 < world.journal.mark <= world.log.stored_end
