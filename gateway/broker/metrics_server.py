"""Serves the metrics over HTTP, for Prometheus: GET /metrics on a port of its own, as upstream's PROM exporter.

There is nothing else on that port, and nothing can be changed there. The labels that every series has are
upstream's: cluster, node_type, node_id.
"""

from __future__ import annotations

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


class MetricsPage(Resource):
    """What /metrics answers."""

    isLeaf = True  # noqa: N815 (Twisted's name)

    def __init__(self, registry: Registry, settings: Settings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._registry = registry
        self._labels = {
            "cluster": settings.broker_cluster_name,
            "node_type": NODE_TYPE,
            "node_id": settings.broker_name,
        }

    def render(self, request: Request) -> bytes:
        """All metrics as text; for GET and HEAD only."""
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"allow", b"GET, HEAD")  # type: ignore[no-untyped-call]
            request.setResponseCode(HTTPStatus.METHOD_NOT_ALLOWED)
            return b""
        request.setHeader(b"content-type", CONTENT_TYPE.encode())  # type: ignore[no-untyped-call]
        return exposition(self._registry.metrics(), self._labels).encode()


class Root(Resource):
    """What is on the port: the metrics."""

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
    """The port."""

    def __init__(self, registry: Registry, settings: Settings, reactor: Any) -> None:
        root = Root()  # type: ignore[no-untyped-call]
        root.putChild(b"metrics", MetricsPage(registry, settings))
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
