"""Marks of queues that may have something: set by everything that happens, forgotten rather than wrong."""

from __future__ import annotations

from pathlib import Path

from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.unread_queues import MAX_GROUPS_OF_TOPIC, UnreadQueues, marked, marked_downwards
from gateway.remoting.turns import finish

QUEUES = 100


def seen(queues: UnreadQueues, topic: str = "wide", group: str = "group") -> list[int]:
    """The queues that are marked for a group, after which none is."""
    unread = queues.of(topic, group, QUEUES)
    found = list(marked(unread.to_pop))
    assert found == list(marked(unread.to_see)) == list(marked_downwards(unread.to_pop))[::-1]
    unread.to_pop[:] = unread.to_see[:] = bytes(QUEUES)
    return found


def test_what_is_not_known_is_marked_and_what_arrives_is_marked_for_all_groups() -> None:
    queues = UnreadQueues()
    assert seen(queues) == seen(queues, group="other") == list(range(QUEUES))
    queues.arrived("wide", 7)
    queues.arrived("wide", 99)
    queues.arrived("wide", 100)  # written before the topic has so many to read
    queues.arrived("unknown", 3)
    assert seen(queues) == seen(queues, group="other") == [7, 99]
    assert seen(queues) == []


def test_marks_that_are_set_or_thrown_away_while_somebody_looks_count_as_changes() -> None:
    queues = UnreadQueues()
    unread = queues.of("wide", "group", QUEUES)
    assert unread.changes == 0
    queues.arrived("wide", 1)
    queues.forget("wide@group")
    assert unread.changes == 2
    assert queues.of("wide", "group", QUEUES) is not unread
    assert queues.of("wide", "group", QUEUES + 1) is not queues.of("wide", "group", QUEUES)


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    queues = UnreadQueues(max_bytes=3_000)
    for group in ("first", "second", "third", "fourth"):
        seen(queues, group=group)
        seen(queues, group="first")
    assert len(queues) == 4
    seen(queues, group="fifth")
    assert len(queues) == 4
    assert seen(queues, group="first") == []
    assert seen(queues, group="second") == list(range(QUEUES))


def test_a_message_marks_its_queue_for_so_many_groups_at_most() -> None:
    queues = UnreadQueues()
    for number in range(MAX_GROUPS_OF_TOPIC + 1):
        seen(queues, group=f"group-{number}")
    assert len(queues) == MAX_GROUPS_OF_TOPIC
    assert seen(queues, group=f"group-{MAX_GROUPS_OF_TOPIC}") == []
    assert seen(queues, group="group-0") == list(range(QUEUES))


def test_offsets_that_change_mark_their_queue(tmp_path: Path) -> None:
    offsets = ConsumerOffsets(path=tmp_path / "consumerOffset.json", clock_ms=lambda: 0)
    seen(offsets.unread)
    offsets.commit("group", "wide", 1, 5)
    offsets.keep("group", "wide", 2, 5)
    offsets.reset("group", "wide", 3, 5)
    offsets.commit("other", "wide", 4, 5)
    assert seen(offsets.unread) == [1, 2, 3]
    offsets.remove("group", "wide")
    assert seen(offsets.unread) == list(range(QUEUES))
    offsets.keep("group", "wide", 2, 5)
    finish(offsets.remove_group("group"))
    assert seen(offsets.unread) == list(range(QUEUES))
