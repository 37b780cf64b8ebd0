"""The progress of a broker's replicas."""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import Body, JsonObject, field


class ReplicaConnection(JsonObject):
    """One replica as its master sees it; the offsets are offsets of the commit log."""

    addr: str
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class ReplicationState(Body):
    """A master and its replicas (upstream ``HARuntimeInfo``)."""

    master: bool = True
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    connections: Sequence[ReplicaConnection] = field(default=(), name="haConnectionInfo")
