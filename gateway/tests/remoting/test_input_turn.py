"""All connections of a server share one budget of a turn, and wait in line for the next ones."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock

from gateway.remoting.declared import EVERYBODY
from gateway.remoting.dispatch import Dispatch, Request
from gateway.remoting.input import COMMAND_BYTES
from gateway.remoting.input_turn import MAX_LEFT, QUICK_READS, TURN_S
from gateway.tests.remoting.conversation import Conversation, Peer, request
from wire.codes import RequestCode, ResponseCode
from wire.command import ONEWAY_FLAG
from wire.frame import build_frame

CODE = RequestCode.GET_BROKER_RUNTIME_INFO
MEDIUM_S = 0.3 * TURN_S
HEAVY_S = 4 * TURN_S
COUNT = 40


class Server:
    """Carries out requests that take as long as their body says, and notes the order."""

    def __init__(self, reactor: MemoryReactorClock | None = None, **settings: Any) -> None:
        dispatch = Dispatch()
        dispatch.answers_directly(CODE, self._carry_out, EVERYBODY)
        self.conversation = Conversation(dispatch, reactor, **settings)
        self.done: list[int] = []

    def _carry_out(self, request: Request) -> None:
        self.conversation.reactor.rightNow += float(request.command.body)
        self.done.append(request.command.opaque)
        request.answer(ResponseCode.SUCCESS)

    def connect(self, count: int) -> list[Peer]:
        return [self.conversation.connect() for _ in range(count)]

    def turn(self) -> list[int]:
        """Do what is due when a turn of the reactor begins; return what was carried out."""
        before = len(self.done)
        reactor: Any = self.conversation.reactor
        due = [call for call in reactor.getDelayedCalls() if call.getTime() <= reactor.seconds()]
        for call in due:
            reactor.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)
        return self.done[before:]

    def turns(self) -> int:
        """Have turns until nothing is carried out any more; return how many."""
        count = 0
        while self.turn():
            count += 1
        return count


def send(peer: Peer, opaque: int, seconds: float, flag: int = 0) -> None:
    peer.send(request(CODE, opaque=opaque, body=str(seconds).encode(), flag=flag))


def answers(peer: Peer) -> list[int]:
    return [answer.opaque for answer in peer.received()]


def known(server: Server) -> Peer:
    """Return a client whose requests have been quick for a while."""
    (peer,) = server.connect(1)
    for number in range(QUICK_READS):
        send(peer, 10_000 + number, 0)
    answers(peer)
    server.done.clear()
    return peer


@pytest.fixture
def server() -> Server:
    return Server()


def test_requests_of_many_connections_share_the_time_of_one_turn(server: Server) -> None:
    peers = server.connect(COUNT)
    for number, peer in enumerate(peers):
        send(peer, number, MEDIUM_S)
    assert len(server.done) == 4
    while len(server.done) < COUNT:
        assert len(server.turn()) in (4, COUNT % 4)
    assert server.done == list(range(COUNT))
    assert [answers(peer) for peer in peers] == [[number] for number in range(COUNT)]
    assert all(peer.transport.reads for peer in peers)


def test_of_heavy_requests_one_is_carried_out_in_a_turn(server: Server) -> None:
    for number, peer in enumerate(server.connect(COUNT)):
        send(peer, number, HEAVY_S)
    assert server.done == [0]
    for number in range(1, COUNT):
        assert server.turn() == [number]


def test_a_client_known_to_be_quick_waits_for_one_heavy_request_at_most(server: Server) -> None:
    honest = known(server)
    for number, peer in enumerate(server.connect(COUNT)):
        send(peer, number, HEAVY_S)
    for _ in range(5):
        send(honest, 1_000, 0)
        assert answers(honest) == []
        assert server.turn()[0] == 1_000
        assert answers(honest) == [1_000]


def test_a_request_that_waited_for_the_processor_is_not_costly() -> None:
    class BusyMachine(MemoryReactorClock):
        """A machine whose processor computes for another program most of the time."""

        def processor_seconds(self) -> float:
            return float(self.seconds()) / 100

    server = Server(BusyMachine())  # type: ignore[no-untyped-call]
    honest, *others = known(server), *server.connect(5)
    for number in range(5):
        send(honest, number, HEAVY_S)
        server.turn()
    for number, peer in enumerate(others):
        send(peer, 100 + number, HEAVY_S)
    send(honest, 5, 0)
    assert server.turn()[0] == 5


def test_what_others_computed_before_makes_no_connection_costly() -> None:
    class Shared(MemoryReactorClock):
        """A processor that has computed much for another program whenever it is asked."""

        computed_s = 0.0

        def processor_seconds(self) -> float:
            return self.computed_s

    reactor = Shared()  # type: ignore[no-untyped-call]
    server = Server(reactor)
    honest, *others = known(server), *server.connect(5)
    for number in range(5):
        reactor.computed_s += 1
        send(honest, number, HEAVY_S)
        server.turn()
    for number, peer in enumerate(others):
        send(peer, 100 + number, HEAVY_S)
    send(honest, 5, 0)
    assert server.turn()[0] == 5


def test_a_client_that_has_just_connected_does_not_wait_behind_long_requests_of_all_others(server: Server) -> None:
    for number, peer in enumerate(server.connect(COUNT)):
        body = str(HEAVY_S).encode().ljust(400_000)
        peer.send(request(CODE, opaque=number, body=body))
    late = server.conversation.connect()
    for number in range(QUICK_READS):
        send(late, 1_000 + number, 0)
        assert 1_000 + number in server.turn()


def test_a_host_does_not_wait_for_all_connections_of_another(server: Server) -> None:
    for number in range(COUNT):
        send(server.conversation.connect("10.0.0.7"), number, HEAVY_S)
    other = server.conversation.connect("10.0.0.8")
    send(other, 1_000, HEAVY_S)
    seen = server.turn() + server.turn()
    assert 1_000 in seen


def test_an_error_before_a_turn_keeps_nobody_waiting_for_ever(server: Server) -> None:
    class Failing:
        """A channel that cannot be written to."""

        def write_out(self) -> None:
            raise MemoryError

    blocking, peer = server.connect(2)
    send(blocking, 0, HEAVY_S)
    send(peer, 1, 0)
    server.conversation.server.flush_group.mark(Failing())
    with pytest.raises(MemoryError):
        server.turn()
    server.turns()
    assert answers(peer) == [1]


def test_quick_clients_that_use_up_turns_leave_one_request_of_each_to_the_others(server: Server) -> None:
    quick = [known(server) for _ in range(20)]
    late = server.connect(3)
    for peer in quick:
        send(peer, 1, MEDIUM_S)
    for number, peer in enumerate(late):
        send(peer, 100 + number, MEDIUM_S)
    assert server.done == [1] * 4
    for number in range(3):
        assert server.turn() == [1, 1, 1, 1, 100 + number]


def test_the_next_request_of_a_connection_goes_to_the_end_of_the_line(server: Server) -> None:
    first, *rest = server.connect(4)
    send(first, 0, HEAVY_S)
    for number, peer in enumerate(rest):
        send(peer, 10 + number, HEAVY_S)
    send(first, 1, HEAVY_S)
    server.turns()
    assert server.done == [0, 10, 11, 12, 1]
    assert answers(first) == [0, 1]


def test_many_requests_of_one_connection_do_not_keep_the_turn_of_the_others(server: Server) -> None:
    greedy, other = server.connect(2)
    send(greedy, 0, HEAVY_S)
    server.turn()
    greedy.send(*(request(CODE, opaque=number, body=str(HEAVY_S).encode()) for number in range(1, 5)))
    assert server.done == [0, 1]
    send(other, 100, HEAVY_S)
    server.turns()
    assert server.done == [0, 1, 100, 2, 3, 4]


def test_who_sends_more_while_it_waits_is_not_read_and_keeps_its_order(server: Server) -> None:
    blocking, peer = server.connect(2)
    send(blocking, 0, HEAVY_S)
    frame = build_frame(request(CODE, opaque=1, body=b"0")) + build_frame(request(CODE, opaque=2, body=b"0"))
    peer.send_bytes(frame[:50])
    peer.send_bytes(frame[50:])
    assert not peer.transport.reads
    assert server.conversation.server.incomplete_frames.total_bytes == len(frame)
    server.turn()
    assert answers(peer) == [1, 2]
    assert peer.transport.reads
    assert server.conversation.server.incomplete_frames.total_bytes == 0


def test_a_turn_that_passed_is_forgotten(server: Server) -> None:
    (peer,) = server.connect(1)
    for number in range(20):
        send(peer, number, 0.9 * TURN_S)
        assert answers(peer) == [number]
        server.turn()


def test_quick_reads_need_no_timer(server: Server) -> None:
    (peer,) = server.connect(1)
    scheduled = len(server.conversation.reactor.getDelayedCalls())
    for number in range(20):
        send(peer, number, TURN_S / 100)
    assert len(server.conversation.reactor.getDelayedCalls()) == scheduled


def test_of_those_who_left_only_what_expects_no_answer_is_carried_out_in_turn(server: Server) -> None:
    blocking, *gone = server.connect(4)
    send(blocking, 0, HEAVY_S)
    for number, peer in enumerate(gone):
        send(peer, 10 + number, HEAVY_S, ONEWAY_FLAG)
        send(peer, 20 + number, HEAVY_S)
        send(peer, 30 + number, HEAVY_S, ONEWAY_FLAG)
        peer.leave()
    assert server.done == [0]
    seen = []
    while some := server.turn():
        assert len(some) == 1
        seen += some
    assert sorted(seen) == [10, 11, 12, 30, 31, 32]
    assert server.conversation.server.incomplete_frames.total_bytes == 0
    assert server.conversation.server.input_turn.left == 0


def test_what_waits_counts_until_it_is_carried_out_also_of_those_who_left(server: Server) -> None:
    blocking, greedy, gone = server.connect(3)
    frames = server.conversation.server.incomplete_frames
    send(blocking, 0, HEAVY_S)
    greedy.send(*(request(CODE, opaque=number, body=str(HEAVY_S).encode()) for number in range(1, 11)))
    frame = build_frame(request(CODE, opaque=20, body=b"0".ljust(100_000), flag=ONEWAY_FLAG))
    gone.send_bytes(frame)
    gone.leave()
    assert frames.total_bytes > len(frame)
    while 2 not in server.done:
        server.turn()
    assert frames.total_bytes >= 8 * COMMAND_BYTES
    server.turns()
    assert 20 in server.done
    assert frames.total_bytes == 0


def test_of_those_who_hold_too_much_together_one_who_left_is_forgotten_as_well() -> None:
    server = Server(incomplete_frame_bytes_limit=150_000)
    blocking, *gone = server.connect(4)
    send(blocking, 0, HEAVY_S)
    for number, peer in enumerate(gone):
        peer.send_bytes(build_frame(request(CODE, opaque=number, body=b"0".ljust(60_000), flag=ONEWAY_FLAG)))
        peer.leave()
    assert server.conversation.server.incomplete_frames.total_bytes < 150_000
    server.turns()
    assert server.done == [0, 1, 2]
    assert server.conversation.server.input_turn.left == 0


def test_who_leaves_nothing_takes_no_place_in_line(server: Server) -> None:
    (peer,) = server.connect(1)
    peer.send(*(request(CODE, opaque=number, body=str(HEAVY_S).encode()) for number in range(20)))
    peer.leave()
    assert server.conversation.server.input_turn.left == 0
    assert server.turns() == 0
    assert server.conversation.server.input_turn.left == 0


def test_what_too_many_left_is_dropped(server: Server) -> None:
    blocking, *gone = server.connect(MAX_LEFT + 11)
    send(blocking, 0, HEAVY_S)
    for peer in gone:
        send(peer, 1, 0, ONEWAY_FLAG)
        peer.leave()
    server.turns()
    assert server.done == [0] + [1] * MAX_LEFT
    send(blocking, 2, HEAVY_S)
    (last,) = server.connect(1)
    send(last, 3, 0, ONEWAY_FLAG)
    last.leave()
    server.turns()
    assert server.done[-1] == 3, "there is room again"


def test_a_server_that_stops_carries_out_what_expects_no_answer(server: Server) -> None:
    blocking, peer = server.connect(2)
    send(blocking, 0, HEAVY_S)
    for number in (1, 2, 3):
        send(peer, number, HEAVY_S, ONEWAY_FLAG)
    server.conversation.server.stopService()
    assert server.done == [0, 1, 2, 3]


def test_malformed_bytes_that_waited_end_their_connection_only(server: Server) -> None:
    blocking, bad, peer = server.connect(3)
    send(blocking, 0, HEAVY_S)
    bad.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
    send(peer, 1, 0)
    server.turn()
    assert bad.channel.closed
    assert answers(peer) == [1]


def test_who_is_to_read_first_gets_its_turn_when_it_has_read(server: Server) -> None:
    server = Server(unsent_bytes_limit=1 << 16)
    blocking, peer = server.connect(2)
    peer.transport.full()
    send(peer, 0, 0)
    peer.channel.send(request(CODE, body=bytes(10_000)))
    send(blocking, 100, HEAVY_S)
    send(peer, 1, 0)
    server.turn()
    assert server.done == [0, 100]
    peer.transport.empty()
    server.turn()
    assert server.done == [0, 100, 1]
    assert peer.transport.reads
