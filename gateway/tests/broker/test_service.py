"""The whole broker: what it listens on, what a stop promises, and what is there after a start."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from errno import EADDRINUSE
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock

from gateway.broker.service import BrokerService
from gateway.broker.upkeep.last_save import NotAllSaved
from gateway.errors import GatewayError
from gateway.nameserver.direct import DirectRegistration
from gateway.nameserver.route_table import RouteTable
from gateway.reactor.interface import QuickReactor
from gateway.reactor.log_thread import QuickDisk
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.protocol import RemotingProtocol
from gateway.remoting.server import RemotingServer
from gateway.settings import FlushDiskType, RemotingSettings
from gateway.settings.tree import MetricsExporter
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, pulling, sending, small_settings
from gateway.tests.remoting.conversation import Peer, memory_reactor
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.offsets import UpdateConsumerOffsetRequest
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import PullFlag, SysFlag
from wire.message.message_id import parse_offset_message_id, unpack_host

SUSPEND = PullFlag.SUBSCRIPTION | PullFlag.SUSPEND
LONGEST_WAIT_S = 10


class Machine(MemoryReactorClock):
    """A reactor whose threads run at once; ports in ``taken`` cannot be listened on."""

    def __init__(self, *taken: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.taken = taken
        self.open_ports: list[int] = []

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:  # noqa: N802
        if port in self.taken:
            raise CannotListenError(interface, port, OSError(EADDRINUSE, "in use"))  # type: ignore[no-untyped-call]
        listening = super().listenTCP(port, factory, backlog, interface)  # type: ignore[no-untyped-call]
        self.open_ports.append(port)

        def stop_listening() -> Deferred[None]:
            self.open_ports.remove(port)
            return succeed(None)

        listening.stopListening = stop_listening
        return listening

    def callInThread(self, function: Callable[..., object], *args: object) -> None:  # noqa: N802
        function(*args)

    def callFromThread(self, function: Callable[..., object], *args: object) -> None:  # noqa: N802
        self.callLater(0, function, *args)

    def turn(self) -> None:
        for _ in range(4):
            self.advance(0)


class Expecting(Machine, QuickReactor):
    """A reactor that can be told to expect a call, and keeps the calls of other threads until the test wants one."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[bool] = []
        self.from_threads: SimpleQueue[tuple[Callable[..., object], tuple[object, ...]]] = SimpleQueue()

    def doIteration(self, delay: float | None) -> None:  # noqa: N802 (Twisted's name)
        assert delay in (0, None), "nothing waits here"
        super().turn()

    def turn(self) -> None:
        self.doIteration(None)  # the one that the broker has put in its place

    def expect_call(self, expected: bool) -> None:
        self.expected.append(expected)

    def callFromThread(self, function: Callable[..., object], *args: object) -> None:  # noqa: N802
        self.from_threads.put((function, args))

    def next_call(self) -> None:
        function, args = self.from_threads.get(timeout=LONGEST_WAIT_S)
        function(*args)


class NextDoor:
    """The route table of a name server in the same process."""

    def __init__(self) -> None:
        self.routes = RouteTable()
        self.server = RemotingServer(memory_reactor(), Dispatch(), [], RemotingSettings())

    port = 9876

    def direct_registration(self) -> DirectRegistration:
        return DirectRegistration(self.routes, lambda: START_MS)

    def knows(self, topic: str) -> bool:
        return self.routes.route(topic, reached_at="127.0.0.1") is not None


