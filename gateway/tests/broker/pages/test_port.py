"""The port of the pages: nothing that one peer does there costs the others."""

from __future__ import annotations

import itertools
import resource
from dataclasses import dataclass
from http import HTTPStatus

import pytest

from gateway.broker.figures.metrics_server import LINES_PER_TURN, MAX_PAGE_AGE_SECONDS, FiguresPage
from gateway.broker.pages.answers import Answered, Page, text_answer
from gateway.broker.pages.connection import (
    HEAD_SECONDS,
    IDLE_SECONDS,
    LINGER_BYTES,
    LINGER_SECONDS,
    TAKE_SECONDS,
)
from gateway.broker.pages.head import MAX_HEAD_BYTES
from gateway.broker.pages.port import MAX_PAGE_CONNECTIONS, MAX_PAGE_CONNECTIONS_IN_RESERVE
from gateway.telemetry.metrics import Registry
from gateway.tests.broker.pages.asker import Asker, HttpTransport, Served

GET = b"GET /healthz HTTP/1.1\r\n\r\n"
CHUNK = b"x" * 65_536


def ok(answered: Answered) -> None:
    answered(text_answer(HTTPStatus.OK, "ok"))


def large(answered: Answered) -> None:
    answered(text_answer(HTTPStatus.OK, "x" * 10_000))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999", 405),
        (b"PUT /healthz HTTP/1.0\r\nContent-Length: 5", 405),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: 99999999999", 413),
        (b"GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked", 413),
        (b"PRI * HTTP/2.0", 400),
    ],
)
def test_point_4_a_request_with_a_body_is_refused_by_its_header_and_nothing_of_it_is_kept(
    head: bytes, status: int
) -> None:
    served = Served(healthz=ok)
    peer = served.asker()
    peer.send(head + b"\r\n\r\n" + CHUNK)
    assert (peer.status, peer.answers) == (status, 1)
    assert b"Connection: close\r\n" in peer.received
    assert peer.transport.is_half_closed
    assert peer._protocol._received == b""
    for _ in range(LINGER_BYTES // len(CHUNK) + 1):
        peer.send(CHUNK + GET)
    assert not peer.transport.reads
    assert peer._protocol._received == b""
    assert peer.answers == 1
    served.reactor.advance(LINGER_SECONDS)
    assert peer.transport.disconnected
    assert served.port.connections == 0


@pytest.mark.parametrize("head", [b"GET /" + b"a" * MAX_HEAD_BYTES, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2_000])
def test_point_4_a_head_is_not_longer_than_its_limit(head: bytes) -> None:
    served = Served(healthz=ok)
    peer = served.asker()
    for start in range(0, len(head), 100):
        peer.send(head[start : start + 100])
        assert len(peer._protocol._received) <= MAX_HEAD_BYTES
    assert peer.status == 431
    assert peer.transport.is_half_closed


def test_point_4_a_head_that_comes_slowly_ends_its_connection() -> None:
    served = Served(healthz=ok)
    silent, slow, empty_lines = served.asker(), served.asker(), served.asker()
    for byte in GET[: HEAD_SECONDS - 1]:
        slow.send(bytes((byte,)))
        empty_lines.send(b"\r\n")
        served.reactor.advance(1)
    assert all(peer.is_connected for peer in (silent, slow, empty_lines))
    served.reactor.advance(1)
    assert not any(peer.is_connected for peer in (silent, slow, empty_lines))
    assert served.reactor.getDelayedCalls() == []


def test_point_4_a_connection_is_kept_between_requests_for_some_time() -> None:
    served = Served(healthz=ok)
    peer = served.asker()
    for _ in range(3):
        peer.ask()
        served.reactor.advance(IDLE_SECONDS - 1)
        assert peer.is_connected
    peer.send(b"G")
    served.reactor.advance(HEAD_SECONDS)
    assert not peer.is_connected
    other = served.asker()
    other.ask()
    served.reactor.advance(IDLE_SECONDS)
    assert not other.is_connected


def test_point_4_requests_sent_together_are_answered_one_a_turn() -> None:
    served = Served(healthz=ok)
    peer, other = served.asker(), served.asker()
    peer.send(GET * 600)
    assert peer.answers == 1
    assert not peer.transport.reads
    other.ask()
    assert (peer.answers, other.answers) == (1, 1)
    assert served.turns_until(lambda: peer.answers == 600) == 599
    assert peer.transport.reads


def test_point_4_nothing_is_made_for_a_peer_that_does_not_read() -> None:
    served = Served(large=large)
    peer = served.asker(takes=0)
    peer.send(b"GET /large HTTP/1.1\r\n\r\n" * 600)
    for _ in range(100):
        served.turn()
    assert peer.answers == 1
    assert not peer.transport.reads
    assert served.room.total_bytes >= 10_000
    peer.transport.empty()
    assert served.room.total_bytes == 0
    served.turn()
    assert peer.answers == 2
    served.reactor.advance(TAKE_SECONDS)
    assert not peer.is_connected
    assert served.room.total_bytes == 0
    assert served.reactor.getDelayedCalls() == []


def test_point_4_unread_pages_count_with_the_unread_answers_of_all() -> None:
    served = Served(room_bytes=25_000, large=large)
    peers = [served.asker(takes=0) for _ in range(4)]
    for peer in peers:
        peer.ask("/large")
    assert [peer.is_connected for peer in peers].count(True) == 2
    assert served.room.total_bytes <= 25_000


def test_point_5_a_host_that_opens_all_it_can_shuts_nobody_out() -> None:
    served = Served(healthz=ok)
    honest = served.asker("192.0.2.2")
    many = [served.asker() for _ in range(MAX_PAGE_CONNECTIONS + 10)]
    assert served.port.connections == MAX_PAGE_CONNECTIONS
    assert [peer.is_connected for peer in many] == [False] * 11 + [True] * (MAX_PAGE_CONNECTIONS - 1)
    honest.ask()
    late = served.asker("192.0.2.3")
    late.ask()
    assert (honest.status, late.status) == (200, 200)
    assert served.port.connections == MAX_PAGE_CONNECTIONS
    served.port.close_all()
    assert served.port.connections == 0
    assert served.reactor.getDelayedCalls() == []


@dataclass
class Handle:
    number: int

    def fileno(self) -> int:
        return self.number


def test_point_5_the_last_descriptors_are_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_000, 1_000))
    handle = Handle(983)
    monkeypatch.setattr(HttpTransport, "getHandle", lambda _: handle, raising=False)
    served = Served(healthz=ok)
    plain = [served.asker() for _ in range(20)]
    assert all(peer.is_connected for peer in plain)
    handle.number = 984
    last = served.asker()
    assert last.is_connected
    assert served.port.connections == MAX_PAGE_CONNECTIONS_IN_RESERVE
    last.ask()
    assert last.status == 200


