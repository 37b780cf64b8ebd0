"""Headers between brokers and controllers (5.x). Parsed for diagnosis; the gateway is no controller."""

from __future__ import annotations

from wire.headers.declare import Header, Int32, Int64


class AlterSyncStateSetRequest(Header):
    """A master reports which replicas keep up (1001)."""

    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 = 0


class AlterSyncStateSetResponse(Header):
    """The new epoch (1001)."""

    new_sync_state_set_epoch: Int32 = 0


class ElectMasterRequest(Header):
    """Elect a master (1002)."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class ElectMasterResponse(Header):
    """Who is master now (1002)."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class RegisterBrokerToControllerRequest(Header):
    """A broker announces itself to the controller (1003)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoke_time: Int64 = 0


class RegisterBrokerToControllerResponse(Header):
    """Who is master (1003)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class GetReplicaInfoRequest(Header):
    """Who is master of a broker group (1004)."""

    broker_name: str | None = None


class GetReplicaInfoResponse(Header):
    """Who is master of a broker group (1004)."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class GetMetaDataResponse(Header):
    """Who leads the controllers (1005)."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class CleanControllerBrokerDataRequest(Header):
    """Forget brokers (1011)."""

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 = 0


class GetNextBrokerIdRequest(Header):
    """Which broker id is free (1012)."""

    cluster_name: str | None = None
    broker_name: str | None = None


class GetNextBrokerIdResponse(Header):
    """Which broker id is free (1012)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class ApplyBrokerIdRequest(Header):
    """Take a broker id (1013)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None


class ApplyBrokerIdResponse(Header):
    """The broker id was taken (1013)."""

    cluster_name: str | None = None
    broker_name: str | None = None