class Served:
    """A broker as the command line runs it, but for sockets; ASYNC_FLUSH writes in the reactor's turn."""

    def __init__(self, directory: Path, machine: Machine | None = None, **changed: Any) -> None:
        self.machine = Machine() if machine is None else machine
        self.name_server = NextDoor()
        settings = small_settings(directory, **{"flush_disk_type": "ASYNC_FLUSH", **changed})
        self.service = BrokerService(settings, self.machine, self.now_ms, self.name_server)

    def now_ms(self) -> int:
        return START_MS + round(self.machine.seconds() * 1000)

    def start(self) -> None:
        assert self.run(self.service.start()) == [None]

    def stop(self) -> None:
        assert self.run(self.service.stop()) == [None]

    def run(self, coroutine: Any) -> list[object]:
        ended: list[object] = []
        ensureDeferred(coroutine).addCallbacks(ended.append, lambda failure: ended.append(failure.value))
        self.machine.turn()
        return ended

    def connect(self) -> Peer:
        protocol = self.machine.tcpServers[0][1].buildProtocol(IPv4Address("TCP", "192.0.2.7", 50_000))
        assert isinstance(protocol, RemotingProtocol)
        return Peer(protocol, ("192.0.2.7", 50_000), ("127.0.0.1", 10911))


# -- as a service -----------------------------------------------------------------------------------------------


def test_a_started_broker_listens_on_two_ports_and_is_known_to_its_name_server(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    assert served.machine.open_ports == [10911, 10909]
    assert list(served.service.addresses) == [("127.0.0.1", 10911)]
    assert served.name_server.knows("TBW102")
    client = served.connect()
    assert client.ask_all(RequestCode.SEND_MESSAGE, sending(), b"x") == []
    served.machine.turn()
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]
    assert served.name_server.knows("orders")
    served.stop()


@pytest.mark.parametrize(
    ("flush", "expected"), [(FlushDiskType.SYNC_FLUSH, 2 * [True, False]), (FlushDiskType.ASYNC_FLUSH, [])]
)
def test_the_reactor_expects_what_senders_wait_for(tmp_path: Path, flush: FlushDiskType, expected: list[bool]) -> None:
    """A first message is written in the thread, since its file has to be made, and then synced there."""
    machine = Expecting()
    served = Served(tmp_path, machine, flush_disk_type=flush)
    served.start()
    client = served.connect()
    assert client.ask_all(RequestCode.SEND_MESSAGE, sending(), b"x") == []
    served.machine.turn()
    while not (answers := client.received()):
        machine.next_call()
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS]
    assert machine.expected == expected
    served.stop()


