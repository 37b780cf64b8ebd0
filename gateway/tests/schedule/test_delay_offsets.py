"""The file of the delay levels' offsets: written when they moved, tried again when that failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.in_thread import Failed, in_this_thread
from gateway.schedule.delay_offsets import DelayOffsets


class Writing:
    """Offsets on a file whose writes are counted and may fail."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.current: dict[int, int] = {}
        self.writes = 0
        self.failing = False
        self.offsets = DelayOffsets(path, self._in_thread)
        self.loaded = self.offsets.load()
        self.offsets.follow(lambda: self.current)

    def _in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.writes += 1
        if self.failing:
            done(Failed(OSError(28, "No space left on device")))
        else:
            in_this_thread(work, done)


@pytest.fixture
def writing(tmp_path: Path) -> Writing:
    return Writing(tmp_path / "delayOffset.json")


def test_what_was_written_is_read_again(writing: Writing) -> None:
    assert writing.loaded == {}
    writing.current = {1: 5, 18: 7}
    writing.offsets.persist()
    assert Writing(writing.path).loaded == {1: 5, 18: 7}


def test_offsets_that_did_not_move_are_not_written(writing: Writing) -> None:
    writing.offsets.persist()
    assert writing.writes == 0
    writing.current = {1: 5}
    for _ in range(3):
        writing.offsets.persist()
    assert writing.writes == 1


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_failed_write_is_made_up_for_though_nothing_moved_since(writing: Writing, at_the_end: bool) -> None:
    writing.current, writing.failing = {2: 9}, True
    writing.offsets.persist()
    writing.failing = False
    if at_the_end:
        writing.offsets.persist_now()
    else:
        writing.offsets.persist()
    assert Writing(writing.path).loaded == {2: 9}


def test_members_of_other_versions_and_the_data_version_are_kept(writing: Writing) -> None:
    writing.path.write_text('{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1},"offsetTable":{1:2},"x":1}')
    again = Writing(writing.path)
    assert again.loaded == {1: 2}
    again.current = {1: 4}
    again.offsets.persist_now()
    text = writing.path.read_text()
    assert '"x":1' in text.replace(" ", "")
    assert '"counter":3' in text.replace(" ", "")


def test_a_file_that_is_none_ends_the_start(writing: Writing) -> None:
    writing.path.write_text("garbage")
    with pytest.raises(GatewayError):
        Writing(writing.path)
