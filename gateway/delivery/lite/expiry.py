"""The deletion time of a lite topic: some time after its last message, even if the message was not consumed.

Pure. Upstream: ``AbstractLiteLifecycleManager``, as observed.
"""

from __future__ import annotations

from typing import Final

MINUTE_MS: Final = 60_000


def is_expired(now_ms: int, last_stored_ms: int, minutes: int, least_ms: int) -> bool:
    """Return whether a lite topic has stayed long enough.

    :param last_stored_ms: when its last message was stored; negative if the message is gone: then nothing is left.
    :param minutes: ``lite.topic.expiration`` of the parent; with 0 or less the lite topic stays for ever.
    :param least_ms: the milliseconds that a lite topic stays at least (``minLiteTTl``).
    """
    if minutes <= 0:
        return False
    return last_stored_ms < 0 or now_ms - last_stored_ms > max(minutes * MINUTE_MS, least_ms)
