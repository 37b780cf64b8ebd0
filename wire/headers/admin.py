"""Headers of broker administration and of calls that a broker passes on to a client."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64, field


class GetBrokerConfigResponse(Header):
    """The version of the configuration, as JSON (26)."""

    version: str


class GetConsumerRunningInfoRequest(Header):
    """What a client is doing (307, passed on to that client)."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyResultRequest(Header):
    """Let one client consume one message now (309, passed on to that client)."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class ViewBrokerStatsDataRequest(Header):
    """One statistic of a broker (315)."""

    stats_name: str
    stats_key: str


class GetConsumeStatsInBrokerRequest(Header):
    """The lag of all groups (317)."""

    is_order: bool = False


class SetCommitlogReadModeRequest(Header):
    """Whether the kernel reads ahead: 0 normal, 1 random (2004). Upstream reads it without a header class."""

    read_ahead_mode: str | None = field(name="READ_AHEAD_MODE", default=None)


class CheckRocksdbCqWriteProgressRequest(Header):
    """Compare RocksDB consume queues with files (354)."""

    topic: str
    check_store_time: Int64 = 0


class ExportRocksDBConfigToJsonRequest(Header):
    """Write RocksDB configuration as JSON files (355)."""

    config_type: str


class AddBrokerRequest(Header):
    """Start a broker in a broker container (902)."""

    config_path: str | None = None


class RemoveBrokerRequest(Header):
    """Stop a broker in a broker container (903)."""

    broker_name: str
    broker_cluster_name: str
    broker_id: Int64


class ExchangeHAInfoRequest(Header):
    """How brokers of a group find each other's replication port (906)."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHAInfoResponse(Header):
    """How brokers of a group find each other's replication port (906)."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetRequest(Header):
    """Up to where a slave believes its master (908)."""

    master_flush_offset: Int64


class NotifyBrokerRoleChangedRequest(Header):
    """A controller tells a broker its role (1008)."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None
