"""The place of a broker in the group of a controller, as the broker gets it for the time of one role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.replication.epoch_file import EpochFile
from gateway.replication.master.lead import GroupLead
from gateway.replication.slave.joining import GroupFollow
from wire.headers.controller import RoleChangedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInGroup:
    """One role in the group: the master's side or the slave's."""

    own_id: int
    """The id that the controller gave; a master is registered with id 0 instead."""
    epoch: int
    """The epoch of the master, by which name servers know a later master from an earlier one."""
    epoch_file: EpochFile
    lead: GroupLead | None = None
    follow: GroupFollow | None = None
    notice: Callable[[str, RoleChangedRequest, bytes], bool]
    """Takes the notice that a host sent about a new master; returns False if the host is no controller's."""
