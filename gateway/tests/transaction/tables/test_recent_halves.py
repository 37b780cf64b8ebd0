"""Half messages kept beside the log."""

from __future__ import annotations

from pathlib import Path

from gateway.store.put_result import PutResult
from gateway.tests.transaction.world import COMMIT, World
from gateway.transaction.records.half_messages import half_of
from gateway.transaction.tables.recent_halves import ENTRY_BYTES, RecentHalves
from wire.message.record import StoredMessage


def test_what_is_kept_says_the_same_as_its_record(tmp_path: Path) -> None:
    world = World(tmp_path)
    place = world.send("k1")
    kept = world.tables.recent.find(place.queue_offset, place.commit_log_offset)
    read = world.log.message_at(place.commit_log_offset)
    assert kept is not None
    assert read is not None
    names = (
        "body",
        "body_bytes",
        "born_host",
        "commit_log_offset",
        "flag",
        "properties",
        "queue_id",
        "reconsume_times",
        "store_host",
        "stored_at_ms",
        "sys_flag",
        "topic",
        "total_size",
    )
    assert {name: getattr(kept, name) for name in names} == {name: getattr(read, name) for name in names}
    assert kept.property_map == read.property_map


def test_both_offsets_have_to_fit(tmp_path: Path) -> None:
    world = World(tmp_path)
    place = world.send("k1")
    assert world.tables.recent.find(place.queue_offset, place.commit_log_offset + 1) is None
    assert world.tables.recent.find(place.queue_offset + 1, place.commit_log_offset) is None


def test_a_settled_one_is_let_go(tmp_path: Path) -> None:
    world = World(tmp_path)
    place = world.send("k1")
    world.end(place, COMMIT)
    assert world.tables.recent.find(place.queue_offset, place.commit_log_offset) is None


def stored(world: World, offset: int, size: int) -> PutResult:
    result = world.send(f"k{offset}")
    result.queue_offset, result.size = offset, size
    return result


def offsets(kept: RecentHalves, places: list[PutResult]) -> list[int]:
    """The half-queue offsets of those of them that are kept."""
    return [each.queue_offset for each in places if kept.find(each.queue_offset, each.commit_log_offset) is not None]


def test_the_oldest_go_at_the_limit_and_the_account_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    kept = RecentHalves(100 * (1_000 + ENTRY_BYTES))
    results = [stored(world, number, 1_000) for number in range(150)]
    for _ in range(2):
        for result in results:
            kept.keep(result)
        assert offsets(kept, results) == [*range(50, 150)]
        for number in range(150):
            kept.forget(number)
        assert offsets(kept, results) == []


def test_a_record_that_is_large_beside_the_limit_is_not_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    kept = RecentHalves(1_000_000)
    large = stored(world, 1, 20_000)
    kept.keep(large)
    assert offsets(kept, [large]) == []


def read_back(world: World, place: PutResult) -> StoredMessage:
    message = world.log.message_at(place.commit_log_offset)
    assert message is not None
    return message


def test_one_that_was_asked_about_counts_as_much_as_one_that_was_stored(tmp_path: Path) -> None:
    world = World(tmp_path)
    places = [world.send(f"k{number:02}") for number in range(65)]
    kept = RecentHalves(64 * (places[0].size + ENTRY_BYTES))
    for place in places[:64]:
        kept.keep(place)
    kept.keep_asked(read_back(world, places[0]))
    assert offsets(kept, places) == [*range(64)], "it is kept already"
    kept.forget(0)
    half = read_back(world, places[0])
    kept.keep_asked(half)
    assert offsets(kept, places) == [*range(64)]
    assert kept.find(0, half.commit_log_offset) is half
    assert kept.find(0, half.commit_log_offset + 1) is None
    kept.keep(places[64])
    assert offsets(kept, places) == [0, *range(2, 65)]


def test_those_asked_about_go_at_the_limit_as_well(tmp_path: Path) -> None:
    world = World(tmp_path)
    places = [world.send(f"k{number:02}") for number in range(80)]
    kept = RecentHalves(64 * (places[0].size + ENTRY_BYTES))
    for _ in range(2):
        for place in places:
            kept.keep_asked(read_back(world, place))
        assert offsets(kept, places) == [*range(16, 80)]
        for number in range(80):
            kept.forget(number)
    nothing = RecentHalves(0)
    nothing.keep_asked(read_back(world, places[0]))
    assert offsets(nothing, places) == []


def test_a_commit_of_a_forgotten_one_reads_the_log(tmp_path: Path) -> None:
    world = World(tmp_path)
    place = world.send("k1")
    world.tables.recent.forget(place.queue_offset)
    world.end(place, COMMIT)
    assert world.finals() == ["k1"]


def test_the_half_message_is_the_message_itself_changed(tmp_path: Path) -> None:
    message = World(tmp_path).message("k1")
    assert half_of(message) is message
