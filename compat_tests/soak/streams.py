"""The permanent load of the Java clients: one topic, one sender and one consumer of each kind.

The pace is that of a quiet service, some thousand messages a second in all: enough that every kill comes in the
middle of something, slow enough that a machine of two cores still has time for the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHARDS = 4
"""Of the orderly stream; as many as its threads, or its order would be undefined."""
QUEUES = 4


@dataclass(frozen=True, slots=True)
class Stream:
    """A topic with its sender and its consumer; ``options`` are those of the sending verb."""

    name: str
    send: str
    consume: str
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_transactional(self) -> bool:
        return self.send == "transact"

    @property
    def is_orderly(self) -> bool:
        return self.send == "send-orderly"


STREAMS = (
    Stream("sync", "send-sync", "consume-push", {"threads": 2, "pause_ms": 6}),
    # As clients are by default: a send without an answer is repeated, and may then be stored twice.
    Stream(
        "retried",
        "send-sync",
        "consume-push",
        {"threads": 1, "pause_ms": 8, "retries": 2, "send_timeout_ms": 8000, "attempt_timeout_ms": 1000},
    ),
    Stream("async", "send-async", "consume-lite-pull", {"threads": 1, "pause_ms": 4}),
    Stream("batch", "send-batch", "consume-push", {"threads": 1, "pause_ms": 30, "batch": 10}),
    Stream("orderly", "send-orderly", "consume-orderly", {"threads": SHARDS, "pause_ms": 16, "shards": SHARDS}),
    Stream("transactions", "transact", "consume-push", {"threads": 2, "pause_ms": 8}),
)


def commits(number: int) -> bool:
    """The decision of the Java client about a transaction, which depends on its number alone."""
    return number % 3 == 0 or (number % 3 == 2 and number // 3 % 2 == 0)
