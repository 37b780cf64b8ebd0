"""Serves the metrics over HTTP, for Prometheus: GET /metrics on a port of its own, as upstream's PROM exporter.

Beside it are pages that say whether the broker is well, for those who start containers. Nothing can be changed there.
The labels that every series has are upstream's: cluster, node_type, node_id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.web.http import Request as HttpRequest
from twisted.web.pages import notFound
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from gateway.errors import GatewayError
from gateway.settings import Settings
from gateway.telemetry.exposition import CONTENT_TYPE, exposition
from gateway.telemetry.logs import EventLog
from gateway.telemetry.metrics import Registry

log = EventLog("metrics")

NODE_TYPE = "broker"
REQUEST_TIMEOUT_S = 60.0
"""An idle connection is closed after this."""


class Page(Resource):
    """Text for GET and HEAD."""

    isLeaf = True  # noqa: N815 (Twisted's name)

    def render(self, request: Request) -> bytes:
        """The text, or that other methods are not allowed."""
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"allow", b"GET, HEAD")  # type: ignore[no-untyped-call]
            request.setResponseCode(HTTPStatus.METHOD_NOT_ALLOWED)
            return b""
        return self.text(request).encode()

    def text(self, request: Request) -> str:
        """The content; sets its type, and the code when that is not 200."""
        raise NotImplementedError


class HealthPage(Page):
    """What /healthz and /readyz answer: ``ok``, or 503 and a reason.

    :param problem: the reason, or None.
    """

    def __init__(self, problem: Callable[[], str | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._problem = problem

    def text(self, request: Request) -> str:
        """One line."""
        request.setHeader(b"content-type", b"text/plain; charset=utf-8")  # type: ignore[no-untyped-call]
        problem = self._problem()
        if problem is None:
            return "ok\n"
        request.setResponseCode(HTTPStatus.SERVICE_UNAVAILABLE)
        return f"{problem}\n"


class MetricsPage(Page):
    """What /metrics answers."""

    def __init__(self, registry: Registry, settings: Settings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._registry = registry
        self._labels = {
            "cluster": settings.broker_cluster_name,
            "node_type": NODE_TYPE,
            "node_id": settings.broker_name,
        }

    def text(self, request: Request) -> str:
        """All metrics."""
        request.setHeader(b"content-type", CONTENT_TYPE.encode())  # type: ignore[no-untyped-call]
        return exposition(self._registry.metrics(), self._labels)


class Root(Resource):
    """What is on the port: the pages."""

    def getChild(self, path: bytes, request: Request) -> Any:  # noqa: N802 (Twisted's name)
        """Nothing else."""
        del path, request
        return notFound()


class QuietSite(Site):
    """Without an access log: a line for every scrape says nothing."""

    noisy = False

    def log(self, request: HttpRequest) -> None:
        """Write nothing."""


class MetricsServer:
    """The port.

    :param problems: what is wrong now, or None, by the name of the page that tells.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        reactor: Any,
        problems: Mapping[str, Callable[[], str | None]],
    ) -> None:
        root = Root()  # type: ignore[no-untyped-call]
        root.putChild(b"metrics", MetricsPage(registry, settings))
        for name, problem in problems.items():
            root.putChild(name.encode(), HealthPage(problem))
        self._site = QuietSite(root, timeout=REQUEST_TIMEOUT_S, reactor=reactor)  # type: ignore[no-untyped-call]
        self._settings = settings
        self._reactor = reactor
        self._port: Any = None

    @property
    def port(self) -> int:
        """The port really listened on; 0 while stopped."""
        return 0 if self._port is None else int(self._port.getHost().port)

    def start(self) -> None:
        """Listen.

        :raises GatewayError: the port cannot be listened on; the text says what to do.
        """
        host = self._settings.metrics_prom_exporter_host or self._settings.bind_address
        port = self._settings.metrics_prom_exporter_port
        try:
            self._port = self._reactor.listenTCP(port, self._site, interface=host)
        except CannotListenError as error:
            raise GatewayError(
                f"the metrics cannot be served on {host}:{port}: {error.socketError}; "
                "choose another port with metricsPromExporterPort, or metricsExporterType=DISABLE"
            ) from error
        log.info("metrics served", address=f"{host}:{self.port}", path="/metrics")

    async def stop(self) -> None:
        """Close the port."""
        if self._port is not None:
            port, self._port = self._port, None
            await maybeDeferred(port.stopListening)
