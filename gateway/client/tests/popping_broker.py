"""A broker that hands out messages: it says POP when it is asked who consumes what, and remembers what became of each.

A message whose invisible time is changed comes again at once: what a client asked for is in ``hidden``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from gateway.client.message import MessageQueue
from gateway.client.tests.consuming_broker import ConsumingBroker
from gateway.client.tests.scripted_broker import Reply
from wire.bodies.message_queue import MessageQueue as WireQueue
from wire.bodies.pop import (
    POP,
    PULL,
    BatchAckMessage,
    MessageQueueAssignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
)
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record

_HOST = pack_host("127.0.0.1", 10911)


class Stored(NamedTuple):
    """A message of queue 0 of a topic."""

    topic: str
    offset: int
    body: bytes
    reconsume_times: int = 0


class PoppingBroker(ConsumingBroker):
    """A broker from which clients pop; see the module."""

    def __init__(self) -> None:
        super().__init__(queues=1)
        self.pops = True
        """Whether clients are told to pop."""
        self.popped_queue = -1
        """Which queue they are told to pop: a number, or −1 for all."""
        self.acked: list[int] = []
        """Offsets, in the order they were acknowledged."""
        self.hidden: list[tuple[int, int]] = []
        """Offsets whose invisible time was changed, and to how many milliseconds."""
        self._visible: deque[Stored] = deque()
        self._stored: dict[int, Stored] = {}
        self._came = asyncio.Event()
        self.on(RequestCode.QUERY_ASSIGNMENT, self._assign)
        self.on(RequestCode.POP_MESSAGE, self._pop)
        self.on(RequestCode.ACK_MESSAGE, self._ack)
        self.on(RequestCode.BATCH_ACK_MESSAGE, self._ack_batch)
        self.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, self._hide)

    def offer(self, topic: str, *bodies: bytes, reconsume_times: int = 0) -> None:
        """Store messages that can be popped."""
        for body in bodies:
            stored = Stored(topic, len(self._stored), body, reconsume_times)
            self._stored[stored.offset] = stored
            self._visible.append(stored)
        self._came.set()

    @property
    def any_queue(self) -> MessageQueue:
        """All queues of topic ``t``."""
        return MessageQueue("t", self.name, -1)

    def _assign(self, request: RemotingCommand) -> Reply:
        asked = QueryAssignmentRequest.parse(request.body)
        is_popped = self.pops and not asked.topic.startswith("%RETRY%")
        queue = WireQueue(asked.topic, self.name, self.popped_queue if is_popped else 0)
        body = QueryAssignmentResponse([MessageQueueAssignment(queue, POP if is_popped else PULL)]).build()
        return request.response(0, body=body)

    async def _pop(self, request: RemotingCommand) -> Reply:
        header = parse_header(PopMessageRequest, request.ext_fields)
        if not self._visible:
            self._came.clear()
            try:
                await asyncio.wait_for(self._came.wait(), header.poll_time / 1000)
            except TimeoutError:
                return request.response(ResponseCode.POLLING_TIMEOUT)
        found = [self._visible.popleft() for _ in range(min(len(self._visible), header.max_msg_nums))]
        if not found:
            return request.response(ResponseCode.POLLING_TIMEOUT)
        offsets = ",".join(str(stored.offset) for stored in found)
        fields = build_header(
            PopMessageResponse(
                pop_time=1000,
                invisible_time=header.invisible_time,
                revive_qid=3,
                start_offset_info=f"0 0 {found[0].offset}",
                msg_offset_info=f"0 0 {offsets}",
            )
        )
        return request.response(0, None, fields, b"".join(_record(stored) for stored in found))

    def _ack(self, request: RemotingCommand) -> Reply:
        self.acked.append(parse_header(AckMessageRequest, request.ext_fields).offset)
        return request.response(0)

    def _ack_batch(self, request: RemotingCommand) -> Reply:
        for entry in BatchAckMessage.parse(request.body).acks:
            self.acked += entry.offsets()
        return request.response(0)

    def _hide(self, request: RemotingCommand) -> Reply:
        header = parse_header(ChangeInvisibleTimeRequest, request.ext_fields)
        self.hidden.append((header.offset, header.invisible_time))
        stored = self._stored[header.offset]
        self.offer(stored.topic, stored.body, reconsume_times=stored.reconsume_times + 1)
        terms = ChangeInvisibleTimeResponse(pop_time=2000, invisible_time=header.invisible_time, revive_qid=3)
        return request.response(0, ext_fields=build_header(terms))


def _record(stored: Stored) -> bytes:
    properties = build_properties({"UNIQ_KEY": f"ID{stored.offset:030d}"})
    message = OutgoingMessage(
        stored.topic, 0, 0, 0, 1000, _HOST, _HOST, stored.reconsume_times, 0, stored.body, properties
    )
    return build_record(message, stored.offset, stored.offset, 2000)
