"""The facts that a consumer reports to tools: the bodies of the answers to 307 and 309.

Upstream: ``ConsumerRunningInfo``, ``ProcessQueueInfo`` and ``ConsumeMessageDirectlyResult``; ``mqadmin
consumerStatus`` and the dashboard show them.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.client.consume.process_queue import MIB
from wire.bodies.fastjson import build_json, object_key
from wire.bodies.message_queue import MessageQueue as WireQueue

if TYPE_CHECKING:
    from gateway.client.consume.pop.pop_queue import PopQueue
    from gateway.client.consume.process_queue import ProcessQueue
    from gateway.client.consume.subscriptions import Subscription
    from gateway.client.retry_later import ListenerOutcome

CONSUMED_NOW: Final = "CR_SUCCESS"
LATER: Final = "CR_LATER"
RAISED: Final = "CR_THROW_EXCEPTION"


@dataclass(frozen=True, slots=True)
class QueueStates:
    """The queues of a consumer, and its progress in each queue."""

    pulled: Collection[ProcessQueue]
    offsets: Mapping[Any, int]
    popped: Collection[PopQueue] = ()


def build_running_info(
    *,
    properties: Mapping[str, str],
    subscriptions: Collection[Subscription],
    queues: QueueStates,
    epoch_ms: int,
    now: float,
    stacks: str | None,
) -> bytes:
    """Return the body of the answer to 307.

    :param properties: settings as text; ``PROP_…`` names are upstream's.
    :param epoch_ms: the wall clock at ``now``; converts the times of the states into times of day.
    """
    table = {
        object_key(WireQueue(*state.queue).to_json()): _state_info(
            state, queues.offsets.get(state.queue, -1), epoch_ms, now
        )
        for state in queues.pulled
    }
    info: dict[str, Any] = {
        "properties": dict(properties),
        "subscriptionSet": [subscription.data().to_json() for subscription in subscriptions],
        "mqTable": table,
        "mqPopTable": {
            object_key(WireQueue(*state.queue).to_json()): _pop_info(state, epoch_ms, now) for state in queues.popped
        },
        "statusTable": {},
        "userConsumerInfo": {},
    }
    if stacks is not None:
        info["jstack"] = stacks
    return build_json(_plain(info), java_form=True)


def build_direct_result(outcome: ListenerOutcome, *, is_orderly: bool, spent_ms: int) -> bytes:
    """Return the body of the answer to 309: the result of a listener for one message."""
    result = CONSUMED_NOW
    remark = None
    if outcome.failed:
        from gateway.client.retry_later import RetryLater

        result = LATER if isinstance(outcome.error, RetryLater) else RAISED
        remark = "".join(traceback.format_exception(outcome.error)) if outcome.error is not None else None
    members: dict[str, Any] = {
        "autoCommit": True,
        "consumeResult": result,
        "order": is_orderly,
        "spentTimeMills": spent_ms,
    }
    if remark is not None:
        members["remark"] = remark
    return build_json(members, java_form=True)


def thread_stacks() -> str:
    """Return the stack of every thread of this process, as text for people."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f'"{names.get(number, number)}"\n{"".join(traceback.format_stack(frame))}'
        for number, frame in sys._current_frames().items()
    ]
    return "\n".join(parts)


def _pop_info(state: PopQueue, epoch_ms: int, now: float) -> dict[str, Any]:
    """Return upstream's ``PopProcessQueueInfo``."""
    return {
        "waitAckCount": state.waiting,
        "droped": state.is_given_up,
        "lastPopTimestamp": epoch_ms - round((now - state.popped_at) * 1000),
    }


def _state_info(state: ProcessQueue, offset: int, epoch_ms: int, now: float) -> dict[str, Any]:
    def time_of_day(at: float | None) -> int:
        return 0 if at is None else epoch_ms - round((now - at) * 1000)

    return {
        "commitOffset": offset,
        "cachedMsgMinOffset": state.committable if state.cached_messages else 0,
        "cachedMsgMaxOffset": state.committable + state.span if state.cached_messages else 0,
        "cachedMsgCount": state.cached_messages,
        "cachedMsgSizeInMiB": state.cached_bytes // MIB,
        "transactionMsgMinOffset": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgCount": 0,
        "locked": state.locked_at is not None,
        "tryUnlockTimes": 0,
        "lastLockTimestamp": time_of_day(state.locked_at),
        "droped": state.dropped,
        "lastPullTimestamp": time_of_day(state.pulled_at),
        "lastConsumeTimestamp": time_of_day(state.consumed_at),
    }


def _plain(value: Any) -> Any:
    """Return a value with its sets turned into sorted lists, for JSON."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
