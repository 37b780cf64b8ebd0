"""Half messages of some hundred kilobytes: their bodies are read for a commit only, and not on the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.in_thread import Failed
from gateway.metadata.names import HALF_TOPIC
from gateway.remoting.turns import finish
from gateway.settings import Settings
from gateway.tests.store.small_store import Executor
from gateway.tests.transaction.world import COMMIT, HOST, ROLLBACK, World
from gateway.transaction.operators.overview import Selection
from gateway.transaction.replies import Reply
from gateway.transaction.states import Event, State
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.message.message_id import build_offset_message_id
from wire.message.record import StoredMessage

LARGE = b"x" * 100_000
NONE_KEPT = Settings(recent_half_bytes=0)


class Threads:
    """A thread whose work is done when told to; until then at once."""

    def __init__(self) -> None:
        self.executor: Executor | None = None

    def __call__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if self.executor is None:
            done(work())
        else:
            self.executor.in_thread(work, done)


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def world(tmp_path: Path, threads: Threads) -> World:
    return World(tmp_path, settings=NONE_KEPT, threads=threads)


@pytest.mark.parametrize(
    ("outcome", "changes", "code"),
    [
        (COMMIT, {"group": "other"}, ResponseCode.SYSTEM_ERROR),
        (COMMIT, {"tran_state_table_offset": 7}, ResponseCode.SYSTEM_ERROR),
        (ROLLBACK, {"group": "other"}, ResponseCode.SYSTEM_ERROR),
        (ROLLBACK, {}, ResponseCode.SUCCESS),
        (77, {}, ResponseCode.ILLEGAL_OPERATION),
    ],
)
def test_what_is_refused_or_rolled_back_needs_no_body(
    world: World, outcome: int, changes: dict[str, Any], code: ResponseCode
) -> None:
    half = world.send("k1", body=LARGE)
    answer = world.end(half, outcome, **changes)
    assert answer is not None
    assert (answer.code, world.log.bodies_read) == (code, 0)


def test_a_commit_reads_the_body_once_and_delivers_it(world: World) -> None:
    half = world.send("k1", body=LARGE)
    for _ in range(3):
        answer = world.end(half, COMMIT)
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS
    contradicting = world.end(half, ROLLBACK)
    assert contradicting is not None
    assert contradicting.code == ResponseCode.ILLEGAL_OPERATION
    assert world.log.bodies_read == 1
    [final] = world.log.messages("orders")
    assert (final.body, final.prepared_transaction_offset) == (LARGE, half.commit_log_offset)


def test_a_body_is_read_in_a_thread_and_meanwhile_its_outcome_stands_and_others_get_theirs(
    world: World, threads: Threads
) -> None:
    large, small = world.send("large", body=LARGE), world.send("small")
    threads.executor = executor = Executor()
    assert world.end(large, COMMIT) is None
    refused, quick = world.end(large, ROLLBACK), world.end(small, COMMIT)
    assert refused is not None
    assert quick is not None
    assert (refused.code, quick.code) == (ResponseCode.ILLEGAL_OPERATION, ResponseCode.SUCCESS)
    assert (world.finals(), world.log.bodies_read) == (["small"], 0)
    assert not world.transactions.settling.is_idle, "a stop waits for it"
    executor.run()
    world.turn()
    assert world.finals() == ["small", "large"]
    assert world.stranger.answers[-1].code == ResponseCode.SUCCESS


@pytest.mark.parametrize("is_error", [False, True])
def test_a_half_message_whose_body_cannot_be_read_is_pending_again(
    world: World, threads: Threads, is_error: bool
) -> None:
    half = world.send("k1", body=LARGE)
    record = world.log.records[half.commit_log_offset]
    threads.executor = executor = Executor()
    world.end(half, COMMIT)
    work, done = executor.threads.popleft()
    if is_error:
        done(Failed(OSError("no disk")))
    else:
        del world.log.records[half.commit_log_offset]
        done(work())
    threads.executor = None
    world.turn()
    answer = world.stranger.answers[-1]
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "cannot be read" in (answer.remark or "")
    assert world.tables.outcomes.state(half.queue_offset) is State.PENDING
    world.log.records[half.commit_log_offset] = record
    assert world.end(half, COMMIT) is not None
    assert world.finals() == ["k1"]


def test_an_outcome_of_what_is_on_the_disk_waits_for_a_thread(world: World, threads: Threads) -> None:
    half = world.send("k1")
    world.log.cold.add(half.commit_log_offset)
    threads.executor = executor = Executor()
    assert world.end(half, COMMIT, group="other") is None
    assert world.end(half, COMMIT) is None
    executor.run()
    world.turn()
    codes = [answer.code for answer in world.stranger.answers]
    assert codes == [ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS]
    assert world.finals() == ["k1"]


def test_people_are_shown_half_messages_without_reading_bodies_and_settle_what_they_were_shown(world: World) -> None:
    halves = [world.send(f"k{number}", body=LARGE) for number in range(5)]
    overview = world.transactions.overview
    listed, _ = finish(overview.page(Selection()))
    shown = [overview.described(entry) for entry in listed]
    assert [(each.body_bytes, each.transaction_id) for each in shown] == [
        (len(LARGE), f"k{number}") for number in range(5)
    ]
    named = overview.find(build_offset_message_id(HOST, halves[3].commit_log_offset))
    assert named is not None
    assert world.log.bodies_read == 0
    replies: list[Reply] = []
    world.transactions.interventions.settle(named, Event.COMMIT, ("operator", "somebody"), replies.append)
    world.turn()
    assert [reply.code for reply in replies] == [ResponseCode.SUCCESS]
    assert [(message.unique_key, message.body) for message in world.log.messages("orders")] == [("k3", LARGE)]
    world.transactions.interventions.settle(
        shown_again(world, "k1"), Event.DISCARD, ("operator", "somebody"), replies.append, "why"
    )
    world.turn()
    [given_up] = world.log.messages("TRANS_CHECK_MAX_TIME_TOPIC")
    assert (given_up.body, given_up.property_map["TRANSACTION_DISCARD_REASON"]) == (LARGE, "why")


def test_a_long_page_is_put_together_in_turns(world: World) -> None:
    halves = [world.send(f"k{number}") for number in range(120)]
    pieces = 0
    page = world.transactions.overview.page(Selection(max_count=110))
    while True:
        try:
            next(page)
        except StopIteration as end:
            listed, after = end.value
            break
        pieces += 1
    assert [entry.offset for entry in listed] == [half.queue_offset for half in halves[:110]]
    assert (pieces, after) == (2, halves[109].queue_offset)


def shown_again(world: World, key: str) -> StoredMessage:
    """Return the log's half message with this key, without its body."""
    [place] = [half.commit_log_offset for half in world.log.messages(HALF_TOPIC) if half.unique_key == key]
    head = world.log.head_at(place)
    assert head is not None
    return head


def resume(world: World, place: int) -> RemotingCommand | None:
    return world.request(
        RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": build_offset_message_id(HOST, place)}, turn=True
    )


def test_resuming_reads_the_body_of_what_was_given_up_alone(world: World, threads: Threads) -> None:
    half = world.send("k1", body=LARGE)
    world.transactions.settling.discard(world.log.messages(HALF_TOPIC)[0], 3, "told so")
    world.turn()
    [copy] = world.log.messages("TRANS_CHECK_MAX_TIME_TOPIC")
    settled = resume(world, half.commit_log_offset)
    assert settled is not None
    assert (settled.code, world.log.bodies_read) == (ResponseCode.SYSTEM_ERROR, 0)
    threads.executor = executor = Executor()
    assert resume(world, copy.commit_log_offset) is None
    again = resume(world, copy.commit_log_offset)
    assert again is not None
    assert again.code == ResponseCode.SYSTEM_ERROR
    executor.run()
    assert world.stranger.answers[-1].code == ResponseCode.SUCCESS
    assert world.log.bodies_read == 1
    assert world.log.messages(HALF_TOPIC)[-1].body == LARGE
