"""Unique keys for messages whose senders gave them none."""

from __future__ import annotations

import os
from datetime import datetime
from secrets import randbelow

from gateway.broker.announcing.store_hosts import LOOPBACK
from gateway.clock import Milliseconds
from wire.message.message_id import UniqueKeys, pack_host


def unique_keys(clock: Milliseconds) -> UniqueKeys:
    """Return a maker of keys that look like those of a client in this process."""
    return UniqueKeys(
        ip=pack_host(LOOPBACK, 0)[:4],
        process_id=os.getpid(),
        instance_hash=randbelow(1 << 31),
        elapsed_ms=lambda: _ms_into_month(clock()),
    )


def _ms_into_month(moment_ms: int) -> int:
    moment = datetime.fromtimestamp(moment_ms / 1000)  # clients count in local time
    start = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int((moment - start).total_seconds() * 1000)
