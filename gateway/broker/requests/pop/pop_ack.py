"""Requests for popped messages: acknowledge them, one by one or in a batch, or hide them for longer.

Acknowledgements that come in one turn of the reactor for the same pop become one record of the revive topic. Their
senders are answered when the record is stored. A receipt is refused if it names no message, or a message that was given
out again since. A receipt that is used twice is not refused. Upstream: ``AckMessageProcessor`` and
``ChangeInvisibleTimeProcessor``, which accept every readable receipt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from gateway.access.needs import Entries, consumer_needs
from gateway.broker.desk import Desk
from gateway.delivery.pop.check_points import CheckPoint
from gateway.delivery.pop.check_points import Key as PointKey
from gateway.delivery.pop.order import AckFault
from gateway.delivery.pop.order import Key as OrderKey
from gateway.delivery.pop.receipts import ORDER_REVIVE_QUEUE, Receipt, parse_receipt, real_topic
from gateway.delivery.pop.revive_log import state_of
from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.remoting.declared import SUB, needs, on_group, on_topic
from gateway.remoting.dispatch import Request, answer_failures
from gateway.remoting.requests import Requests, answers_directly
from wire.bodies.pop import BatchAck, BatchAckMessage
from wire.codes import RequestCode, ResponseCode, SerializeType
from wire.disk.revive_log import CheckPointRecord
from wire.headers.declare import read_header
from wire.headers.pop import AckMessageRequest, ChangeInvisibleTimeRequest, ChangeInvisibleTimeResponse
from wire.message.light_queues import LIGHT_QUEUE_ID, LIGHT_QUEUE_PREFIX, lite_queue
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage
from wire.quick.answer_form import AnswerForm

MAX_INVISIBLE_MS: Final = 259_200_000
"""The longest invisible time, three days in milliseconds: upstream's timers reach no further (timerMaxDelaySec)."""
MAX_BATCH: Final = 10_000
"""The largest number of entries in one BATCH_ACK_MESSAGE."""
MAX_BATCH_MESSAGES: Final = 32_768
"""The largest number of messages that one BATCH_ACK_MESSAGE names; each takes 2 µs, even if it is unknown."""
SUCCESS_FORM: Final = AnswerForm(ResponseCode.SUCCESS, {})

Done = Callable[[bool], None]


class _Acks:
    """The acknowledgements of one check point in this turn."""

    __slots__ = ("bits", "offsets", "waiting")

    def __init__(self) -> None:
        self.bits = 0
        self.offsets: list[int] = []
        self.waiting: list[Done] = []


