"""Delayed messages come when their time has passed, in order, none lost: also when something fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from gateway.in_thread import in_this_thread
from gateway.metadata.names import HALF_TOPIC, SCHEDULE_TOPIC
from gateway.schedule.delay_service import MAX_LEVELS, RETRY_MS, DelayService
from gateway.schedule.redirect import DelayLevels, redirect_delayed
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.disk.files import FileLayer
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus, each_result
from gateway.store.reading.get_result import GetResult, GetStatus
from wire.disk.consume_queue import UNIT_BYTES
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, parse_records

START_MS = 1_750_000_000_000
LEVELS = DelayLevels.parse("1s 5s 10s")
HOST = pack_host("127.0.0.1", 10911)


class Delays:
    """A delay service on a real store."""

    def __init__(self, directory: Path, offsets: dict[int, int] | None = None, **settings: Any) -> None:
        self.clock = Clock()
        small = {
            "mapped_file_size_commit_log": 1 << 20,
            "mapped_file_size_consume_queue": 20_000,
            "max_hash_slot_num": 100,
            "max_index_num": 1_000,
            "disk_measured_bytes": 0,
        }
        values = StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH, **{**small, **settings})
        self.store = MessageStore(directory, values, StoreSurroundings(clock_ms=self.now_ms))
        self.store.open()
        self.in_thread: Callable[..., None] = in_this_thread
        self.service = DelayService(
            store=self.store,
            levels=LEVELS,
            reactor=self.clock,
            clock=self.now_ms,
            in_thread=lambda work, done: self.in_thread(work, done),
        )
        self.service.resume_from(offsets or {})
        self.store.listen(lambda outcomes: self.service.arrived(each_result(outcomes)))

    def now_ms(self) -> int:
        return START_MS + round(self.clock.seconds() * 1000)

    def delay(self, body: bytes, level: int, **properties: str) -> PutResult:
        """Store a message that is to wait."""
        message = self.message("orders", body, {**properties, "DELAY": str(level)})
        return self.put(redirect_delayed(message, LEVELS))

    def put(self, message: OutgoingMessage) -> PutResult:
        results: list[PutResult] = []
        self.store.append(message, results.append)
        return results[0]

    def message(self, topic: str, body: bytes, properties: dict[str, str], queue_id: int = 0) -> OutgoingMessage:
        raw = build_properties(properties)
        return OutgoingMessage(topic, queue_id, 0, 0, START_MS, HOST, HOST, 0, 0, body, raw, properties)

    def wait(self, seconds: float) -> None:
        self.clock.pump([0.1] * round(seconds * 10))

    def turn(self) -> None:
        """One turn of the reactor: what is due, and not yet what that puts off until the next one."""
        for call in [call for call in self.clock.calls if call.getTime() <= self.clock.seconds()]:
            self.clock.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)

    def delivered(self, topic: str = "orders") -> list[bytes]:
        found = self.store.get_messages(topic, 0, 0, 1_000, 1 << 20)
        return [message.body for message in parse_records(b"".join(found.parts))]


@pytest.fixture
def delays(tmp_path: Path) -> Delays:
    made = Delays(tmp_path / "store")
    made.service.start()
    return made


def test_each_level_comes_at_its_own_time(delays: Delays) -> None:
    delays.delay(b"five", 2)
    delays.delay(b"one", 1)
    delays.wait(0.9)
    assert delays.delivered() == []
    delays.wait(0.2)
    assert delays.delivered() == [b"one"]
    delays.wait(4)
    assert delays.delivered() == [b"one", b"five"]
    assert delays.service.offsets() == {1: 1, 2: 1}


def test_messages_of_a_level_keep_their_order_and_later_ones_wait(delays: Delays) -> None:
    for body in (b"a", b"b"):
        delays.delay(body, 1)
    delays.wait(0.5)
    delays.delay(b"c", 1)
    delays.wait(0.6)
    assert delays.delivered() == [b"a", b"b"]
    delays.wait(0.5)
    assert delays.delivered() == [b"a", b"b", b"c"]


def test_a_thousand_at_once_all_come(delays: Delays) -> None:
    bodies = [b"%d" % number for number in range(600)]
    for body in bodies:
        delays.delay(body, 1)
    delays.wait(2)
    assert delays.delivered() == bodies
    assert delays.clock.getDelayedCalls() == []


def test_many_at_once_hold_up_no_turn_of_the_reactor(delays: Delays) -> None:
    count = 200
    for number in range(count):
        for level in (1, 2, 3):
            delays.delay(b"%d of %d" % (number, level), level)
    delays.service.stop()
    delays.clock.advance(20)
    delays.service.start()
    before = delays.delivered()
    turns = 0
    while len(before) < 3 * count:
        delays.turn()
        now = delays.delivered()
        assert 0 < len(now) - len(before) <= 64
        before, turns = now, turns + 1
    assert turns < 30
    for level in (1, 2, 3):
        of_level = [body for body in before if body.endswith(b"of %d" % level)]
        assert of_level == [b"%d of %d" % (number, level) for number in range(count)]


def test_what_was_put_off_when_it_stops_comes_after_the_next_start_once_and_in_order(delays: Delays) -> None:
    bodies = [b"%d" % number for number in range(300)]
    for body in bodies:
        delays.delay(body, 1)
        delays.delay(body + b" later", 2)
    delays.service.stop()
    delays.clock.advance(20)
    delays.service.start()
    for _ in range(10):  # one of the two has released a part of what it has read
        delays.turn()
    so_far = len(delays.delivered())
    delays.service.stop()
    delays.wait(1)
    assert len(delays.delivered()) == so_far
    assert 0 < sum(delays.service.offsets().values()) == so_far < 600
    delays.service.start()
    delays.wait(1)
    found = delays.delivered()
    assert [body for body in found if body.isdigit()] == bodies
    assert [body for body in found if not body.isdigit()] == [body + b" later" for body in bodies]


def test_what_is_not_due_yet_is_hardly_read(delays: Delays, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    honest = delays.store.get_messages_now

    def counted(*args: Any) -> GetResult | None:
        result = honest(*args)
        read.append(0 if result is None else result.count)
        return result

    monkeypatch.setattr(delays.store, "get_messages_now", counted)
    for number in range(300):
        delays.delay(b"%d" % number, 1)
        delays.clock.advance(0.01)
    delays.wait(2)
    assert len(delays.delivered()) == 300
    assert sum(read) <= 300 * 4


def test_a_level_that_waits_for_its_turn_is_not_forgotten_when_another_fails(
    delays: Delays, monkeypatch: pytest.MonkeyPatch
) -> None:
    for level in (1, 2, 3):
        delays.delay(b"of %d" % level, level)
    delays.service.stop()
    delays.clock.advance(20)
    delays.service.start()
    honest = delays.store.get_messages_now

    def fails(topic: str, queue_id: int, *rest: Any) -> GetResult | None:
        if queue_id == 1:
            raise ZeroDivisionError
        return honest(topic, queue_id, *rest)

    monkeypatch.setattr(delays.store, "get_messages_now", fails)
    with pytest.raises(ZeroDivisionError):
        delays.turn()
    delays.turn()
    assert delays.delivered() == [b"of 1", b"of 3"]


def test_nothing_is_scheduled_while_nothing_waits(delays: Delays) -> None:
    assert delays.clock.getDelayedCalls() == []


def test_it_goes_on_where_an_earlier_run_ended(tmp_path: Path) -> None:
    delays = Delays(tmp_path / "store", {1: 1, 9: 4})
    for body in (b"done", b"next"):
        delays.delay(body, 1)
    delays.service.start()
    delays.wait(1.2)
    assert delays.delivered() == [b"next"]
    assert delays.service.offsets() == {1: 2, 9: 4}


def test_an_offset_beyond_a_queue_that_lost_its_end_loses_no_new_message(tmp_path: Path) -> None:
    delays = Delays(tmp_path / "store", {1: 50, 2: 50})
    delays.delay(b"old", 2)
    delays.service.start()
    delays.delay(b"new", 1)
    delays.delay(b"new too", 2)
    delays.wait(6)
    assert delays.delivered() == [b"new", b"new too"]


def test_stopping_releases_nothing_more(delays: Delays) -> None:
    delays.delay(b"a", 1)
    delays.service.stop()
    delays.delay(b"b", 2)
    delays.wait(10)
    assert delays.delivered() == []
    assert delays.clock.getDelayedCalls() == []


def test_a_message_that_cannot_be_stored_is_tried_again_later(
    delays: Delays, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = delays.store.append

    def refuse_b(message: OutgoingMessage, on_stored: Callable[[PutResult], None]) -> None:
        if message.body == b"b":
            on_stored(PutResult(PutStatus.SERVICE_NOT_AVAILABLE, message))
        else:
            real(message, on_stored)

    for body in (b"a", b"b"):
        delays.delay(body, 1)
    monkeypatch.setattr(delays.store, "append", refuse_b)
    with caplog.at_level(logging.ERROR, "gateway"):
        delays.wait(1.2)
    assert [record.message for record in caplog.records] == ["release failed"]
    assert delays.delivered() == [b"a"]
    assert delays.service.offsets() == {1: 1}
    monkeypatch.undo()
    delays.wait(RETRY_MS / 1000)
    assert delays.delivered() == [b"a", b"b"]


def test_messages_behind_one_that_cannot_be_stored_now_come_once(
    delays: Delays, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = delays.store.append, {b"b", b"e"}

    def refuse(message: OutgoingMessage, on_stored: Callable[[PutResult], None]) -> None:
        if message.body in refused:
            on_stored(PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, message))
        else:
            real(message, on_stored)

    for body in (b"a", b"b", b"c"):
        delays.delay(body, 1)
    delays.wait(0.5)
    for body in (b"d", b"e", b"f"):
        delays.delay(body, 1)
    monkeypatch.setattr(delays.store, "append", refuse)
    delays.wait(2 * RETRY_MS / 1000)
    refused.discard(b"b")
    delays.wait(2 * RETRY_MS / 1000)
    assert delays.service.offsets() == {1: 4}
    refused.clear()
    delays.wait(RETRY_MS / 1000)
    assert sorted(delays.delivered()) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert delays.service.offsets() == {1: 6}


def test_a_message_that_no_topic_can_take_is_given_up_and_the_others_come(
    delays: Delays, caplog: pytest.LogCaptureFixture
) -> None:
    delays.delay(b"first", 1)
    delays.put(redirect_delayed(delays.message("t" * 256, b"never", {"DELAY": "1"}), LEVELS))
    delays.delay(b"next", 1)
    with caplog.at_level(logging.ERROR, "gateway"):
        delays.wait(3 * RETRY_MS / 1000)
    assert delays.delivered() == [b"first", b"next"]
    assert [record.message for record in caplog.records] == ["delayed message given up"]
    assert delays.service.given_up == 1
    assert delays.service.offsets() == {1: 3}


def test_a_retry_that_its_topic_cannot_take_goes_to_the_dead_letters(
    delays: Delays, caplog: pytest.LogCaptureFixture
) -> None:
    group = "g" * 250  # Apache's brokers store delayed retries of such a group; its dead-letter topic is shorter
    retry = delays.message(f"%RETRY%{group}", b"failed", {"DELAY": "1", "UNIQ_KEY": "K", "RETRY_TOPIC": "orders"}, 3)
    delays.put(redirect_delayed(retry, LEVELS))
    delays.delay(b"next", 1)
    with caplog.at_level(logging.ERROR, "gateway"):
        delays.wait(3 * RETRY_MS / 1000)
    found = delays.store.get_messages(f"%DLQ%{group}", 0, 0, 10, 1 << 20)
    (letter,) = parse_records(b"".join(found.parts))
    assert (letter.body, letter.property_map) == (b"failed", {"DELAY": "0", "UNIQ_KEY": "K", "RETRY_TOPIC": "orders"})
    assert delays.delivered() == [b"next"]
    (line,) = caplog.records
    assert line.message == "delayed retry goes to the dead letters"
    facts = vars(line)["facts"]
    assert (facts["delay_level"], facts["offset"], facts["message_id"]) == (1, 0, "K")
    assert delays.service.given_up == 0
    assert delays.service.offsets() == {1: 2}


def test_a_retry_for_which_the_dead_letters_have_no_room_is_given_up(delays: Delays) -> None:
    retry = delays.message("%RETRY%" + "g" * 251, b"failed", {"DELAY": "1"})
    delays.put(redirect_delayed(retry, LEVELS))
    delays.wait(3 * RETRY_MS / 1000)
    assert delays.service.given_up == 1
    assert delays.service.offsets() == {1: 1}


def test_a_message_for_one_light_queue_too_many_comes_in_its_topic(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {"enable_lmq": True, "enable_multi_dispatch": True, "max_lmq_consume_queue_num": 1}
    delays = Delays(tmp_path / "store", **settings)
    delays.service.start()
    delays.delay(b"full", 1, INNER_MULTI_DISPATCH="%LMQ%a")
    delays.delay(b"over", 1, INNER_MULTI_DISPATCH="%LMQ%b")
    delays.delay(b"next", 1)
    with caplog.at_level(logging.ERROR, "gateway"):
        delays.wait(3 * RETRY_MS / 1000)
    assert sorted(delays.delivered()) == [b"full", b"next", b"over"]
    assert [record.message for record in caplog.records] == ["delayed message goes to no light queue"]


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "orders", "REAL_QID": "-1"},
        {"REAL_TOPIC": "orders", "REAL_QID": "9" * 12},
        {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"},
    ],
)
def test_a_message_without_a_place_it_may_go_to_is_dropped_and_the_next_comes(
    delays: Delays, properties: dict[str, str]
) -> None:
    delays.put(delays.message(SCHEDULE_TOPIC, b"lost", properties))
    delays.delay(b"next", 1)
    delays.wait(1.2)
    assert delays.delivered() == [b"next"]
    delays.put(delays.message(SCHEDULE_TOPIC, b"lost alone", properties))
    delays.wait(1.2)
    delays.delay(b"another", 1)
    delays.wait(1.2)
    assert delays.delivered() == [b"next", b"another"]
    assert delays.delivered(HALF_TOPIC) == []


def damage(monkeypatch: pytest.MonkeyPatch, delays: Delays, offset: int) -> None:
    """Let one delayed record be read with a wrong magic."""
    real = delays.store.get_messages_now

    def damaged(topic: str, queue_id: int, start: int, *rest: Any) -> GetResult | None:
        result = real(topic, queue_id, start, *rest)
        if result is None or result.status is not GetStatus.FOUND or start > offset:
            return result
        data = bytearray(b"".join(result.parts))
        at = sum(message.total_size for message in parse_records(bytes(data))[: offset - start])
        data[at + 4 : at + 8] = b"oops"
        return GetResult(result.status, result.next_begin_offset, (0, 9), result.count, [bytes(data)])

    monkeypatch.setattr(delays.store, "get_messages_now", damaged)


def test_a_record_that_is_damaged_in_memory_only_is_read_again(delays: Delays, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"a", b"b", b"c"):
        delays.delay(body, 1)
    damage(monkeypatch, delays, 1)
    delays.wait(1.3)
    monkeypatch.undo()
    assert delays.delivered() == [b"a", b"b", b"c"]


def closed_with_three(directory: Path) -> list[PutResult]:
    """Three messages wait in level 1, one in level 2, and the store was closed properly."""
    delays = Delays(directory)
    stored = [delays.delay(body, 1) for body in (b"a", b"b", b"c")]
    delays.delay(b"other level", 2)
    delays.store.close()
    return stored


def xor(path: Path, position: int, value: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= value
    path.write_bytes(data)


@pytest.mark.parametrize("unit", [0, 1, 2])
@pytest.mark.parametrize(("byte", "value"), [(7, 4), (3, 1), (0, 0x80), (11, 1), (8, 0x80)])
def test_a_damaged_unit_loses_no_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unit: int, byte: int, value: int
) -> None:
    closed_with_three(tmp_path)
    path = tmp_path / "consumequeue" / SCHEDULE_TOPIC / "0" / "00000000000000000000"
    intact = path.read_bytes()
    xor(path, UNIT_BYTES * unit + byte, value)
    delays = Delays(tmp_path)
    delays.service.start()
    delays.wait(1.3)
    assert delays.delivered() == [b"a", b"b", b"c"]
    assert delays.service.offsets() == {1: 3}
    assert path.read_bytes() == intact
    assert not [
        record for record in caplog.records if record.levelno > logging.WARNING and record.name != "gateway.store"
    ]


def test_a_level_stops_at_a_damaged_message_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored = closed_with_three(tmp_path)
    path = tmp_path / "commitlog" / "00000000000000000000"
    position = stored[1].commit_log_offset + 4
    xor(path, position, 0xFF)
    delays = Delays(tmp_path)
    delays.service.start()
    with caplog.at_level(logging.ERROR, "gateway.schedule"):
        delays.wait(40)
    assert delays.delivered() == [b"a", b"other level"]
    assert delays.service.offsets() == {1: 1, 2: 1}
    [told] = [record for record in caplog.records if record.name == "gateway.schedule"]
    assert told.levelname == "ERROR"
    assert "store repair" in told.getMessage() + str(vars(told))
    xor(path, position, 0xFF)  # as a person restores the file
    delays.wait(RETRY_MS / 1000)
    assert delays.delivered() == [b"a", b"other level", b"b", b"c"]


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_read_that_fails_is_tried_again_and_reaches_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    delays = Delays(tmp_path / "store")
    delays.service.start()

    def fails(*_: object) -> GetResult:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(delays.store, "get_messages", fails)
    monkeypatch.setattr(delays.store, "get_messages_now", fails if in_memory else lambda *_: None)
    assert delays.delay(b"a", 1).status is PutStatus.PUT_OK
    monkeypatch.undo()
    delays.wait(RETRY_MS / 1000 + 0.1)
    assert delays.delivered() == [b"a"]


def test_messages_that_left_memory_are_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileLayer, "pread_now", lambda *_: None)
    delays = Delays(tmp_path / "store")
    waiting: list[Callable[[], None]] = []
    delays.in_thread = lambda work, done: waiting.append(lambda: done(work()))
    delays.delay(b"a", 1)
    delays.store.flush()
    delays.wait(2)
    delays.service.start()
    assert delays.delivered() == []
    while waiting:
        waiting.pop()()
        delays.wait(0.1)
    assert delays.delivered() == [b"a"]
    delays.delay(b"b", 1)
    delays.service.stop()
    while waiting:
        waiting.pop()()
    delays.wait(2)
    assert delays.delivered() == [b"a"]


def test_an_offset_is_saved_only_when_the_released_messages_are_on_disk(delays: Delays) -> None:
    delays.delay(b"first", 1)
    delays.store.flush()
    delays.wait(1.2)
    assert delays.delivered() == [b"first"]
    assert delays.service.offsets() == {1: 1}
    assert delays.service.durable_offsets() == {1: 0}, "a power failure now must not lose it"
    delays.store.flush()
    assert delays.service.durable_offsets() == {1: 1}


def test_offsets_of_levels_that_no_broker_has_are_not_kept(tmp_path: Path) -> None:
    odd = {-(2**63): 1, -1: 5, 0: 7, 19: 4, 20: -3, MAX_LEVELS: 2, MAX_LEVELS + 1: 9}
    delays = Delays(tmp_path / "store", odd)
    assert delays.service.offsets() == {19: 4, MAX_LEVELS: 2}
