"""A broker's transactions on a log in memory, with producers and a clock that tests move."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from gateway.broker.cold_reads import ColdReads
from gateway.broker.named_messages import NamedMessages
from gateway.broker.requests.sending.end_transaction import EndTransaction
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC
from gateway.metadata.topics import NO_TOPICS
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.channel import Channel
from gateway.remoting.declared import Need
from gateway.remoting.dispatch import Dispatch
from gateway.settings import Settings
from gateway.store.put_result import PutResult
from gateway.telemetry.metrics import Registry
from gateway.tests.desks import desk_of
from gateway.tests.left_open import left_open
from gateway.tests.remoting.conversation import SETTINGS, MemoryTransport
from gateway.tests.transaction.memory_log import MemoryLog
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.limits import DEFAULT_LIMITS, TransactionLimits
from gateway.transaction.needs import Asked, ReadInTurn, TransactionNeeds
from gateway.transaction.records.half_messages import half_of
from gateway.transaction.records.op_messages import parse_op
from gateway.transaction.restart.rebuild import OFFSETS_GROUP
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.state_stores.outcome_records import state_of
from gateway.transaction.tables.transaction_tables import TransactionTables
from gateway.transaction.transactions import Transactions
from wire.codes import RequestCode
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.connection import Connection
from wire.headers.declare import Header, build_header
from wire.headers.transaction import CheckTransactionStateRequest, EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, StoredMessage, parse_record

START_MS = 1_750_000_000_000
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
COMMIT = SysFlag.TRANSACTION_COMMIT
ROLLBACK = SysFlag.TRANSACTION_ROLLBACK
UNKNOWN = 0
TRANSACTIONS = Settings(transaction_check_max=3, checks_in_flight=8)


def without_turns(in_thread: InThread) -> ReadInTurn:
    """A ``ReadInTurn`` without turns: every read starts at once and none is refused."""
    return lambda work, done, _holder: in_thread(work, done)


class Producer:
    """A connection of a producer: remembers what it was asked."""

    def __init__(self, name: str = "p1") -> None:
        self.remote = name, 1
        self.takes = True
        self.closed = False
        self.checks: list[tuple[CheckTransactionStateRequest, StoredMessage]] = []

    def notify(self, code: int, header: Header | None = None, body: bytes = b"") -> bool:
        assert code == RequestCode.CHECK_TRANSACTION_STATE
        assert isinstance(header, CheckTransactionStateRequest)
        if self.takes:
            self.checks.append((header, parse_record(body)))
        return self.takes


class Stranger:
    """Somebody who sends requests; ``answers`` are all that came back."""

    def __init__(self, clock: Clock) -> None:
        self._flush_group = FlushGroup(clock)
        self._transport = MemoryTransport(IPv4Address("TCP", "127.0.0.1", 10911), IPv4Address("TCP", "127.0.0.2", 1))
        room = AnswerRoom(clock, self._flush_group, SETTINGS.unsent_bytes_total)
        self.channel = Channel(
            self._transport, 1, flush_group=self._flush_group, room=room, reactor=clock, settings=SETTINGS
        )
        self._connection = Connection()
        self._answers: list[RemotingCommand] = []

    @property
    def answers(self) -> list[RemotingCommand]:
        self._flush_group.flush()
        self._answers += self._connection.receive_data(b"".join(self._transport.writes))
        self._transport.writes.clear()
        return self._answers


class ProducerTable:
    """Producers by group, asked in turn."""

    def __init__(self) -> None:
        self.groups: dict[str, list[Producer]] = {}

    def pick(self, group: str, exclude: Container[Asked] = (), needs: Sequence[Need] = ()) -> Producer | None:
        members = self.groups.get(group, [])
        for producer in list(members):
            if producer not in exclude:
                members.append(members.pop(0))
                return producer
        return None


class Offsets:
    """Consumer offsets in a dictionary."""

    def __init__(self) -> None:
        self.table: dict[str, int] = {}

    def keep(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        assert group == OFFSETS_GROUP
        assert queue_id == 0
        self.table[topic] = offset

    def query(self, group: str, topic: str, queue_id: int) -> int:
        return self.table.get(topic, -1)


class World:
    """Everything around one ``Transactions``; ``restart`` makes the next one from what is on disk."""

    def __init__(
        self,
        directory: Path,
        *,
        settings: Settings = TRANSACTIONS,
        limits: TransactionLimits = DEFAULT_LIMITS,
        log: MemoryLog | None = None,
        offsets: Offsets | None = None,
        clock: Clock | None = None,
        producers: ProducerTable | None = None,
        choice: StateChoice | None = None,
        threads: InThread = in_this_thread,
    ) -> None:
        self.directory = directory
        self.choice = choice
        self.settings = settings
        self.clock = Clock() if clock is None else clock
        self.log = MemoryLog(self.now_ms) if log is None else log
        self.offsets = Offsets() if offsets is None else offsets
        self.producers = ProducerTable() if producers is None else producers
        self.stranger = Stranger(self.clock)
        self.needs = TransactionNeeds(
            reactor=self.clock,
            clock_ms=self.now_ms,
            in_thread=threads,
            read=without_turns(threads),
            soon=lambda function: self._soon(function),
            producers=self.producers,
            offsets=self.offsets,
            host=HOST,
            topics=NO_TOPICS,
        )
        self.tables = TransactionTables(settings, TransactionCounts(Registry()), limits)
        self.journal = CheckJournal(directory / "checks", in_thread=threads)
        self.transactions = Transactions(self.tables, self.log, self.needs, self.journal, choice)
        left_open(self.journal.close)
        self.log.listeners.append(self.transactions.half_stored)
        self.found = self.transactions.rebuild()
        named = NamedMessages(self.log, ColdReads(threads, threads=2, limit=100))
        self.end_transaction = EndTransaction(
            desk_of(transactions=self.transactions, named=named, steady_ms=self.now_ms, master=None)
        )
        self.dispatch = Dispatch()
        self.end_transaction.register(self.dispatch)
        self.transactions.start()
        self.turn()

    def _soon(self, function: Any) -> None:
        self.clock.callLater(0, function)

    def now_ms(self) -> int:
        return START_MS + round(self.clock.seconds() * 1_000)

    def turn(self) -> None:
        """Let the reactor do what is due now."""
        for _ in range(5):
            self.clock.advance(0)

    def wait(self, seconds: float) -> None:
        """Let time pass, a tenth of a second at a time."""
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)

    def connect(self, group: str, name: str = "p1") -> Producer:
        """A producer joins a group."""
        producer = Producer(name)
        self.producers.groups.setdefault(group, []).append(producer)
        return producer

    # -- clients

    def message(
        self, key: str, group: str = "g", topic: str = "orders", properties: Mapping[str, str] | None = None
    ) -> OutgoingMessage:
        pairs = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": key, **(properties or {})}
        return OutgoingMessage(
            topic=topic,
            queue_id=2,
            flag=7,
            sys_flag=SysFlag.TRANSACTION_PREPARED,
            born_at_ms=self.now_ms(),
            born_host=HOST,
            store_host=HOST,
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=b"body of " + key.encode(),
            properties=build_properties(pairs),
            property_map=pairs,
        )

    def send(
        self,
        key: str,
        group: str = "g",
        topic: str = "orders",
        properties: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        admit: bool = False,
    ) -> PutResult:
        """A producer sends a half message; ``admit`` lets the broker refuse it."""
        results: list[PutResult] = []
        message = self.message(key, group, topic, properties)
        message.body = message.body if body is None else body
        self.log.append(self.transactions.half_of(message) if admit else half_of(message), results.append)
        if self.log.holds:
            self.log.release()
        return results[0]

    def end(
        self,
        half: PutResult,
        outcome: int,
        *,
        group: str = "g",
        from_check: bool = False,
        oneway: bool = False,
        turn: bool = True,
        **changes: Any,
    ) -> RemotingCommand | None:
        """A producer's outcome; the answer if there is one yet."""
        fields: dict[str, Any] = {
            "producer_group": group,
            "tran_state_table_offset": half.queue_offset,
            "commit_log_offset": half.commit_log_offset,
            "commit_or_rollback": outcome,
            "from_transaction_check": from_check,
            "msg_id": "id",
            **changes,
        }
        header = EndTransactionRequest(**fields)
        return self.request(RequestCode.END_TRANSACTION, build_header(header), oneway=oneway, turn=turn)

    def request(
        self, code: RequestCode, ext_fields: dict[str, str], *, oneway: bool = False, turn: bool = True
    ) -> RemotingCommand | None:
        count = len(self.stranger.answers)
        command = RemotingCommand(code, ext_fields=ext_fields, flag=ONEWAY_FLAG if oneway else 0)
        self.dispatch.commands(self.stranger.channel, [command])
        if turn:
            self.turn()
        answers = self.stranger.answers
        return answers[count] if len(answers) > count else None

    # -- looking

    def finals(self, topic: str = "orders") -> list[str]:
        return self.log.finals(topic)

    def ops(self) -> list[str]:
        """The bodies of the op records."""
        return [message.body.decode() for message in self.log.messages(OP_HALF_TOPIC)]

    def op_offsets(self) -> list[int]:
        """The half offsets that op records name."""
        return [offset for message in self.log.messages(OP_HALF_TOPIC) for offset, _ in parse_op(message.body, None)]

    def evidence(self) -> list[tuple[int, int]]:
        """The half offsets that the log says are settled, with the place of the record that says so, in its order."""
        halves = {half.commit_log_offset: half.queue_offset for half in self.log.messages(HALF_TOPIC)}
        found: list[tuple[int, int]] = []
        for place, record in sorted(self.log.records.items()):
            message = parse_record(record)
            if self.choice is None:
                if message.topic == OP_HALF_TOPIC:
                    found += [(offset, place) for offset, _ in parse_op(message.body, None)]
            elif state_of(message) is not None:
                found.append((halves[message.prepared_transaction_offset], place))
        return found

    def settled(self) -> list[int]:
        """The half offsets of ``evidence``, in their order."""
        return sorted(offset for offset, _ in self.evidence())

    def half_count(self) -> int:
        return len(self.log.messages(HALF_TOPIC))

    # -- ending

    def stop(self) -> None:
        """A clean stop."""
        stopped: list[object] = []
        self.transactions.stop().addCallback(stopped.append)
        self.turn()
        assert stopped == [None]
        assert self.clock.getDelayedCalls() == []

    def restart(self, log_end: int | None = None, *, settings: Settings | None = None) -> World:
        """The next life, from the log as it is or cut off; without a stop this is a crash."""
        for call in list(self.clock.getDelayedCalls()):
            call.cancel()
        log = self.log.cut(self.log.flushed_offset if log_end is None else log_end)
        return World(
            self.directory,
            settings=settings or self.settings,
            log=log,
            offsets=self.offsets,
            clock=self.clock,
            producers=self.producers,
            choice=self.choice,
        )