class PopAcks(Requests):
    """Answers ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151) and CHANGE_MESSAGE_INVISIBLETIME (200053)."""

    def __init__(self, desk: Desk) -> None:
        self._store = desk.store
        self._topics = desk.topics
        self._offsets = desk.offsets
        self._points = desk.pops.check_points
        self._orders = desk.pops.orders
        self._log = desk.pops.revive_log
        self._wake = desk.pops.wake
        self._cold_reads = desk.cold_reads
        self._broker_name = desk.settings.broker_name
        self._clock_ms = desk.clock
        self._soon = desk.soon
        self._turn: dict[CheckPoint, _Acks] = {}
        self._order_turn: dict[OrderKey, list[Done]] = {}
        self._order_writing: Counter[OrderKey] = Counter()

    # -- one ------------------------------------------------------------------------------------------------

    @answers_directly(RequestCode.ACK_MESSAGE, needs(on_group(SUB), on_topic(SUB, is_popped=True)))
    def ack(self, request: Request) -> None:
        """Acknowledge one message."""
        header = read_header(AckMessageRequest, request.command)
        topic, queue_id, offset = header.topic, header.queue_id, header.offset
        if header.lite_topic:
            topic, queue_id = lite_queue(topic, header.lite_topic), LIGHT_QUEUE_ID
        self._check_place(topic, queue_id, offset, beyond=1)
        receipt = parse_receipt(header.extra_info, self._broker_name, queue_id, offset)
        if receipt.is_order:
            self._ack_in_order((topic, header.consumer_group, queue_id), receipt, offset, _answering(request))
            return
        key = (topic, header.consumer_group, queue_id, receipt.start_offset, receipt.popped_at_ms)
        point = self._points.find(key)
        bit = 0 if point is None else point.bit_of(offset)
        if point is None or not bit or (point.reviving | point.replaced) & bit:
            if point is None and receipt.expires_at_ms > self._clock_ms() and self._is_acked(key, offset):
                _succeed(request)  # once more: its answer did not arrive
                return
            raise self._unknown(receipt, header.consumer_group, topic, offset)
        if point.acked & bit:
            if point.due_ms <= self._clock_ms():  # it may have been given out again, before others of its pop
                raise self._unknown(receipt, header.consumer_group, topic, offset)
            _succeed(request)
            return
        self._gather(point, bit, offset, _answering(request))

    def _is_acked(self, key: PointKey, offset: int) -> bool:
        return self._points.is_settled(key) and not self._points.is_replaced(key, offset)

    def _ack_in_order(self, key: OrderKey, receipt: Receipt, offset: int, done: Done) -> None:
        topic, group, queue_id = key
        is_light = topic.startswith(LIGHT_QUEUE_PREFIX)
        is_done = offset < self._offsets.query(group, topic, queue_id)
        if self._orders.get(key) is None and not (is_light and is_done):
            raise _refusal(AckFault.UNKNOWN, offset)  # upstream moves the offset to wherever the receipt says
        if is_done:
            if key in self._order_turn or key in self._order_writing:
                self._order_changed(key, done)
            else:
                done(True)  # as upstream: all before the offset is done
            return
        outcome = self._orders.ack(key, offset, receipt.popped_at_ms)
        if isinstance(outcome, AckFault):
            raise _refusal(outcome, offset)
        self._offsets.keep(group, topic, queue_id, outcome)
        if is_light:  # there may be very many lite topics, of which few have something in hand
            self._orders.drop_settled(key)
        self._order_changed(key, done)

    def _order_changed(self, key: OrderKey, done: Done) -> None:
        """Write the group's state at the end of the turn; the next pop need not wait for the write."""
        if not (self._turn or self._order_turn):
            self._soon(self._write)
        self._order_turn.setdefault(key, []).append(done)
        topic, group, queue_id = key
        if not self._orders.is_closed(key, None, self._clock_ms()):
            self._wake(topic, group, queue_id)

    # -- many -----------------------------------------------------------------------------------------------

    @answers_directly(RequestCode.BATCH_ACK_MESSAGE, needs(in_body="Group Sub and Topic Sub of each entry"))
    def ack_batch(self, request: Request) -> None:
        """Acknowledge messages of any topics and groups; unknown messages are skipped, as upstream."""
        batch = BatchAckMessage.parse(request.command.body)
        if not batch.acks:
            raise RequestRefused(ResponseCode.NO_MESSAGE, "the batch names no messages")
        if len(batch.acks) > MAX_BATCH:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"{len(batch.acks)} entries, {MAX_BATCH} are allowed")
        if batch.broker_name not in ("", self._broker_name):
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, f"the batch is for {batch.broker_name!r}, this is {self._broker_name}"
            )
        named: list[tuple[BatchAck, list[int]]] = []
        count = 0
        for entry in _allowed(request, batch.acks):
            named.append((entry, entry.offsets()))
            count += len(named[-1][1])
            if count > MAX_BATCH_MESSAGES:
                raise RequestRefused(
                    ResponseCode.MESSAGE_ILLEGAL, f"the batch names more than {MAX_BATCH_MESSAGES} messages, the limit"
                )
        answer = _BatchAnswer(request)
        for entry, offsets in named:
            for offset in offsets:
                self._ack_of_batch(entry, offset, answer)
        answer.arrived(True)

    def _ack_of_batch(self, entry: BatchAck, offset: int, answer: _BatchAnswer) -> None:
        topic = real_topic(entry.topic, entry.group, entry.retry)
        if entry.revive_queue_id == ORDER_REVIVE_QUEUE:
            receipt = Receipt(
                entry.start_offset, entry.popped_at_ms, 0, ORDER_REVIVE_QUEUE, "", "", entry.queue_id, offset
            )
            try:
                self._ack_in_order((topic, entry.group, entry.queue_id), receipt, offset, answer.expect())
            except RequestRefused:
                answer.arrived(True)
            return
        point = self._points.find((topic, entry.group, entry.queue_id, entry.start_offset, entry.popped_at_ms))
        bit = 0 if point is None else point.bit_of(offset)
        if point is not None and bit and not (point.acked | point.reviving | point.replaced) & bit:
            self._gather(point, bit, offset, answer.expect())

    # -- writing --------------------------------------------------------------------------------------------

    def _gather(self, point: CheckPoint, bit: int, offset: int, done: Done) -> None:
        acks = self._turn.get(point)
        if acks is None:
            if not (self._turn or self._order_turn):
                self._soon(self._write)
            acks = self._turn[point] = _Acks()
        if not acks.bits & bit:
            acks.bits |= bit
            acks.offsets.append(offset)
            point.acking |= bit
        acks.waiting.append(done)

    def _write(self) -> None:
        turn, self._turn = self._turn, {}
        for point, acks in turn.items():
            record = point.settling(acks.offsets, self._broker_name)
            self._log.append([record], point.revive_queue_id, partial(_acked, point, acks))
        order_turn, self._order_turn = self._order_turn, {}
        for key, waiting in order_turn.items():
            topic, group, queue_id = key
            state = state_of(key, self._offsets.query(group, topic, queue_id), self._orders.get(key))
            self._order_writing[key] += 1
            self._log.append_states([state], partial(self._order_written, key, waiting))

    def _order_written(self, key: OrderKey, waiting: list[Done], stored: bool) -> None:
        self._order_writing[key] -= 1
        if not self._order_writing[key]:
            del self._order_writing[key]
        _tell(waiting, stored)

    # -- hiding ---------------------------------------------------------------------------------------------

    @answers_directly(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, needs(on_group(SUB), on_topic(SUB, is_popped=True)))
    def change(self, request: Request) -> None:
        """Change the time at which a message becomes visible again."""
        header = read_header(ChangeInvisibleTimeRequest, request.command)
        if header.lite_topic:
            header = replace(header, topic=lite_queue(header.topic, header.lite_topic), queue_id=LIGHT_QUEUE_ID)
        elif self._topics.is_lite_parent(header.topic):
            self._find_lite_topic(request, header)
            return
        self._change(request, header)

    def _change(self, request: Request, header: ChangeInvisibleTimeRequest) -> None:
        topic, group, queue_id, offset = header.topic, header.consumer_group, header.queue_id, header.offset
        self._check_place(topic, queue_id, offset, beyond=0)
        receipt = parse_receipt(header.extra_info, self._broker_name, queue_id, offset)
        check_invisible(header.invisible_time)
        if receipt.is_order:
            self._change_in_order(request, header, receipt)
            return
        key = (topic, group, queue_id, receipt.start_offset, receipt.popped_at_ms)
        point = self._points.find(key)
        bit = 0 if point is None else point.bit_of(offset)
        if point is None or not bit or (point.acked | point.acking | point.reviving) & bit:
            raise self._unknown(receipt, group, topic, offset)
        if len(point.diffs) > 1 and not self._points.shares.has_room(group):  # else one takes the place of another
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY, self._points.shares.refusal(group, f"open pops of group {group}")
            )
        popped_at_ms = self._free_moment((topic, group, queue_id, offset, self._clock_ms()), receipt.popped_at_ms)
        again = CheckPointRecord(
            topic=topic,
            group=group,
            queue_id=queue_id,
            start_offset=offset,
            popped_at_ms=popped_at_ms,
            invisible_ms=header.invisible_time,
            count=1,
            diffs=[0],
            broker_name=self._broker_name,
        )
        point.acking |= bit
        point.replaced |= bit
        terms = ChangeInvisibleTimeResponse(
            pop_time=popped_at_ms, invisible_time=header.invisible_time, revive_qid=point.revive_queue_id
        )

        def done(stored: bool) -> None:
            if not stored:
                point.acking &= ~bit
                point.replaced &= ~bit
            _answer_terms(request, terms, stored)

        self._log.append([again, point.settling([offset], self._broker_name)], point.revive_queue_id, done)

    def _find_lite_topic(self, request: Request, header: ChangeInvisibleTimeRequest) -> None:
        """Find the lite topic of a message by the place in the log that its receipt names, then change the message.

        The proxy of 5.5.0 leaves the lite topic out. Upstream then hides nothing: the message comes again when it would
        have come anyway.
        """
        receipt = parse_receipt(header.extra_info, self._broker_name, header.queue_id, header.offset)
        at = receipt.commit_log_offset
        if not receipt.is_order or at is None:
            self._change(request, header)
            return

        def found(message: StoredMessage | Failed | None) -> None:
            name = message.property_map.get(PropertyName.LITE_TOPIC) if isinstance(message, StoredMessage) else None
            named = replace(header, topic=lite_queue(header.topic, name)) if name else header
            answer_failures(request, lambda: self._change(request, named))

        self._cold_reads.read(lambda: self._store.head_at(at), found, request.channel)

    def _free_moment(self, key: PointKey, popped_at_ms: int) -> int:
        """Return a time in milliseconds at which nothing was popped at this place: check points are named by time.

        :param popped_at_ms: when the message was popped, or changed last. A message that is changed again and again in
            one millisecond has taken all moments up to here, so that a search begins after them.
        """
        *place, moment_ms = key
        if self._is_taken((*place, moment_ms)):  # type: ignore[arg-type]
            moment_ms = max(moment_ms, popped_at_ms) + 1
        while self._is_taken((*place, moment_ms)):  # type: ignore[arg-type]
            moment_ms += 1
        return moment_ms

    def _is_taken(self, key: PointKey) -> bool:
        return self._points.find(key) is not None or self._points.is_settled(key)

    def _change_in_order(self, request: Request, header: ChangeInvisibleTimeRequest, receipt: Receipt) -> None:
        key = (header.topic, header.consumer_group, header.queue_id)
        visible_at_ms = self._clock_ms() + header.invisible_time
        fault = self._orders.change_visible(
            key, header.offset, receipt.popped_at_ms, visible_at_ms, suspended=header.suspend
        )
        if fault is not None:
            raise _refusal(fault, header.offset)
        terms = ChangeInvisibleTimeResponse(
            pop_time=receipt.popped_at_ms,
            invisible_time=visible_at_ms - receipt.popped_at_ms,
            revive_qid=ORDER_REVIVE_QUEUE,
        )
        self._order_changed(key, lambda stored: _answer_terms(request, terms, stored))

    # -- checks ---------------------------------------------------------------------------------------------

    def _check_place(self, topic: str, queue_id: int, offset: int, *, beyond: int) -> None:
        config = self._topics.get(topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        if not 0 <= queue_id < config.read_queue_nums:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic[{topic}] has readQueueNums[{config.read_queue_nums}]",
            )
        least, end = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        if not least <= offset < end + beyond:
            raise RequestRefused(
                ResponseCode.NO_MESSAGE,
                f"offset {offset} is illegal, queue {queue_id} of topic[{topic}] has {least} to {end}",
            )

    def _unknown(self, receipt: Receipt, group: str, topic: str, offset: int) -> RequestRefused:
        if receipt.expires_at_ms <= self._clock_ms():
            what = "its invisible time is over, it is given out again"
        else:
            what = "its receipt is of no pop of this group, or was used or replaced before"
        return RequestRefused(
            ResponseCode.NO_MESSAGE, f"message {offset} of queue {receipt.queue_id} of {topic}, group {group}: {what}"
        )


