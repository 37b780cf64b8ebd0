"""Settings of a controller's member: a broker whose role Apache RocketMQ's controller decides.

Names, units and defaults are Apache RocketMQ's, except for the two that make acknowledged messages safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.settings.addresses import Address, addresses_expected, parse_addresses
from gateway.settings.declare import Mark, Range, setting

MEMBERS_BY_DEFAULT = 2
"""The members of a sync state set without which a master refuses sends, unless somebody says otherwise."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ControllerSettings:
    """Settings that the member of a controller needs."""

    enable_controller_mode: bool = setting(
        False,
        "enableControllerMode",
        "Let a controller of Apache RocketMQ 5.x decide brokerRole and brokerId, and replace a dead master.",
    )
    controller_addr: str = setting(
        "",
        "controllerAddr",
        "HOST:PORT of the controllers, several separated by ';'.",
        within=addresses_expected,
    )
    all_ack_in_sync_state_set: bool = setting(
        True,
        "allAckInSyncStateSet",
        "A send waits for every member of the sync state set (Apache: false, which may lose messages in a switch).",
    )
    min_in_sync_replicas: int = setting(
        MEMBERS_BY_DEFAULT,
        "minInSyncReplicas",
        "Members of the sync state set without which a master refuses sends, itself included (Apache: 1).",
        Range(1, 16),
    )
    ha_max_time_slave_not_catchup_ms: int = setting(
        15_000,
        "haMaxTimeSlaveNotCatchup",
        "Time after which a slave that does not catch up leaves the sync state set.",
        Range(1_000, 3_600_000, "ms"),
    )
    broker_election_priority: int = setting(
        2_147_483_647,
        "brokerElectionPriority",
        "Of members with equal logs the one with the lowest number is elected.",
        Range(0, 2_147_483_647),
    )
    broker_heartbeat_interval_ms: int = setting(
        1_000,
        "brokerHeartbeatInterval",
        "Time between two signs of life to the controllers.",
        Range(100, 600_000, "ms"),
    )
    controller_heartbeat_timeout_ms: int = setting(
        10_000,
        "controllerHeartBeatTimeoutMills",
        "Silence after which a controller takes a member for dead, and after which a master stops serving.",
        Range(1_000, 3_600_000, "ms"),
        marks=Mark.LIMIT,
    )
    sync_controller_metadata_period_ms: int = setting(
        10_000,
        "syncControllerMetadataPeriod",
        "Time between two questions which controller leads.",
        Range(1_000, 3_600_000, "ms"),
    )

    @property
    def controller_addresses(self) -> Sequence[Address]:
        """The addresses of the controllers."""
        return parse_addresses(self.controller_addr) if self.controller_addr else ()
