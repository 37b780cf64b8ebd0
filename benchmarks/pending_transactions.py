"""The question: what a million half messages without an outcome cost, and whether everything else stays as quick.

    python -m benchmarks.pending_transactions                    a million; takes some minutes and 600 MB of disk
    python -m benchmarks.pending_transactions --count 100000     a tenth of it
    python -m benchmarks.pending_transactions --directory /data  names the disk

No Java, no sockets, no reactor: the store and the transactions of a broker in this process, its clock moved by hand.
Times are processor time, so that a busy machine tells the same. The target of each row is printed beside it.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from gateway.broker.cold_reads import ColdReads
from gateway.broker.named_messages import NamedMessages
from gateway.broker.requests.sending.end_transaction import EndTransaction
from gateway.in_thread import in_this_thread
from gateway.metadata.topics import NO_TOPICS
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.channel import Channel
from gateway.remoting.declared import Need
from gateway.remoting.dispatch import Dispatch
from gateway.settings import Settings
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.disk.files import FileLayer
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus, each_result
from gateway.telemetry.metrics import Registry
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.checks.check_service import GATHER_MS
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.needs import TransactionNeeds
from gateway.transaction.records.half_messages import half_of
from gateway.transaction.tables.transaction_tables import TransactionTables
from gateway.transaction.transactions import Transactions
from wire.codes import RequestCode
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.frame import build_frame
from wire.headers.declare import Header, build_header
from wire.headers.transaction import CheckTransactionStateRequest, EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage

if TYPE_CHECKING:
    from gateway.broker.desk import Desk

COUNT = 1_000_000
START_MS = 1_750_000_000_000
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
BODY = b"x" * 128
GROUPS = 8
BATCH = 1_000
SAMPLE = 20_000
"""Sends, commits and checks that are measured."""
ROUNDS = 5
IDLE_S = 60
MAX_START_S = 20


class UnsyncedFiles(FileLayer):
    """Files whose sync does nothing: what is left is the program's own work."""

    def fdatasync(self, fd: int) -> None:
        """Pretend."""


class Producer:
    """A living connection: frames every check, as a channel does, and answers that it does not know."""

    remote = "127.0.0.1", 40_000

    def __init__(self) -> None:
        self.checks = 0
        self.asked: list[int] = []

    def notify(self, code: int, header: Header | None = None, body: bytes = b"") -> bool:
        """Take a check."""
        assert isinstance(header, CheckTransactionStateRequest)
        build_frame(RemotingCommand(code, flag=ONEWAY_FLAG, ext_fields=build_header(header), body=body))
        self.checks += 1
        self.asked.append(header.tran_state_table_offset)
        return True


class Producers:
    """One producer in every group, or none."""

    def __init__(self) -> None:
        self.producer: Producer | None = None

    def pick(self, group: str, exclude: Container[Any] = (), needs: Sequence[Need] = ()) -> Producer | None:  # noqa: ARG002
        """The producer."""
        return None if self.producer in exclude else self.producer


class Offsets:
    """Consumer offsets that nobody keeps: the start has to look at everything."""

    def keep(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Forget it."""

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return −1, because no offset is known."""
        del group, topic, queue_id
        return -1


class Broker:
    """Store and transactions, without a network."""

    def __init__(self, directory: Path) -> None:
        self.clock = Clock()
        self._offset_ms = 0
        settings = StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH, disk_measured_bytes=0)
        self.store = MessageStore(
            directory, settings, StoreSurroundings(clock_ms=self.now_ms, files=UnsyncedFiles(), soon=self.soon)
        )
        self.producers = Producers()
        self.transactions = Transactions(
            TransactionTables(Settings(), TransactionCounts(Registry())),
            self.store,
            TransactionNeeds(
                reactor=self.clock,
                clock_ms=self.now_ms,
                in_thread=in_this_thread,
                read=lambda work, done, _holder: in_this_thread(work, done),
                soon=self.store.before_batch,
                producers=self.producers,
                offsets=Offsets(),
                host=HOST,
                topics=NO_TOPICS,
            ),
            CheckJournal(directory / "transaction" / "checks", in_thread=in_this_thread),
        )
        named = NamedMessages(self.store, ColdReads(in_this_thread, threads=1, limit=1))
        desk = SimpleNamespace(transactions=self.transactions, named=named, steady_ms=self.now_ms, master=None)
        end = EndTransaction(cast("Desk", desk))
        self.dispatch = Dispatch()
        end.register(self.dispatch)

    def now_ms(self) -> int:
        """The clock that is moved by hand."""
        return START_MS + round(self.clock.seconds() * 1_000)

    def soon(self, function: Callable[[], None]) -> None:
        """At the end of the turn."""
        self.clock.callLater(0, function)

    def turn(self) -> None:
        """Do what is due now and what comes of it."""
        calls = self.clock.getDelayedCalls()
        while any(call.getTime() <= self.clock.seconds() for call in calls):
            self.clock.advance(0)
            calls = self.clock.getDelayedCalls()

    def start(self) -> None:
        """From closed to serving."""
        self.store.open()
        self.transactions.rebuild()
        self.store.listen(lambda outcomes: self.transactions.half_stored(list(each_result(outcomes))))
        self.transactions.start()
        self.turn()

    def stop(self) -> None:
        """Close, as after a clean stop."""
        self.transactions.stop()
        self.turn()
        self.store.close()

    def append(self, messages: Iterator[OutgoingMessage], count: int) -> list[PutResult]:
        """Store messages in batches."""
        results: list[PutResult] = []
        for number in range(count):
            self.store.append(next(messages), results.append)
            if number % BATCH == BATCH - 1:
                self.turn()
        self.turn()
        return results


