"""The stage of a member that copies: what is shown, and what is shown at its stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.replication.auto_switch.confirmed import ConfirmedStage
from gateway.store.durability.surroundings import BatchObserver
from gateway.store.message_store import MessageStore
from gateway.tests.store.small_store import SMALL, Executor, message, opened, read_all


class Copying:
    """A store that shows what the test confirms."""

    def __init__(self, directory: Path) -> None:
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