class _BatchAnswer:
    """Answers a batch once all of its acknowledgements are stored."""

    __slots__ = ("_request", "_stored", "_waits")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._waits = 1
        self._stored = True

    def expect(self) -> Done:
        """Wait for one acknowledgement more; the result is called when the acknowledgement is stored or has failed."""
        self._waits += 1
        return self.arrived

    def arrived(self, stored: bool) -> None:
        """Note the outcome of one acknowledgement, and answer after the last."""
        self._stored = self._stored and stored
        self._waits -= 1
        if not self._waits:
            _answer(self._request, self._stored)


def check_invisible(invisible_ms: int) -> None:
    """Refuse an invisible time that is out of range.

    :raises RequestRefused: INVALID_PARAMETER: the time is negative or longer than ``MAX_INVISIBLE_MS``.
    """
    if not 0 <= invisible_ms <= MAX_INVISIBLE_MS:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER, f"invisibleTime is {invisible_ms} ms, 0 to {MAX_INVISIBLE_MS} are allowed"
        )


def _acked(point: CheckPoint, acks: _Acks, stored: bool) -> None:
    if not stored:
        point.acking &= ~acks.bits
    _tell(acks.waiting, stored)


def _tell(waiting: list[Done], stored: bool) -> None:
    for done in waiting:
        done(stored)


