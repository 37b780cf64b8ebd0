"""What a start hides of its log, and the steps in which that is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.replication.hidden_tail import MAX_SHOWS, HiddenTail
from gateway.replication.replicated_mark import ReplicatedMark

END = 5 * 1_000 * MAX_SHOWS


class Log:
    """A log of a store."""

    min_commit_log_offset = 0

    def __init__(self) -> None:
        self.hidden_from = END
        self.shown: list[tuple[int, bool]] = []

    def last_record_end(self) -> int:
        return END

    def hide_from(self, place: int) -> None:
        self.hidden_from = place

    def show(self, place: int, is_all: bool) -> None:
        self.shown.append((place, is_all))


def started(directory: Path, log: Log, *, shows_all: bool = False) -> HiddenTail:
    tail = HiddenTail(ReplicatedMark(directory))
    tail.begin(log, log.show, shows_all=shows_all)
    return tail


@pytest.mark.parametrize("shows_all", [False, True])
def test_a_directory_without_a_mark_and_a_log_that_counts_as_it_is_hide_nothing(
    tmp_path: Path, shows_all: bool
) -> None:
    tail = started(tmp_path, Log(), shows_all=shows_all)
    assert (tail.bytes, tail.shown_end) == (0, END)
    tail.close()


def test_the_next_start_hides_what_was_not_noted(tmp_path: Path) -> None:
    first = HiddenTail(ReplicatedMark(tmp_path))
    empty = Log()
    empty.last_record_end = lambda: 0  # type: ignore[method-assign]
    first.begin(empty, empty.show, shows_all=False)
    first.note(700)
    first.note(600)
    first.close()
    log = Log()
    again = started(tmp_path, log)
    assert (log.hidden_from, again.shown_end, again.bytes) == (700, 700, END - 700)
    again.close()


def test_everything_is_shown_in_a_limited_number_of_steps_each_after_its_report(tmp_path: Path) -> None:
    mark = ReplicatedMark(tmp_path)
    mark.begin(0)
    mark.close()
    log = Log()
    tail = started(tmp_path, log)
    late = 0
    for place in range(1_000, END + 1, 1_000):
        tail.show_to(place)
        late = max(late, place - log.shown[-1][0] if log.shown else place)
    assert log.shown[-1] == (END, True)
    assert len(log.shown) <= MAX_SHOWS
    assert late < END / MAX_SHOWS
    tail.close()