def figures(served: Served, registry: Registry) -> Page:
    return FiguresPage(registry, {"cluster": "c"}, served.reactor)


def with_figures(registry: Registry) -> Served:
    served = Served(healthz=ok)
    served.port._pages["/metrics"] = figures(served, registry)
    return served


def test_point_4_the_page_of_figures_is_made_once_for_all_who_ask_in_a_moment() -> None:
    numbers = itertools.count(1)
    registry = Registry()
    registry.watch("level", "A level", lambda: next(numbers))
    served = with_figures(registry)
    peers = [served.asker() for _ in range(30)]
    for peer in peers:
        peer.ask("/metrics")
        assert b'level{cluster="c"} 1\n' in peer.received
    served.reactor.advance(MAX_PAGE_AGE_SECONDS)
    peers[0].ask("/metrics")
    assert b'level{cluster="c"} 2\n' in peers[0].received


def test_point_4_a_long_page_is_made_in_turns() -> None:
    registry = Registry()
    gauge = registry.gauge("level", "A level")
    for number in range(3 * LINES_PER_TURN):
        gauge.at(topic=str(number)).value = number
    served = with_figures(registry)
    first, second, gone, other = (served.asker() for _ in range(4))
    first.ask("/metrics")
    gone.ask("/metrics")
    gone.transport.loseConnection()
    served.turn()
    second.ask("/metrics")
    other.ask()
    assert (first.answers, second.answers, other.answers) == (0, 0, 1)
    served.turns_until(lambda: first.answers == 1)
    assert second.received == first.received
    assert first.received.count(b"\nlevel{") == 3 * LINES_PER_TURN
    assert gone.received == b""


def test_a_figure_that_fails_is_told_and_the_next_page_is_made() -> None:
    levels: list[int] = []
    registry = Registry()
    registry.watch("level", "A level", lambda: levels[0])
    served = with_figures(registry)

    def broken(answered: Answered) -> None:
        raise OSError("broken")

    served.port._pages["/readyz"] = broken
    peer = served.asker()
    peer.ask("/metrics")
    assert peer.status == 500
    peer.ask("/readyz")
    assert peer.status == 500
    levels.append(3)
    peer.ask("/metrics")
    assert peer.status == 200
    assert b'level{cluster="c"} 3\n' in peer.received


def one_answer(peer: Asker) -> bytes:
    answer = peer.received
    peer.transport.writes.clear()
    return answer


def test_answers_are_framed_so_that_connections_can_stay() -> None:
    served = Served(healthz=ok)
    peer = served.asker()
    peer.ask()
    answer = one_answer(peer)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\nDate: ")
    assert answer.endswith(b"Content-Length: 3\r\nConnection: keep-alive\r\n\r\nok\n")
    peer.send(b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert one_answer(peer).endswith(b"Content-Length: 3\r\nConnection: keep-alive\r\n\r\n")
    peer.ask("/nowhere?a=b")
    assert peer.status == 404
    assert one_answer(peer).endswith(b"there are /healthz\n")
    peer.ask(version="1.0")
    assert one_answer(peer).endswith(b"Connection: close\r\n\r\nok\n")
    assert not peer.is_connected
