"""The metrics over HTTP, for Prometheus: GET /metrics on a port of its own, as upstream's PROM exporter.

Further pages say whether the broker is healthy, for programs that start containers. Nothing can be changed by a page.
Every series has upstream's labels: cluster, node_type, node_id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.error import CannotListenError

from gateway.broker.pages.answers import Answered, Page, text_answer
from gateway.broker.pages.figures import FiguresPage
from gateway.broker.pages.port import PagePort
from gateway.errors import GatewayError
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.settings import Settings
from gateway.telemetry.logs import EventLog
from gateway.telemetry.metrics import Registry

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
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        reactor: Any,
        problems: Mapping[str, Callable[[], str | None]],
        room: AnswerRoom,
    ) -> None:
        labels = {
            "cluster": settings.broker_cluster_name,
            "node_type": NODE_TYPE,
            "node_id": settings.broker_name,
        }
        pages = {f"/{name}": health_page(problem) for name, problem in problems.items()}
        pages["/metrics"] = FiguresPage(registry, labels, reactor)
        self._pages = PagePort(pages, reactor, room, settings.reserved_descriptors)
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
        log.info("metrics served", address=f"{host}:{self.port}", path="/metrics")

    async def stop(self) -> None:
        """Close the port and its connections."""
        if self._port is not None:
            port, self._port = self._port, None
            await maybeDeferred(port.stopListening)
            self._pages.close_all()
