"""Checks over connections: who is asked, when, and what goes on after failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.in_thread import in_this_thread
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.remoting.declared import Need
from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.transaction.world import COMMIT, TRANSACTIONS, UNKNOWN, Producer, World
from gateway.transaction.checks.check_journal import RECORD_BYTES
from gateway.transaction.checks.check_service import GATHER_MS, MAX_LOOKS_FOR_PRODUCERS
from gateway.transaction.needs import Asked
from gateway.transaction.records.half_messages import DISCARD_REASON, half_of
from gateway.transaction.states import State
from wire.codes import RequestCode, ResponseCode
from wire.message.message_id import build_offset_message_id
from wire.message.properties import build_properties


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_check_names_everything_the_client_needs(world: World) -> None:
    producer = world.connect("g")
    half = world.send("k1")
    world.wait(7)
    [(header, message)] = producer.checks
    assert header.topic == HALF_TOPIC
    assert header.msg_id == header.transaction_id == "k1"
    assert header.tran_state_table_offset == half.queue_offset
    assert header.commit_log_offset == half.commit_log_offset
    assert header.offset_msg_id == build_offset_message_id(half.message.store_host, half.commit_log_offset)
    assert message.property_map["PGROUP"] == "g"


def test_checks_come_an_interval_apart_and_then_the_message_is_given_up(world: World) -> None:
    producer = world.connect("g")
    half = world.send("k1")
    counts = []
    for seconds in (5.9, 0.3, 29.6, 0.4, 29.7, 0.4, 29.6, 0.5):
        world.wait(seconds)
        counts.append((len(producer.checks), world.tables.outcomes.state(half.queue_offset).name))
    assert [checks for checks, _ in counts] == [0, 1, 1, 2, 2, 3, 3, 3]
    assert [state for _, state in counts] == ["PENDING"] * 7 + ["DISCARDED"]


def test_producers_of_a_group_are_asked_in_turn(world: World) -> None:
    producers = [world.connect("g", name) for name in ("p1", "p2")]
    for number in range(4):
        world.send(f"k{number}")
    world.wait(7)
    assert [len(producer.checks) for producer in producers] == [2, 2]


def test_a_group_without_producer_waits_for_days_and_is_given_up_with_its_reason(tmp_path: Path) -> None:
    world = World(tmp_path, settings=replace(TRANSACTIONS, file_reserved_time_hours=1))
    for number in range(3):
        world.send(f"k{number}")
    world.wait(3_599)
    assert world.transactions.pending.count == 3
    world.wait(3)
    assert world.transactions.pending.count == 0
    reasons = {message.property_map[DISCARD_REASON] for message in world.log.messages(CHECK_MAX_TOPIC)}
    assert reasons == {"older than 1 hours without an outcome"}


def test_each_second_a_producer_is_looked_for_in_a_limited_number_of_groups(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may name another group in each half message, and none of them has a producer."""
    count = MAX_LOOKS_FOR_PRODUCERS + 500
    for number in range(count):
        world.send(f"k{number}", f"g{number}")
    world.clock.advance(1_000)
    for _ in range(100):
        world.clock.advance(0.01)
    looks: list[str] = []
    pick = world.producers.pick

    def noted(group: str, exclude: Container[Asked] = (), needs: Sequence[Need] = ()) -> Producer | None:
        looks.append(group)
        return pick(group, exclude, needs)

    monkeypatch.setattr(world.producers, "pick", noted)
    world.wait(1)
    assert 0 < len(looks) <= MAX_LOOKS_FOR_PRODUCERS
    world.wait(1)
    assert len(set(looks)) == count


def test_only_so_many_checks_are_in_flight_and_answers_make_room(world: World) -> None:
    producer = world.connect("g")
    halves = [world.send(f"k{number}") for number in range(20)]
    world.wait(6.5)
    assert len(producer.checks) == TRANSACTIONS.checks_in_flight
    for half in halves[:5]:
        world.end(half, UNKNOWN, from_check=True)
    world.wait(0.1)
    assert len(producer.checks) == TRANSACTIONS.checks_in_flight + 5
    assert world.transactions.counts.checks_unknown.value == 5


