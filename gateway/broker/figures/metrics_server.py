"""The metrics over HTTP, for Prometheus: GET /metrics on a port of its own, as upstream's PROM exporter.

Further pages say whether the broker is healthy, for programs that start containers. Nothing can be changed by a page.
Every series has upstream's labels: cluster, node_type, node_id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.error import CannotListenError

from gateway.broker.pages.answers import Answered, Page, PageAnswer, text_answer
from gateway.broker.pages.port import PagePort
from gateway.errors import GatewayError
from gateway.reactor.interface import TimeSource
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.tls.first_byte import FirstByte
from gateway.settings import Settings
from gateway.telemetry.exposition import CONTENT_TYPE, exposition_lines
from gateway.telemetry.logs import EventLog
from gateway.telemetry.metrics import Registry

MAX_PAGE_AGE_SECONDS = 1
"""Seconds after a page was made during which the same page answers further requests."""
LINES_PER_TURN = 2_000
"""The number of lines that are made in one turn of the reactor, in about 10 ms."""


class FiguresPage:
    """A ``Page`` with the metrics, made in several turns, once for all who ask within a moment.

    A broker with many topics has a hundred thousand lines, which take half a second. Others have their turns meanwhile.

    :param labels: the labels of every series.
    """

    def __init__(self, registry: Registry, labels: Mapping[str, str], reactor: TimeSource) -> None:
        self._registry = registry
        self._labels = dict(labels)
        self._reactor = reactor
        self._answer: PageAnswer | None = None
        self._made_at_s = 0.0
        self._waiting: list[Answered] = []

    def __call__(self, answered: Answered) -> None:
        """Call back with the page once it is made."""
        answer = self._answer
        if answer is not None and self._reactor.seconds() - self._made_at_s < MAX_PAGE_AGE_SECONDS:
            answered(answer)
            return
        self._waiting.append(answered)
        if len(self._waiting) == 1:
            self._make(exposition_lines(self._registry.metrics(), self._labels), [])

    def _make(self, lines: Iterator[str], done: list[str]) -> None:
        """Make the next lines; after the last lines all waiting requests get the page."""
        try:
            part = list(islice(lines, LINES_PER_TURN))
        except Exception as error:  # noqa: BLE001 - whatever a figure does, monitors get an answer
            log.error("the figures could not be read", failure=error)
            failed = "the figures could not be read; the log says why"
            self._tell(text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, failed))
            return
        done.extend(part)
        if len(part) == LINES_PER_TURN:
            self._reactor.callLater(0, self._make, lines, done)
            return
        self._answer = PageAnswer(HTTPStatus.OK, "".join(done).encode(), CONTENT_TYPE)
        self._made_at_s = self._reactor.seconds()
        self._tell(self._answer)

    def _tell(self, answer: PageAnswer) -> None:
        waiting, self._waiting = self._waiting, []
        for answered in waiting:
            answered(answer)


log = EventLog("metrics")

NODE_TYPE = "broker"


def health_page(problem: Callable[[], str | None]) -> Page:
    """Return a page that says ``ok``, or 503 and a reason.

    :param problem: returns the reason, or None if all is well.
    """

    def page(answered: Answered) -> None:
        found = problem()
        status = HTTPStatus.OK if found is None else HTTPStatus.SERVICE_UNAVAILABLE
        answered(text_answer(status, found or "ok"))

    return page


class MetricsServer:
    """The port for metrics and health pages.

    :param problems: functions by the names of their pages; each returns the present problem, or None.
    :param room: the room in which bytes count that peers have not taken.
    :param first_byte: decides for each connection whether it is encrypted.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        reactor: Any,
        problems: Mapping[str, Callable[[], str | None]],
        room: AnswerRoom,
        first_byte: FirstByte,
    ) -> None:
        labels = {
            "cluster": settings.broker_cluster_name,
            "node_type": NODE_TYPE,
            "node_id": settings.broker_name,
        }
        pages = {f"/{name}": health_page(problem) for name, problem in problems.items()}
        pages["/metrics"] = FiguresPage(registry, labels, reactor)
        self._pages = PagePort(pages, reactor, room, settings.reserved_descriptors, first_byte)
        self._tls = first_byte.summary_of_pages
        self._settings = settings
        self._reactor = reactor
        self._port: Any = None

    @property
    def port(self) -> int:
        """The actual port; 0 while stopped."""
        return 0 if self._port is None else int(self._port.getHost().port)

    def start(self) -> None:
        """Listen.

        :raises GatewayError: the port cannot be listened on; the text says what to do.
        """
        settings = self._settings
        host = settings.metrics_prom_exporter_host or settings.bind_address
        port = settings.metrics_prom_exporter_port
        try:
            self._port = self._reactor.listenTCP(port, self._pages, settings.server_socket_backlog, interface=host)
        except CannotListenError as error:
            raise GatewayError(
                f"the metrics cannot be served on {host}:{port}: {error.socketError}; "
                "choose another port with metricsPromExporterPort, or metricsExporterType=DISABLE"
            ) from error
        log.info("metrics served", address=f"{host}:{self.port}", path="/metrics", tls=self._tls)

    async def stop(self) -> None:
        """Close the port and its connections."""
        if self._port is not None:
            port, self._port = self._port, None
            await maybeDeferred(port.stopListening)
            self._pages.close_all()
