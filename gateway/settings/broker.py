"""Settings of the broker: its name and address, the topics and groups it creates, its answers to pulls."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass

from gateway.settings.addresses import (
    ADVERTISE_AUTO,
    Address,
    Advertised,
    addresses_expected,
    advertised_expected,
    host_expected,
    parse_addresses,
    parse_advertised,
)
from gateway.settings.declare import Mark, Range, machine_setting, setting
from gateway.settings.lite import LightQueueSettings, LiteSettings
from gateway.settings.pop import PopSettings
from gateway.settings.replication import ReplicationSettings

_NAME = re.compile(r"[A-Za-z0-9_.%|@-]+")


def permission_expected(text: str) -> str | None:
    """Return what ``brokerPermission`` expects if ``text`` is wrong, otherwise None."""
    return None if text in ("2", "4", "6") else "2 (write), 4 (read) or 6 (both)"


def name_expected(text: str) -> str | None:
    """Return what ``brokerName`` expects if ``text`` is wrong, otherwise None."""
    return None if _NAME.fullmatch(text) else "a name of letters, digits and . _ - % | @"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BrokerSettings(PopSettings, LiteSettings, LightQueueSettings, ReplicationSettings):
    """Identity, registration, topics and groups, pulls and pops."""

    broker_cluster_name: str = setting(
        "DefaultCluster", "brokerClusterName", "Cluster the broker belongs to; also the name of a topic."
    )
    broker_name: str = machine_setting(
        str,
        lambda: platform.node() or "DEFAULT_BROKER",
        "brokerName",
        "Name in routes, unique in its cluster; unless set, the name of the host that served the directory first.",
        within=name_expected,
    )
    broker_id: int = setting(0, "brokerId", "0 is the master; each of its slaves has another.", Range(0, 2_147_483_647))
    listen_port: int = setting(
        10_911,
        "listenPort",
        "Port of the broker; 0 picks a free one. listenPort-2 is open too, for old clients.",
        Range(0, 65_535),
    )
    vip_channel_enable: bool = setting(
        True, "gateway.vipChannelEnable", "Listen on listenPort-2, where clients before 4.5.1 send."
    )
    advertise: str = setting(
        ADVERTISE_AUTO,
        "gateway.advertise",
        "Address in routes: HOST, HOST:PORT, or auto: the one a client reached the name server at.",
        within=advertised_expected,
    )
    broker_ip1: str = setting(
        "",
        "brokerIP1",
        "Host in routes, as on Apache; the same as gateway.advertise=HOST, which wins over it.",
        within=host_expected,
    )
    namesrv_addr: str = setting(
        "", "namesrvAddr", "Name servers to register with, host:port separated by ';'.", within=addresses_expected
    )
    register_name_server_period_ms: int = setting(
        30_000, "registerNameServerPeriod", "Time between two registrations.", Range(1_000, 60_000, "ms")
    )
    register_broker_timeout_ms: int = setting(
        24_000,
        "registerBrokerTimeoutMills",
        "Time a name server has to answer a registration.",
        Range(100, 600_000, "ms"),
    )
    force_register: bool = setting(True, "forceRegister", "Register also when no topic changed since the last time.")
    compressed_register: bool = setting(False, "compressedRegister", "Send the topics compressed when registering.")
    region_id: str = setting("DefaultRegion", "regionId", "Region written into traced messages.")
    trace_on: bool = setting(True, "traceOn", "Tell clients that trace messages are welcome.")
    trace_topic_enable: bool = setting(False, "traceTopicEnable", "Create the trace topic when the broker starts.")
    msg_trace_topic_name: str = setting("RMQ_SYS_TRACE_TOPIC", "msgTraceTopicName", "Name of the trace topic.")
    broker_permission: int = setting(
        6, "brokerPermission", "2 write, 4 read, 6 both.", within=permission_expected, marks=Mark.LIVE
    )
    auto_create_topic_enable: bool = setting(
        True, "autoCreateTopicEnable", "Create a topic when a message is first sent to it.", marks=Mark.LIVE
    )
    auto_create_subscription_group: bool = setting(
        True, "autoCreateSubscriptionGroup", "Create a consumer group when it is first seen.", marks=Mark.LIVE
    )
    default_topic_queue_nums: int = setting(
        8,
        "defaultTopicQueueNums",
        "Queues of a topic created by a send, unless the producer asks for fewer.",
        Range(1, 1_024),
    )
    cluster_topic_enable: bool = setting(
        True, "clusterTopicEnable", "Let clients use the topic named after the cluster."
    )
    broker_topic_enable: bool = setting(True, "brokerTopicEnable", "Let clients use the topic named after the broker.")
    long_polling_enable: bool = setting(
        True, "longPollingEnable", "Hold a pull that finds nothing for as long as the client wishes.", marks=Mark.LIVE
    )
    short_polling_time_ms: int = setting(
        1_000,
        "shortPollingTimeMills",
        "Time a pull is held when longPollingEnable is false.",
        Range(0, 600_000, "ms"),
        marks=Mark.LIVE,
    )
    use_server_side_reset_offset: bool = setting(
        True,
        "useServerSideResetOffset",
        "Set groups back by the answers to their pulls, online or not; false: by telling their clients, as before 5.x.",
    )
    store_reply_message_enable: bool = setting(
        True, "storeReplyMessageEnable", "Store the replies of request-reply calls besides passing them on."
    )
    enable_property_filter: bool = setting(
        True,
        "enablePropertyFilter",
        "Let consumers filter by SQL92 expressions over the properties of messages (Apache: off).",
    )
    enable_calc_filter_bit_map: bool = setting(
        False,
        "enableCalcFilterBitMap",
        "With enableConsumeQueueExt, match each new message with the SQL92 expressions of all groups of its topic, "
        "so that pulls need not read the records of others.",
    )
    expect_consumer_num_use_filter: int = setting(
        32,
        "expectConsumerNumUseFilter",
        "Groups of a topic that filter by SQL92; with more, the bit maps exclude fewer messages.",
        Range(1, 4_096),
    )
    max_error_rate_of_bloom_filter: int = setting(
        20,
        "maxErrorRateOfBloomFilter",
        "Messages that are looked at in vain for a bit map that seems to let them through.",
        Range(1, 99, "percent"),
    )
    lite_pull_message_enable: bool = setting(
        True, "litePullMessageEnable", "Answer the pulls of lite pull consumers (request 361).", marks=Mark.LIVE
    )
    enable_mixed_message_type: bool = setting(
        False,
        "enableMixedMessageType",
        "Let topics be of the type MIXED, which takes messages of every type.",
        marks=Mark.LIVE,
    )
    enable_topic_message_type_check: bool = setting(
        False,
        "gateway.enableTopicMessageTypeCheck",
        "Refuse messages whose type (delay, transaction, FIFO...) is not their topic's, as the proxy of 5.x does.",
        marks=Mark.LIVE,
    )
    queues_limit: int = setting(
        1_000_000,
        "gateway.queuesLimit",
        "Queues of all topics together, without the system's and light ones; topics that would need more are refused.",
        Range(1_000, 100_000_000),
        marks=Mark.LIMIT,
    )
    held_pulls_limit: int = setting(
        100_000,
        "gateway.heldPullsLimit",
        "Pulls held at once; further ones are answered at once when they find nothing.",
        Range(1, 10_000_000),
        marks=Mark.LIMIT,
    )
    held_pulls_per_connection: int = setting(
        10_000, "gateway.heldPullsPerConnection", "The same for one connection.", Range(1, 10_000_000), marks=Mark.LIMIT
    )
    channel_expired_timeout_ms: int = setting(
        120_000,
        "channelExpiredTimeout",
        "A client that sent no heartbeat for this long no longer counts as a member of its groups.",
        Range(1_000, 86_400_000, "ms"),
    )
    flush_consumer_offset_interval_ms: int = setting(
        5_000,
        "flushConsumerOffsetInterval",
        "Time between two saves of the consumer offsets.",
        Range(10, 3_600_000, "ms"),
    )

    @property
    def advertised(self) -> Advertised:
        """The address of ``gateway.advertise``, or the host of ``brokerIP1`` if ``gateway.advertise`` is auto."""
        advertised = parse_advertised(self.advertise)
        if advertised.host is None and self.broker_ip1:
            return Advertised(self.broker_ip1.strip("[]"), None)
        return advertised

    @property
    def name_server_addresses(self) -> tuple[Address, ...]:
        """The addresses of ``namesrvAddr``."""
        return parse_addresses(self.namesrv_addr)
