"""Consumer offsets and consumerOffset.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestRefused
from gateway.metadata.offsets import MAX_RESETS, PAIRS_PER_TURN, ConsumerOffsets
from gateway.remoting.turns import finish
from wire.bodies.fastjson import parse_json

Open = Callable[..., ConsumerOffsets]


@pytest.fixture
def open_offsets(tmp_path: Path) -> Open:
    """Opens the table of one directory, as often as the test restarts the broker."""

    def open_with(max_offsets: int = 1000) -> ConsumerOffsets:
        offsets = ConsumerOffsets(
            path=tmp_path / "consumerOffset.json", clock_ms=lambda: 1_000, max_offsets=max_offsets
        )
        offsets.load()
        return offsets

    return open_with


def test_a_group_that_never_committed_has_no_offset(open_offsets: Open) -> None:
    assert open_offsets().query("g", "t", 0) == -1


def test_an_offset_is_remembered_and_may_go_back(open_offsets: Open) -> None:
    offsets = open_offsets()
    offsets.commit("g", "t", 0, 10)
    offsets.commit("g", "t", 1, 3)
    offsets.commit("g", "t", 0, 4)
    assert (offsets.query("g", "t", 0), offsets.query("g", "t", 1), offsets.query("g", "t", 2)) == (4, 3, -1)
    assert offsets.of_topic("g", "t") == {0: 4, 1: 3}


def test_offsets_survive_a_restart_once_they_are_persisted(open_offsets: Open) -> None:
    offsets = open_offsets()
    offsets.commit("g", "t", 0, 10)
    assert offsets.dirty
    assert open_offsets().query("g", "t", 0) == -1
    offsets.persist()
    assert not offsets.dirty
    offsets.commit("g", "t", 0, 11)
    offsets.persist_now()
    assert open_offsets().query("g", "t", 0) == 11


def test_what_is_committed_while_offsets_are_saved_is_not_in_that_file_but_in_the_next(tmp_path: Path) -> None:
    works: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsets(path=path, clock_ms=lambda: 1_000, in_thread=lambda *work: works.append(work))

    def save() -> dict[str, dict[str, int]]:
        work, done = works.pop()
        done(work())
        return dict(parse_json(path.read_bytes())["offsetTable"])

    for queue_id in range(2):
        offsets.commit("g", "old", queue_id, 10)
    offsets.persist()
    offsets.commit("g", "old", 0, 11)
    offsets.commit("g", "old", 0, 12)
    offsets.commit("g", "new", 0, 1)
    finish(offsets.remove_group("other"))
    assert save() == {"old@g": {"0": 10, "1": 10}}
    offsets.persist()
    offsets.remove("g", "old")
    offsets.commit("g", "old", 1, 1)
    assert save() == {"new@g": {"0": 1}, "old@g": {"0": 12, "1": 10}}
    offsets.persist()
    assert save() == {"new@g": {"0": 1}, "old@g": {"1": 1}}


def test_nothing_is_written_when_nothing_changed(open_offsets: Open) -> None:
    offsets = open_offsets()
    offsets.persist()
    offsets.persist_now()
    assert not offsets.path.exists()


def test_topics_of_a_group_and_groups_of_a_topic_are_found_and_removed(open_offsets: Open) -> None:
    offsets = open_offsets()
    for group, topic in (("g1", "a"), ("g1", "b"), ("g2", "a"), ("g2", "%RETRY%g2")):
        offsets.commit(group, topic, 0, 1)
    assert finish(offsets.topics_of("g1")) == ["a", "b"]
    assert finish(offsets.groups_of("a")) == ["g1", "g2"]
    assert finish(offsets.groups_by_topic("a".__le__)) == {"a": ["g1", "g2"], "b": ["g1"]}
    for group in ("g1", "g2"):
        offsets.remove(group, "a")
    assert finish(offsets.groups_of("a")) == []
    finish(offsets.remove_group("g2"))
    assert set(offsets.all()) == {"b@g1"}
    assert offsets.dirty


def test_all_pairs_are_searched_in_steps_beside_others_that_change_them(open_offsets: Open) -> None:
    offsets = open_offsets()
    for number in range(3 * PAIRS_PER_TURN):
        offsets.keep(f"g{number}", "a", 0, 1)
    for group in ("g1", "g3"):
        offsets.keep(group, "b", 0, 1)
    for search, found in ((offsets.groups_of("b"), ["g1", "g2"]), (offsets.topics_of("g1"), ["a", "b", "c"])):
        next(search)
        offsets.keep("g1", "c", 0, 1)
        offsets.keep("g2", "b", 0, 1)
        offsets.remove("g3", "b")
        next(search)
        assert finish(search) == found


def test_the_limit_of_offsets_holds_and_known_queues_still_move(open_offsets: Open) -> None:
    offsets = open_offsets(2)
    offsets.commit("g", "t", 0, 1)
    offsets.commit("g", "t", 1, 1)
    with pytest.raises(RequestRefused, match="consumer offsets of group g: 2, of all: 2, the limit is 2"):
        offsets.commit("g", "t", 2, 1)
    with pytest.raises(RequestRefused):
        offsets.commit("g2", "t", 0, 1)
    offsets.commit("g", "t", 1, 7)
    finish(offsets.remove_group("g"))
    offsets.commit("g2", "t", 0, 5)
    assert offsets.query("g2", "t", 0) == 5


def test_files_of_both_apache_lines_are_read(open_offsets: Open, tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text('{\n\t"offsetTable":{\n\t\t"t@g":{0:5,1:7\n\t\t}\n\t}\n}')
    assert open_offsets().of_topic("g", "t") == {0: 5, 1: 7}
    path.write_text(
        '{"dataVersion":{"counter":500,"stateVersion":0,"timestamp":1},"groupTopicMap":{"g":["t"]},'
        '"offsetTable":{"t@g":{0:6}},"pullOffsetTable":{"t@g":{0:9}}}'
    )
    offsets = open_offsets()
    assert offsets.query("g", "t", 0) == 6
    offsets.commit("g", "t", 0, 8)
    offsets.persist_now()
    written = parse_json(path.read_bytes())
    assert written["offsetTable"] == {"t@g": {"0": 8}}
    assert written["pullOffsetTable"] == {"t@g": {"0": 9}}
    assert written["dataVersion"]["counter"] == 501


NAMES = st.text("abXY09%_-", min_size=1, max_size=8)


@given(
    st.lists(st.tuples(NAMES, NAMES, st.integers(0, 3), st.integers(0, 2**62)), max_size=30),
)
def test_the_last_commit_of_a_queue_is_its_offset(commits: list[tuple[str, str, int, int]]) -> None:
    offsets = ConsumerOffsets(path=Path("never-written"), clock_ms=lambda: 0)
    last: dict[tuple[str, str, int], int] = {}
    for group, topic, queue_id, offset in commits:
        offsets.commit(group, topic, queue_id, offset)
        last[group, topic, queue_id] = offset
    assert {key: offsets.query(*key) for key in last} == last
    assert sum(len(queues) for queues in offsets.all().values()) == len(last)


def test_a_queue_that_was_set_back_is_told_once_and_commits_until_then_are_ignored(open_offsets: Open) -> None:
    offsets = open_offsets()
    offsets.commit("g", "t", 0, 10)
    offsets.reset("g", "t", 0, 3)
    offsets.commit("g", "t", 0, 11)
    offsets.commit("g", "t", 1, 5)
    assert offsets.of_topic("g", "t") == {0: 3, 1: 5}
    assert (offsets.take_reset("g", "t", 0), offsets.take_reset("g", "t", 0)) == (3, None)
    offsets.commit("g", "t", 0, 4)
    assert offsets.query("g", "t", 0) == 4


def test_a_reset_is_forgotten_with_its_group_or_topic(open_offsets: Open) -> None:
    offsets = open_offsets()
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t")):
        offsets.reset(group, topic, 0, 1)
    finish(offsets.remove_group("g"))
    assert list(offsets.resets) == [("h", "t", 0)]
    offsets.remove("h", "t")
    assert offsets.resets == {}


def test_point_8_resets_of_a_deleted_group_do_not_come_back_with_a_start(open_offsets: Open) -> None:
    offsets = open_offsets()
    offsets.forget_topic("t", (), {"g": []}, 2)
    offsets.persist_now()
    finish(offsets.remove_group("g"))
    offsets.persist_now()
    assert open_offsets().resets == {}


def test_the_groups_of_a_deleted_topic_begin_at_0_of_a_new_one_as_far_as_there_is_room(open_offsets: Open) -> None:
    offsets = open_offsets()
    offsets.commit("g", "t", 3, 10)
    offsets.forget_topic("t", ["g"], {}, 4)
    assert (offsets.query("g", "t", 3), offsets.begin_of("g", "t", 3), offsets.begin_of("g", "t", 2)) == (-1, 0, -1)
    offsets.commit("g", "t", 3, 10)
    assert offsets.query("g", "t", 3) == -1
    offsets.forget_topic("t", (), {"h": []}, MAX_RESETS)
    assert len(offsets.resets) == MAX_RESETS
    assert offsets.begin_of("g", "t", 3) == -1


def test_a_greedy_group_is_refused_while_another_one_gets_through(open_offsets: Open) -> None:
    offsets = open_offsets(1000)
    for queue_id in range(750):
        offsets.commit("greedy", "t", queue_id, 1)
    with pytest.raises(RequestRefused, match="of group greedy: 750, of all: 750"):
        offsets.commit("greedy", "t", 750, 1)
    offsets.commit("honest", "t", 0, 1)
    assert offsets.query("honest", "t", 0) == 1


def test_what_the_broker_itself_keeps_is_never_refused(open_offsets: Open) -> None:
    offsets = open_offsets(1)
    for queue_id in range(3):
        offsets.keep("popping", "t", queue_id, 1)
    assert len(offsets.of_topic("popping", "t")) == 3


def test_offsets_read_from_the_file_count(open_offsets: Open) -> None:
    saved = open_offsets(1000)
    for queue_id in range(3):
        saved.commit("g", "t", queue_id, 1)
    saved.persist_now()
    offsets = open_offsets(3)
    offsets.load()
    with pytest.raises(RequestRefused):
        offsets.commit("g", "t", 3, 1)


def test_a_reset_counts_against_the_limit_of_offsets(open_offsets: Open) -> None:
    offsets = open_offsets(max_offsets=1)
    offsets.reset("g", "t", 0, 1)
    with pytest.raises(RequestRefused):
        offsets.reset("g", "t", 1, 1)
    assert list(offsets.resets) == [("g", "t", 0)]


def test_where_there_are_light_queues_the_file_is_apaches_and_a_change_of_the_setting_loses_nothing(
    tmp_path: Path,
) -> None:
    path, now = tmp_path / "consumerOffset.json", [1_000]

    def opened(*, light_queues: bool) -> ConsumerOffsets:
        now[0] += 1_000
        offsets = ConsumerOffsets(path=path, light_queues=light_queues, clock_ms=lambda: now[0])
        offsets.load()
        return offsets

    offsets = opened(light_queues=False)
    offsets.commit("g", "t", 3, 5)
    offsets.persist_now()
    offsets = opened(light_queues=True)
    offsets.commit("g", "t", 3, 6)
    offsets.commit("%LMQ%x", "%LMQ%x", 0, 7)
    offsets.persist_now()
    saved = parse_json((tmp_path / "lmqConsumerOffset.json").read_bytes())
    assert saved["lmqOffsetTable"] == {"%LMQ%x@%LMQ%x": 7}
    assert saved["offsetTable"] == {"t@g": {"3": 6}}
    for light_queues in (True, False, True):
        offsets = opened(light_queues=light_queues)
        assert (offsets.query("g", "t", 3), offsets.query("%LMQ%x", "%LMQ%x", 0)) == (6, 7)
        offsets.persist_now()


def test_apaches_file_of_light_queues_is_read(tmp_path: Path) -> None:
    (tmp_path / "lmqConsumerOffset.json").write_bytes(
        b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":5},"groupTopicMap":{},'
        b'"lmqOffsetTable":{"%LMQ%a@%LMQ%a":4,"odd":"x"},"offsetTable":{"t@g":{0:9}}}'
    )
    offsets = ConsumerOffsets(path=tmp_path / "consumerOffset.json", light_queues=True, clock_ms=lambda: 0)
    offsets.load()
    assert (offsets.query("%LMQ%a", "%LMQ%a", 0), offsets.query("g", "t", 0)) == (4, 9)


def test_point_6_a_broadcasting_group_of_many_members_takes_no_resets_of_others(open_offsets: Open) -> None:
    offsets = open_offsets()
    members = [f"member {number}" for number in range(1_000)]
    offsets.forget_topic("t", (), {"a-broadcast": members, "orders-service": []}, 128)
    assert sum(key[0] == "orders-service" for key in offsets.resets) == 128


def test_a_slaves_offsets_are_the_masters_also_if_they_go_back_or_away(open_offsets: Open) -> None:
    offsets = open_offsets(max_offsets=4)
    offsets.commit("g", "t", 0, 9)
    offsets.commit("g", "t", 3, 9)
    offsets.commit("old", "t", 0, 9)
    offsets.follow({"t@g": {0: 5, 1: 6}, "t@new": {0: 1}})
    assert offsets.all() == {"t@g": {0: 5, 1: 6}, "t@new": {0: 1}}
    assert offsets.dirty
    offsets.persist()
    assert open_offsets().all() == offsets.all()
    with pytest.raises(RequestRefused, match="more than 4 offsets"):
        offsets.follow({"t@g": dict.fromkeys(range(5), 1)})
    assert offsets.all() == {"t@g": {0: 5, 1: 6}, "t@new": {0: 1}}
    offsets.follow({"t@g": dict.fromkeys(range(4), 1)})
    offsets.follow({})
    offsets.follow({"t@new": dict.fromkeys(range(4), 1)})
    assert offsets.all() == {"t@new": dict.fromkeys(range(4), 1)}


def test_the_same_offsets_again_are_no_change(open_offsets: Open) -> None:
    offsets = open_offsets()
    offsets.commit("g", "t", 0, 9)
    offsets.persist()
    offsets.follow({"t@g": {0: 9}})
    assert not offsets.dirty
