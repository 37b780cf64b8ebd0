"""Lists are made one at a time for a connection and few at a time in all, and only for peers that read."""

from __future__ import annotations

import gc
import weakref

import pytest
from twisted.internet.defer import Deferred

from gateway.remoting.declared import EVERYBODY, Size
from gateway.remoting.dispatch import Answer, Dispatch, Request
from gateway.remoting.lists import (
    LISTS_AT_ONCE,
    MAX_LISTS,
    MAX_TRIED,
    MAX_WAITING_BYTES_PER_CHANNEL,
    REQUEST_BYTES,
    SHORT_S,
)
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.codes import RequestCode, ResponseCode
from wire.command import ONEWAY_FLAG, RemotingCommand

CODE = RequestCode.GET_BROKER_CONSUME_STATS
CHANGE = RequestCode.CLONE_GROUP_OFFSET
LARGE = b"x" * (2 << 20)
"""An answer beyond what a peer may leave unread before it has to read."""


class Rows:
    """The rows of a list."""


class Server:
    """A server whose lists end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.rows: list[weakref.ref[Rows]] = []
        self.ending: list[Deferred[bytes]] = []
        self.changed: list[int] = []
        dispatch = Dispatch()
        dispatch.answers(CODE, None, self.list, EVERYBODY, Size.LIST)
        dispatch.answers(CHANGE, None, self.change, EVERYBODY, Size.CHANGING_LIST)
        self.conversation = Conversation(dispatch)

    async def list(self, request: Request, _header: None) -> Answer:
        """Make a list of what a thread reads."""
        rows = Rows()
        self.rows.append(weakref.ref(rows))
        self.begun.append(request.command.opaque)
        body = await self._reading()
        assert rows is not None
        return Answer(body=body)

    async def change(self, request: Request, _header: None) -> Answer:
        """Change something, and say what it is now."""
        body = await self._reading()
        self.changed.append(request.command.opaque)
        return Answer(body=body)

    def _reading(self) -> Deferred[bytes]:
        self.ending.append(Deferred())
        return self.ending[-1]

    def end_all(self) -> None:
        """End lists until none is under way, each with its own turn."""
        while self.making:
            if self.ending[0].called:
                self.ending.pop(0)
            else:
                self.end()

    def end(self, body: bytes = b"list") -> None:
        """End the list that was begun first, and let a turn pass."""
        self.ending.pop(0).callback(body)
        self.turn()

    def turn(self) -> None:
        """Let the reactor do what is due."""
        self.conversation.reactor.advance(0)

    def find_long(self) -> None:
        """Let so much time pass that what is tried is long."""
        self.conversation.reactor.advance(SHORT_S)
        self.turn()

    @property
    def making(self) -> int:
        """Return how many lists are under way and not dropped."""
        return sum(not reading.called for reading in self.ending)


@pytest.fixture
def server() -> Server:
    return Server()


def ask(peer: Peer, count: int, code: int = CODE, first: int = 1, body: bytes = b"", about: str = "") -> None:
    """Send this many requests in one read."""
    fields = {"topic": about or str(first)}
    peer.send(*(RemotingCommand(code, opaque=first + number, ext_fields=fields, body=body) for number in range(count)))


def answers(peer: Peer) -> list[tuple[int, int]]:
    """Return opaque and code of each answer that came."""
    return [(answer.opaque, answer.code) for answer in peer.received()]


def test_of_a_hundred_lists_that_a_peer_asks_for_one_is_under_way(server: Server) -> None:
    peer = server.conversation.connect()
    ask(peer, 100)
    server.turn()
    assert server.begun == [1]
    for number in range(1, 101):
        assert server.begun == list(range(1, number + 1))
        server.end()
    assert answers(peer) == [(number, ResponseCode.SUCCESS) for number in range(1, 101)]


def test_few_lists_are_under_way_in_all_and_connections_take_turns(server: Server) -> None:
    peers = [server.conversation.connect() for _ in range(MAX_LISTS + 2)]
    for number, peer in enumerate(peers):
        ask(peer, 3, first=100 * number)
    server.turn()
    assert server.begun == [100 * number for number in range(MAX_LISTS)]
    while server.ending:
        server.end()
        assert len(server.ending) <= MAX_LISTS
    assert sorted(server.begun[: len(peers)]) == [100 * number for number in range(len(peers))]
    assert [len(answers(peer)) for peer in peers] == [3] * len(peers)


def test_no_list_is_begun_while_the_peer_does_not_read(server: Server) -> None:
    peer, other = server.conversation.connect(), server.conversation.connect()
    ask(peer, 5)
    peer.transport.full()
    server.end(LARGE)
    server.turn()
    assert server.begun == [1]
    ask(other, 1, first=50)
    assert server.begun == [1, 50], "others do not wait for it"
    server.end()
    peer.transport.empty()
    server.turn()
    assert server.begun == [1, 50, 2]


def test_what_is_under_way_is_dropped_at_once_when_its_peer_leaves(server: Server) -> None:
    peers = [server.conversation.connect() for _ in range(MAX_LISTS)]
    honest = server.conversation.connect()
    for peer in peers:
        ask(peer, 100)
    ask(honest, 1, first=1_000)
    gc.disable()
    try:
        for peer in peers:
            peer.leave()
        assert [row() for row in server.rows[: len(peers)]] == [None] * len(peers), "without a garbage collection"
    finally:
        gc.enable()
    server.turn()
    assert server.begun == [*[1] * MAX_LISTS, 1_000], "nothing that waited is begun"
    for _ in peers:
        server.end()  # the threads report what nobody waits for
    assert answers(honest) == []
    server.end()
    assert answers(honest) == [(1_000, ResponseCode.SUCCESS)]


def test_what_changes_something_goes_on_without_its_peer(server: Server) -> None:
    peers = [server.conversation.connect() for _ in range(MAX_LISTS + 1)]
    for number, peer in enumerate(peers):
        ask(peer, 2, CHANGE, first=10 * number)
    for peer in peers[:-1]:
        peer.leave()
    server.turn()
    for _ in range(MAX_LISTS + 2):
        server.end()
    assert server.changed == [*(10 * number for number in range(MAX_LISTS)), 10 * MAX_LISTS, 10 * MAX_LISTS + 1]


def test_requests_that_wait_have_a_limit_in_bytes(server: Server) -> None:
    peer, other = server.conversation.connect(), server.conversation.connect()
    body = b"b" * (1 << 20)
    fitting = MAX_WAITING_BYTES_PER_CHANNEL // (len(body) + REQUEST_BYTES + 10)
    ask(peer, 1)
    ask(peer, fitting + 1, first=2, body=body)
    assert answers(peer) == [(2 + fitting, ResponseCode.SYSTEM_BUSY)]
    ask(other, 1)
    assert len(server.begun) == 2
    peer.leave()
    third = server.conversation.connect()
    ask(third, fitting + 2, body=body)
    assert [code for _, code in answers(third)] == [ResponseCode.SYSTEM_BUSY], "there is room again"


def test_a_list_that_fails_makes_room_for_the_next(server: Server) -> None:
    peer = server.conversation.connect()
    ask(peer, 2)
    server.ending.pop(0).errback(ValueError("no"))
    server.turn()
    server.end()
    assert answers(peer) == [(1, ResponseCode.SYSTEM_ERROR), (2, ResponseCode.SUCCESS)]


def test_lists_that_are_made_at_once_share_the_turns() -> None:
    made: list[int] = []

    def at_once(request: Request, _header: None) -> Answer:
        made.append(request.command.opaque)
        return Answer()

    dispatch = Dispatch()
    dispatch.answers(CODE, None, at_once, EVERYBODY, Size.LIST)
    conversation = Conversation(dispatch)
    peer = conversation.connect()
    ask(peer, 2 * LISTS_AT_ONCE)
    assert len(made) == LISTS_AT_ONCE
    conversation.reactor.advance(0)
    assert made == [*range(1, 2 * LISTS_AT_ONCE + 1)]


def test_a_list_that_nobody_wants_an_answer_of_is_not_made(server: Server) -> None:
    peer = server.conversation.connect()
    peer.ask_all(CODE, oneway=True)
    assert server.begun == []


def test_a_line_that_was_ready_waits_when_there_is_no_room_any_more_and_lists_go_on(server: Server) -> None:
    for _ in range(MAX_LISTS):
        ask(server.conversation.connect(), 1)
    waiting = server.conversation.connect()
    ask(waiting, 1, first=10)
    waiting.transport.full()
    waiting.channel.send_frame(LARGE)
    ask(waiting, 1, first=11)
    server.end()
    assert server.begun == [1] * MAX_LISTS, "nothing for who does not read"
    ask(server.conversation.connect(), 1, first=20)
    server.turn()
    assert server.begun == [*[1] * MAX_LISTS, 20]


def test_a_change_is_carried_out_for_who_wants_no_answer(server: Server) -> None:
    peer = server.conversation.connect()
    peer.send(RemotingCommand(CHANGE, opaque=5, flag=ONEWAY_FLAG))
    server.turn()
    server.end()
    assert server.changed == [5]


def busy_with_long_lists(server: Server, waiting: int = 50) -> list[Peer]:
    """Return peers of one host that ask for a long list each; the last ``waiting`` of them wait."""
    peers = [server.conversation.connect("192.0.2.66") for _ in range(MAX_LISTS + waiting)]
    for number, peer in enumerate(peers):
        ask(peer, 1, first=1_000 + number)
    for _ in range(len(peers) // MAX_TRIED + 1):
        server.find_long()
    return peers


def test_a_short_list_does_not_wait_for_fifty_long_ones(server: Server) -> None:
    busy_with_long_lists(server)
    assert server.making == MAX_LISTS
    honest = server.conversation.connect()
    ask(honest, 1)
    server.ending[-1].callback(b"short")
    server.turn()
    assert answers(honest) == [(1, ResponseCode.SUCCESS)], "nothing of the others has ended"


def test_a_short_list_waits_for_those_of_its_host_that_are_tried_only(server: Server) -> None:
    attackers = [server.conversation.connect("192.0.2.66") for _ in range(MAX_LISTS + 50)]
    for number, peer in enumerate(attackers):
        ask(peer, 1, first=1_000 + number)
    honest = server.conversation.connect()
    ask(honest, 1)
    server.find_long()  # these become long lists
    assert server.begun[-1] != 1
    server.find_long()
    assert 1 in server.begun, "another host has its turn next"


def test_a_long_list_is_made_again_and_answered_once(server: Server) -> None:
    peers = busy_with_long_lists(server, waiting=2)
    for peer in peers:
        assert answers(peer) == []
    assert len(server.begun) == MAX_LISTS + 2, "the last two were tried"
    server.end_all()
    assert len(server.begun) == MAX_LISTS + 4, "and are made again"
    for number, peer in enumerate(peers):
        assert answers(peer) == [(1_000 + number, ResponseCode.SUCCESS)]


def test_what_a_list_that_was_dropped_is_made_of_is_given_back_at_once(server: Server) -> None:
    gc.disable()
    try:
        busy_with_long_lists(server, waiting=2)
        assert [row() is None for row in server.rows] == [*[False] * MAX_LISTS, True, True]
    finally:
        gc.enable()


def test_a_long_list_is_made_once_when_few_are_made(server: Server) -> None:
    peers = busy_with_long_lists(server, waiting=0)
    for _ in range(10):
        server.find_long()
    assert server.making == len(server.begun) == MAX_LISTS
    server.end_all()
    assert [len(answers(peer)) for peer in peers] == [1] * MAX_LISTS


def test_hosts_take_turns_with_long_lists(server: Server) -> None:
    busy_with_long_lists(server)
    other = server.conversation.connect()
    ask(other, 1)
    server.find_long()
    server.begun.clear()
    server.end_all()
    assert server.begun.index(1) <= 1, "all the others are of one host"


def test_a_change_passes_long_lists_and_is_begun_once(server: Server) -> None:
    busy_with_long_lists(server)
    other = server.conversation.connect("192.0.2.66")
    ask(other, 1, CHANGE)
    server.find_long()
    assert server.changed == []
    server.end()
    server.find_long()
    server.ending[-1].callback(b"changed")
    server.turn()
    assert server.changed == [1]
    server.end_all()
    assert server.changed == [1]


def test_a_list_that_waits_to_be_made_again_counts_and_leaves_with_its_peer(server: Server) -> None:
    *_, last = busy_with_long_lists(server, waiting=1)
    begun = len(server.begun)
    size = MAX_WAITING_BYTES_PER_CHANNEL // 2
    ask(last, 1, first=5_000, body=b"b" * (size - REQUEST_BYTES - 10))
    ask(last, 1, first=5_001, body=b"b" * (size - REQUEST_BYTES - 10))
    assert answers(last) == [(5_001, ResponseCode.SYSTEM_BUSY)]
    last.leave()
    server.end_all()
    assert len(server.begun) == begun, "nothing of it is made"
    again = server.conversation.connect()
    ask(again, 2, body=b"b" * (size - REQUEST_BYTES - 10))
    assert answers(again) == []


def test_no_long_list_is_made_again_while_the_peer_does_not_read(server: Server) -> None:
    *_, last = busy_with_long_lists(server, waiting=1)
    begun = len(server.begun)
    last.transport.full()
    last.channel.send_frame(LARGE)
    ask(last, 1, first=5_000)
    server.end_all()
    assert len(server.begun) == begun
    last.transport.empty()
    last.transport.writes.clear()
    server.turn()
    server.end_all()
    assert [opaque for opaque, _ in answers(last)] == [1_000 + MAX_LISTS, 5_000]


def test_a_request_whose_list_was_long_is_not_tried_again(server: Server) -> None:
    peers = [server.conversation.connect("192.0.2.66") for _ in range(MAX_LISTS + 50)]
    for peer in peers:
        ask(peer, 1, about="wide")
    honest = server.conversation.connect("192.0.2.66")
    ask(honest, 1, first=5)
    server.find_long()
    assert 5 in server.begun, "fifty that waited to be tried are known to be long"
    assert server.making == MAX_LISTS + 1
    server.end_all()
    assert [len(answers(peer)) for peer in peers] == [1] * len(peers)
    server.begun.clear()
    for peer in (*peers, honest):
        ask(peer, 2, about="wide")
    assert len(server.begun) == MAX_TRIED, "none of them was long in the end"
