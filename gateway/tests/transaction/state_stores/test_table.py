"""The state table and redo log as files, whole, torn and lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.transaction.state_stores.stores import TABLE, follow, world_of
from gateway.tests.transaction.world import COMMIT, ROLLBACK, START_MS, World
from gateway.transaction.state_stores.changes import UNKNOWN, Changes, Prepared, Settled
from gateway.transaction.state_stores.table import TableStates
from gateway.transaction.states import State
from wire.disk import redo_log, state_table
from wire.disk.state_table import TableMark
from wire.message.java_hash import java_string_hash

REDO = Path("redolog") / redo_log.QUEUE_NAME / "0"
FILE_UNITS = 8


def table(directory: Path) -> TableStates:
    return TableStates(directory, file_units=FILE_UNITS)


def units(directory: Path) -> list[tuple[int, int, int, int, int]]:
    data = b"".join(path.read_bytes() for path in sorted((directory / "statetable").iterdir()))
    return state_table.parse_units(data)


def redo_units(directory: Path) -> list[tuple[int, int, int]]:
    return redo_log.parse_units(b"".join(path.read_bytes() for path in sorted((directory / REDO).iterdir())))


def half(offset: int) -> Prepared:
    return Prepared(offset, 1_000 * offset, 100, START_MS, "g")


def commit(offset: int) -> Settled:
    return Settled(offset, 1_000 * offset, State.COMMITTED, 1_000 * offset + 500, 90)


def changes(first: int, end: int, *settled: int, base: int = 0) -> Changes:
    prepared = [half(offset) for offset in range(first, end)]
    committed = [commit(offset) for offset in settled]
    return Changes(prepared, committed, position=1_000 * end, first=base, half_end=end, log_end=1_000 * end)


def pending(directory: Path, *, log_end: int = 10**9, end: int = 100) -> list[int]:
    """Return the half messages that a table knows to be pending."""
    states = table(directory)
    known = states.load(0, end, log_end)
    settled = {offset for offset, _ in known.settled}
    mark = TableMark.parse((directory / "tablemark").read_bytes())
    assert mark is not None
    return [offset for offset in range(known.first, mark.half_end) if offset not in settled]


def test_units_are_those_of_3_1(tmp_path: Path) -> None:
    world = world_of(tmp_path, TABLE)
    first, second, third = (world.send(f"k{number}", group=f"g{number}") for number in range(3))
    follow(world)
    world.end(first, COMMIT, group="g0")
    world.end(second, ROLLBACK, group="g1")
    follow(world)
    directory = tmp_path / "transaction"
    seconds = START_MS // 1_000
    assert units(directory) == [
        (half.commit_log_offset, half.size, seconds, java_string_hash(f"g{number}"), state)
        for number, (half, state) in enumerate(
            [(first, state_table.COMMITTED), (second, state_table.ROLLED_BACK), (third, state_table.PREPARED)]
        )
    ]
    redo = redo_units(directory)
    assert [unit[2] for unit in redo] == [-1, -1, -1, first.commit_log_offset, second.commit_log_offset]
    final = world.log.messages("orders")[0]
    assert redo[3][:2] == (final.commit_log_offset, final.total_size)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_what_was_applied_is_known_at_the_next_start(tmp_path: Path, closed: bool) -> None:
    states = table(tmp_path)
    states.begin(0, 0)
    states.apply(changes(0, 20, 3, 5))
    states.apply(changes(20, 30, 0, 25))
    if closed:
        states.close()
    expected = [offset for offset in range(30) if offset not in (0, 3, 5, 25)]
    assert pending(tmp_path) == expected


def test_a_table_that_is_lost_or_damaged_is_made_from_the_redo_log(tmp_path: Path) -> None:
    states = table(tmp_path)
    states.begin(0, 0)
    states.apply(changes(0, 20, 3, 5))
    for number, path in enumerate(sorted((tmp_path / "statetable").iterdir())):
        if number:
            path.write_bytes(b"\xff" * 100)
        else:
            path.unlink()
    assert pending(tmp_path) == [offset for offset in range(20) if offset not in (3, 5)]


def test_units_made_again_are_completed_by_what_the_start_reads(tmp_path: Path) -> None:
    world = world_of(tmp_path, TABLE)
    for number in range(3):
        world.send(f"k{number}")
    follow(world)
    before = units(tmp_path / "transaction")
    again = world.restart()
    again.stop()
    assert units(tmp_path / "transaction") == before


def test_units_behind_the_mark_are_not_believed(tmp_path: Path) -> None:
    states = table(tmp_path)
    states.begin(0, 0)
    states.apply(changes(0, 5))
    mark = (tmp_path / "tablemark").read_bytes()
    states.apply(changes(5, 9, 1, 2))
    (tmp_path / "tablemark").write_bytes(mark)
    assert pending(tmp_path) == [0, 1, 2, 3, 4]


def test_the_same_changes_may_be_applied_twice(tmp_path: Path) -> None:
    states = table(tmp_path)
    states.begin(0, 0)
    states.apply(changes(0, 5, 1))
    mark = (tmp_path / "tablemark").read_bytes()
    states.apply(changes(5, 9, 2))
    expected = pending(tmp_path)
    (tmp_path / "tablemark").write_bytes(mark)
    again = table(tmp_path)
    again.load(0, 100, 10**9)
    again.apply(changes(5, 9, 2))
    assert pending(tmp_path) == expected


@pytest.mark.parametrize("harm", ["missing", "damaged", "ahead of the log", "ahead of the half queue"])
def test_a_table_that_does_not_fit_knows_nothing(tmp_path: Path, harm: str) -> None:
    states = table(tmp_path)
    states.begin(0, 0)
    states.apply(changes(0, 5))
    states.close()
    if harm == "missing":
        (tmp_path / "tablemark").unlink()
    elif harm == "damaged":
        (tmp_path / "tablemark").write_bytes(b"\x00" * 68)
    log_end, end = (4_999 if harm == "ahead of the log" else 10**9), (4 if harm == "ahead of the half queue" else 100)
    known = table(tmp_path).load(0, end, log_end)
    assert (known.position, list(known.settled)) == (UNKNOWN, [])


def test_files_that_say_only_what_is_settled_go(tmp_path: Path) -> None:
    states = table(tmp_path)
    states.begin(0, 0)
    for first in range(0, 160, 4):
        states.apply(changes(first, first + 4, *range(max(first - 4, 0), first), base=max(first - 4, 0)))
    assert len(list((tmp_path / "statetable").iterdir())) <= 3
    assert len(list((tmp_path / REDO).iterdir())) <= 4
    assert pending(tmp_path, end=200) == [156, 157, 158, 159]


def test_half_messages_that_could_not_be_read_leave_a_gap(tmp_path: Path) -> None:
    states = table(tmp_path)
    states.begin(0, 0)
    states.apply(Changes([half(0), half(3)], [], position=5_000, half_end=6))
    assert pending(tmp_path) == [0, 3]
    states = table(tmp_path)
    states.load(0, 100, 10**9)
    states.apply(changes(6, 8, 3))
    states.close()
    assert pending(tmp_path) == [0, 6, 7]


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(tmp_path, TABLE)
    honest = TableStates.apply

    def full(self: TableStates, changes: Changes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TableStates, "apply", full)
    halves = [world.send(f"k{number}") for number in range(3)]
    world.end(halves[0], COMMIT)
    follow(world)
    monkeypatch.setattr(TableStates, "apply", honest)
    world.wait(2)
    assert _states(world) == [state_table.COMMITTED, state_table.PREPARED, state_table.PREPARED]


def _states(world: World) -> list[int]:
    return [unit[4] for unit in units(world.directory / "transaction")]
