"""Bodies about the replicas of one broker name: the sync state set, and the epochs of a log.

The sync state set has the brokers that have everything that was ever acknowledged. An epoch is the time of one master,
and begins at an offset of the commit log.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import Body, JsonObject, SmallRequestBody

MAX_MEMBERS = 1_024
"""The most brokers of a sync state set that a broker takes from a controller."""


class SyncStateSet(SmallRequestBody):
    """The broker ids of the sync state set, and how often the set was changed."""

    sync_state_set: Sequence[int] = ()
    sync_state_set_epoch: int = 0


class EpochSpan(JsonObject):
    """One epoch of a log: the offsets at which it begins and ends (upstream ``EpochEntry``)."""

    epoch: int
    start_offset: int
    end_offset: int


class EpochSpans(Body):
    """The epochs of a broker's log, the answer to 1007 (upstream ``EpochEntryCache``)."""

    cluster_name: str
    broker_name: str
    broker_id: int
    epoch_list: Sequence[EpochSpan] = ()
    max_offset: int = 0
