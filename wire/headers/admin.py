"""Headers for the administration of a broker, and for calls that a broker passes on to a client."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class GetBrokerConfigResponse(Header):
    """The version of the configuration, as JSON (26)."""

    version: str


class GetConsumerRunningInfoRequest(Header):
    """Ask what a client is doing (307, passed on to that client)."""

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
    """Ask for one statistic of a broker (315)."""

    stats_name: str
    stats_key: str


class GetConsumeStatsInBrokerRequest(Header):
    """Ask for the lag of all groups (317)."""

    is_order: bool = False


class ChangeRoleRequest(Header):
    """Change the role of a broker (19008, the gateway's own).

    The broker refuses another name than its own. With ``log_end`` it refuses when its log ends elsewhere. With
    ``tables_of``, HOST:PORT of the former master, it copies the tables from there first.
    """

    broker_name: str
    broker_role: str
    broker_id: Int32
    log_end: Int64 | None = None
    tables_of: str | None = None


class EnterReplicaRequest(Header):
    """Ask a master how its port for slaves is entered (19009, the gateway's own); another name is refused."""

    broker_name: str
    broker_id: Int64


class EnterReplicaResponse(Header):
    """The way into the port for slaves (19009).

    ``tls`` says whether the port speaks TLS. ``token`` has the hexadecimal digits of a token, which counts once and
    for a short time; it is absent where slaves need none.
    """

    tls: bool
    token: str | None = None