def test_answers_of_a_moment_make_room_together(world: World) -> None:
    producer = world.connect("g")
    halves = [world.send(f"k{number}") for number in range(20)]
    world.wait(6.5)
    journal = world.directory / "checks"
    written = journal.stat().st_size
    for half in halves[:3]:
        world.end(half, UNKNOWN, from_check=True)
        assert len(producer.checks) == TRANSACTIONS.checks_in_flight, "no turn for each of them"
    world.clock.advance(GATHER_MS / 1_000)
    assert len(producer.checks) == TRANSACTIONS.checks_in_flight + 3
    assert journal.stat().st_size == written + 3 * RECORD_BYTES


def test_the_answer_to_a_check_needs_no_second_read_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, settings=replace(TRANSACTIONS, recent_half_bytes=40_000))  # some fifteen of them
    world.connect("g")
    halves = [world.send(f"k{number}") for number in range(40)]
    assert world.tables.recent.find(halves[0].queue_offset, halves[0].commit_log_offset) is None
    world.wait(6.5)
    monkeypatch.setattr(world.log, "message_at", None)
    for half in halves[: TRANSACTIONS.checks_in_flight]:
        world.end(half, COMMIT, from_check=True)
    assert world.finals() == [f"k{number}" for number in range(TRANSACTIONS.checks_in_flight)]


def test_unanswered_checks_make_room_after_a_while(world: World) -> None:
    producer = world.connect("g")
    for number in range(20):
        world.send(f"k{number}")
    world.wait(28)
    assert len(producer.checks) > TRANSACTIONS.checks_in_flight
    assert world.transactions.counts.checks_lost.value >= TRANSACTIONS.checks_in_flight


def test_a_message_that_cannot_be_given_up_is_tried_again_after_an_interval(world: World) -> None:
    world.connect("g")
    half = world.send("k1")
    world.log.refuses = lambda message: PutStatus.SERVICE_NOT_AVAILABLE
    world.wait(100)
    assert world.tables.outcomes.state(half.queue_offset) is State.PENDING
    world.log.refuses = lambda message: None
    world.wait(31)
    assert world.tables.outcomes.state(half.queue_offset) is State.DISCARDED
    assert len(world.log.messages(CHECK_MAX_TOPIC)) == 1


