"""The default arguments of the admin client's methods, for the asyncio and the blocking client."""

from __future__ import annotations

from typing import Final

DEFAULT_QUEUES: Final = 8
"""The number of queues of a new topic, as in mqadmin's updateTopic."""
MAX_FOUND: Final = 64
"""The most messages that a broker looks for (upstream ``maxMsgsNumBatch``)."""
