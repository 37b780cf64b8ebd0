"""The sender of traces: collects records, and sends them in batches beside the messages that they describe.

A trace never disturbs the traced messages. Records that cannot be sent, or that come faster than they can be sent, are
dropped; the log tells about both.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from gateway.client.errors import RocketMQError
from gateway.client.formats import trace
from gateway.client.formats.trace import Published, TraceMessageType, TraceRecord
from gateway.client.results import SendResult
from gateway.client.send.sending import Sending, SendOptions
from gateway.client.transaction_state import TransactionState
from wire.headers.send import SendMessageResponse
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.formats.transaction_outcome import Outcome
    from gateway.client.message import Message

_log = logging.getLogger(__name__)

_SEND_TIMEOUT = 5.0
_JAVA_STATES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}


class Submits(Protocol):
    """The part of a ``Sender`` that ``TraceSender`` needs."""

    async def submit(self, message: Message, options: SendOptions) -> asyncio.Future[SendResult]:
        """Send one message."""


class TraceSender:
    """Collects and sends the records of one client.

    :param sender: a sender of the group ``_INNER_TRACE_PRODUCER-…``; must not trace its own messages.
    :param topic: the topic of the trace messages.
    """

    def __init__(self, instance: ClientInstance, sender: Submits, topic: str) -> None:
        self._instance = instance
        self._sender = sender
        self._topic = topic
        self._records: deque[TraceRecord] = deque()
        self._dropped = 0
        self._due = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Start to send the collected records."""
        self._instance.spawn(self._run(), name="traces")

    def add(self, record: TraceRecord) -> None:
        """Take a record to send. Never raises, and may be called from any thread.

        The record is dropped if too many records wait.
        """
        if len(self._records) >= trace.MAX_WAITING:
            self._dropped += 1
            return
        self._records.append(record)
        if len(self._records) >= trace.MAX_RECORDS and not self._due.is_set():
            self._wake()

    def sent(self, group: str, sending: Sending, result: SendResult, header: SendMessageResponse) -> None:
        """Record a stored message, unless the broker's answer says traceOn=false."""
        if header.trace_on is not False:
            self.add(self._record(group, sending, result.offset_msg_id, header.msg_region, success=True))

    def failed(self, group: str, sending: Sending) -> None:
        """Record a message that could not be sent."""
        self.add(self._record(group, sending, "", None, success=False))

    def recalled(self, group: str, topic: str, msg_id: str, *, success: bool) -> None:
        """Record a timer message that was taken back, or whose recall failed."""
        at_ms, region = self._instance.clock(), trace.DEFAULT_REGION
        self.add(trace.recalled(at_ms=at_ms, region=region, group=group, topic=topic, msg_id=msg_id, success=success))

    def transaction_ended(self, group: str, outcome: Outcome, address: str) -> None:
        """Record the outcome of a transaction, after it was written to its broker."""
        message, header = outcome.message, outcome.header
        region = message.properties.get(PropertyName.MSG_REGION, trace.DEFAULT_REGION)
        self.add(
            trace.transaction_ended(
                Published(message, header.msg_id, group, region, address),
                at_ms=self._instance.clock(),
                transaction_id=header.transaction_id or "",
                state=_JAVA_STATES[outcome.state],
                from_check=header.from_transaction_check,
            )
        )

    def _wake(self) -> None:
        """Let the records be sent soon; callable on the loop's thread and on other threads."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is sent any more
            self._loop.call_soon_threadsafe(self._due.set)

    async def flush(self) -> None:
        """Send all collected records."""
        records = list(self._records)
        self._records.clear()
        if self._dropped:
            _log.warning("%d trace records were dropped: they come faster than they can be sent", self._dropped)
            self._dropped = 0
        options = SendOptions(timeout=_SEND_TIMEOUT, retries=0)
        for message in trace.trace_messages(self._topic, records):
            try:
                await (await self._sender.submit(message, options))
            except RocketMQError as error:
                _log.warning("traces were not sent: %s", error)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(trace.FLUSH_INTERVAL):
                    await self._due.wait()
            self._due.clear()
            if self._records:
                await self.flush()

    def _record(
        self, group: str, sending: Sending, offset_msg_id: str, region: str | None, *, success: bool
    ) -> TraceRecord:
        target = sending.target
        message = sending.message
        kind = TraceMessageType.DELAY if message.is_delayed else TraceMessageType.NORMAL
        if sending.sys_flag & SysFlag.TRANSACTION_PREPARED:
            kind = TraceMessageType.TRANSACTION_HALF
        cost_ms = (asyncio.get_running_loop().time() - sending.started_at) * 1000
        store_host = target.address if target is not None else ""
        return trace.published(
            Published(message, sending.msg_id, group, region or trace.DEFAULT_REGION, store_host),
            at_ms=sending.born_at_ms,
            cost_ms=int(cost_ms),
            kind=kind,
            offset_msg_id=offset_msg_id,
            success=success,
        )
