"""Headers of the controller, which keeps the ids, the master and the sync state set of each broker name.

Times are in epoch milliseconds. A master is absent from an answer if none lives. The heartbeat (904) is in
``name_server``, because name servers and controllers get the same one.
"""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class ControllerMetadataResponse(Header):
    """The controllers and their leader (1005); ``peers`` are ``id:host:port``, separated by semicolons."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class NextBrokerIdRequest(Header):
    """Ask for a free broker id (1012)."""

    cluster_name: str
    broker_name: str


class NextBrokerIdResponse(Header):
    """The lowest broker id that was never taken (1012)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class ApplyBrokerIdRequest(Header):
    """Take a broker id (1013); the check code tells a repeated request from that of another broker."""

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str


class ApplyBrokerIdResponse(Header):
    """The names for which the id was taken (1013)."""

    cluster_name: str | None = None
    broker_name: str | None = None


class RegisterToControllerRequest(Header):
    """Tell at which address the broker with an id is reached (1003)."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64


class RegisterToControllerResponse(Header):
    """The living master (1003)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ElectMasterRequest(Header):
    """Ask for an election (1002)."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    designate_elect: bool = False
    invoke_time: Int64


class ElectMasterResponse(Header):
    """The master that was elected, or that still lives (1002)."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ReplicaInfoRequest(Header):
    """Ask who the master is (1004)."""

    broker_name: str


class ReplicaInfoResponse(Header):
    """The master (1004)."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class AlterSyncStateSetRequest(Header):
    """Ask for another sync state set, sent by the master (1001)."""

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64


class AlterSyncStateSetResponse(Header):
    """The epoch of the new sync state set (1001)."""

    new_sync_state_set_epoch: Int32


class RoleChangedRequest(Header):
    """Tell the brokers of a name who the master is, sent by the controller (1008)."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None
