"""The transactions that a start finds, also in directories that Apache RocketMQ wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC
from gateway.store.put_result import PutResult, PutStatus
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.store.reading.wanted import Wanted
from gateway.tests.transaction.world import COMMIT, HOST, ROLLBACK, START_MS, World
from gateway.transaction.records.half_messages import final_of, half_of
from gateway.transaction.records.op_messages import build_op
from gateway.transaction.records.queue_records import MessageUnreadable
from gateway.transaction.restart.rebuild import OP_LAG_MS
from gateway.transaction.states import State
from wire.codes import ResponseCode
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, StoredMessage


class Apache:
    """Writes what Apache RocketMQ writes into a log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.world = World(directory)
        self.world.log.listeners.clear()

    def append(self, message: OutgoingMessage) -> StoredMessage:
        results: list[PutResult] = []
        self.world.log.append(message, results.append)
        stored = self.world.log.message_at(results[0].commit_log_offset)
        assert stored is not None
        return stored

    def half(self, key: str, **properties: str) -> StoredMessage:
        return self.append(half_of(self.world.message(key, properties=properties)))

    def put_back(self, half: StoredMessage, **properties: str) -> StoredMessage:
        """The half message again, at the end of the half queue."""
        pairs = {**half.property_map, **properties}
        raw = build_properties(pairs)
        return self.append(OutgoingMessage(HALF_TOPIC, 0, 7, 0, 1, HOST, HOST, 0, 0, half.body, raw, pairs))

    def final(self, half: StoredMessage) -> StoredMessage:
        final = final_of(half)
        assert final is not None
        return self.append(final)

    def op(self, body: str) -> StoredMessage:
        raw = build_properties({"TAGS": "d", "UNIQ_KEY": f"op{body}"})
        return self.append(OutgoingMessage(OP_HALF_TOPIC, 0, 0, 0, 1, HOST, HOST, 0, 0, body.encode(), raw))

    def hand_over(self, *, half_offset: int | None = None, op_offset: int | None = None) -> World:
        """The gateway takes the directory over."""
        if half_offset is not None:
            self.world.offsets.table[HALF_TOPIC] = half_offset
        if op_offset is not None:
            self.world.offsets.table[OP_HALF_TOPIC] = op_offset
        return self.world.restart()


@pytest.fixture
def apache(tmp_path: Path) -> Apache:
    return Apache(tmp_path)


def place(half: StoredMessage) -> PutResult:
    message = OutgoingMessage(HALF_TOPIC, 0, 0, 0, 0, HOST, HOST, 0, 0, b"")
    return PutResult(PutStatus.PUT_OK, message).at(None, half.queue_offset, half.commit_log_offset)


@pytest.mark.parametrize("bodies", [["0", "2"], ["0,2,"], ["0,", "2,"]])
def test_op_records_of_every_version_settle_their_half_messages(apache: Apache, bodies: list[str]) -> None:
    halves = [apache.half(f"k{number}") for number in range(4)]
    apache.final(halves[0])
    for body in bodies:
        apache.op(body)
    world = apache.hand_over()
    assert list(world.transactions.pending) == [1, 3]
    assert world.tables.outcomes.state(0) is State.SETTLED


def test_half_messages_below_the_stored_offset_are_settled(apache: Apache) -> None:
    for number in range(5):
        apache.half(f"k{number}")
    world = apache.hand_over(half_offset=3, op_offset=0)
    assert list(world.transactions.pending) == [3, 4]
    assert world.transactions.pending.base == 3


def test_offsets_beyond_the_queues_are_cut_back(apache: Apache) -> None:
    apache.half("k0")
    world = apache.hand_over(half_offset=99, op_offset=99)
    assert world.transactions.pending.count == 0
    assert (world.found.half_start, world.found.op_start) == (1, 0)


def test_op_records_may_name_half_messages_that_are_not_there(apache: Apache) -> None:
    apache.half("k0")
    apache.op("77,0,")
    assert apache.hand_over().transactions.pending.count == 0


