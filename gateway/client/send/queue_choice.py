"""The choice of the queue for a message: in turn, away from a broker that failed, or by a key.

Pure: time and chance are arguments. The rules are those of upstream's ``TopicPublishInfo.selectOneMessageQueue``,
``MQFaultStrategy`` and ``SelectMessageQueueByHash``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gateway.client.message_queue import MessageQueue
from wire.message.java_hash import java_string_hash

# ``MQFaultStrategy``: a send that took so long (ms) keeps its broker out for so long (ms).
_LATENCY_MAX_MS: Final = (50, 100, 550, 1800, 3000, 5000, 15000)
_NOT_AVAILABLE_MS: Final = (0, 0, 2000, 5000, 6000, 10000, 30000)
_FAILED_AS_LONG_AS_MS: Final = 10_000
"""The milliseconds that a failed send counts for, as if its answer had taken this time (upstream ``isolation``)."""

MAX_KNOWN_FAULTS: Final = 1024


class QueueTurns:
    """Takes queues in turn.

    :param start: the first turn: a random number, so that producers do not all start with the same queue.
    """

    __slots__ = ("_next", "queues")

    def __init__(self, queues: Sequence[MessageQueue], start: int) -> None:
        self.queues = queues
        self._next = start

    def next_index(self) -> int:
        """Return the index of the next queue."""
        index = self._next
        self._next = index + 1
        return index % len(self.queues)

    def next_away_from(self, broker_name: str | None) -> int:
        """Return the index of the next queue of another broker, or of any broker if there is no other."""
        index = self.next_index()
        if broker_name is None:
            return index
        for _ in self.queues:
            if self.queues[index].broker_name != broker_name:
                return index
            index = self.next_index()
        return index

    def next_allowed(self, allowed: Callable[[str], bool], failed: str | None) -> int:
        """Return the index of the next queue whose broker is allowed and has not failed.

        Without such a broker, return ``next_away_from(failed)``.
        """
        for _ in self.queues:
            index = self.next_index()
            name = self.queues[index].broker_name
            if name != failed and allowed(name):
                return index
        return self.next_away_from(failed)


class BrokerFaults:
    """The brokers to avoid for a while, by the time of their last answers (upstream ``LatencyFaultTolerance``)."""

    def __init__(self) -> None:
        self._out_until_ms: dict[str, float] = {}

    def answered(self, broker_name: str, took_ms: float, now_ms: float) -> None:
        """Note an answer and the milliseconds that the answer took."""
        self._set(broker_name, took_ms, now_ms)

    def failed(self, broker_name: str, now_ms: float) -> None:
        """Note that no answer came."""
        self._set(broker_name, _FAILED_AS_LONG_AS_MS, now_ms)

    def is_available(self, broker_name: str, now_ms: float) -> bool:
        """Return whether a broker may be used."""
        return self._out_until_ms.get(broker_name, 0.0) <= now_ms

    def _set(self, broker_name: str, took_ms: float, now_ms: float) -> None:
        out_ms = 0
        for slowest_ms, not_available_ms in zip(_LATENCY_MAX_MS, _NOT_AVAILABLE_MS, strict=True):
            if took_ms >= slowest_ms:
                out_ms = not_available_ms
        if out_ms:
            if len(self._out_until_ms) >= MAX_KNOWN_FAULTS:
                self._out_until_ms.clear()
            self._out_until_ms[broker_name] = now_ms + out_ms
        else:
            self._out_until_ms.pop(broker_name, None)


def queue_by_key(queues: Sequence[MessageQueue], sharding_key: str) -> MessageQueue:
    """Return the queue for a key: the queue that the Java client's ``SelectMessageQueueByHash`` takes for this text."""
    value = abs(java_string_hash(sharding_key))
    if value > 0x7FFF_FFFF:  # Math.abs(Integer.MIN_VALUE) is negative in Java; it takes the first queue then
        return queues[0]
    return queues[value % len(queues)]
