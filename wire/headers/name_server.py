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
    """All values of a namespace (219)."""

    namespace: str


class RegisterBrokerRequest(Header):
    """A broker announces itself and its topics (103). ``body_crc32`` 0 means unchecked."""

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
    """Where a slave finds its master (103)."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequest(Header):
    """A broker leaves (104)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class BrokerHeartbeatRequest(Header):
    """A broker is alive (904)."""

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
    """Whether the name server has this version of a broker's topics; the version is the body (322)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponse(Header):
    """Whether a registration is due (322)."""

    changed: bool


class RegisterTopicRequest(Header):
    """One topic's route, from a broker (217)."""

    topic: str


class GetRouteInfoRequest(Header):
    """Where a topic lives (105)."""

    topic: str
    accept_standard_json_only: bool | None = None


class GetTopicsByClusterRequest(Header):
    """The topics of a cluster (224)."""

    cluster: str


class DeleteTopicFromNamesrvRequest(Header):
    """Forget a topic's route (216)."""

    topic: str
    cluster_name: str | None = None


class WipeWritePermOfBrokerRequest(Header):
    """Let producers avoid a broker (205)."""

    broker_name: str


class WipeWritePermOfBrokerResponse(Header):
    """How many topics changed (205)."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequest(Header):
    """Let producers use a broker again (327)."""

    broker_name: str


class AddWritePermOfBrokerResponse(Header):
    """How many topics changed (327)."""

    add_topic_count: Int32


class GetBrokerMemberGroupRequest(Header):
    """The addresses of a broker group (901)."""

    cluster_name: str
    broker_name: str
