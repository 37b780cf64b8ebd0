"""A slave's copying of its master: from the first record to lost connections, with real stores on both sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from gateway.in_thread import in_this_thread
from gateway.remoting.pending import CallFailed
from gateway.replication.prefix import LOOK
from gateway.replication.slave import intake as intake_module
from gateway.replication.slave.beginning import MasterAddresses
from gateway.replication.slave.receiver import RETRY_S, Receiver
from gateway.settings import Address, Settings
from gateway.settings.replication import BrokerRole
from gateway.settings.store import StoreSettings
from gateway.tests.replication.around import role_of, surroundings
from gateway.tests.store.durability.test_copying import assert_equal, some_messages, units
from gateway.tests.store.small_store import (
    ASYNC,
    LOG_FILE_BYTES,
    SMALL,
    Clock,
    Executor,
    bodies,
    opened,
    put,
    remove_first,
    small_store,
)
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.headers.pull import ViewMessageRequest
from wire.replication.classic import ReportReader, build_stretch_head

MASTER = MasterAddresses(Address("10.0.0.1", 10911), Address("10.0.0.1", 10912))


class Wire(StringTransport):
    """The transport of the connection, which notes how it ends."""

    def __init__(self) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", "10.0.0.1", 10912))  # type: ignore[no-untyped-call]
        self.aborted = False

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802 (Twisted's name)
        assert enabled

    def abortConnection(self) -> None:  # noqa: N802 (Twisted's name)
        self.aborted = True


ASYNC_SLAVE = replace(ASYNC, broker_role=BrokerRole.SLAVE)


class World:
    """A master's store and a slave's, and a receiver between them; the test carries the bytes."""

    def __init__(self, root: Path, settings: StoreSettings = SMALL, executor: Executor | None = None) -> None:
        self.root = root
        self.master = opened(root / "master")
        around: dict[str, Any] = {} if executor is None else {"soon": executor.soon, "in_thread": executor.in_thread}
        self.slave = small_store(root / "slave", settings, **around)
        self.slave.open()
        if executor is not None:
            executor.run()
        self.reactor = MemoryReactorClock()  # type: ignore[no-untyped-call]
        self.known: MasterAddresses | None = MASTER
        self.hides_from = 1 << 60
        self.is_apaches = False
        self.role: bool | None = True
        """Whether the broker at the address is a master; None: it is too old to say."""
        self.asked: list[int] = []
        in_thread = in_this_thread if executor is None else executor.in_thread
        self.call = self._call
        self.receiver = Receiver(
            self.slave,
            Settings(),
            surroundings(
                reactor=self.reactor,
                clock_ms=Clock(),
                in_thread=in_thread,
                call=lambda address, code, header: self.call(address, code, header),
            ),
            self._master,
        )
        self.wire = Wire()
        self.line: Any = None
        self.sent = 0

    async def _master(self) -> MasterAddresses | None:
        return self.known

    async def _call(self, address: Address, code: int, header: Header | None) -> RemotingCommand:
        assert address == MASTER.remoting
        self.asked.append(code)
        if code == RequestCode.GET_BROKER_RUNTIME_INFO:
            figures = {
                "commitLogMinOffset": "-1" if self.is_apaches else str(self.master.min_commit_log_offset),
                "commitLogMaxOffset": str(self.master.max_commit_log_offset),
            }
            if self.hides_from < 1 << 60:
                figures["commitLogVisibleOffset"] = str(self.hides_from)
            return RemotingCommand(ResponseCode.SUCCESS, body=KVTable(figures).build())
        if code == RequestCode.GET_BROKER_HA_STATUS:
            if self.role is None:
                return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
            return role_of(is_master=self.role)
        assert isinstance(header, ViewMessageRequest)
        found = self.master.record_at(header.offset) if header.offset < self.hides_from else None
        if found is None:
            return RemotingCommand(ResponseCode.SYSTEM_ERROR)
        return RemotingCommand(ResponseCode.SUCCESS, body=found)

    def connect(self) -> int:
        """Accept the connection that the slave tries to make; returns its first report."""
        host, port, factory, _, _ = self.reactor.tcpClients.pop()
        assert (host, port) == MASTER.ha
        self.wire = Wire()
        self.line = factory.buildProtocol(None)
        self.line.makeConnection(self.wire)
        (report,) = self.reports()
        self.sent = report or self.master.min_commit_log_offset
        return report

    def start(self) -> int:
        self.receiver.start()
        return self.connect()

    def reports(self) -> list[int]:
        data: bytes = self.wire.value()  # type: ignore[no-untyped-call]
        self.wire.clear()  # type: ignore[no-untyped-call]
        return ReportReader().receive_data(data)

    def send(self, limit: int = 2000, piece: int = 700) -> None:
        """Send what the slave lacks, in pieces of the network."""
        while part := self.master.log_bytes(self.sent, limit):
            data = build_stretch_head(self.sent, len(part)) + part
            self.sent += len(part)
            for begin in range(0, len(data), piece):
                self.line.dataReceived(data[begin : begin + piece])

    def heartbeat(self) -> None:
        self.line.dataReceived(build_stretch_head(self.sent, 0))

    def lose(self) -> None:
        self.line.connectionLost()

    def try_again(self) -> int:
        self.reactor.advance(RETRY_S)
        return self.connect()

    @property
    def tries(self) -> int:
        return len(self.reactor.tcpClients)


@pytest.mark.parametrize("settings", [SMALL, ASYNC_SLAVE], ids=["sync", "async"])
def test_an_empty_slave_gets_all_of_a_master_and_what_it_stores_later(tmp_path: Path, settings: StoreSettings) -> None:
    world = World(tmp_path, settings)
    some_messages(world.master)

    first = world.start()
    assert first == len(world.master.log_bytes(0, 0) or b"")  # it has one record
    world.send()
    some_messages(world.master)
    world.send(piece=1)

    assert_equal(world.slave, world.master, tmp_path)
    reports = world.reports()
    assert reports == sorted(reports)
    assert reports[-1] == world.master.durable_end


@pytest.mark.parametrize("is_apaches", [False, True])
def test_a_slave_of_an_empty_master_waits_for_its_first_record(tmp_path: Path, is_apaches: bool) -> None:
    world = World(tmp_path)
    world.is_apaches = is_apaches  # an empty log of Apache RocketMQ's is said to begin at -1
    assert world.start() == 0
    world.heartbeat()
    put(world.master, b"first")
    world.send()

    assert bodies(world.slave) == [b"first"]
    assert world.reports() == [world.master.durable_end]


def test_a_master_that_does_not_show_its_first_record_yet_is_asked_for_all(tmp_path: Path) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    world.hides_from = 0

    assert world.start() == 0
    world.send()
    assert bodies(world.slave) == [b"first"]


def test_an_empty_slave_takes_nothing_from_a_slave_at_the_address_of_the_lost_master(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Seeds 20483, 20549 and 21827: the old master came back as a slave, with a record that nobody else has."""
    world = World(tmp_path)
    some_messages(world.master)
    remove_first(world.master._log.files)
    world.role = False

    world.receiver.start()
    assert world.tries == 0
    assert "a slave itself" in _reasons(caplog)[-1]
    assert world.slave.max_commit_log_offset == world.slave.min_commit_log_offset == 0
    world.role = True
    world.try_again()
    world.send()
    assert world.slave.durable_end == world.master.durable_end