def _answering(request: Request) -> Done:
    return lambda stored: _answer(request, stored)


def _answer(request: Request, stored: bool) -> None:
    if stored:
        _succeed(request)
    else:
        request.answer(ResponseCode.SERVICE_NOT_AVAILABLE, remark="the store takes nothing now: not acknowledged")


def _allowed(request: Request, entries: Sequence[BatchAck]) -> Sequence[BatchAck]:
    """Return the entries whose group and topic the sender may consume.

    :raises RequestRefused: the sender may consume none of them.
    """
    if request.caller is None:
        return entries
    pairs, judged = dict.fromkeys((entry.group, entry.topic) for entry in entries), Entries(request)
    allowed = {pair for pair in pairs if judged.allows(*consumer_needs(pair[0], [pair[1]], is_popped=True))}
    if not allowed:
        request.require(*consumer_needs(entries[0].group, [entries[0].topic], is_popped=True))
    return [entry for entry in entries if (entry.group, entry.topic) in allowed]


def _succeed(request: Request) -> None:
    if request.command.serialize_type == SerializeType.JSON:
        request.send_frame(SUCCESS_FORM.end(SUCCESS_FORM.begin(), request.command.opaque))
    else:
        request.answer(ResponseCode.SUCCESS)


def _answer_terms(request: Request, terms: ChangeInvisibleTimeResponse, stored: bool) -> None:
    if stored:
        request.answer(ResponseCode.SUCCESS, terms)
    else:
        request.answer(ResponseCode.SYSTEM_ERROR, remark="the store takes nothing now: the message comes as before")


def _refusal(fault: AckFault, offset: int) -> RequestRefused:
    code = ResponseCode.MESSAGE_ILLEGAL if fault is AckFault.UNKNOWN else ResponseCode.NO_MESSAGE
    return RequestRefused(code, f"message {offset}: {fault.value}")