def message(number: int, *, is_half: bool) -> OutgoingMessage:
    """A message as a stock Java producer sends it."""
    pairs = {"UNIQ_KEY": f"7F0000010000{number:020X}", "TAGS": "TagA", "WAIT": "true"}
    if is_half:
        pairs |= {"TRAN_MSG": "true", "PGROUP": f"group{number % GROUPS}"}
    plain = OutgoingMessage(
        "orders", number % 8, 0, 0, START_MS, HOST, HOST, 0, 0, BODY, build_properties(pairs), pairs
    )
    return half_of(plain) if is_half else plain


def messages(first: int, *, is_half: bool) -> Iterator[OutgoingMessage]:
    """Messages without end."""
    number = first
    while True:
        yield message(number, is_half=is_half)
        number += 1


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    found: str
    target: str
    good: bool

    def __str__(self) -> str:
        return f"{self.name:52} {self.found:>16}   {self.target:18} {'ok' if self.good else 'MISSED'}"


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def best(measure: Callable[[], float], rounds: int = ROUNDS) -> float:
    """The least of several runs: what the program needs when nothing disturbs it."""
    return min(measure() for _ in range(rounds))


def per_item_us(work: Callable[[], int]) -> float:
    """Processor µs an item, of work that says how many it did."""
    begun = time.process_time()
    count = work()
    return (time.process_time() - begun) / count * 1e6


def send_cost(broker: Broker) -> float:
    """µs of storing one ordinary message."""
    ready = [message(number, is_half=False) for number in range(SAMPLE)]
    return best(lambda: per_item_us(lambda: len(broker.append(iter(ready), SAMPLE))))


def commit_cost(broker: Broker, places: list[PutResult]) -> float:
    """µs of one END_TRANSACTION, the final message stored."""
    requests = [
        RemotingCommand(
            RequestCode.END_TRANSACTION,
            flag=ONEWAY_FLAG,
            ext_fields=build_header(
                EndTransactionRequest(
                    producer_group=place.message.property_map["PGROUP"],
                    tran_state_table_offset=place.queue_offset,
                    commit_log_offset=place.commit_log_offset,
                    commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
                    msg_id="id",
                )
            ),
        )
        for place in places
    ]
    settings, group = Settings(), FlushGroup(broker.clock)
    channel = Channel(
        StringTransport(),  # type: ignore[no-untyped-call]
        1,
        flush_group=group,
        room=AnswerRoom(broker.clock, group, settings.unsent_bytes_total),
        reactor=broker.clock,
        settings=settings,
    )

    def work() -> int:
        for start in range(0, len(requests), 32):
            broker.dispatch.commands(channel, requests[start : start + 32])
            broker.turn()
        return len(requests)

    return per_item_us(work)


