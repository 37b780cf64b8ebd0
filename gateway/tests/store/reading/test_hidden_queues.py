"""The steps in which messages are shown that a start hid: those that a place allows, and no disk is waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.store.message_store import MessageStore
from gateway.store.reading import hidden_queues
from gateway.store.reading.hidden_queues import ShownQueue
from gateway.tests.store.small_store import Disk, bodies, message, opened, put

BEGIN = 2


class Reads(Disk):
    """A disk that counts what is read from it."""

    reads = 0

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        self.reads += 1
        return super().pread(fd, count, offset)


def filled(directory: Path, queues: list[int], disk: Disk | None = None) -> tuple[MessageStore, list[int]]:
    """A store with a message in each of these queues, which hides all but the first; and where they end."""
    store = opened(directory, disk=disk)
    ends = []
    for number, queue_id in enumerate(queues):
        put(store, message(b"%d" % number, queue_id=queue_id))
        ends.append(store.stored_end)
    return store, ends


def show(store: MessageStore, place: int, *, is_all: bool = False) -> list[list[ShownQueue]]:
    """Show what may be shown, and return the queues of each step."""
    steps = []
    while shown := store.show_to(place, is_all=is_all):
        steps.append(shown)
    return steps


def seen(store: MessageStore, queues: list[int]) -> list[int]:
    """The numbers of the messages that readers see."""
    return sorted(int(body) for queue_id in set(queues) for body in bodies(store, queue_id=queue_id))


def test_a_place_shows_what_ends_before_it_and_names_the_queues(tmp_path: Path) -> None:
    queues = [0, 1, 0, 2, 1]
    store, ends = filled(tmp_path, queues)
    store.hide_from(ends[0])
    assert seen(store, queues) == [0]
    assert show(store, ends[2] - 1) == [[("T", 1, 0, 1)]]
    assert (seen(store, queues), store.hidden_from) == ([0, 1], ends[1])
    assert show(store, ends[2] - 1) == []
    assert show(store, ends[3]) == [[("T", 0, 1, 2), ("T", 2, 0, 1)]]
    assert show(store, ends[4], is_all=True) == [[("T", 1, 1, 2)]]
    assert (seen(store, queues), store.hidden_from) == ([0, 1, 2, 3, 4], None)
    assert show(store, ends[4], is_all=True) == []


def test_a_call_does_a_limited_amount_of_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_queues, "STEPS_AT_ONCE", 2)
    queues = [0, 1, 2, 3, 0]
    store, ends = filled(tmp_path, queues)
    store.hide_from(0)
    assert store.show_to(ends[4], is_all=True) == [("T", 0, 0, 1), ("T", 1, 0, 1)]
    assert (seen(store, queues), store.hidden_from) == ([0, 1], ends[1])
    assert store.show_to(ends[4], is_all=True) == [("T", 2, 0, 1), ("T", 3, 0, 1)]
    assert store.hidden_from == ends[3]
    assert store.show_to(ends[4], is_all=True) == [("T", 0, 1, 2)]
    assert store.hidden_from is None


def test_nothing_is_read_from_the_disk_after_the_start(tmp_path: Path) -> None:
    disk = Reads()
    store, ends = filled(tmp_path, [0, 1, 0, 2, 1, 1], disk)
    store.hide_from(0)
    disk.reads = 0
    for end in ends:
        show(store, end, is_all=end == ends[-1])
    assert (disk.reads, store.hidden_from) == (0, None)


def test_very_many_messages_of_a_queue_are_shown_in_larger_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_queues, "MAX_STEPS", 3)
    queues = [0] * 8
    store, ends = filled(tmp_path, queues)
    store.hide_from(ends[0])
    for number, least in enumerate((1, 1, 1, 4, 4, 4, 7)):
        show(store, ends[number])
        assert seen(store, queues) == list(range(least))
        assert store.hidden_from == ends[least - 1]
    show(store, ends[7], is_all=True)
    assert (seen(store, queues), store.hidden_from) == (list(range(8)), None)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_message_is_seen_before_its_place_and_all_are_in_the_end(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    queues = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    store, ends = filled(tmp_path_factory.mktemp("store"), queues)
    store.hide_from(data.draw(st.integers(0, ends[-1])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hidden_queues, "STEPS_AT_ONCE", data.draw(st.integers(1, 4)))
        for place in sorted(data.draw(st.lists(st.integers(0, ends[-1] - 1), max_size=5))):
            hidden_from = store.hidden_from
            before = set(seen(store, queues))
            show(store, place)
            allowed = {number for number, end in enumerate(ends) if end <= place}
            assert set(seen(store, queues)) == before | allowed
            assert store.hidden_from is None or hidden_from is None or store.hidden_from >= hidden_from
        show(store, ends[-1], is_all=True)
    assert (seen(store, queues), store.hidden_from) == (list(range(len(queues))), None)
    store.close()
