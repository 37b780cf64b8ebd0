"""Traces of consumption: a record when an application gets a message, and a record when the application has finished.

The records follow upstream's ``ConsumeMessageTraceHookImpl``. The two records of a message share the id of the
hand-over. Messages of a broker with ``traceOn=false`` are left out. Usable from listeners' threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from gateway.client.formats import trace
from gateway.client.retry_later import RetryLater
from wire.message.properties import PropertyName

if TYPE_CHECKING:
    from gateway.client.clock import Milliseconds
    from gateway.client.formats.trace import TraceRecord
    from gateway.client.formats.unique_ids import UniqueIds
    from gateway.client.message import ReceivedMessage
    from gateway.client.retry_later import ListenerOutcome


class ConsumeReturn(IntEnum):
    """The way in which a listener returned (upstream ``ConsumeReturnType``; the numbers are part of the protocol)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    FAILED = 4


class HandedOver(NamedTuple):
    """The messages that an application has."""

    request_id: str
    begun_at_ms: int
    messages: Sequence[ReceivedMessage]


class ConsumeTrace:
    """Records the consumption of one consumer.

    :param add: takes a record; callable from any thread.
    :param group: the name without the namespace.
    :param timeout: seconds after which a listener counts as timed out.
    """

    def __init__(
        self, add: Callable[[TraceRecord], None], group: str, *, ids: UniqueIds, clock: Milliseconds, timeout: float
    ) -> None:
        self._add = add
        self._group = group
        self._ids = ids
        self._lock = threading.Lock()
        self._clock = clock
        self._timeout_ms = timeout * 1000

    def begin(self, messages: Sequence[ReceivedMessage]) -> HandedOver:
        """Record that an application gets messages."""
        with self._lock:
            request_id = self._ids.create()
        now_ms = self._clock()
        traced = [message for message in messages if message.properties.get(PropertyName.TRACE_ON) != "false"]
        for message in traced:
            self._add(
                trace.consumption_begins(
                    trace.Consumed(self._group, request_id, message.msg_id, message.keys),
                    at_ms=now_ms,
                    region=message.properties.get(PropertyName.MSG_REGION, trace.DEFAULT_REGION),
                    retry_times=message.reconsume_times,
                )
            )
        return HandedOver(request_id, now_ms, traced)

    def end(self, hand_over: HandedOver, outcome: ListenerOutcome) -> None:
        """Record that the application has finished with the messages."""
        if not hand_over.messages:
            return
        now_ms = self._clock()
        took_ms = now_ms - hand_over.begun_at_ms
        failed = {id(message) for message in outcome.failed}
        for message in hand_over.messages:
            is_consumed = id(message) not in failed
            self._add(
                trace.consumption_ended(
                    trace.Consumed(self._group, hand_over.request_id, message.msg_id, message.keys),
                    at_ms=now_ms,
                    cost_ms=took_ms // len(hand_over.messages),
                    success=is_consumed,
                    context_code=self._code(is_consumed, took_ms, outcome.error),
                )
            )

    def _code(self, is_consumed: bool, took_ms: int, error: BaseException | None) -> ConsumeReturn:
        if took_ms >= self._timeout_ms:
            return ConsumeReturn.TIME_OUT
        if is_consumed:
            return ConsumeReturn.SUCCESS
        return ConsumeReturn.FAILED if isinstance(error, RetryLater) else ConsumeReturn.EXCEPTION