def test_a_producer_that_raises_is_logged_and_the_others_are_asked(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = world.connect("bad"), world.connect("good")

    def broken(*_: object) -> bool:
        raise RuntimeError("no")

    monkeypatch.setattr(bad, "notify", broken)
    for number in range(3):
        world.send(f"b{number}", group="bad")
        world.send(f"g{number}", group="good")
    with caplog.at_level(logging.ERROR, "gateway"):
        world.wait(7)
    assert len(good.checks) == 3
    assert [record.message for record in caplog.records] == ["check failed"] * 3


def test_a_turn_that_fails_does_not_end_the_checks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send("k1")
    world.wait(7)

    def broken(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(world.producers, "pick", broken)
    with pytest.raises(RuntimeError):
        world.wait(2)
    monkeypatch.undo()
    producer = world.connect("g")
    world.send("k2")
    world.wait(7)
    assert [message.unique_key for _, message in producer.checks] == ["k1", "k2"]


def test_a_pending_message_can_be_checked_at_once(world: World) -> None:
    producer = world.connect("g")
    half = world.send("k1", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "1000"})
    message_id = build_offset_message_id(half.message.store_host, half.commit_log_offset)
    answer = world.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    world.wait(0.2)
    assert len(producer.checks) == 1


def test_settled_messages_cost_nothing_when_their_time_comes(world: World) -> None:
    producer = world.connect("g")
    for number in range(50):
        world.end(world.send(f"k{number}"), COMMIT)
    world.send("open")
    world.wait(7)
    assert [message.unique_key for _, message in producer.checks] == ["open"]


def test_nothing_is_checked_after_a_stop(world: World) -> None:
    producer = world.connect("g")
    world.send("k1")
    world.stop()
    world.wait(10)
    assert producer.checks == []


@pytest.mark.parametrize(
    "properties",
    [
        {"TRANSACTION_CHECK_TIMES": "2147483647", "TAGS": "STORE_REPAIR_STAND_IN"},
        {},
        {"PGROUP": "g", "REAL_TOPIC": "orders", "REAL_QID": "none"},
    ],
    ids=["stand-in", "nothing", "no-queue"],
)
def test_a_half_message_without_its_real_topic_is_given_up_once_and_nobody_is_asked(
    world: World, caplog: pytest.LogCaptureFixture, properties: dict[str, str]
) -> None:
    producer = world.connect("g")
    message = half_of(world.message("k1"))
    message.properties, message.property_map = build_properties(properties), properties
    stored: list[PutResult] = []
    world.log.append(message, stored.append)
    with caplog.at_level(logging.WARNING, "gateway"):
        world.wait(100)
    assert [record.message for record in caplog.records] == ["half message given up"]
    assert producer.checks == []
    assert world.tables.outcomes.state(stored[0].queue_offset) is State.DISCARDED
    assert world.transactions.counts.discards.value == 1
    assert world.op_offsets() == [stored[0].queue_offset]
    again = world.restart()
    again.wait(100)
    assert again.transactions.pending.count == 0
    assert len(again.log.messages(CHECK_MAX_TOPIC)) == 1


# -- records on disk ----------------------------------------------------------------------------------------


class Threads:
    """Work that is done when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], object], Callable[[Any], None]]] = []

    def __call__(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for work, done in waiting:
            in_this_thread(work, done)


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def slow(tmp_path: Path, threads: Threads) -> World:
    """A world in which every record has to come from the disk."""
    world = World(tmp_path, threads=threads)
    send = world.send

    def sent(*arguments: Any, **more: Any) -> PutResult:
        half = send(*arguments, **more)
        world.log.cold.add(half.commit_log_offset)
        return half

    world.send = sent  # type: ignore[method-assign]
    return world


def checked(*producers: Producer) -> list[list[str | None]]:
    return [[message.unique_key for _, message in producer.checks] for producer in producers]


def test_records_on_disk_are_read_in_a_thread_and_checked_in_the_same_order(slow: World, threads: Threads) -> None:
    first, second = slow.connect("g1", "first"), slow.connect("g2", "second")
    for number in range(3):
        slow.send(f"a{number}", group="g1")
        slow.send(f"b{number}", group="g2")
    slow.wait(7)
    assert checked(first, second) == [[], []]
    assert len(threads.waiting) == 1, "one batch at a time, and none of the six is chosen twice"
    order: list[str | None] = []
    for producer in (first, second):
        producer.notify = _noting(producer, order)  # type: ignore[method-assign]
    threads.run()
    assert order == ["a0", "b0", "a1", "b1", "a2", "b2"], "the groups take turns"


def _noting(producer: Producer, order: list[str | None]) -> Callable[..., bool]:
    notify = producer.notify

    def noted(*arguments: Any) -> bool:
        taken = notify(*arguments)
        order.append(producer.checks[-1][1].unique_key)
        return taken

    return noted


def test_nothing_spins_while_the_disk_is_slow(slow: World, threads: Threads) -> None:
    slow.connect("g")
    for number in range(30):
        slow.send(f"k{number}")
    slow.wait(6.5)
    assert len(threads.waiting) == 1
    calls = [call.getTime() - slow.clock.seconds() for call in slow.clock.getDelayedCalls()]
    assert calls
    assert min(calls) > 0.1
    threads.run()
    assert slow.tables.turns.in_flight == TRANSACTIONS.checks_in_flight


def test_what_is_settled_or_put_off_while_it_is_read_is_not_checked(slow: World, threads: Threads) -> None:
    producer = slow.connect("g")
    halves = [slow.send(f"k{number}") for number in range(3)]
    slow.wait(6.5)
    slow.end(halves[0], COMMIT)
    slow.log.refuses = lambda message: PutStatus.UNKNOWN_ERROR
    slow.end(halves[1], COMMIT)
    slow.log.refuses = lambda message: None
    assert slow.transactions.tables.outcomes.state(halves[1].queue_offset) is State.PENDING
    threads.run()
    slow.turn()
    assert checked(producer) == [["k2"]]
    assert slow.tables.turns.in_flight == 1


def test_a_group_without_producer_keeps_its_order_through_a_read(slow: World, threads: Threads) -> None:
    for number in range(5):
        slow.send(f"k{number}")
    slow.wait(6.5)
    threads.run()
    assert slow.transactions.counts.checks_sent.value == 0
    producer = slow.connect("g")
    slow.wait(1.5)
    threads.run()
    assert checked(producer) == [["k0", "k1", "k2", "k3", "k4"]]


def test_a_record_that_cannot_be_read_is_put_off_and_the_others_are_asked(
    slow: World, threads: Threads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = slow.connect("g")
    halves = [slow.send(f"k{number}") for number in range(3)]
    message_at = slow.log.message_at

    def failing(place: int, size: int | None = None) -> object:
        if place == halves[1].commit_log_offset:
            raise OSError(5, "Input/output error")
        return message_at(place, size)

    monkeypatch.setattr(slow.log, "message_at", failing)
    slow.wait(6.5)
    with caplog.at_level(logging.ERROR, "gateway"):
        threads.run()
    assert checked(producer) == [["k0", "k2"]]
    assert [record.message for record in caplog.records] == ["check failed"]
    monkeypatch.undo()
    slow.wait(30)
    threads.run()
    assert checked(producer)[0].count("k1") == 1


def test_what_is_too_old_is_read_off_the_reactor_as_well(tmp_path: Path, threads: Threads) -> None:
    world = World(tmp_path, settings=replace(TRANSACTIONS, file_reserved_time_hours=1), threads=threads)
    halves = [world.send(f"k{number}") for number in range(3)]
    world.log.cold.update(half.commit_log_offset for half in halves)
    world.wait(3_580)
    for _ in range(20):
        world.wait(1)
        threads.run()
    assert world.transactions.pending.count == 3
    world.wait(2)
    assert (world.transactions.pending.count, len(threads.waiting)) == (3, 1)
    threads.run()
    world.turn()
    assert world.transactions.pending.count == 0
    assert len(world.log.messages(CHECK_MAX_TOPIC)) == 3


def test_a_batch_holds_only_so_many_bytes(slow: World, threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = slow.connect("g")
    sizes = [slow.send(f"k{number}").size for number in range(5)]
    monkeypatch.setattr("gateway.transaction.checks.check_service.MAX_READ_BYTES", sizes[0] + 1)
    slow.wait(6.5)
    threads.run()
    assert len(producer.checks) == 2
    slow.turn()
    threads.run()
    assert len(producer.checks) == 4


def test_a_stop_while_records_are_read_checks_nothing(slow: World, threads: Threads) -> None:
    producer = slow.connect("g")
    slow.send("k1")
    slow.wait(6.5)
    slow.stop()
    threads.run()
    slow.wait(2)
    assert checked(producer) == [[]]


def test_a_check_that_a_person_asks_for_is_sent_after_the_last_one_too(tmp_path: Path) -> None:
    world = World(tmp_path, settings=replace(TRANSACTIONS, transaction_check_max=1))
    producer = world.connect("g")
    half = world.send("k1")
    world.wait(6.5)
    assert len(producer.checks) == 1
    assert world.transactions.interventions.ask_now(half.queue_offset)
    world.wait(1)
    assert len(producer.checks) == 2
    assert world.tables.outcomes.state(half.queue_offset) is State.PENDING
    world.wait(30)
    assert world.tables.outcomes.state(half.queue_offset) is State.DISCARDED


@pytest.mark.parametrize(
    "forged", [{"group": "other"}, {"commit_log_offset": 7}, {"tran_state_table_offset": 2**62}, {"group": ""}]
)
def test_an_unknown_answer_that_does_not_fit_the_half_message_changes_nothing(
    world: World, forged: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    world.connect("g")
    half = world.send("k1")
    world.wait(7)
    before = world.transactions.overview.statistics(10, {})
    assert before.checks_in_flight == 1
    answer = world.end(half, UNKNOWN, from_check=True, **forged)
    assert world.transactions.overview.statistics(10, {}) == before
    assert world.transactions.counts.checks_unknown.value == 0
    if "tran_state_table_offset" not in forged:
        assert answer is not None
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "outcome refused" in caplog.text
    world.end(half, UNKNOWN, from_check=True)
    assert world.transactions.counts.checks_unknown.value == 1
    assert world.transactions.overview.statistics(10, {}).checks_in_flight == 0


def test_a_refused_answer_with_an_outcome_is_no_answer_to_the_check(world: World) -> None:
    world.connect("g")
    half = world.send("k1")
    world.wait(7)
    world.end(half, COMMIT, from_check=True, group="other")
    assert world.transactions.overview.statistics(10, {}).checks_in_flight == 1


def test_who_asks_for_a_check_again_and_again_gets_no_turn_for_each(world: World) -> None:
    """Nobody can answer for the group: what waits for a producer does not grow."""
    half = world.send("k1")
    for _ in range(20):
        world.transactions.interventions.ask_now(half.queue_offset)
        world.wait(0.2)
    [group] = world.tables.turns.groups()
    assert list(group.ready) == [half.queue_offset]
    producer = world.connect("g")
    world.wait(2)
    assert len(producer.checks) == 1
