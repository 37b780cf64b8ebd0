"""The files of the timer while delivered messages are not on disk yet."""

from __future__ import annotations

import errno
from random import Random

import pytest

from gateway.metadata.names import WHEEL_TIMER_TOPIC
from gateway.schedule import timer_log, timer_service
from gateway.schedule.timer_log import TimerEntry
from gateway.schedule.timer_message import placed_timed, slot_ms
from gateway.tests.crash.disk.image import Crash, Moment
from gateway.tests.crash.disk.recording import Fault, Kind, RecordingFiles
from gateway.tests.crash.exploration import FRESH
from gateway.tests.crash.messages import message
from gateway.tests.crash.oracle import recover
from gateway.tests.crash.small_broker import START_MS, TIMERS, Clock, SmallBroker
from gateway.tests.crash.workload import WORKLOADS
from wire.disk.timer_log import ENTRY_BYTES, NONE
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage

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


def _append(broker: SmallBroker, timed: OutgoingMessage) -> None:
    placed = placed_timed(timed, broker.clock(), TIMERS, waiting_in=lambda _: 0, random_below=lambda _: 0)
    broker.store.append(placed, lambda _: None)


def _timed(broker: SmallBroker, number: int, delay_ms: int) -> OutgoingMessage:
    now_ms = broker.clock()
    timed = message(WORKLOAD, QUEUE, number, now_ms, Random(number))
    timed.property_map = {**timed.property_map, PropertyName.TIMER_DELIVER_MS: str(now_ms + delay_ms)}
    return timed


def _take_back(broker: SmallBroker, number: int, due_ms: int) -> None:
    """A marker for a message with this number and time."""
    marker = message(WORKLOAD, QUEUE, 1_000 + number, broker.clock(), Random(number))
    marker.property_map = {
        PropertyName.TIMER_DEL_UNIQKEY: f"u{number:05d}",
        PropertyName.TIMER_DELIVER_MS: str(slot_ms(due_ms, TIMERS.timer_precision_ms) + 1),
    }
    _append(broker, marker)
    broker.threads.run()


def _send(broker: SmallBroker, number: int, delay_ms: int) -> None:
    _append(broker, _timed(broker, number, delay_ms))
    broker.threads.run()


def _delivered(broker: SmallBroker) -> int:
    return broker.store.max_offset(*QUEUE)


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


def _check_it_comes_after_power_failure(broker: SmallBroker, files: RecordingFiles, milliseconds: int) -> None:
    """The one message is not in its queue when the next life begins, and is there in time."""
    again = _after_power_failure(broker, files)
    assert _delivered(again) == 0, "a message delivered before is lost"
    again.start()
    _pass(again, milliseconds)
    assert _delivered(again) == 1


def test_the_last_message_that_waits_comes_again_when_a_power_failure_took_its_delivery() -> None:
    """Its second is not over, so its entry has to be found again, however often the files were saved meanwhile."""
    broker, files = _started()
    _send(broker, 1, 1_100)
    broker.store.flush()
    _pass(broker, 1_150)
    assert _delivered(broker) == 1
    for _ in range(3):
        _save(broker)
    _check_it_comes_after_power_failure(broker, files, 2_000)


def test_a_stop_whose_flush_fails_notes_no_delivery_that_may_be_lost(caplog: pytest.LogCaptureFixture) -> None:
    broker, files = _started()
    _send(broker, 1, 500)
    broker.store.flush()
    _pass(broker, 2_500)
    assert _delivered(broker) == 1
    files.fault = Fault("fdatasync", "/commitlog/")
    broker.close()
    _check_it_comes_after_power_failure(broker, files, 1_000)
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
    with pytest.raises(OSError, match="sync of the timer log"):
        broker.timers.persist_now()
    _check_it_comes_after_power_failure(broker, files, 6_000)


def test_after_a_sync_of_the_timer_log_that_failed_the_commit_log_is_not_kept_for_ever() -> None:
    broker, files = _started()
    _send(broker, 1, 3_000)
    broker.store.flush()
    files.fault = Fault("fdatasync", "/timerlog/")
    _save(broker)
    _send(broker, 2, 100_000)
    _pass(broker, 65_000)
    assert broker.timers.waiting == 1
    _save(broker)
    kept = broker.timers.keep_from()
    assert kept is not None
    assert kept > 0, "the first message is delivered long since"


def test_a_message_of_a_second_that_opens_while_the_first_file_is_made_is_delivered() -> None:
    broker, _ = _started()
    threads = broker.threads
    _append(broker, _timed(broker, 1, 2_500))
    threads.turn()
    broker.clock.now_ms += 1_000
    broker.reactor.advance(1)
    assert len(threads._pool) == 2, "one makes the file, one reads the second"
    threads._done.extend([threads._pool.popleft()() for _ in range(2)])
    threads.run()
    _pass(broker, 2_000)
    assert _delivered(broker) == 1


def test_an_entry_that_is_not_written_yet_is_no_damage(caplog: pytest.LogCaptureFixture) -> None:
    broker, _ = _started()
    _send(broker, 1, 5_000)
    files, schedule = broker.timers._files, broker.timers._schedule
    slot = schedule.slot_of(broker.clock()) + 100
    files.wheel.add(slot, files.log.append(TimerEntry(ENTRY_BYTES, NONE, 1, 0, 0, 0, 10, 0, 0)), 1)
    files._look_for_oldest(schedule, slot, 1)
    assert "damaged" not in caplog.text


