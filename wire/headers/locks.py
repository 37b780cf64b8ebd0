"""Headers of queue locks for orderly consumption."""

from __future__ import annotations

from wire.headers.declare import Header


class LockBatchMqRequest(Header):
    """No fields: the queues are in the body (41)."""


class UnlockBatchMqRequest(Header):
    """No fields: the queues are in the body (42)."""
