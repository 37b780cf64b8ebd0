"""The broker that a consumer is told to pull from next: a slave while it reads far behind the end of the log.

The master then keeps in memory what the other consumers read. Upstream: ``DefaultMessageStore.getMessage`` and
``PullMessageProcessor``.
"""

from __future__ import annotations

import os

from gateway.settings import Settings
from wire.bodies.subscriptions import SubscriptionGroupConfig

SLAVE_PERCENT_LESS = 10
"""The percent of the memory that a slave subtracts: consumers go back to the master a little earlier."""


def memory_bytes() -> int:
    """Return the size of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def near_bytes(settings: Settings, memory: int) -> int | None:
    """Return how far behind the end of the log consumers may read here; None if nobody is sent to a slave."""
    if not settings.slave_read_enable:
        return None
    percent = settings.access_message_in_memory_max_ratio
    return memory * max(percent - SLAVE_PERCENT_LESS if settings.is_slave else percent, 0) // 100


def suggested_broker(group: SubscriptionGroupConfig, behind_bytes: int, near: int) -> int:
    """Return the id of the broker from which a group should pull next.

    :param behind_bytes: how far before the end of the log the group reads.
    """
    return group.which_broker_when_consume_slowly if behind_bytes > near else group.broker_id
