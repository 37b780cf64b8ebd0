"""The stage of a member that copies: what is shown, and what is shown at its stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.replication.hidden_tail import HiddenTail
from gateway.replication.replicated_mark import ReplicatedMark
from gateway.replication.slave.confirmed import ConfirmedStage
from gateway.store.durability.surroundings import BatchObserver
from gateway.store.message_store import MessageStore
from gateway.tests.store.small_store import SMALL, Executor, message, opened, read_all


class Copying:
    """A store that shows what the test confirms."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.executor = Executor()
        self.store: MessageStore = opened(
            directory, SMALL, soon=self.executor.soon, in_thread=self.executor.in_thread, stage=self._stage
        )
        self.executor.run()

    def _stage(self, after: BatchObserver) -> ConfirmedStage:
        self.stage = ConfirmedStage(after)
        return self.stage

    def send(self, body: str) -> None:
        self.store.append(message(body=body.encode()), lambda _: None)

    def begin(self) -> None:
        """Take what the directory says about the last life."""
        tail = HiddenTail(ReplicatedMark(self.directory), self.executor.soon)
        tail.begin(self.store, lambda place, is_all: bool(self.store.show_to(place, is_all=is_all)), shows_all=False)
        self.stage.begin(tail)

    @property
    def seen(self) -> list[bytes]:
        return [found.body for found in read_all(self.store)]


@pytest.fixture
def copying(tmp_path: Path) -> Copying:
    return Copying(tmp_path)


def test_what_is_on_the_disk_is_shown_when_it_is_confirmed(copying: Copying) -> None:
    copying.send("one")
    copying.executor.run()
    assert copying.seen == []
    copying.stage.confirm(copying.store.durable_end)
    assert copying.seen == [b"one"]


def test_a_stop_ends_though_records_that_nobody_confirmed_come_to_the_disk_after_its_begin(copying: Copying) -> None:
    copying.send("on its way")
    steps: list[str] = []
    copying.stage.let_all_pass()
    copying.store.when_idle(lambda: steps.append("idle"))
    assert steps == []
    copying.executor.run()
    assert steps == ["idle"]
    assert copying.store.close()


def test_a_restart_hides_what_was_not_confirmed_until_it_is(tmp_path: Path) -> None:
    """A member that copied it may have to cut it away, and another one is elected that lacks it."""
    first = Copying(tmp_path)
    first.send("one")
    first.executor.run()
    first.begin()
    one = first.store.durable_end
    first.stage.confirm(one)
    first.send("two")
    first.executor.run()
    first.stage.let_all_pass()
    assert first.store.close()
    again = Copying(tmp_path)
    again.begin()
    assert again.seen == [b"one"]
    again.stage.confirm(one + 1)
    assert again.seen == [b"one"], "a part of a record is none"
    again.stage.confirm(again.store.durable_end)
    assert again.seen == [b"one", b"two"]