def test_a_message_is_not_delivered_before_it_is_known_what_its_second_takes_back() -> None:
    """What is stored anew on its way comes when its second is open, and perhaps before its entries could be read."""
    broker, _ = _started()
    threads = broker.threads
    _send(broker, 1, 3_500)
    broker.clock.now_ms += 2_000
    broker.reactor.advance(2)
    assert len(threads._pool) == 1, "the second's entries are being read"
    read = threads._pool.popleft()
    _send(broker, 2, 1_100)
    _pass(broker, 2_000)
    assert _delivered(broker) == 0
    threads._done.append(read())
    _pass(broker, 100)
    assert _delivered(broker) == 2


def _a_day_after_it_was_taken_back() -> tuple[SmallBroker, RecordingFiles]:
    """The next life of a broker in which a message waited, and what takes it back; not started yet.

    Nothing ran for a day: both are overdue, and each is stored once more before it counts.
    """
    broker, files = _started()
    _send(broker, 1, 9_000)
    _pass(broker, 1_000)
    _take_back(broker, 1, broker.clock() + 8_000)
    broker.close()
    broker.clock.now_ms += 86_400_000
    again = SmallBroker(files, broker.clock, WORKLOAD.settings)
    again.open()
    return again, files


def test_a_message_stored_anew_on_its_way_does_not_overtake_what_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_service, "BATCH_COUNT", 1)
    again, _ = _a_day_after_it_was_taken_back()
    again.start()
    again.threads.run()
    again.reactor.advance(0)
    _pass(again, 1_000)
    assert again.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 4
    assert _delivered(again) == 0


def test_nothing_overtakes_what_takes_a_message_back_when_that_could_not_be_stored_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timer_service, "BATCH_COUNT", 1)
    again, files = _a_day_after_it_was_taken_back()
    again.start()
    again.threads.run()
    files.fault = Fault("pwrite", "/commitlog/", errno.ENOSPC)
    again.reactor.advance(0)
    again.threads.run()
    assert files.fault is None, "the marker was refused"
    again.store.look_at_space(again.store.deletion.look())
    again.clock.now_ms -= 60_000  # it waits for the time that passes, not for that of the clock
    _pass(again, 9_000)
    assert again.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 3, "the marker is not tried again yet"
    _pass(again, 3_000)
    assert again.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 4
    assert _delivered(again) == 0


def test_what_could_not_be_written_is_told_once_and_written_with_a_save(caplog: pytest.LogCaptureFixture) -> None:
    broker, files = _started()
    _send(broker, 1, 5_000)
    files.fault = Fault("pwrite", "/timerlog/")
    _send(broker, 2, 5_000)
    for number in range(3, 6):
        _send(broker, number, 5_000)
    log = broker.timers._files.log
    assert caplog.text.count("timer log not written") == 1
    assert log.end - log.written == 4 * ENTRY_BYTES, "not tried again with each message"
    files.fault = Fault("pwrite", "/timerlog/")
    _save(broker)
    assert files.fault is None, "tried again"
    assert caplog.text.count("timer log not written") == 1
    _save(broker)
    assert log.end == log.written
    _pass(broker, 6_000)
    assert _delivered(broker) == 5


def test_while_the_timer_log_takes_no_entries_what_is_far_is_not_stored_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, _ = _started()
    _send(broker, 1, 9_000)
    monkeypatch.setattr(timer_log, "MAX_UNWRITTEN_BYTES", 0)
    _pass(broker, 8_000)
    assert broker.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 1
    monkeypatch.undo()
    _pass(broker, 12_000)
    assert _delivered(broker) == 1


def test_a_start_that_makes_the_timer_log_anew_writes_it_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, files = _started()
    for number in range(5):
        _send(broker, number, 5_000)
    broker.store.flush()
    monkeypatch.setattr(timer_log, "MAX_UNWRITTEN_BYTES", 2 * ENTRY_BYTES)
    again = _after_power_failure(broker, files)
    written = [change for change in again.files.changes if "/timerlog/" in change.path and change.kind is Kind.WRITE]
    assert [len(change.data) for change in written][-3:] == [2 * ENTRY_BYTES, 2 * ENTRY_BYTES, ENTRY_BYTES]


def test_what_waits_is_kept_also_when_the_clock_was_set_back() -> None:
    """The oldest message is looked for as far ahead as messages were taken by the later time."""
    broker, _ = _started()
    broker.timers._schedule._roll_slots = 100
    _send(broker, 1, 90_000)
    _send(broker, 2, 5_000)
    broker.clock.now_ms -= 60_000
    files, schedule = broker.timers._files, broker.timers._schedule
    files._look_for_oldest(schedule, schedule.read_slot, schedule.slots_ahead(broker.clock()))
    assert files.keep_from == 0


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


def test_what_came_while_a_checkpoint_waited_for_the_commit_log_is_in_the_next_one() -> None:
    broker, _ = _started()
    _send(broker, 1, 100_000)
    _save(broker)
    assert broker.timers._files.load().queue_offset == 0, "the message is not on disk yet"
    _send(broker, 2, 100_000)
    broker.store.flush()
    for _ in range(3):
        _save(broker)
    assert broker.timers._files.load().queue_offset == 2
