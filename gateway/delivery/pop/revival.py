"""Redelivery of popped messages that were not acknowledged in time: as messages of the group's pop retry topic.

The retry messages, and the record that settles their originals, are written to the log as one append, so a kill neither
loses nor doubles a message. A message that was delivered as often as its group allows (``retryMaxTimes``) goes to the
dead-letter topic instead. Upstream: ``PopReviveService``, which knows no dead letters.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from gateway.delivery.pop.check_points import CheckPoint, CheckPoints
from gateway.delivery.pop.receipts import RETRY_V1, RETRY_V2, is_of_another, pop_retry_topic
from gateway.delivery.pop.revive_log import ReviveLog
from gateway.delivery.retry import dead_letter_topic
from gateway.delivery.surroundings import BrokerTables, DeliverySurroundings
from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.metadata.names import topic_name_fault
from gateway.settings import Settings
from gateway.store.message_store import MessageStore
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.telemetry.logs import EventLog
from wire.errors import RecordError
from wire.message.flags import Permission
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, append_properties, build_properties
from wire.message.record import OutgoingMessage, StoredMessage, once_more, parse_records, restated
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

AT_ONCE: Final = 16
"""The number of check points whose messages are delivered again at the same time; further check points wait."""
READ_BYTES: Final = 1 << 20
"""The bytes of one read: large messages of one check point are delivered one after the other."""
FILE_SHARE: Final = 4
"""A read is at most one part of so many of a file of the log: what is written as one append has to fit a file."""
RETRY_MS: Final = 1_000
"""The milliseconds until messages that could not be stored again are tried again."""
MAX_PROPERTIES: Final = 32_767 - 64
"""The length of properties up to which another property is added; longer ones stay without it."""

log = EventLog("pop")


class Revival:
    """The part that delivers the messages of due check points again."""

    def __init__(
        self,
        store: MessageStore,
        tables: BrokerTables,
        check_points: CheckPoints,
        revive_log: ReviveLog,
        settings: Settings,
        surroundings: DeliverySurroundings,
    ) -> None:
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._points = check_points
        self._log = revive_log
        self._cold_read = surroundings.cold_read
        self._clock_ms = surroundings.clock_ms
        self._broker_name = settings.broker_name
        self._dead_letters = settings.pop_dead_letters
        self._read_bytes = min(READ_BYTES, settings.mapped_file_size_commit_log // FILE_SHARE)
        self._form = RETRY_V2 if settings.enable_retry_topic_v2 else RETRY_V1
        self._separate_queues = settings.use_separate_retry_queue
        self._waiting: deque[CheckPoint] = deque()
        self._unseen: dict[tuple[str, int], deque[CheckPoint]] = {}
        self._under_way = 0
        self._running = True
        self._going = False

    def tick(self) -> None:
        """Begin with check points that have become due; call this every ``TICK_MS`` of ``check_points``."""
        due = self._points.take_due(self._clock_ms())
        if self._store.hidden_from is None:
            for unseen in self._unseen.values():
                self._waiting += unseen
            self._unseen.clear()
            self._waiting += due
        else:
            for point in due:
                self._take(point)
        self._go_on()

    def shown(self, topic: str, queue_id: int) -> None:
        """Take the due check points of a queue of which hidden messages are shown now; ``tick`` begins with them."""
        unseen = self._unseen.get((topic, queue_id), ())
        while unseen and self._is_shown(unseen[0]):
            self._waiting.append(unseen.popleft())

    def _take(self, point: CheckPoint) -> None:
        """Take a check point, or keep it until its messages are shown: one that a start hides is not gone."""
        if self._is_shown(point):
            self._waiting.append(point)
        else:
            self._unseen.setdefault((point.topic, point.queue_id), deque()).append(point)

    def _is_shown(self, point: CheckPoint) -> bool:
        offsets = point.offsets(point.left())
        return not offsets or offsets[-1] < self._store.max_offset(point.topic, point.queue_id)

    def stop(self) -> None:
        """Begin with no more check points."""
        self._running = False

    @property
    def count(self) -> int:
        """The number of check points that are due and not done."""
        return len(self._waiting) + self._under_way + sum(map(len, self._unseen.values()))

    def _go_on(self) -> None:
        if self._going:  # called from within, by one that was done at once
            return
        self._going = True
        try:
            while self._running and self._waiting and self._under_way < AT_ONCE:
                self._begin(self._waiting.popleft())
        finally:  # an error keeps the others waiting until the next tick, not for ever
            self._going = False

    def _begin(self, point: CheckPoint) -> None:
        """Deliver the first messages left of a check point: neighbours within one read."""
        if not self._points.is_open(point):  # its topic was deleted
            return
        left = point.left()
        if not left:
            if point.acking:  # whoever acknowledges may still fail
                self._points.again(point, self._clock_ms() + RETRY_MS)
            return
        self._under_way += 1
        offsets = point.offsets(left)
        count = next((index for index, offset in enumerate(offsets) if offset != offsets[0] + index), len(offsets))
        run = offsets[:count]
        for offset in run:
            point.reviving |= point.bit_of(offset)
        store, topic, queue_id = self._store, point.topic, point.queue_id
        if not self._is_wanted(point):
            self._settle(point, run, [])
            return
        try:
            result = store.get_messages_now(topic, queue_id, run[0], count, self._read_bytes)
            if result is not None:
                self._have_read(point, run, result)
            else:
                self._cold_read(
                    lambda: store.get_messages(topic, queue_id, run[0], count, self._read_bytes),
                    lambda result: self._have_read(point, run, result),
                )
        except (OSError, RequestRefused) as error:
            self._failed(point, run, error)

    def _is_wanted(self, point: CheckPoint) -> bool:
        """Return whether topic and group of a check point still exist; upstream: popReviveSkipIfGroupAbsent."""
        return self._topics.get(point.topic) is not None and self._groups.get(point.group) is not None

    def _have_read(self, point: CheckPoint, run: list[int], result: GetResult | Failed) -> None:
        if not self._points.is_open(point):  # what was read may be of a topic that was made again
            self._ended()
            return
        if isinstance(result, Failed):
            self._failed(point, run, result.error)
            return
        messages: list[StoredMessage] = []
        if result.status is GetStatus.FOUND:
            try:
                messages = parse_records(b"".join(result.parts))
            except RecordError as error:
                self._failed(point, run, error)
                return
            done = [offset for offset in run if offset < result.next_begin_offset]
        elif result.status is GetStatus.MESSAGE_DAMAGED:
            log.error("popped message cannot be read, and does not come again", topic=point.topic, reason=result.remark)
            done = run[:1]
        else:  # expired with its part of the log, or deleted
            done = [offset for offset in run if offset < result.next_begin_offset] or run
        for offset in run[len(done) :]:
            point.reviving &= ~point.bit_of(offset)
        wanted = set(done)
        self._settle(point, done, [message for message in messages if message.queue_offset in wanted])

    def _settle(self, point: CheckPoint, done: list[int], messages: list[StoredMessage]) -> None:
        """Store these messages again, together with the record that settles the originals."""
        if len(messages) < len(done) and self._is_wanted(point):
            log.warning(
                "popped messages are gone",
                topic=point.topic,
                queue=point.queue_id,
                group=point.group,
                messages=len(done) - len(messages),
            )
        try:
            again = [self._again(point, message) for message in messages]
        except RequestRefused as refusal:
            self._failed(point, done, refusal)
            return
        record = point.settling(done, self._broker_name)
        self._log.append([record], point.revive_queue_id, lambda stored: self._settled(point, done, stored), again)

    def _settled(self, point: CheckPoint, done: list[int], stored: bool) -> None:
        if not stored:
            self._failed(point, done, "not stored")
            return
        # A record that slaves lack is stored, and not applied yet: its messages stay in ``reviving``, and come once.
        self._waiting.appendleft(point)  # the others, of which some may be on their way to be acknowledged
        self._ended()

    def _failed(self, point: CheckPoint, run: list[int], reason: object) -> None:
        topic, group, why = point.topic, point.group, str(reason)
        if isinstance(reason, RequestRefused):  # a topic that somebody closed, or a limit
            log.warning("popped messages not given out again", topic=topic, group=group, reason=why)
        else:
            log.error("popped messages not given out again", topic=topic, group=group, reason=why)
        for offset in run:
            point.reviving &= ~point.bit_of(offset)
        self._points.again(point, self._clock_ms() + RETRY_MS)
        self._ended()

    def _ended(self) -> None:
        self._under_way -= 1
        self._go_on()

    # -- what is stored -------------------------------------------------------------------------------------

    def _again(self, point: CheckPoint, message: StoredMessage) -> OutgoingMessage:
        """Return the message for the pop retry topic, or for the dead-letter topic after the last retry.

        :raises RequestRefused: the topic of the message cannot be made.
        """
        group = self._groups.get(point.group)
        limit = group.retry_max_times if group is not None else 0
        if self._dead_letters and message.reconsume_times >= limit:
            return self._dead_letter(point, message)
        topic = self._retry_topic(point)
        properties, names_group = _popped_properties(point, message, topic)
        if not names_group:  # in the older form nobody could tell whose the message is
            topic = pop_retry_topic(_origin_topic(point), point.group, RETRY_V2)
        return _stored_again(message, topic, self._retry_queue(point, topic), properties)

    def _retry_topic(self, point: CheckPoint) -> str:
        topic = point.topic
        if topic.startswith(RETRY_TOPIC_PREFIX):
            return topic
        form = RETRY_V2 if is_of_another(self._groups, topic, point.group) else self._form
        return pop_retry_topic(topic, point.group, form)

    def _retry_queue(self, point: CheckPoint, topic: str) -> int:
        """Return the queue of a retry topic; make the topic if it does not exist."""
        config = self._topics.get(point.topic)
        if topic != point.topic:
            queues = config.read_queue_nums if self._separate_queues and config is not None else 1
            config = self._topics.ensure_readable(topic, queues, Permission.READ_WRITE)
        count = 1 if config is None or not self._separate_queues else max(1, config.read_queue_nums)
        queue_id = point.queue_id % count  # one made without separate queues has fewer
        if self._offsets.query(point.group, topic, queue_id) < 0:
            self._offsets.keep(point.group, topic, queue_id, 0)
        return queue_id

    def _dead_letter(self, point: CheckPoint, message: StoredMessage) -> OutgoingMessage:
        topic = dead_letter_topic(point.group)
        if topic_name_fault(topic) is not None:
            topic = self._retry_topic(point)
            return _stored_again(message, topic, self._retry_queue(point, topic), message.properties)
        self._topics.ensure_readable(topic, 1, Permission.READ_WRITE)
        properties = dict(message.property_map)
        properties.setdefault(PropertyName.DLQ_ORIGIN_TOPIC, _origin_topic(point))
        properties.setdefault(PropertyName.DLQ_ORIGIN_MESSAGE_ID, message.unique_key or message.offset_message_id)
        raw = build_properties(properties)
        return _stored_again(message, topic, 0, raw if len(raw) <= MAX_PROPERTIES_BYTES else message.properties)


def _origin_topic(point: CheckPoint) -> str:
    """Return the topic to which the group subscribed, even if the message was last read from a retry topic."""
    for form in (RETRY_V1, RETRY_V2):
        prefix = pop_retry_topic("", point.group, form)
        if point.topic.startswith(prefix):
            return point.topic[len(prefix) :]
    return point.topic


def _popped_properties(point: CheckPoint, message: StoredMessage, topic: str) -> tuple[bytes, bool]:
    """Return the properties of a message for a retry topic, with what says whose pop it comes again to.

    :return: the properties, and whether they name the group: very long ones have no room for it.

    An application may have sent a message on with the properties that the message got in another retry topic.
    RETRY_TOPIC tells in ``%RETRY%group_topic`` that the group ``group_topic`` gave the message back, so it does not
    stay there. Consumers read it only from messages of their group's own retry topic.
    """
    raw, known, group = message.properties, message.property_map, point.group
    others = {PropertyName.ORIGIN_GROUP} if known.get(PropertyName.ORIGIN_GROUP, group) != group else set()
    if PropertyName.RETRY_TOPIC in known and topic.startswith(pop_retry_topic("", group, RETRY_V1)):
        others.add(PropertyName.RETRY_TOPIC)
    if others:
        known = {name: value for name, value in known.items() if name not in others}
        raw = build_properties(known)
        if len(raw) > MAX_PROPERTIES_BYTES:  # text that is not UTF-8 takes more bytes when it is written again
            return message.properties, False
    pairs = {PropertyName.FIRST_POP_TIME: str(point.popped_at_ms), PropertyName.ORIGIN_GROUP: group}
    for name, value in pairs.items():
        if name not in known and len(raw) + len(value) < MAX_PROPERTIES:
            raw, known = append_properties(raw, ((name, value),)), {**known, name: value}
    return raw, PropertyName.ORIGIN_GROUP in known


def _stored_again(message: StoredMessage, topic: str, queue_id: int, properties: bytes) -> OutgoingMessage:
    again = restated(message, topic, queue_id, properties)
    again.reconsume_times = once_more(message.reconsume_times)
    again.prepared_transaction_offset = 0
    return again
