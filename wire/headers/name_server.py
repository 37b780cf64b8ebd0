"""Headers of the name server: key-value configuration, registration, routes."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class PutKVConfigRequest(Header):
    """Set a value (100)."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequest(Header):
    """Ask for a value (101)."""

    namespace: str
    key: str


class GetKVConfigResponse(Header):
    """The value (101)."""

    value: str | None = None


class DeleteKVConfigRequest(Header):
    """Forget a value (102)."""

    namespace: str
    key: str


class GetKVListByNamespaceRequest(Header):
    """Ask for all values of a namespace (219)."""

    namespace: str


class RegisterBrokerRequest(Header):
    """Register a broker and its topics (103). ``body_crc32`` is 0 if the body has no checksum."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerResponse(Header):
    """The addresses at which a slave finds its master (103)."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequest(Header):
    """Unregister a broker (104)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class BrokerHeartbeatRequest(Header):
    """Report that a broker is alive (904)."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class QueryDataVersionRequest(Header):
    """Ask whether the name server has this version of a broker's topics; the version is the body (322)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponse(Header):
    """The answer whether the broker has to register again (322)."""

    changed: bool


class RegisterTopicRequest(Header):
    """Register the route of one topic, sent by a broker (217)."""

    topic: str


class GetRouteInfoRequest(Header):
    """Ask for the route of a topic (105)."""

    topic: str
    accept_standard_json_only: bool | None = None


class GetTopicsByClusterRequest(Header):
    """Ask for the topics of a cluster (224)."""

    cluster: str


class DeleteTopicFromNamesrvRequest(Header):
    """Forget the route of a topic (216)."""

    topic: str
    cluster_name: str | None = None


class WipeWritePermOfBrokerRequest(Header):
    """Take the write permission from a broker, so that producers avoid the broker (205)."""

    broker_name: str


class WipeWritePermOfBrokerResponse(Header):
    """The number of topics that changed (205)."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequest(Header):
    """Give the write permission back to a broker, so that producers use the broker again (327)."""

    broker_name: str


class AddWritePermOfBrokerResponse(Header):
    """The number of topics that changed (327)."""

    add_topic_count: Int32


class GetBrokerMemberGroupRequest(Header):
    """Ask for the addresses of the brokers that share a name (901)."""

    cluster_name: str
    broker_name: str