class Patient(Expecting):
    """One that may wait, too: it does so at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait_for(self, work: Callable[[], object], outcome: Callable[[object], None]) -> None:
        self.waits += 1
        outcome(work())


@pytest.mark.parametrize(
    ("flush", "processors", "waits"),
    [
        (FlushDiskType.SYNC_FLUSH, {0}, True),
        (FlushDiskType.SYNC_FLUSH, {2, 5}, True),
        (FlushDiskType.SYNC_FLUSH, {0, 1, 2}, False),
        (FlushDiskType.ASYNC_FLUSH, {0}, False),
    ],
)
def test_the_reactor_waits_for_a_quick_disk_itself_where_processors_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: FlushDiskType, processors: set[int], waits: bool
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: processors, raising=False)
    monkeypatch.setattr(QuickDisk, "is_quick", True)
    machine = Patient()
    served = Served(tmp_path, machine, flush_disk_type=flush)
    served.start()
    client = served.connect()
    for number in range(2):
        client.ask_all(RequestCode.SEND_MESSAGE, sending(), b"x")
        machine.turn()
        while not (answers := client.received()):
            machine.next_call()
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS], number
    assert machine.waits == (2 if waits else 0)
    served.stop()


def test_point_17_a_start_warns_of_an_address_that_clients_are_told_and_nobody_listens_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(tmp_path, broker_ip1="192.0.2.1")
    with caplog.at_level(logging.WARNING, "gateway.broker"):
        served.start()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("clients are told 192.0.2.1:10911 (brokerIP1), but only 127.0.0.1 is listened on")
    assert "--bind 192.0.2.1" in warning
    assert served.service.advertised == [("192.0.2.1", 10911)]
    served.stop()


def test_an_address_that_is_listened_on_is_not_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    served = Served(tmp_path, broker_ip1="127.0.0.1")
    with caplog.at_level(logging.WARNING, "gateway.broker"):
        served.start()
    assert caplog.records == []
    assert served.service.advertised == [None]
    served.stop()


def test_point_17_a_name_server_elsewhere_is_told_an_address_that_nobody_listens_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(tmp_path, namesrv_addr="192.0.2.100:9876")
    assert served.run(served.service.start()) == []
    host, port, factory, *_ = served.machine.tcpClients[-1]
    protocol = factory.buildProtocol(IPv4Address("TCP", host, port))
    assert isinstance(protocol, RemotingProtocol)
    with caplog.at_level(logging.WARNING, "gateway.broker"):
        Peer(protocol, (host, port), ("10.9.9.9", 40_000))
        served.machine.turn()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("clients of the name server 192.0.2.100:9876 are told 10.9.9.9, from where we reach it")
    served.stop()


def test_metrics_are_served_when_that_is_asked_for_and_their_port_is_given_back(tmp_path: Path) -> None:
    served = Served(tmp_path, metrics_exporter_type=MetricsExporter.PROM)
    served.start()
    assert served.machine.open_ports == [5557, 10911, 10909]
    served.stop()
    assert served.machine.open_ports == []


@pytest.mark.parametrize("exporter", ["LOG", "OTLP_GRPC"])
def test_point_10_a_way_out_for_metrics_that_is_not_there_yet_is_told_and_stops_nothing(
    tmp_path: Path, exporter: str, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(tmp_path, metrics_exporter_type=MetricsExporter[exporter])
    served.start()
    [told] = [record for record in caplog.records if record.getMessage().startswith("metrics are not exported")]
    assert told.__dict__["facts"] == {"set": exporter}
    served.stop()


def test_a_port_for_metrics_that_is_in_use_stops_the_start(tmp_path: Path) -> None:
    served = Served(tmp_path, Machine(5557), metrics_exporter_type=MetricsExporter.PROM)
    [failure] = served.run(served.service.start())
    assert isinstance(failure, GatewayError)
    assert "metricsPromExporterPort" in str(failure)
    served.stop()
    assert served.machine.open_ports == []
    assert not (tmp_path / "abort").exists()


def test_a_stop_answers_held_pulls_says_goodbye_and_leaves_a_clean_directory(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    client = served.connect()
    client.ask_all(RequestCode.SEND_MESSAGE, sending(), b"x")
    served.machine.turn()
    client.received()
    client.ask_all(RequestCode.PULL_MESSAGE, pulling(1, sys_flag=SUSPEND))
    assert (tmp_path / "abort").exists()
    served.stop()
    assert [answer.code for answer in client.received()] == [ResponseCode.PULL_NOT_FOUND]
    assert not client.transport.connected
    assert served.machine.open_ports == []
    assert not served.name_server.knows("orders")
    assert not (tmp_path / "abort").exists()
    assert served.machine.getDelayedCalls() == []
    served.stop()


def test_a_stop_takes_along_what_was_sent_in_the_same_moment(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    client = served.connect()
    client.ask_all(RequestCode.SEND_MESSAGE, sending(), b"late")
    served.stop()
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]
    again = WholeBroker(tmp_path)
    assert [message.body for message in again.messages("orders")] == [b"late"]


def test_requests_during_a_stop_are_refused_so_that_it_ends_under_load(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    client = served.connect()
    client.ask_all(RequestCode.SEND_MESSAGE, sending(), b"before")
    ended: list[object] = []
    ensureDeferred(served.service.stop()).addCallback(ended.append)
    assert ended == []
    assert client.ask(RequestCode.SEND_MESSAGE, sending(), b"after").code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert client.ask_all(RequestCode.SEND_MESSAGE, sending(), b"after", oneway=True) == []
    served.machine.turn()
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]
    assert ended == [None]
    assert [message.body for message in WholeBroker(tmp_path).messages("orders")] == [b"before"]


def test_a_port_in_use_ends_the_start_and_gives_the_directory_back(tmp_path: Path) -> None:
    served = Served(tmp_path, Machine(10909))
    [error] = served.run(served.service.start())
    assert isinstance(error, GatewayError)
    assert "10909" in str(error)
    served.stop()
    assert served.machine.open_ports == []
    assert not (tmp_path / "abort").exists()
    WholeBroker(tmp_path).stop()


def test_a_directory_in_use_ends_the_start(tmp_path: Path) -> None:
    first = WholeBroker(tmp_path)
    served = Served(tmp_path)
    [error] = served.run(served.service.start())
    assert isinstance(error, GatewayError)
    assert str(tmp_path) in str(error)
    served.stop()
    assert first.send(first.connect()).code == ResponseCode.SUCCESS


def test_a_table_that_cannot_be_read_ends_the_start_and_gives_the_directory_back(tmp_path: Path) -> None:
    WholeBroker(tmp_path).stop()
    file = tmp_path / "config" / "topics.json"
    text = file.read_bytes()
    for path in (file, file.with_name("topics.json.bak")):
        path.write_bytes(b"garbage")
    served = Served(tmp_path)
    [error] = served.run(served.service.start())
    assert isinstance(error, GatewayError)
    assert "topics.json" in str(error)
    served.stop()
    file.write_bytes(text)
    WholeBroker(tmp_path).stop()


# -- what survives ----------------------------------------------------------------------------------------------


def half(broker: WholeBroker, key: str) -> EndTransactionRequest:
    """Send a half message; the commit that its producer would send."""
    properties = {"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": key}
    fields = broker.send(broker.connect(), body=key.encode(), properties=properties).ext_fields
    return EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=int(fields["queueOffset"]),
        commit_log_offset=parse_offset_message_id(fields["msgId"])[1],
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
        from_transaction_check=False,
        msg_id=key,
        transaction_id=key,
    )


Again = Callable[[WholeBroker], WholeBroker]


@pytest.fixture(params=["stop", "kill"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Again:
    """The next run on the same data: after a stop, and after a kill."""
    if request.param == "stop":
        return WholeBroker.restart
    return lambda broker: broker.crash_image(tmp_path / "after the kill")


def test_messages_topics_groups_and_offsets_are_there_again(tmp_path: Path, again: Again) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    for body in (b"a", b"b"):
        broker.send(client, body=body)
    commit = UpdateConsumerOffsetRequest(consumer_group="group", topic="orders", queue_id=0, commit_offset=1)
    broker.ask(client, RequestCode.PULL_MESSAGE, pulling())
    broker.ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    broker.wait(6)
    broker = again(broker)
    assert [message.body for message in broker.messages("orders")] == [b"a", b"b"]
    assert broker.parts.topics.get("orders") == TopicConfig("orders", 4, 4, 6)
    assert broker.parts.groups.get("group") is not None
    assert broker.parts.offsets.query("group", "orders", 0) == 1
    assert broker.send(broker.connect()).ext_fields["queueOffset"] == "2"


def test_delayed_messages_and_retries_still_come_once(tmp_path: Path, again: Again) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    broker.send(client, body=b"early", properties={"DELAY": "1"})
    broker.wait(11)
    sent = broker.send(client, body=b"late", properties={"DELAY": "3"})
    offset = parse_offset_message_id(sent.ext_fields["msgId"])[1]
    send_back = ConsumerSendMsgBackRequest(offset=offset, group="group", delay_level=2)
    broker.ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, send_back)
    broker = again(broker)
    broker.wait(11)
    assert [message.body for message in broker.messages("orders")] == [b"early", b"late"]
    assert [message.body for message in broker.messages("%RETRY%group")] == [b"late"]


def test_pending_half_messages_can_be_committed_and_settled_ones_not_again(tmp_path: Path, again: Again) -> None:
    broker = WholeBroker(tmp_path / "store")
    settled, pending = half(broker, "settled"), half(broker, "pending")
    broker.ask_all(broker.connect(), RequestCode.END_TRANSACTION, settled, oneway=True)
    broker = again(broker)
    for end in (settled, pending, pending):
        broker.ask_all(broker.connect(), RequestCode.END_TRANSACTION, end, oneway=True)
    assert [message.body for message in broker.messages("orders")] == [b"settled", b"pending"]


def test_a_topic_whose_file_was_lost_is_restored_from_its_queues(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    broker.send(broker.connect(), queue_id=2, body=b"x")
    broker.stop()
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / "store" / "config" / name).unlink(missing_ok=True)
    broker = WholeBroker(tmp_path / "store")
    assert broker.parts.topics.get("orders") == TopicConfig("orders", 8, 8, 6)
    answer = broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, pulling(queue_id=2))
    assert answer.code == ResponseCode.SUCCESS


def full() -> None:
    raise OSError(28, "No space left on device")


def test_a_table_that_cannot_be_saved_keeps_no_message_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = WholeBroker(tmp_path / "store")
    broker.send(broker.connect(), body=b"x")
    monkeypatch.setattr(broker.parts.topics, "persist_now", full)
    monkeypatch.setattr(broker.parts.offsets, "persist_now", full)
    with caplog.at_level(logging.ERROR, "gateway"), pytest.raises(NotAllSaved) as told:
        broker.stop()
    config = tmp_path / "store" / "config"
    assert told.value.paths == (config / "topics.json", config / "consumerOffset.json")
    assert told.value.exit_code == 1
    assert [record.message for record in caplog.records] == ["table not saved"] * 2
    assert [record.failure for record in caplog.records] == [None, None]  # type: ignore[attr-defined]
    assert "come again" in caplog.records[1].facts["lost"]  # type: ignore[attr-defined]
    assert not (tmp_path / "store" / "abort").exists()
    assert [message.body for message in WholeBroker(tmp_path / "store").messages("orders")] == [b"x"]


def test_a_store_that_cannot_be_flushed_at_the_stop_ends_it_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = WholeBroker(tmp_path / "store")
    broker.send(broker.connect(), body=b"x")
    monkeypatch.setattr(broker.parts.store, "flush", lambda: False)
    with pytest.raises(NotAllSaved, match="could be flushed") as told:
        broker.stop()
    assert (told.value.paths, told.value.store, told.value.exit_code) == ((), tmp_path / "store", 1)
    assert (tmp_path / "store" / "abort").exists()
    assert [message.body for message in WholeBroker(tmp_path / "store").messages("orders")] == [b"x"]


# -- jobs -------------------------------------------------------------------------------------------------------


def test_silent_clients_are_forgotten(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", channel_expired_timeout_ms=20_000)
    client = broker.connect()
    broker.subscribe(client)
    assert broker.parts.consumers.group("group") is not None
    broker.wait(31)
    assert broker.parts.consumers.group("group") is None
    assert not client.transport.connected


@pytest.mark.parametrize(
    ("advertise", "expected"), [("auto", "10.0.0.1:10911"), ("192.0.2.200:30911", "192.0.2.200:30911")]
)
def test_message_ids_name_the_address_that_clients_can_reach(tmp_path: Path, advertise: str, expected: str) -> None:
    broker = WholeBroker(tmp_path / "store", advertise=advertise)
    answer = broker.send(broker.connect())
    host, port = unpack_host(parse_offset_message_id(answer.ext_fields["msgId"])[0])
    assert f"{host}:{port}" == expected


def test_a_name_server_next_door_shares_the_sum_of_requests_and_the_certificate_with_the_broker(tmp_path: Path) -> None:
    served = Served(tmp_path)
    assert served.service._server.tls is served.name_server.server.tls
    assert served.service._server.held_bytes is served.name_server.server.held_bytes
