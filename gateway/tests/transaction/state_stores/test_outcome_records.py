"""The evidence in the log of outcomes that have no op record."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.metadata.names import OP_HALF_TOPIC
from gateway.store.durability.dispatch import HIDDEN
from gateway.tests.transaction.memory_log import MemoryLog
from gateway.tests.transaction.state_stores.stores import TABLE, world_of
from gateway.tests.transaction.world import COMMIT, HOST, ROLLBACK, World
from gateway.transaction.state_stores.outcome_records import TailDamaged, build_outcome, outcomes_from
from gateway.transaction.states import State
from wire.message.record import build_record, parse_record


@pytest.mark.parametrize("state", [State.ROLLED_BACK, State.DISCARDED])
def test_an_outcome_record_is_of_the_rollback_kind_and_in_no_queue(state: State) -> None:
    record = parse_record(build_record(build_outcome(1_234, state, host=HOST, now_ms=5), 0, 900, 5))
    assert (record.topic, record.body, record.prepared_transaction_offset) == (OP_HALF_TOPIC, b"", 1_234)
    assert record.sys_flag & HIDDEN


def test_every_kind_of_outcome_is_found_behind_a_position(tmp_path: Path) -> None:
    world = world_of(tmp_path, TABLE)
    world.connect("g")
    halves = [world.send(f"k{number}") for number in range(4)]
    world.end(halves[0], COMMIT)
    position = world.log.max_commit_log_offset
    world.end(halves[1], ROLLBACK)
    world.end(halves[2], COMMIT)
    world.wait(100)  # the last one is given up
    expected = [(1, State.ROLLED_BACK), (2, State.COMMITTED), (3, State.DISCARDED)]
    assert found(world, position) == expected
    assert found(world, 0) == [(0, State.COMMITTED), *expected]


def found(world: World, position: int) -> list[tuple[int, State]]:
    log = world.log
    places = {place: parse_record(record).queue_offset for place, record in log.records.items()}
    return [(places[record.prepared_transaction_offset], state) for record, state in outcomes_from(log, position)]


def test_a_tail_that_cannot_be_read_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(tmp_path, TABLE)
    world.send("k0")
    walk = world.log.walk_from(0)
    walk.problem, walk._limit = "bad checksum", 0
    monkeypatch.setattr(MemoryLog, "walk_from", lambda self, offset: walk)
    with pytest.raises(
        TailDamaged, match="behind commit log offset 0: bad checksum; run rocketmq-gateway store repair"
    ):
        world.restart()
