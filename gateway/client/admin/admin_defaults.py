"""What calls of the admin client mean unless they are told otherwise; both faces share it."""

from __future__ import annotations

from typing import Final

DEFAULT_QUEUES: Final = 8
"""Of a topic, as mqadmin's updateTopic."""
MAX_FOUND: Final = 64
"""Messages a broker looks for at most (upstream ``maxMsgsNumBatch``)."""
