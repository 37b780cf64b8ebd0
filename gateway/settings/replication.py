"""Settings of replication: the role, the port for slaves, and which copies a sender waits for.

Names and units are Apache RocketMQ's. Most defaults are, too. With its default of ``inSyncReplicas``, which is 1, no
send waits for a slave, whatever ``brokerRole`` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.settings.addresses import addresses_expected, networks_expected
from gateway.settings.controller import ControllerSettings
from gateway.settings.declare import Mark, Range, setting

REGISTERED = "registered"
"""The value that admits the hosts that the name servers list as slaves of this broker."""


class BrokerRole(StrEnum):
    """The role of a broker: whether senders wait for the copies of slaves, or whether it is a slave."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


def replica_hosts_expected(text: str) -> str | None:
    """Return what ``gateway.replicaHosts`` expects if ``text`` is wrong, otherwise None."""
    expected = None if text == REGISTERED else networks_expected(text)
    return expected and f"{REGISTERED}, or {expected}"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ReplicationSettings(ControllerSettings):
    """Settings that the store, the port for slaves and registration need."""

    broker_role: BrokerRole = setting(
        BrokerRole.ASYNC_MASTER, "brokerRole", "SYNC_MASTER: a send is answered OK once inSyncReplicas disks have it."
    )
    in_sync_replicas: int = setting(
        2,
        "inSyncReplicas",
        "SYNC_MASTER: copies after which a message is visible and its send answered OK, this one counted (Apache: 1).",
        Range(1, 16),
    )
    slave_timeout_ms: int = setting(
        3_000,
        "slaveTimeout",
        "SYNC_MASTER: time after which a send is answered FLUSH_SLAVE_TIMEOUT while its message is still replicated.",
        Range(1, 3_600_000, "ms"),
    )
    max_unreplicated_bytes: int = setting(
        67_108_864,
        "gateway.maxUnreplicatedBytes",
        "SYNC_MASTER: messages stored here that too few slaves have yet; beyond this sends are refused.",
        Range(1_048_576, 17_179_869_184, "bytes"),
        marks=Mark.LIMIT,
    )
    ha_listen_port: int = setting(
        -1,
        "haListenPort",
        "Port for slaves; 0 is listenPort+1. It opens if this is set, or with brokerRole=SYNC_MASTER.",
        Range(-1, 65_535),
    )
    replica_hosts: str = setting(
        REGISTERED,
        "gateway.replicaHosts",
        "Hosts that may copy: registered (slaves of this broker name at its name servers), or addresses and networks.",
        within=replica_hosts_expected,
    )
    ha_send_heartbeat_interval_ms: int = setting(
        5_000,
        "haSendHeartbeatInterval",
        "Time without other bytes after which master and slave send a sign of life.",
        Range(100, 600_000, "ms"),
    )
    ha_housekeeping_interval_ms: int = setting(
        20_000,
        "haHousekeepingInterval",
        "Silence after which the connection between master and slave is closed.",
        Range(200, 3_600_000, "ms"),
        marks=Mark.LIMIT,
    )
    ha_transfer_batch_bytes: int = setting(
        1_048_576,
        "haTransferBatchSize",
        "Bytes of the log that are sent to a slave at once (Apache: 32768); one record always fits.",
        Range(1, 4_194_292, "bytes"),
    )
    ha_flow_control_enable: bool = setting(
        False,
        "haFlowControlEnable",
        "Send each slave maxHaTransferByteInSecond at most.",
        marks=Mark.LIVE,
    )
    max_ha_transfer_bytes_in_second: int = setting(
        104_857_600,
        "maxHaTransferByteInSecond",
        "Bytes of the log that a slave gets in a second if haFlowControlEnable; 0: none, signs of life go on.",
        Range(0, 17_179_869_184, "bytes"),
        marks=Mark.LIVE,
    )
    ha_max_gap_not_in_sync_bytes: int = setting(
        268_435_456,
        "haMaxGapNotInSync",
        "A slave that is further behind does not count as in sync, and no sender waits for it.",
        Range(0, 1_125_899_906_842_624, "bytes"),
    )

    ha_master_address: str = setting(
        "",
        "haMasterAddress",
        "SLAVE: HOST:PORT of the master's port for slaves; empty: the one that the name servers tell.",
        within=addresses_expected,
    )
    slave_read_enable: bool = setting(
        False,
        "slaveReadEnable",
        "SLAVE: answer pulls, so that consumers read while the master is away. Master: send slow consumers there.",
    )
    access_message_in_memory_max_ratio: int = setting(
        40,
        "accessMessageInMemoryMaxRatio",
        "Part of the memory; consumers that read further behind go to a slave, with slaveReadEnable (there 10 less).",
        Range(0, 95, "%"),
    )

    @property
    def most_bytes_in_second(self) -> int | None:
        """The bytes of the log that a slave gets in a second; None if there is no limit."""
        return self.max_ha_transfer_bytes_in_second if self.ha_flow_control_enable else None

    @property
    def is_slave(self) -> bool:
        """True if the messages and tables are copies of a master's."""
        return self.broker_role is BrokerRole.SLAVE

    @property
    def copies_awaited(self) -> int:
        """The number of slaves that must have a message before it is visible."""
        return self.in_sync_replicas - 1 if self.broker_role is BrokerRole.SYNC_MASTER else 0

    @property
    def opens_ha_port(self) -> bool:
        """True if slaves may connect to this broker."""
        return not self.is_slave and (self.ha_listen_port >= 0 or self.broker_role is BrokerRole.SYNC_MASTER)