def fresh_commit_cost(broker: Broker, first: int) -> float:
    """µs of committing half messages that were stored just now."""

    def measure() -> float:
        nonlocal first
        places = broker.append(messages(first, is_half=True), SAMPLE // ROUNDS)
        first += SAMPLE
        return commit_cost(broker, places)

    return best(measure)


def checks_a_second(broker: Broker) -> tuple[float, int]:
    """Checks that leave in a second of processor time, each answered UNKNOWN; and what they added to the log."""
    log_end = broker.store.max_commit_log_offset
    producer = broker.producers.producer = Producer()
    broker.clock.advance(1_000)

    def work() -> int:
        begun = producer.checks
        while producer.checks - begun < SAMPLE:
            broker.clock.advance(GATHER_MS / 1_000)
            for offset in producer.asked:
                broker.transactions.checks.answered(offset, knows=False)
            producer.asked.clear()
        return producer.checks - begun

    cost_us = best(lambda: per_item_us(work), 3)
    broker.producers.producer = None
    return 1e6 / cost_us, broker.store.max_commit_log_offset - log_end


def idle_share(broker: Broker) -> float:
    """Cores used while every pending half message waits for a producer."""
    for _ in range(20):
        broker.clock.advance(1)
    begun = time.process_time()
    for _ in range(IDLE_S):
        broker.clock.advance(1)
    return (time.process_time() - begun) / IDLE_S


def fill(directory: Path, count: int) -> tuple[float, float, int]:
    """Store the half messages; what a send and a commit cost before, and the first offset."""
    broker = Broker(directory)
    broker.start()
    broker.append(messages(10**9, is_half=False), BATCH)  # what is made once, is made
    send_before_us = send_cost(broker)
    commit_before_us = fresh_commit_cost(broker, 2 * 10**9)
    settled = broker.transactions.pending.end
    broker.append(messages(0, is_half=True), count)
    broker.stop()
    return send_before_us, commit_before_us, settled


def measure(directory: Path, count: int) -> Iterator[Row]:
    """The rows of the table, one after the other."""
    # In a process of its own: memory that it gave back would hide what the start needs.
    with get_context("fork").Pool(1) as pool:
        send_before_us, commit_before_us, settled = pool.apply(fill, (directory, count))
    gc.collect()

    resident = resident_bytes()
    broker = Broker(directory)
    begun, begun_wall = time.process_time(), time.perf_counter()
    broker.start()
    started_s, wall_s = time.process_time() - begun, time.perf_counter() - begun_wall
    gc.collect()
    each = (resident_bytes() - resident) / count
    assert broker.transactions.pending.count == count, broker.transactions.pending.count
    yield Row(f"{count:,} pending: memory each", f"{each:,.0f} bytes", "≤ 300", each <= 300)
    good = started_s <= MAX_START_S * count / COUNT
    yield Row("start, processor time", f"{started_s:.1f} s", "≤ 20 s a million", good)
    yield Row("start, by the clock", f"{wall_s:.1f} s", "", True)
    gc.freeze()

    send_us = send_cost(broker)
    slower = send_us / send_before_us - 1
    name = f"send beside them ({send_before_us:.1f} µs without)"
    yield Row(name, f"{send_us:.1f} µs", "≤ 10 % slower", slower <= 0.1)
    commit_us = fresh_commit_cost(broker, 3 * 10**9)
    slower = commit_us / commit_before_us - 1
    yield Row(
        f"commit of a fresh one ({commit_before_us:.1f} µs without)", f"{commit_us:.1f} µs", "the same", slower <= 0.25
    )
    yield Row("commit of an old one", f"{old_commit_cost(broker, settled):.1f} µs", "no search", True)
    rate, log_bytes = checks_a_second(broker)
    yield Row("checks that leave", f"{rate:,.0f} / s", "≥ 5,000 / s", rate >= 5_000)
    yield Row("commit log bytes for them", f"{log_bytes}", "0", log_bytes == 0)
    share = idle_share(broker)
    yield Row("idle, all wait for a producer", f"{share:.4f} core", "< 0.05 core", share < 0.05)
    broker.stop()


def old_commit_cost(broker: Broker, first: int) -> float:
    """µs of committing half messages that were found at the start, far apart."""
    pending = broker.transactions.pending
    step = max(pending.count // SAMPLE, 1)
    places = []
    for number in range(min(SAMPLE, pending.count)):
        offset = first + number * step
        if offset in pending:
            place, size = pending.place(offset)
            half = broker.store.message_at(place, size)
            assert half is not None
            outgoing = message(0, is_half=True)
            outgoing.property_map = half.property_map
            places.append(PutResult(PutStatus.PUT_OK, outgoing).at(None, offset, place, size))
    return commit_cost(broker, places)


def main() -> None:
    """Parse the command line, measure, print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pending_transactions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=COUNT, help="half messages without an outcome")
    parser.add_argument("--directory", type=Path, help="where the store is made")
    options = parser.parse_args()
    gc.disable()
    directory = Path(tempfile.mkdtemp(prefix="pending-", dir=options.directory))
    try:
        for row in measure(directory, options.count):
            print(row, flush=True)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