def test_an_outcome_that_an_op_record_does_not_tell_is_known_by_its_final_message(apache: Apache) -> None:
    committed, rolled_back = apache.half("c"), apache.half("r")
    apache.final(committed)
    apache.op("0,1,")
    world = apache.hand_over()
    codes = []
    for half, outcome in (
        (committed, COMMIT),
        (committed, ROLLBACK),
        (rolled_back, ROLLBACK),
        (rolled_back, COMMIT),
    ):
        answer = world.end(place(half), outcome)
        assert answer is not None
        codes.append(answer.code)
    good, bad = ResponseCode.SUCCESS, ResponseCode.ILLEGAL_OPERATION
    assert codes == [good, bad, good, bad]
    assert world.finals() == ["c"]


def test_final_messages_whose_op_record_was_not_written_yet_count_as_committed(apache: Apache) -> None:
    halves = [apache.half(f"k{number}") for number in range(6)]
    apache.op("0,")
    apache.final(halves[2])
    apache.world.clock.advance(OP_LAG_MS / 1_000 - 1)
    apache.op("1,")
    apache.final(halves[4])
    world = apache.hand_over()
    assert list(world.transactions.pending) == [3, 5]
    assert world.ops() == ["0,", "1,", "2,4,"], "what was missing is written at once"
    assert world.finals() == ["k2", "k4"]


def test_the_search_for_final_messages_begins_late_in_a_long_log(apache: Apache) -> None:
    pending = apache.half("pending")
    for number in range(50):
        half = apache.half(f"k{number}")
        apache.final(half)
        apache.op(f"{half.queue_offset},")
        apache.world.clock.advance(10)
    world = apache.hand_over()
    assert list(world.transactions.pending) == [pending.queue_offset]
    assert world.found.final_count <= OP_LAG_MS / 10_000 + 1


def test_a_half_message_put_back_for_a_check_is_the_same_transaction(apache: Apache) -> None:
    first = apache.half("k1")
    apache.half("other")
    second = apache.put_back(first, TRANSACTION_CHECK_TIMES="1")
    third = apache.put_back(second, TRANSACTION_CHECK_TIMES="2")
    world = apache.hand_over(half_offset=0)
    assert list(world.transactions.pending) == [1, third.queue_offset]
    assert world.transactions.pending.checks(third.queue_offset) == 2
    assert world.op_offsets() == [first.queue_offset, second.queue_offset]
    answer = world.end(place(first), COMMIT)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    for half in (second, third):
        assert world.end(place(half), COMMIT) is not None
    assert world.finals() == ["k1"]
    assert list(world.transactions.pending) == [1]


def test_an_outcome_for_a_copy_that_was_passed_long_ago_reaches_the_living_one(apache: Apache) -> None:
    first = apache.half("k1")
    copy = apache.put_back(first, TRANSACTION_CHECK_TIMES="1")
    world = apache.hand_over(half_offset=copy.queue_offset)
    assert list(world.transactions.pending) == [copy.queue_offset]
    assert world.end(place(first), ROLLBACK) is not None
    answer = world.end(place(copy), COMMIT, from_check=True)
    assert answer is not None
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert world.finals() == []


def test_a_commit_of_the_first_copy_settles_the_later_one(apache: Apache) -> None:
    first = apache.half("k1")
    copy = apache.put_back(first, TRANSACTION_CHECK_TIMES="1")
    apache.final(first)
    apache.op(f"{first.queue_offset},")
    world = apache.hand_over(half_offset=copy.queue_offset, op_offset=1)
    assert world.transactions.pending.count == 0
    world.end(place(copy), COMMIT, from_check=True)
    assert world.finals() == ["k1"]


def test_a_final_message_of_an_earlier_copy_settles_the_later_one(apache: Apache) -> None:
    first = apache.half("k1")
    copy = apache.put_back(first, TRANSACTION_CHECK_TIMES="1")
    apache.final(first)
    world = apache.hand_over(half_offset=copy.queue_offset)
    assert world.transactions.pending.count == 0
    assert world.op_offsets() == [copy.queue_offset]


