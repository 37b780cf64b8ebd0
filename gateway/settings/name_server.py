"""Settings of the name server.

In the name server's own configuration file ``listenPort`` means ``gateway.nameserverPort``, as for Apache's name
server. Elsewhere ``listenPort`` is the port of the broker.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.settings.declare import Mark, Range, setting


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class NameServerSettings:
    """Routes and key-value configuration."""

    nameserver_port: int = setting(
        9_876, "gateway.nameserverPort", "Port of the name server; 0 picks a free one.", Range(0, 65_535)
    )
    kv_config_path: str = setting(
        "", "kvConfigPath", "File of the key-value configuration; empty: namesrv/kvConfig.json in storePathRootDir."
    )
    scan_not_active_broker_interval_ms: int = setting(
        5_000,
        "scanNotActiveBrokerInterval",
        "How often brokers that stopped registering are looked for.",
        Range(10, 3_600_000, "ms"),
    )
    delete_topic_with_broker_registration: bool = setting(
        False, "deleteTopicWithBrokerRegistration", "Forget the topics that a broker no longer lists when it registers."
    )
    order_message_enable: bool = setting(
        False, "orderMessageEnable", "Add the order configuration of a topic to its route."
    )
    return_order_topic_config_to_broker: bool = setting(
        True, "returnOrderTopicConfigToBroker", "Tell registering brokers the order configuration."
    )
    enable_all_topic_list: bool = setting(True, "enableAllTopicList", "Answer requests for the list of all topics.")
    enable_topic_list: bool = setting(
        True, "enableTopicList", "Answer requests for the topics of a cluster and for system topics."
    )
    need_wait_for_service: bool = setting(
        False, "needWaitForService", "Give out no routes in the first waitSecondsForService seconds."
    )
    wait_seconds_for_service: int = setting(
        45,
        "waitSecondsForService",
        "Time brokers get to register before routes are given out, with needWaitForService.",
        Range(0, 3_600, "seconds"),
    )
    nameserver_brokers_limit: int = setting(
        10_000,
        "gateway.nameserverBrokersLimit",
        "Brokers that may be registered with the name server at once.",
        Range(1, 1_000_000),
        marks=Mark.LIMIT,
    )
    connection_brokers_limit: int = setting(
        1_000,
        "gateway.connectionBrokersLimit",
        "Brokers that may be registered with the name server over one connection.",
        Range(1, 1_000_000),
        marks=Mark.LIMIT,
    )
    nameserver_topics_limit: int = setting(
        500_000,
        "gateway.nameserverTopicsLimit",
        "Topics of all brokers together that the name server keeps.",
        Range(1_000, 10_000_000),
        marks=Mark.LIMIT,
    )
    registration_topics_limit: int = setting(
        200_000,
        "gateway.registrationTopicsLimit",
        "Topics that one registration of a broker may list.",
        Range(1_000, 10_000_000),
        marks=Mark.LIMIT,
    )
    nameserver_entries_limit: int = setting(
        2_000_000,
        "gateway.nameserverEntriesLimit",
        "Pairs of a topic and a broker that serves the topic; the name server keeps one entry for each.",
        Range(1_000, 100_000_000),
        marks=Mark.LIMIT,
    )
