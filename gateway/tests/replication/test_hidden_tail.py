"""What a start hides of its log, and the turns in which that is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.replication.hidden_tail import HiddenTail
from gateway.replication.replicated_mark import ReplicatedMark

END = 5_000
STEP = 400
"""The bytes that one call shows."""


class Log:
    """A log of a store, and the turns of the reactor."""

    min_commit_log_offset = 0

    def __init__(self) -> None:
        self.hidden_from: int | None = None
        self.wanted: list[tuple[int, bool]] = []
        self.soon: list[Callable[[], None]] = []

    def last_record_end(self) -> int:
        return END

    def hide_from(self, place: int) -> None:
        self.hidden_from = place

    def show(self, place: int, is_all: bool) -> bool:
        self.wanted.append((place, is_all))
        assert self.hidden_from is not None
        before = self.hidden_from
        self.hidden_from = min(before + STEP, place)
        shown = self.hidden_from > before
        if is_all and self.hidden_from == END:
            self.hidden_from = None
        return shown

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for function in soon:
            function()


def started(directory: Path, log: Log, *, shows_all: bool = False) -> HiddenTail:
    tail = HiddenTail(ReplicatedMark(directory), log.soon.append)
    tail.begin(log, log.show, shows_all=shows_all)
    return tail


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def hiding(tmp_path: Path, log: Log) -> HiddenTail:
    """A tail that hides everything."""
    mark = ReplicatedMark(tmp_path)
    mark.begin(0)
    mark.close()
    tail = HiddenTail(ReplicatedMark(tmp_path), lambda function: log.soon.append(function))
    tail.begin(log, log.show, shows_all=False)
    return tail


@pytest.mark.parametrize("shows_all", [False, True])
def test_a_directory_without_a_mark_and_a_log_that_counts_as_it_is_hide_nothing(
    tmp_path: Path, shows_all: bool
) -> None:
    tail = started(tmp_path, Log(), shows_all=shows_all)
    assert (tail.bytes, tail.shown_end) == (0, END)
    tail.close()


def test_the_next_start_hides_what_was_not_noted(tmp_path: Path) -> None:
    empty = Log()
    empty.last_record_end = lambda: 0  # type: ignore[method-assign]
    first = started(tmp_path, empty)
    first.note(700)
    first.note(600)
    first.close()
    log = Log()
    again = started(tmp_path, log)
    assert (log.hidden_from, again.shown_end, again.bytes) == (700, 700, END - 700)
    again.close()


def test_each_report_shows_its_part_at_once(hiding: HiddenTail, log: Log) -> None:
    told: list[int] = []
    hiding.when_shown(lambda: told.append(hiding.shown_end))
    for place in (100, 90, 100, 250):
        hiding.show_to(place)
        log.turn()
    assert (told, hiding.shown_end) == ([100, 250], 250)
    hiding.close()


def test_much_is_shown_in_many_turns_and_a_later_report_adds_to_it(hiding: HiddenTail, log: Log) -> None:
    told: list[int] = []
    hiding.when_shown(lambda: told.append(hiding.shown_end))
    hiding.show_to(1_000)
    assert (told, hiding.shown_end) == ([STEP], STEP)
    hiding.show_to(END + 77)
    assert hiding.shown_end == STEP, "one part a turn, whoever reports"
    for _ in range(20):
        log.turn()
    assert told == [*range(STEP, END, STEP), END]
    assert (hiding.bytes, log.hidden_from, log.soon) == (0, None, [])
    hiding.close()


def test_who_is_told_may_have_more_shown(hiding: HiddenTail, log: Log) -> None:
    hiding.when_shown(lambda: hiding.show_to(hiding.shown_end + 10))
    hiding.show_to(10)
    assert hiding.shown_end < END, "turns end"
    for _ in range(2 * END):
        log.turn()
    assert hiding.bytes == 0
    hiding.close()


def test_nothing_is_shown_after_the_close(hiding: HiddenTail, log: Log) -> None:
    hiding.show_to(END)
    hiding.close()
    log.turn()
    assert hiding.shown_end == STEP
