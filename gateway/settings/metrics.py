"""Settings of the page that Prometheus reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.settings.addresses import interface_expected
from gateway.settings.declare import Range, setting


class MetricsExporter(StrEnum):
    """The way in which metrics leave the process.

    ``OTLP_GRPC`` and ``LOG`` are values of Apache RocketMQ: an existing broker.conf may have them, and nothing is
    exported.
    """

    DISABLE = "DISABLE"
    PROM = "PROM"
    OTLP_GRPC = "OTLP_GRPC"
    LOG = "LOG"


def exporter_host_expected(text: str) -> str | None:
    """Return what ``metricsPromExporterHost`` expects if ``text`` is wrong, otherwise None."""
    return interface_expected(text) if text else None


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MetricsSettings:
    """The service of metrics: whether it runs, and its address."""

    metrics_exporter_type: MetricsExporter = setting(
        MetricsExporter.DISABLE,
        "metricsExporterType",
        "PROM serves /metrics, /healthz and /readyz over HTTP; OTLP_GRPC and LOG have no effect yet.",
    )
    metrics_prom_exporter_port: int = setting(
        5_557, "metricsPromExporterPort", "Port of the metrics; 0 picks a free one.", Range(0, 65_535)
    )
    metrics_prom_exporter_host: str = setting(
        "",
        "metricsPromExporterHost",
        "Address to serve the metrics on; empty is bindAddress.",
        within=exporter_host_expected,
    )
