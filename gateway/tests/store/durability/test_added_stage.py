"""A stage between a batch that is on disk and a batch that is visible: one class, and nothing is seen before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock as TaskClock

from gateway.settings.store import StoreSettings
from gateway.store.durability.surroundings import BatchObserver
from gateway.store.log.log_batch import LogBatch
from gateway.store.put_result import PutStatus, WaitFor
from gateway.tests.store.small_store import ASYNC, SMALL, Disk, Executor, killed, later_by, message, opened, read_all

OK = PutStatus.PUT_OK
WAITS = list(WaitFor)
MODES = [pytest.param(SMALL, id="sync"), pytest.param(ASYNC, id="async")]


class Gate:
    """Holds every stored batch until the test lets it pass."""

    def __init__(self, after: BatchObserver) -> None:
        self._stored = after.stored
        self.failed, self.hasty, self.overdue = after.failed, after.hasty, after.overdue
        self.held: list[LogBatch] = []

    def stored(self, batch: LogBatch) -> None:
        self.held.append(batch)

    def let_pass(self) -> None:
        while self.held:
            self._stored(self.held.pop(0))


class Gated:
    """A store with a gate, and the answers that its senders got, in order."""

    def __init__(self, directory: Path, settings: StoreSettings) -> None:
        self.executor, self.clock, self.disk = Executor(), TaskClock(), Disk()
        self.told: list[tuple[str, PutStatus]] = []
        self.listened: list[str] = []
        self.gates: list[Gate] = []
        self.store = opened(
            directory,
            settings,
            disk=self.disk,
            soon=self.executor.soon,
            in_thread=self.executor.in_thread,
            later=later_by(self.clock),
            stage=self._gate,
        )
        self.store.listen(lambda outcomes: self.listened.extend(f"{outcome.queue_offset}" for outcome in outcomes))
        self.executor.run()

    def _gate(self, after: BatchObserver) -> Gate:
        self.gates.append(Gate(after))
        return self.gates[0]

    def send(self, body: str, wait_for: WaitFor = WaitFor.DISK) -> None:
        self.store.append(
            message(body.encode(), KEYS="K"), lambda result: self.told.append((body, result.status)), wait_for
        )

    @property
    def seen(self) -> list[str]:
        return [found.body.decode() for found in read_all(self.store)]

    def nothing_is_visible(self) -> bool:
        ends = self.store.max_offset("T", 0), self.store.durable_max_offset("T", 0)
        return (self.seen, self.listened, ends, self.found_by_key) == ([], [], (0, 0), [])

    @property
    def found_by_key(self) -> list[str]:
        return [found.body.decode() for found in self.store.query_by_key("T", "K", 9, 0, 1 << 60)]


@pytest.mark.parametrize("settings", MODES)
@pytest.mark.parametrize("wait_for", WAITS)
def test_nothing_is_seen_or_answered_before_the_stage_has_passed(
    tmp_path: Path, settings: StoreSettings, wait_for: WaitFor
) -> None:
    gated = Gated(tmp_path, settings)
    idle: list[None] = []
    for body in ("one", "two"):
        gated.send(body, wait_for)
        gated.executor.run()
    gated.store.when_idle(lambda: idle.append(None))
    early = wait_for is WaitFor.WRITE and settings is SMALL  # WAIT=false is the one promise that ends at the write
    assert gated.told == ([("one", OK), ("two", OK)] if early else [])
    assert gated.nothing_is_visible()
    assert idle == []
    gated.gates[0].let_pass()
    gated.executor.run()
    assert gated.told == [("one", OK), ("two", OK)]
    assert (gated.seen, gated.listened, idle) == (["one", "two"], ["0", "1"], [None])
    assert sorted(gated.found_by_key) == ["one", "two"]
    assert gated.store.close()


def test_a_sync_that_takes_too_long_is_answered_and_the_message_still_waits_for_the_stage(tmp_path: Path) -> None:
    gated = Gated(tmp_path, SMALL)
    gated.send("patient", WaitFor.DISK)
    gated.send("impatient", WaitFor.DISK_OR_TIMEOUT)
    gated.executor.run_turn()
    gated.executor.work()()  # the write; the sync does not return
    gated.clock.pump([SMALL.sync_flush_timeout_ms / 1_000] * 2)
    assert gated.told == [("impatient", PutStatus.FLUSH_DISK_TIMEOUT)]
    gated.executor.run()
    gated.clock.pump([SMALL.sync_flush_timeout_ms / 1_000] * 2)
    assert len(gated.told) == 1, "the timer is the disk's, and the disk has answered"
    assert gated.nothing_is_visible()
    gated.gates[0].let_pass()
    assert gated.told[1:] == [("patient", OK)]
    assert gated.seen == ["patient", "impatient"]


@pytest.mark.parametrize("settings", MODES)
def test_a_batch_that_fails_never_reaches_the_stage_and_one_before_it_passes_later(
    tmp_path: Path, settings: StoreSettings
) -> None:
    gated = Gated(tmp_path, settings)
    gated.send("good")
    gated.executor.run()
    gated.disk.fail("sync" if settings is SMALL else "write", "commitlog/")
    gated.send("bad")
    gated.executor.run()
    assert gated.told == [("bad", PutStatus.UNKNOWN_ERROR)]
    assert gated.nothing_is_visible()
    gated.gates[0].let_pass()
    assert gated.told[1:] == [("good", OK)]
    assert gated.seen == ["good"]


@pytest.mark.parametrize("settings", MODES)
def test_a_stop_while_the_stage_holds_a_batch_is_no_clean_stop_and_the_next_start_shows_the_message(
    tmp_path: Path, settings: StoreSettings
) -> None:
    gated = Gated(tmp_path, settings)
    gated.send("held")
    gated.executor.run()
    assert not gated.store.close()
    assert gated.told == []
    store = opened(tmp_path, settings)
    assert [found.body for found in read_all(store)] == [b"held"]
    store.close()


@pytest.mark.parametrize("settings", MODES)
@pytest.mark.parametrize("is_shown", [False, True], ids=["still held", "shown later"])
def test_messages_that_the_stage_holds_go_with_their_topic_and_those_of_a_topic_made_again_stay(
    tmp_path: Path, settings: StoreSettings, is_shown: bool
) -> None:
    gated = Gated(tmp_path / "store", settings)
    gated.send("shown")
    gated.executor.run()
    gated.gates[0].let_pass()
    gated.send("held")
    gated.executor.run()
    gated.store.delete_topic("T")
    gated.send("new")
    gated.executor.run()
    if is_shown:
        gated.gates[0].let_pass()
        assert gated.seen == ["new"]
    again = opened(killed(tmp_path / "store"), settings)
    assert [found.body for found in read_all(again)] == [b"new"]
    again.close()


@pytest.mark.parametrize("settings", MODES)
def test_a_topic_of_which_the_stage_holds_everything_does_not_come_back(
    tmp_path: Path, settings: StoreSettings
) -> None:
    gated = Gated(tmp_path / "store", settings)
    gated.send("held")
    gated.executor.run()
    gated.store.delete_topic("T")
    gated.gates[0].let_pass()
    assert list(gated.store.queues()) == []
    again = opened(killed(tmp_path / "store"), settings)
    assert list(again.queues()) == []
    again.close()
