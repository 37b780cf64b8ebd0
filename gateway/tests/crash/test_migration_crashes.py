"""Moving pending transactions to another state store, with the power cut at every change: moved, or not moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from gateway.in_thread import in_this_thread
from gateway.metadata.names import OP_HALF_TOPIC
from gateway.metadata.offsets import ConsumerOffsets
from gateway.settings.transaction import TransactionStateStore
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult
from gateway.tests.crash.disk.image import Crash, Moment
from gateway.tests.crash.disk.recording import Image, RecordingFiles
from gateway.tests.crash.disk.state_databases import state_choice
from gateway.tests.crash.exploration import FRESH
from gateway.tests.crash.messages import outgoing
from gateway.tests.crash.small_broker import HOST, ROOT, START_MS, Clock, SmallBroker
from gateway.tests.crash.workload import ROLLING
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.records.half_messages import half_of
from gateway.transaction.restart.migration import Migration, OpenDirectory, Plan
from gateway.transaction.states import Event, State
from wire.message.properties import PropertyName

ALL = list(TransactionStateStore)
COUNT = 9
PENDING = [2, 5, 8]
moves = pytest.mark.parametrize(
    ("before", "after"), [(before, after) for before in ALL for after in ALL if before is not after]
)


def whole(image: Image, files: RecordingFiles, changes: int | None = None) -> Image:
    """Return the state after a number of changes, if nothing is lost."""
    moment = Moment(image)
    for change in files.changes[:changes]:
        moment.pass_over(change)
    return moment.image(moment.choice(Crash.KILL, Random(0)))


def opened(image: Image, states: TransactionStateStore) -> tuple[SmallBroker, RecordingFiles]:
    clock = Clock(START_MS)
    files = RecordingFiles(image, clock)
    broker = SmallBroker(files, clock, ROLLING, states)
    broker.open()
    broker.start()
    broker.threads.run()
    return broker, files


def a_life(states: TransactionStateStore) -> Image:
    """A directory with half messages of all kinds, closed properly."""
    broker, files = opened(FRESH, states)
    for number in range(COUNT):
        properties = {
            PropertyName.UNIQ_KEY: f"u{number}",
            PropertyName.PGROUP: "producers" if number % 2 else "others",
            PropertyName.TRAN_MSG: "true",
        }
        results: list[PutResult] = []
        broker.store.append(half_of(outgoing(("A", 0), b"%d" % number, START_MS, properties)), results.append)
        broker.threads.run()
        half = broker.store.message_at(results[0].commit_log_offset)
        assert half is not None
        if number % 3 == 0:
            broker.transactions.settling.ask(half, Event.COMMIT, ("test", "-"))
        elif number % 3 == 1:
            broker.transactions.settling.ask(half, Event.ROLLBACK, ("test", "-"))
        broker.threads.run()
    broker.close()
    return whole(FRESH, files)


@contextmanager
def migration(image: Image, after: TransactionStateStore) -> Iterator[tuple[Migration, RecordingFiles]]:
    clock = Clock(START_MS)
    files = RecordingFiles(image, clock)
    store = MessageStore(ROOT, ROLLING, StoreSurroundings(clock_ms=clock, files=files))
    store.open()
    offsets = ConsumerOffsets(
        path=ROOT / "config" / "consumerOffset.json", clock_ms=clock, in_thread=in_this_thread, disk=files
    )
    offsets.load()
    journal = CheckJournal(ROOT / "transaction" / "checks", in_thread=in_this_thread, files=files)
    journal.load()
    target = state_choice(ROOT, files, after)
    directory = OpenDirectory(store=store, offsets=offsets, journal=journal, host=HOST)
    made = Migration(target, target, directory, 4_096, clock)
    yield made, files
    made.close()
    journal.close()
    store.close()


def check(image: Image) -> TransactionStateStore:
    """Everything is as before in the state store that the directory has; which one that is."""
    has = state_choice(ROOT, RecordingFiles(image, Clock()), TransactionStateStore.QUEUE).remembered.load().store
    broker, _ = opened(image, has)
    assert list(broker.transactions.pending) == PENDING
    for offset in range(COUNT):
        is_pending = broker.transactions.tables.outcomes.state(offset) is State.PENDING
        assert is_pending == (offset in PENDING), offset
    assert broker.store.max_offset("A", 0) == COUNT // 3
    return has


@moves
def test_after_a_move_everything_is_as_before(before: TransactionStateStore, after: TransactionStateStore) -> None:
    image = a_life(before)
    with migration(image, after) as (move, files):
        assert move.plan() == Plan(before, after, {"others": 2, "producers": 1}, START_MS, is_done=False)
        move.run()
    moved = whole(image, files)
    assert check(moved) is after
    with migration(moved, after) as (again, _):
        assert again.plan().is_done


@moves
def test_a_move_that_is_cut_short_has_happened_or_not(
    before: TransactionStateStore, after: TransactionStateStore
) -> None:
    image = a_life(before)
    with migration(image, after) as (move, files):
        move.plan()
        begun = len(files.changes)
        move.run()
    found = set()
    moment = Moment(image)
    for number, change in enumerate(files.changes, 1):
        moment.pass_over(change)
        if number < begun:
            continue
        for crash in (Crash.KILL, Crash.NOTHING, Crash.NAMES, Crash.SOME):
            found.add(check(moment.image(moment.choice(crash, Random(number)))))
    assert found == {before, after}


@pytest.mark.parametrize("before", ALL)
def test_looking_changes_nothing_that_matters(before: TransactionStateStore) -> None:
    image = a_life(before)
    with migration(image, TransactionStateStore.TABLE) as (move, files):
        move.plan()
    assert check(whole(image, files)) is before


def test_to_the_queue_means_an_op_record_for_all_that_apache_would_ask_for_again() -> None:
    image = a_life(TransactionStateStore.DATABASE)
    with migration(image, TransactionStateStore.QUEUE) as (move, files):
        move.plan()
        assert move.run() == 1
    broker, _ = opened(whole(image, files), TransactionStateStore.QUEUE)
    result = broker.store.get_messages(OP_HALF_TOPIC, 0, 0, 10, 10_000)
    assert b"3,4,6,7," in b"".join(result.parts)
