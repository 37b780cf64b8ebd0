"""What the files of the timer say while delivered messages are not on disk yet."""

from __future__ import annotations

from random import Random

import pytest

from gateway.schedule.timer_log import Entry
from gateway.schedule.timer_message import placed_timed
from gateway.tests.crash.exploration import FRESH
from gateway.tests.crash.image import Crash, Moment
from gateway.tests.crash.messages import message
from gateway.tests.crash.oracle import recover
from gateway.tests.crash.recording import Fault, RecordingFiles
from gateway.tests.crash.small_broker import START_MS, TIMERS, Clock, SmallBroker
from gateway.tests.crash.workload import WORKLOADS
from wire.disk.timer_log import ENTRY_BYTES, NONE
from wire.message.properties import PropertyName

WORKLOAD = WORKLOADS["timer-async"]
QUEUE = ("A", 0)


def _started() -> tuple[SmallBroker, RecordingFiles]:
    clock = Clock(START_MS)
    files = RecordingFiles(FRESH, clock)
    broker = SmallBroker(files, clock, WORKLOAD.settings)
    broker.open()
    broker.start()
    return broker, files


def _save(broker: SmallBroker) -> None:
    broker.save_timers()
    broker.threads.run()


def _append(broker: SmallBroker, number: int, delay_ms: int) -> None:
    now_ms = broker.clock()
    timed = message(WORKLOAD, QUEUE, number, now_ms, Random(number))
    timed.property_map = {**timed.property_map, PropertyName.TIMER_DELIVER_MS: str(now_ms + delay_ms)}
    broker.store.append(
        placed_timed(timed, now_ms, TIMERS, waiting_in=lambda _: 0, random_below=lambda _: 0), lambda _: None
    )


def _send(broker: SmallBroker, number: int, delay_ms: int) -> None:
    _append(broker, number, delay_ms)
    broker.threads.run()


def _pass(broker: SmallBroker, milliseconds: int) -> None:
    for _ in range(milliseconds // 50):
        broker.clock.now_ms += 50
        broker.reactor.advance(0.050)
        broker.threads.run()
        broker.reactor.advance(0)
        broker.threads.run()


def _after_power_failure(broker: SmallBroker, files: RecordingFiles) -> SmallBroker:
    """The next life, when all names and no bytes arrived that were not synced; not started yet."""
    moment = Moment(FRESH)
    for change in files.changes:
        moment.pass_over(change)
    image = moment.image(moment.choice(Crash.NAMES, Random(1)))
    return recover(image, broker.clock(), WORKLOAD.settings).broker


def test_the_last_message_that_waits_comes_again_when_a_power_failure_took_its_delivery() -> None:
    """Its second is not over, so its entry has to be found again, however often the files were saved meanwhile."""
    broker, files = _started()
    _send(broker, 1, 1_100)
    broker.store.flush()
    _pass(broker, 1_150)
    assert broker.store.max_offset(*QUEUE) == 1
    for _ in range(3):
        _save(broker)
    again = _after_power_failure(broker, files)
    assert again.store.max_offset(*QUEUE) == 0, "the delivered message is lost"
    again.start()
    _pass(again, 2_000)
    assert again.store.max_offset(*QUEUE) == 1


def test_a_stop_whose_flush_fails_notes_no_delivery_that_may_be_lost(caplog: pytest.LogCaptureFixture) -> None:
    broker, files = _started()
    _send(broker, 1, 500)
    broker.store.flush()
    _pass(broker, 2_500)
    assert broker.store.max_offset(*QUEUE) == 1
    files.fault = Fault("fdatasync", "/commitlog/")
    broker.close()
    again = _after_power_failure(broker, files)
    assert again.store.max_offset(*QUEUE) == 0, "the delivered message is lost"
    again.start()
    _pass(again, 1_000)
    assert again.store.max_offset(*QUEUE) == 1
    assert "timer files not saved" in caplog.text


def test_after_a_sync_of_the_timer_log_that_failed_no_later_one_counts(caplog: pytest.LogCaptureFixture) -> None:
    """The system may have dropped what it could not write, and says nothing of it the second time."""
    broker, files = _started()
    _send(broker, 1, 5_000)
    broker.store.flush()
    files.fault = Fault("fdatasync", "/timerlog/")
    for _ in range(3):
        _save(broker)
    assert "timer files not saved" in caplog.text
    broker.close()
    again = _after_power_failure(broker, files)
    again.start()
    _pass(again, 6_000)
    assert again.store.max_offset(*QUEUE) == 1


def test_a_message_of_a_second_that_opens_while_the_first_file_is_made_is_delivered() -> None:
    broker, _ = _started()
    threads = broker.threads
    _append(broker, 1, 2_500)
    threads.turn()
    broker.clock.now_ms += 1_000
    broker.reactor.advance(1)
    assert len(threads._pool) == 2, "one makes the file, one reads the second"
    threads._done.extend([threads._pool.popleft()() for _ in range(2)])
    threads.run()
    _pass(broker, 2_000)
    assert broker.store.max_offset(*QUEUE) == 1


def test_an_entry_that_is_not_written_yet_is_no_damage(caplog: pytest.LogCaptureFixture) -> None:
    broker, _ = _started()
    _send(broker, 1, 5_000)
    files, schedule = broker.timers._files, broker.timers._schedule
    slot = schedule.slot_of(broker.clock()) + 100
    files.wheel.add(slot, files.log.append(Entry(ENTRY_BYTES, NONE, 1, 0, 0, 0, 10, 0, 0)), 1)
    files._look_for_oldest(schedule, slot, 1)
    assert "damaged" not in caplog.text


def test_when_nothing_waits_and_all_is_on_disk_a_start_looks_through_nothing() -> None:
    broker, _ = _started()
    _send(broker, 1, 1_100)
    _pass(broker, 3_000)
    broker.store.flush()
    _send(broker, 2, 1_100)
    _pass(broker, 3_000)
    broker.store.flush()
    for _ in range(3):
        _save(broker)
    _send(broker, 3, 1_100)
    broker.store.flush()
    _save(broker)
    assert broker.timers._files.load().waits_from == 2 * 52
