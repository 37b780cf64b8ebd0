"""The page that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.testing import StringTransport

from gateway.broker.figures.metrics_server import MetricsServer
from gateway.errors import GatewayError
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.settings import Settings
from gateway.telemetry.metrics import Registry
from gateway.tests.broker.pages.asker import first_byte
from gateway.tests.remoting.conversation import memory_reactor

SETTINGS = replace(Settings(), broker_name="broker-a", broker_cluster_name="c1", metrics_prom_exporter_port=5_557)


def made(reactor: Any, registry: Registry, problems: Mapping[str, Callable[[], str | None]]) -> MetricsServer:
    room = AnswerRoom(reactor, FlushGroup(reactor), 1 << 20)
    return MetricsServer(registry, SETTINGS, reactor, problems, room, first_byte(reactor, SETTINGS))


def fetched(site: Any, request: bytes) -> bytes:
    protocol: Any = site.buildProtocol(None)
    transport = StringTransport()  # type: ignore[no-untyped-call]
    protocol.makeConnection(transport)
    protocol.dataReceived(request)
    value: bytes = transport.value()  # type: ignore[no-untyped-call]
    return value


def test_the_metrics_are_served_with_upstreams_labels_and_nothing_else_is() -> None:
    registry = Registry()
    registry.gauge("rocketmq_half_messages", "Half messages").at(topic="orders").value = 3
    reactor = memory_reactor()
    server = made(reactor, registry, {})
    server.start()
    [(port, site, _, host)] = reactor.tcpServers
    assert (port, host) == (5_557, "127.0.0.1")
    page = fetched(site, b"GET /metrics HTTP/1.0\r\n\r\n")
    assert page.startswith(b"HTTP/1.0 200 OK")
    assert b"text/plain; version=0.0.4" in page
    assert b'rocketmq_half_messages{cluster="c1",node_type="broker",node_id="broker-a",topic="orders"} 3' in page
    assert b"404" in fetched(site, b"GET / HTTP/1.0\r\n\r\n").splitlines()[0]
    assert b"405" in fetched(site, b"POST /metrics HTTP/1.0\r\n\r\n").splitlines()[0]
    ensureDeferred(server.stop())
    assert server.port == 0


def test_a_port_in_use_is_told_with_what_to_do() -> None:
    reactor: Any = memory_reactor()

    def refuse(*_: object, **__: object) -> None:
        raise CannotListenError("127.0.0.1", 5_557, "in use")  # type: ignore[no-untyped-call]

    reactor.listenTCP = refuse
    with pytest.raises(GatewayError, match="metricsPromExporterPort"):
        made(reactor, Registry(), {}).start()


def test_point_10_pages_say_whether_the_broker_is_well() -> None:
    problem: list[str] = []
    reactor = memory_reactor()
    problems = {"healthz": lambda: None, "readyz": lambda: problem[0] if problem else None}
    made(reactor, Registry(), problems).start()
    [(_, site, _, _)] = reactor.tcpServers
    for name in (b"healthz", b"readyz"):
        page = fetched(site, b"GET /" + name + b" HTTP/1.0\r\n\r\n")
        assert page.startswith(b"HTTP/1.0 200 OK")
        assert page.endswith(b"\r\n\r\nok\n")
    problem.append("disk full")
    page = fetched(site, b"GET /readyz HTTP/1.0\r\n\r\n")
    assert page.startswith(b"HTTP/1.0 503 ")
    assert page.endswith(b"\r\n\r\ndisk full\n")
    assert fetched(site, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 OK")