def test_a_master_that_is_too_old_to_tell_its_role_is_followed(tmp_path: Path) -> None:
    world = World(tmp_path)
    some_messages(world.master)
    world.role = None
    assert world.start() > 0


@pytest.mark.parametrize("hides", [False, True])
def test_a_new_slave_begins_where_its_master_does(tmp_path: Path, hides: bool) -> None:
    world = World(tmp_path)
    some_messages(world.master)
    remove_first(world.master._log.files)
    world.hides_from = 0 if hides else 1 << 60

    assert (world.start() == 0) is hides
    world.send()

    assert world.slave.min_commit_log_offset == LOG_FILE_BYTES
    assert world.slave.durable_end == world.master.durable_end
    assert world.reports()[-1] == world.master.durable_end


def test_a_slave_without_a_record_whose_master_deletes_more_begins_where_its_master_does_now(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        some_messages(world.master)
    remove_first(world.master._log.files)
    world.hides_from = 0
    assert world.start() == 0
    assert world.slave.min_commit_log_offset == world.slave.max_commit_log_offset == LOG_FILE_BYTES
    world.lose()
    remove_first(world.master._log.files)
    assert world.try_again() == 0
    assert world.slave.min_commit_log_offset == 2 * LOG_FILE_BYTES
    world.send()

    assert world.slave.durable_end == world.master.durable_end
    assert world.reports()[-1] == world.master.durable_end


def test_after_a_lost_connection_the_copy_goes_on_once_it_is_proven(tmp_path: Path) -> None:
    world = World(tmp_path)
    some_messages(world.master)
    world.start()
    world.send()
    some_messages(world.master)
    part = world.master.log_bytes(world.sent, 3000)
    assert part is not None
    world.line.dataReceived((build_stretch_head(world.sent, len(part)) + part)[:-50])
    end = world.slave.durable_end
    world.lose()
    world.asked.clear()

    assert world.try_again() == world.slave.durable_end == end
    assert world.asked[0] == RequestCode.GET_BROKER_RUNTIME_INFO
    assert world.asked.count(RequestCode.VIEW_MESSAGE_BY_ID) > 3
    world.send()
    assert_equal(world.slave, world.master, tmp_path)


@pytest.mark.parametrize("shown", [0, 5])
def test_last_records_that_the_master_hides_yet_are_no_difference(tmp_path: Path, shown: int) -> None:
    world = World(tmp_path)
    some_messages(world.master)
    world.start()
    world.send()
    world.lose()
    world.hides_from = [*world.master.record_begins(world.master.durable_end, 0), 0][shown - 1]

    assert world.try_again() == world.slave.durable_end


def test_a_master_that_lacks_a_record_and_does_not_say_that_it_hides_it_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    some_messages(world.master)
    world.start()
    world.send()
    world.lose()
    place = world.master.record_begins(world.master.durable_end, 0)[0]
    monkeypatch.setattr(world.master, "record_at", lambda _offset: None)

    world.reactor.advance(RETRY_S)
    assert world.tries == 0
    assert f"the other log has no record at offset {place}" in _reasons(caplog)[-1]


def test_a_log_that_is_ahead_of_its_master_is_not_continued(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    put(world.slave, b"first")
    put(world.slave, b"second")

    world.receiver.start()

    assert world.tries == 0
    ends = world.slave.durable_end, world.master.durable_end
    (reason,) = _reasons(caplog)
    assert reason.startswith("the copy reaches to {}, and the master's log ends at {}:".format(*ends))


def test_a_log_that_differs_is_not_continued_and_stays_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    put(world.slave, b"FIRST")
    put(world.master, b"second")
    before = units(world.slave)

    world.receiver.start()

    assert world.tries == 0
    assert _reasons(caplog) == [f"the records at offset 0 differ, from byte 8 on: {LOOK}"]
    assert units(world.slave) == before
    world.reactor.advance(RETRY_S)
    assert len(_reasons(caplog)) == 1  # once for the same reason


def test_a_log_that_ends_before_its_master_begins_is_not_continued(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    put(world.slave, b"first")
    some_messages(world.master)
    remove_first(world.master._log.files)

    world.receiver.start()

    assert world.tries == 0
    assert "and the master's log begins at 8192" in _reasons(caplog)[0]


@pytest.mark.parametrize("change", [-1, 1, 1000])
def test_a_stretch_that_is_not_the_next_one_closes_the_connection(tmp_path: Path, change: int) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    put(world.master, b"second")
    end = world.start()
    part = world.master.log_bytes(end, 1000)
    assert part is not None

    world.line.dataReceived(build_stretch_head(end + change, len(part)) + part)

    assert world.wire.aborted
    assert world.slave.durable_end == end
    world.lose()
    assert world.try_again() == end


@pytest.mark.parametrize("position", [5, 35, 90])
def test_a_damaged_record_closes_the_connection_and_nothing_of_it_stays(tmp_path: Path, position: int) -> None:
    world = World(tmp_path)
    for number in range(4):
        put(world.master, b"body %d" % number)
    end = world.start()
    part = bytearray(world.master.log_bytes(end, 100_000) or b"")
    size = end
    part[size + position] ^= 1

    world.line.dataReceived(build_stretch_head(end, len(part)) + part)

    assert world.wire.aborted
    assert bodies(world.slave) == [b"body 0", b"body 1"]
    assert world.slave.durable_end == 2 * size
    world.lose()
    assert world.try_again() == 2 * size
    world.send()
    assert_equal(world.slave, world.master, tmp_path)


def test_bytes_that_are_no_stretch_close_the_connection(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start()
    world.line.dataReceived(b"HTTP/1.1 400 Bad Request\r\n")
    assert world.wire.aborted


def test_a_record_that_never_ends_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MAX_RECORD_BYTES", 1000)
    world = World(tmp_path)
    put(world.master, b"x" * 2000)
    world.hides_from = 0
    world.start()
    part = world.master.log_bytes(0, 0)
    assert part is not None
    world.line.dataReceived(build_stretch_head(0, 500) + part[:500])
    assert world.wire.aborted


def test_the_end_is_reported_in_time_and_a_silent_master_is_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    end = world.start()

    for _ in range(3):
        world.heartbeat()
        world.reactor.pump([1.0] * 6)
        assert world.reports() == [end]
    world.reactor.pump([1.0] * 15)
    assert world.wire.aborted


def test_nothing_is_reported_before_it_is_on_disk_and_a_full_slave_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "PAUSE_BYTES", 3000)
    executor = Executor()
    world = World(tmp_path, executor=executor)
    world.receiver.start()
    world.connect()
    for number in range(20):
        put(world.master, b"%d" % number * 300)
    world.send(limit=1000, piece=100_000)

    assert world.wire.producerState == "paused"
    assert world.reports() == []
    assert world.slave.durable_end == 0
    executor.run()
    assert world.wire.producerState == "producing"
    assert world.reports()[-1] == world.slave.durable_end == world.master.durable_end


def test_records_on_their_way_when_the_connection_is_lost_are_stored_before_the_next_one(tmp_path: Path) -> None:
    executor = Executor()
    world = World(tmp_path, executor=executor)
    world.receiver.start()
    world.connect()
    put(world.master, b"first")
    world.send()
    world.lose()
    world.reactor.advance(RETRY_S)
    assert world.tries == 0
    executor.run()
    world.reactor.advance(RETRY_S)
    executor.run()
    assert world.connect() == world.slave.durable_end > 0
    assert world.reports() == []


def test_a_slave_that_cannot_store_tries_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    world.start()
    world.slave._admission.refuse("full")
    put(world.master, b"second")
    world.send()
    assert world.wire.aborted
    world.lose()
    world.slave._admission.space_is(None)
    world.try_again()
    world.send()
    assert bodies(world.slave) == [b"first", b"second"]


@pytest.mark.parametrize("fault", ["unknown", "silent", "no figures"])
def test_a_master_that_cannot_be_asked_is_asked_again(tmp_path: Path, fault: str) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    answer = world.call

    async def failing(address: Address, code: int, header: Header | None) -> RemotingCommand:
        if fault == "silent":
            raise CallFailed("no answer")
        return RemotingCommand(ResponseCode.SUCCESS, body=KVTable({}).build())

    if fault == "unknown":
        world.known = None
    else:
        world.call = failing
    world.receiver.start()
    assert world.tries == 0
    world.known, world.call = MASTER, answer
    assert world.try_again() > 0


def test_a_connection_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.receiver.start()
    factory: Any = world.reactor.tcpClients.pop()[2]
    factory.clientConnectionFailed(None, Failure(OSError("refused")))  # type: ignore[no-untyped-call]
    assert world.try_again() == 0


def test_nothing_is_tried_after_the_stop(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start()
    world.receiver.stop()
    assert world.wire.aborted
    world.lose()
    world.reactor.advance(100)
    assert world.tries == 0
    assert not world.reactor.getDelayedCalls()


def test_the_state_names_the_master_and_the_last_words(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.receiver.state.master is None
    put(world.master, b"first")
    world.start()
    assert world.receiver.state.master is None, "it may still refuse this log, whose end is hidden until then"
    world.heartbeat()
    world.reactor.advance(1)
    state = world.receiver.state
    assert state.master == MASTER
    assert state.end == world.slave.durable_end
    assert state.read_at_ms == state.reported_at_ms == Clock()() - 1000
    world.lose()
    assert world.receiver.state.master is None


def _reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(record)["facts"]["reason"] for record in caplog.records if record.name == "gateway.replication"]


def test_more_is_appended_while_records_are_on_their_way_but_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MOST_AT_ONCE_BYTES", 1000)
    monkeypatch.setattr(intake_module, "MAX_UNDER_WAY_BYTES", 4000)
    executor = Executor()
    world = World(tmp_path, executor=executor)
    world.receiver.start()
    world.connect()
    for number in range(60):
        put(world.master, b"%d" % (number % 10) * 300)
    world.send(limit=1000, piece=100_000)

    appended = world.slave.max_commit_log_offset
    assert 4000 <= appended < 6000
    assert (world.reports(), world.slave.durable_end) == ([], 0)
    while executor.turn or executor.threads:
        executor.run_turn()
        if executor.threads:
            executor.work()()
        assert world.slave.max_commit_log_offset - world.slave.durable_end < 10_000
    assert world.reports()[-1] == world.slave.durable_end == world.master.durable_end
    assert_equal(world.slave, world.master, tmp_path)


def test_a_slave_shows_nothing_that_it_may_lose(tmp_path: Path) -> None:
    """Seed 21613: readers saw a message at a slave with ASYNC_FLUSH, which lost it and became the master."""
    executor = Executor()
    world = World(tmp_path, ASYNC_SLAVE, executor=executor)
    world.receiver.start()
    world.connect()
    put(world.master, b"first")
    put(world.master, b"second")
    world.send(limit=100_000, piece=100_000)

    while executor.turn or executor.threads:
        executor.run_turn()
        assert world.slave.stored_end <= world.slave.durable_end
        if executor.threads:
            executor.work()()
    assert bodies(world.slave) == [b"first", b"second"]


def test_with_async_flush_every_report_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MOST_AT_ONCE_BYTES", 1000)
    executor = Executor()
    world = World(tmp_path, ASYNC_SLAVE, executor=executor)
    world.receiver.start()
    world.connect()
    for number in range(60):
        put(world.master, b"%d" % (number % 10) * 300)
    world.send(limit=1000, piece=100_000)

    reports: list[int] = []
    while executor.turn or executor.threads:
        executor.run_turn()
        if executor.threads:
            executor.work()()
        reports += world.reports()
        assert all(report <= world.slave.durable_end for report in reports)
    assert reports[-1] == world.slave.durable_end == world.master.durable_end


def test_a_lost_master_is_asked_again_soon_and_then_less_often(tmp_path: Path) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    world.start()
    world.send()
    for _ in range(int(RETRY_S)):
        world.reactor.advance(1)
        world.heartbeat()
    world.lose()
    assert tries_within(world, 30) == [0.5, 1.5, 3.5, 7.5, 12.5, 17.5, 22.5, 27.5]


def test_a_master_that_always_closes_at_once_is_not_asked_more_often_than_one_that_is_away(tmp_path: Path) -> None:
    world = World(tmp_path)
    put(world.master, b"first")
    world.start()
    world.send()
    world.lose()
    assert tries_within(world, 20, answers=True) == [0.5, 1.5, 3.5, 7.5, 12.5, 17.5]


def tries_within(world: World, seconds: int, *, answers: bool = False) -> list[float]:
    """The times of the attempts to connect, each of which fails; with ``answers`` after a sign of life."""
    begin, found = world.reactor.seconds(), []
    for _ in range(2 * seconds):
        world.reactor.advance(0.5)
        if world.tries:
            found.append(world.reactor.seconds() - begin)
            world.connect()
            if answers:
                world.heartbeat()
            world.lose()
    return found
