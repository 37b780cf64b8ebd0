"""All settings in one value.

``Settings()`` is the defaults; ``files.load.load_settings`` makes a value from files, environment and command line.
A part that takes a group (``StoreSettings``) can get the whole value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gateway.settings.access import AccessSettings
from gateway.settings.addresses import interface_expected
from gateway.settings.broker import BrokerSettings
from gateway.settings.declare import Range, setting, with_home
from gateway.settings.name_server import NameServerSettings
from gateway.settings.remoting import RemotingSettings
from gateway.settings.store import StoreSettings
from gateway.settings.timer import TimerSettings
from gateway.settings.transaction import BrokerTransactionSettings


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


SECTIONS = {
    "enableControllerMode": "Controller",
    "brokerRole": "Replication",
    "enableLmq": "Light queues",
    "minLiteTTl": "Lite topics",
    "defaultMessageRequestMode": "Pop consumers",
    "brokerClusterName": "Names and addresses of the broker",
    "namesrvAddr": "Registration with name servers",
    "regionId": "Message trace",
    "brokerPermission": "Topics, groups and permissions",
    "longPollingEnable": "Pulls and filters",
    "enableMixedMessageType": "Message types",
    "gateway.heldPullsLimit": "Clients and their offsets",
    "storePathRootDir": "Directories",
    "flushDiskType": "Flushing to disk",
    "mappedFileSizeCommitLog": "Files of the store",
    "maxMessageSize": "Messages and delay levels",
    "fileReservedTime": "Retention and disk space",
    "gateway.fileAheadBytes": "Memory, open files and reads from disk",
    "maxTransferCountOnMessageInMemory": "Sizes of answers",
    "timerWheelEnable": "Timer messages",
    "metricsExporterType": "Metrics",
    "rejectTransactionMessage": "Transactions",
    "gateway.nameserverPort": "Name server",
    "aclEnable": "Accounts and rights",
    "tls.server.mode": "TLS",
    "bindAddress": "Connections",
    "gateway.logLevel": "Process",
}
"""Titles for people, by the key of the first setting of each section, in the order of declaration."""


class LogLevel(StrEnum):
    """The level of the least important events that are still written."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ProcessSettings:
    """Settings of the process as a whole."""

    log_level: LogLevel = setting(LogLevel.INFO, "gateway.logLevel", "Least important events written to the log.")
    stop_timeout_ms: int = setting(
        30_000,
        "gateway.stopTimeoutMs",
        "Time a stop has to answer what was received and to flush; then the process ends anyway.",
        Range(100, 3_600_000, "ms"),
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Settings(
    ProcessSettings,
    RemotingSettings,
    AccessSettings,
    NameServerSettings,
    BrokerTransactionSettings,
    MetricsSettings,
    TimerSettings,
    StoreSettings,
    BrokerSettings,
):
    """Every setting of the gateway, by attribute."""

    @property
    def kv_config_file(self) -> Path:
        """The file of the name server's key-value configuration."""
        if self.kv_config_path:
            return Path(with_home(self.kv_config_path))
        return self.store_path_root_dir / "namesrv" / "kvConfig.json"

    @property
    def access_json(self) -> Path:
        """The file of users and policies."""
        return Path(with_home(self.access_file)) if self.access_file else self._in_store("config", "access.json")

    @property
    def audit_log(self) -> Path:
        """The file of refusals; the file of changes of accounts is beside it."""
        return Path(with_home(self.audit_file)) if self.audit_file else self._in_store("audit.jsonl")

    def _in_store(self, *names: str) -> Path:
        return self.store_path_root_dir.joinpath(*names)

    def in_effect(self) -> dict[str, str]:
        """Return the effective values of settings that may be left empty, by attribute."""
        return {
            "store_path_commit_log": str(self.commit_log_directory),
            "kv_config_path": str(self.kv_config_file),
            "access_file": str(self.access_json),
            "audit_file": str(self.audit_log),
            "metrics_prom_exporter_host": self.metrics_prom_exporter_host or self.bind_address,
        }