def test_a_copy_made_during_the_immunity_time_names_the_first_one(apache: Apache) -> None:
    first = apache.half("k1", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    apache.put_back(first, TRAN_PREPARED_QUEUE_OFFSET="0")
    apache.op("0,")
    assert apache.hand_over(half_offset=1, op_offset=0).transactions.pending.count == 0


def test_a_copy_with_an_outcome_settles_the_first_one_too(apache: Apache) -> None:
    first = apache.half("k1")
    apache.put_back(first, TRANSACTION_CHECK_TIMES="1")
    apache.op("1,")
    assert apache.hand_over(half_offset=0).transactions.pending.count == 0


def test_a_resumed_half_message_is_a_new_one(apache: Apache) -> None:
    first = apache.half("k1")
    apache.op("0,")
    again = apache.put_back(first, TRANSACTION_CHECK_TIMES="0")
    copy = apache.put_back(again, TRANSACTION_CHECK_TIMES="1")
    world = apache.hand_over(half_offset=0)
    assert list(world.transactions.pending) == [copy.queue_offset]


def test_a_half_message_without_group_waits_alone(apache: Apache) -> None:
    apache.append(OutgoingMessage(HALF_TOPIC, 0, 0, 0, 1, HOST, HOST, 0, 0, b"x", b""))
    apache.half("k1")
    world = apache.hand_over()
    producer = world.connect("g")
    world.wait(8)
    assert [message.unique_key for _, message in producer.checks] == ["k1"]


def test_queues_whose_front_was_deleted_are_read_from_what_is_left(apache: Apache) -> None:
    for number in range(4):
        apache.half(f"k{number}")
        apache.op(f"{number},")
    apache.half("k4")
    apache.world.log.drop_front(HALF_TOPIC, 0, 3)
    apache.world.log.drop_front(OP_HALF_TOPIC, 0, 2)
    log = apache.world.log
    world = World(apache.directory, log=log, clock=apache.world.clock)
    assert list(world.transactions.pending) == [4]


def test_a_half_message_that_cannot_be_read_is_not_passed_over(apache: Apache, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        apache.half(f"k{number}")
    log = apache.world.log.cut(10**9)
    whole = log.get_messages

    def read(topic: str, queue_id: int, offset: int, count: int, size: int, wanted: Wanted) -> GetResult:
        if topic == HALF_TOPIC and offset == 2:
            return GetResult(GetStatus.OFFSET_FOUND_NULL, 2, (0, 5))
        return whole(topic, queue_id, offset, 1, size, wanted)

    monkeypatch.setattr(log, "get_messages", read)
    with pytest.raises(MessageUnreadable, match=r"message 2 of RMQ_SYS_TRANS_HALF_TOPIC/0 .*store repair"):
        World(apache.directory, log=log, clock=apache.world.clock)


@pytest.mark.parametrize("which", ["half", "op"])
def test_a_damaged_record_is_not_passed_over(apache: Apache, which: str) -> None:
    halves = [apache.half(f"k{number}") for number in range(4)]
    ops = [apache.op("0,"), apache.op("1,")]
    log, record = apache.world.log, {"half": halves[2], "op": ops[1]}[which]
    raw = bytearray(log.records[record.commit_log_offset])
    raw[4] ^= 0xFF
    log.records[record.commit_log_offset] = bytes(raw)
    with pytest.raises(MessageUnreadable, match=rf"message {record.queue_offset} of {record.topic}/0 .*unknown magic"):
        World(apache.directory, log=log, clock=apache.world.clock)


def test_a_damaged_op_record_that_is_not_needed_any_more_keeps_nothing_from_starting(apache: Apache) -> None:
    """It is read for late repeats only."""
    for number in range(4):
        apache.half(f"k{number}")
    old, _, _ = apache.op("0,"), apache.op("1,"), apache.op("2,")
    log = apache.world.log
    raw = bytearray(log.records[old.commit_log_offset])
    raw[4] ^= 0xFF
    log.records[old.commit_log_offset] = bytes(raw)
    offsets = apache.world.offsets
    offsets.table |= {HALF_TOPIC: 1, OP_HALF_TOPIC: 1}
    world = World(apache.directory, log=log, offsets=offsets, clock=apache.world.clock)
    assert list(world.transactions.pending) == [3]


def test_an_op_record_that_names_nobody_makes_final_messages_of_any_time_evidence(apache: Apache) -> None:
    """A repair puts such a record in the place of a damaged one; the mark says that all below has its op record."""
    committed, rolled_back, later = (apache.half(key) for key in ("c", "r", "l"))
    apache.final(committed)
    apache.op("This message was damaged on disk")
    apache.world.clock.advance(2 * OP_LAG_MS / 1_000)
    apache.op("2,")
    world = apache.hand_over()
    assert world.tables.outcomes.state(committed.queue_offset) is State.COMMITTED
    assert list(world.transactions.pending) == [rolled_back.queue_offset]
    assert world.tables.outcomes.state(later.queue_offset) is State.SETTLED


@pytest.mark.parametrize("lost", [1, 9, 12])
def test_an_op_record_torn_behind_its_body_settles_nothing(apache: Apache, lost: int) -> None:
    """Of a write that a power failure cut short; the checksum covers the body only."""
    for number in range(3):
        apache.half(f"k{number}")
    apache.op("0,")
    torn = apache.append(build_op([(1, State.ROLLED_BACK)], host=HOST, now_ms=START_MS))
    log = apache.world.log
    raw = log.records[torn.commit_log_offset]
    log.records[torn.commit_log_offset] = raw[:-lost] + bytes(lost)
    world = World(apache.directory, log=log, clock=apache.world.clock)
    assert list(world.transactions.pending) == [1, 2]


def test_due_times_begin_when_the_half_message_was_stored(apache: Apache) -> None:
    apache.half("k0")
    apache.world.clock.advance(4)
    apache.half("k1", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    world = apache.hand_over()
    assert world.transactions.pending.due_at_ms(0) == START_MS + 6_000
    assert world.transactions.pending.due_at_ms(1) == START_MS + 104_000


def test_a_store_time_in_the_future_does_not_put_checks_off_for_ever(tmp_path: Path) -> None:
    apache = Apache(tmp_path)
    apache.world.clock.advance(1_000_000)
    apache.half("k0")
    apache.world.clock.rightNow = 0.0  # the machine's clock was wrong before
    world = apache.hand_over()
    assert world.transactions.pending.due_at_ms(0) == START_MS + 6_000


def test_the_offsets_left_behind_are_those_apache_rocketmq_goes_on_from(tmp_path: Path) -> None:
    world = World(tmp_path)
    halves = [world.send(f"k{number}") for number in range(4)]
    for half in halves[:2]:
        world.end(half, COMMIT)
    world.wait(2)
    world.stop()
    assert world.offsets.table == {HALF_TOPIC: 2, OP_HALF_TOPIC: 0}
    world = world.restart()
    for half in halves[2:]:
        world.end(half, ROLLBACK)
    world.wait(2)
    world.stop()
    assert world.offsets.table == {HALF_TOPIC: 4, OP_HALF_TOPIC: 4}


def test_outcomes_from_before_the_last_start_are_still_known_one_by_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    halves = [world.send(f"k{number}") for number in range(3)]
    world.end(halves[0], COMMIT)
    world.end(halves[1], ROLLBACK)
    world.wait(2)
    world = world.restart()
    assert [world.tables.outcomes.state(offset) for offset in range(3)] == [
        State.COMMITTED,
        State.ROLLED_BACK,
        State.PENDING,
    ]


def test_an_empty_store_has_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert (world.found.half_end, world.transactions.pending.count) == (0, 0)
    world.wait(5)
    assert world.clock.getDelayedCalls() == []


def test_the_mark_bounds_the_search_after_a_clean_stop(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.send("pending")
    for number in range(20):
        world.end(world.send(f"k{number}"), COMMIT)
    world.stop()
    world = world.restart()
    assert world.found.final_count == 0
    assert list(world.transactions.pending) == [0]
