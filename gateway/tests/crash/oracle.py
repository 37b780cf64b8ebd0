"""Recovers an image with the real code and compares what a client would find with what was promised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from gateway.clock import END_OF_TIME_MS
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from gateway.metadata.offsets import NOT_KNOWN
from gateway.settings.store import StoreSettings
from gateway.settings.transaction import TransactionStateStore
from gateway.store.message_store import MessageStore
from gateway.store.reading.get_result import GetStatus
from gateway.store.recovery.recovery_report import RecoveryReport
from gateway.tests.crash.disk.recording import Image, RecordingFiles
from gateway.tests.crash.disk.state_databases import wanted_after
from gateway.tests.crash.ledger import Half, Ledger, Outcome, QueueName, Shown, Value, Waiting
from gateway.tests.crash.queue_records import as_in_queue, key_in_queue
from gateway.tests.crash.small_broker import ROOT, Clock, SmallBroker, bit_map_of
from gateway.transaction.records.half_messages import HALF_QUEUE_ID, real_place
from gateway.transaction.replies import Reply
from gateway.transaction.restart.rebuild import OFFSETS_GROUP
from gateway.transaction.states import OPEN_STATES, Event, State
from wire.codes import ResponseCode
from wire.disk.queue_extension import ExtensionUnit, is_address, position_of
from wire.errors import RecordError
from wire.message.batch import is_inner_batch
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage, parse_records
from wire.message.tags import tags_code

KEYS_ASKED = 3
"""Acknowledged messages of an image that are looked for by key."""
TIMER_SECONDS = 14
"""After as many the last timer message of a workload is due."""
READ_COUNT = 64
READ_BYTES = 1 << 20
_CONTRADICTION = {
    Outcome.COMMIT: OPEN_STATES | {State.ROLLED_BACK, State.DISCARDED},
    Outcome.ROLL_BACK: OPEN_STATES | {State.COMMITTED},
}
"""States that a half message cannot have once its producer was told the outcome."""
_UNDECIDED = State.PENDING, State.DISCARDED
_ROLLED_BACK = State.ROLLED_BACK, State.SETTLED, State.NONE
"""The last two: a state store says that it is settled, and the log has no final message."""


Visible = dict[QueueName, list[tuple[int, int, bytes]]]
"""Queue offset, place and body of every message."""


class Violation(Exception):  # noqa: N818 (a finding, not an error of ours)
    """A promise is broken."""


@dataclass(slots=True)
class Recovered:
    """A broker that was opened on an image, and all it shows."""

    broker: SmallBroker
    report: RecoveryReport
    seen: dict[QueueName, list[StoredMessage]]

    @property
    def visible(self) -> Visible:
        """Return the visible facts, for comparing."""
        return {
            queue: [(message.queue_offset, message.commit_log_offset, message.body) for message in messages]
            for queue, messages in self.seen.items()
            if messages
        }


def recover(
    image: Image,
    now_ms: int,
    settings: StoreSettings,
    states: TransactionStateStore = TransactionStateStore.QUEUE,
) -> Recovered:
    """Open a broker on an image.

    :raises Violation: it does not open, or cannot be read.
    """
    clock = Clock(now_ms)
    files = RecordingFiles(image, clock)
    broker = SmallBroker(files, clock, settings, wanted_after(ROOT, files, states))
    try:
        report = broker.open()
        seen = read_all(broker.store)
    except Exception as error:  # whatever it is: a broker that does not start is the finding
        raise Violation(f"the broker does not start: {type(error).__name__}: {error}") from error
    return Recovered(broker, report, seen)


def read_all(store: MessageStore) -> dict[QueueName, list[StoredMessage]]:
    """Every message of every queue."""
    return {queue: read_queue(store, *queue) for queue in sorted(store.queues())}


def read_queue(store: MessageStore, topic: str, queue_id: int) -> list[StoredMessage]:
    """Every message of a queue, as a consumer gets them.

    :raises Violation: there are holes.
    """
    offset, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    if not 0 <= offset <= end:
        raise Violation(f"{topic}/{queue_id} begins at {offset} and ends at {end}")
    found: list[StoredMessage] = []
    while offset < end:
        result = store.get_messages(topic, queue_id, offset, READ_COUNT, READ_BYTES)
        if result.status is not GetStatus.FOUND:
            raise Violation(f"{topic}/{queue_id} offset {offset} of {end} cannot be read: {result.status.name}")
        try:
            records = parse_records(b"".join(result.parts))
        except RecordError as error:
            raise Violation(f"{topic}/{queue_id} offset {offset}: {error}") from error
        messages = [message for record in records for message in as_in_queue((topic, queue_id), record)]
        for message in messages:
            if (message.topic, message.queue_id, message.queue_offset) != (topic, queue_id, offset):
                raise Violation(
                    f"{topic}/{queue_id} offset {offset} leads to {message.topic}/{message.queue_id} "
                    f"offset {message.queue_offset}"
                )
            offset += 1
        found += messages
        if result.next_begin_offset != offset:
            raise Violation(f"{topic}/{queue_id} goes on at {result.next_begin_offset} after {offset - 1}")
    return found


class Oracle:
    """The promises of one ledger.

    :param kill: whether the process was killed, which loses nothing, instead of the power cut.
    """

    def __init__(self, ledger: Ledger, settings: StoreSettings, *, kill: bool) -> None:
        self._ledger = ledger
        self._everything = kill or settings.sync_flush

    def check(self, found: Recovered, random: Random) -> None:
        """Compare.

        :raises Violation: a promise is broken; the text says which.
        """
        if found.report.durable_bytes_lost:
            raise Violation(f"{found.report.durable_bytes_lost} bytes that were reported durable are lost")
        if found.broker.store.min_commit_log_offset > self._ledger.deleting:
            raise Violation(f"the log begins at {found.broker.store.min_commit_log_offset}")
        for queue, messages in found.seen.items():
            self._check_content(queue, messages)
            self._check_extension(found.broker.store, queue, messages)
        for queue, shown in self._ledger.shown.items():
            self._check_shown(queue, shown, found)
        self._check_cut(found)
        self._check_keys(found.broker.store, random)
        for offset, half in self._ledger.halves.items():
            self._check_half(offset, half, found)
        self._check_waiting(found)
        self._check_discarded(found)
        self._check_tables(found.broker)

    # --- messages ------------------------------------------------------------------------------------------------

    def _is_promised(self, end: int) -> bool:
        return self._everything or end <= self._ledger.flushed

    def _check_content(self, queue: QueueName, messages: list[StoredMessage]) -> None:
        place = -1
        bodies: set[bytes] = set()
        repeated = {waiting.shown.body for waiting in self._ledger.waiting.values()} | self._ledger.cut_waiting
        allowed = self._ledger.allowed.get(queue, set())
        for message in messages:
            if message.commit_log_offset < place + (not is_inner_batch(message.sys_flag)):
                raise Violation(f"{queue} offset {message.queue_offset} lies before the one before it")
            place = message.commit_log_offset
            if b"\0" in message.properties:  # no workload sends one
                raise Violation(f"{queue} offset {message.queue_offset} lost a part of its properties")
            if queue[0] == OP_HALF_TOPIC:
                continue
            if message.body in bodies - repeated and queue[0] not in (CHECK_MAX_TOPIC, WHEEL_TIMER_TOPIC):
                raise Violation(f"{queue} offset {message.queue_offset} is there twice: {_short(message.body)}")
            if message.body not in allowed:
                raise Violation(
                    f"{queue} offset {message.queue_offset} was never sent there, or lost: {_short(message.body)}"
                )
            bodies.add(message.body)

    def _check_extension(self, store: MessageStore, queue: QueueName, messages: list[StoredMessage]) -> None:
        """Each address leads to what was kept of its message: another one's would make consumers miss it."""
        found = store._queues.find(queue)
        assert found is not None, "it was read"
        for message in messages:
            unit = found.unit(message.queue_offset)
            if unit is None:
                raise Violation(f"{queue} offset {message.queue_offset} was read where the queue has no unit")
            if is_address(unit[2]):
                kept = found.extension.unit(position_of(unit[2]))
                code = tags_code(message.property_map.get(PropertyName.TAGS))
                right = ExtensionUnit(code, message.stored_at_ms, bit_map_of(message.topic, message.property_map))
                if kept != right:
                    raise Violation(f"{queue} offset {message.queue_offset}: its extension has {kept}, not {right}")

    def _check_shown(self, queue: QueueName, shown: dict[int, Shown], found: Recovered) -> None:
        promised = {offset: message for offset, message in shown.items() if self._is_promised(message.end)}
        if not promised:
            return
        end = found.broker.store.max_offset(*queue)
        if max(promised) >= end:
            raise Violation(f"{queue} ends at {end}, but offset {max(promised)} was shown")
        messages = found.seen.get(queue, [])
        first = messages[0].queue_offset if messages else end
        for offset, message in promised.items():
            if offset < first:
                if message.end > self._ledger.deleting:
                    raise Violation(f"{queue} offset {offset} was shown and is lost")
                continue
            stored = messages[offset - first]
            if (stored.body, stored.commit_log_offset) != (message.body, message.place):
                raise Violation(
                    f"{queue} offset {offset} was {_short(message.body)} at {message.place}, "
                    f"is {_short(stored.body)} at {stored.commit_log_offset}"
                )

    def _check_cut(self, found: Recovered) -> None:
        """While a log is cut, it is the old one or the cut one."""
        seen = {
            (queue, message.commit_log_offset, message.body)
            for queue, messages in found.seen.items()
            for message in messages
        }
        there = [(queue, shown.place, shown.body) in seen for queue, shown in self._ledger.cut]
        if any(there) and not all(there):
            raise Violation(f"{sum(there)} of {len(there)} messages are left of what was being cut")

    def _check_keys(self, store: MessageStore, random: Random) -> None:
        promised = [
            (queue[0], message)
            for queue, shown in self._ledger.shown.items()
            for message in shown.values()
            if message.key and message.place >= store.min_commit_log_offset and self._is_promised(message.end)
        ]
        for topic, message in random.sample(promised, min(KEYS_ASKED, len(promised))):
            found = store.query_by_key(topic, message.key, 64, 0, END_OF_TIME_MS)
            places = [stored.commit_log_offset for stored in found]
            if places.count(message.place) != 1:
                raise Violation(f"key {message.key} of {topic} leads to {places}, not to {message.place}")

    # --- transactions --------------------------------------------------------------------------------------------

    def _check_half(self, offset: int, half: Half, found: Recovered) -> None:
        if not self._is_promised(half.shown.end):
            return
        state = found.broker.transactions.tables.outcomes.state(offset)
        final = any(message.body == half.shown.body for message in found.seen.get(half.final, ()))
        told = half.asked if half.told_at >= 0 and self._is_promised(half.told_at) else None
        who = f"half message {offset}, {_asked(half)},"
        if told is not None:
            if state in _CONTRADICTION[told]:
                raise Violation(f"{who} is {state.name}")
        elif final:
            if state in _CONTRADICTION[Outcome.COMMIT]:
                raise Violation(f"{who} has its final message and is {state.name}")
        elif not (
            state in (State.PENDING, State.DISCARDED) or (state in _ROLLED_BACK and half.asked is Outcome.ROLL_BACK)
        ):
            raise Violation(f"{who} has no final message and is {state.name}")

    def ask_again(self, found: Recovered, random: Random) -> None:
        """Send an outcome once more, and its contrary: the first one stays.

        :raises Violation: it does not.
        """
        told = [half for half in self._ledger.halves.values() if half.told_at >= 0 and self._is_promised(half.told_at)]
        kept = [half for half in told if half.shown.place >= found.broker.store.min_commit_log_offset]
        if not kept:
            return
        half = random.choice(kept)
        broker = found.broker
        before = found.visible.get(half.final)
        broker.start()
        for outcome in random.sample(list(Outcome), 2):
            code = _outcome(broker, half, outcome)
            if (code is ResponseCode.SUCCESS) != (outcome is half.asked):
                raise Violation(f"{_asked(half)}, {outcome.value} once more is answered {code}")
        messages = read_queue(broker.store, *half.final) if before else []
        if len(messages) != len(before or ()):
            raise Violation(f"{_asked(half)}, asked once more, made another message")

    # --- tables --------------------------------------------------------------------------------------------------

    def _check_tables(self, broker: SmallBroker) -> None:
        ledger = self._ledger
        for key in ledger.offsets.values:
            found = broker.offsets.query(*key)
            _check_value(f"consumer offset {key}", None if found == NOT_KNOWN else found, ledger.offsets.allowed(key))
        for name in ledger.topics.values.keys() | broker.topics.table().keys():
            _check_value(f"topic {name}", broker.topics.get(name), ledger.topics.allowed(name))
        for name in ledger.groups.values.keys() | broker.groups.table().keys():
            _check_value(f"group {name}", broker.groups.get(name), ledger.groups.allowed(name))
        progress, end = broker.offsets.query(OFFSETS_GROUP, HALF_TOPIC, 0), broker.store.max_offset(HALF_TOPIC, 0)
        if progress > end:
            raise Violation(f"transactions went on to {progress}, but the half queue ends at {end}")

    def _check_waiting(self, found: Recovered) -> None:
        """A delayed message waits, or was delivered."""
        levels = found.broker.delays.offsets()
        for (queue_id, offset), waiting in self._ledger.waiting.items():
            if (
                not self._is_promised(waiting.shown.end)
                or waiting.shown.place < found.broker.store.min_commit_log_offset
            ):
                continue
            goes_on = min(levels.get(queue_id + 1, 0), found.broker.store.max_offset(SCHEDULE_TOPIC, queue_id))
            delivered = any(message.body == waiting.shown.body for message in found.seen.get(waiting.final, ()))
            if offset < goes_on and not delivered:
                raise Violation(
                    f"delayed message {offset} of level {queue_id + 1} is passed over: it goes on at {goes_on}, "
                    f"and {waiting.final} does not have it"
                )

    def deliver_all(self, found: Recovered) -> None:
        """Let the time of all timer messages pass. Each must then be in its topic once, unless it was taken back.

        :raises Violation: a message is missing, is there twice, or is there although it was taken back.
        """
        broker = found.broker
        broker.start()
        for _ in range(TIMER_SECONDS):
            broker.clock.now_ms += 1_000
            broker.reactor.advance(1)
            broker.threads.run()
            broker.reactor.advance(0)
            broker.threads.run()
        seen = read_all(broker.store)
        for queue, messages in seen.items():
            self._check_content(queue, messages)
        for offset, waiting in self._ledger.timers.items():
            body = waiting.shown.body
            times = sum(message.body == body for message in seen.get(waiting.final, ()))
            if times not in self._times_allowed(body) and self._is_promised(waiting.shown.end):
                back = " and was taken back" if body in self._ledger.taken_back else ""
                raise Violation(f"timer message {offset} is {times} times in {waiting.final}{back}")

    def _times_allowed(self, body: bytes) -> tuple[int, ...]:
        marker_end = self._ledger.taken_back.get(body)
        if marker_end is None:
            return (1,)
        return (0,) if marker_end >= 0 and self._is_promised(marker_end) else (0, 1)

    def _check_discarded(self, found: Recovered) -> None:
        """A discarded half message is in the topic of those; a torn append may leave it there and still pending."""
        given_up = {message.body for message in found.seen.get((CHECK_MAX_TOPIC, HALF_QUEUE_ID), ())}
        for offset, half in self._ledger.halves.items():
            if not self._is_promised(half.shown.end) or half.shown.place < found.broker.store.min_commit_log_offset:
                continue
            state = found.broker.transactions.tables.outcomes.state(offset)
            if state is State.DISCARDED and half.shown.body not in given_up:
                raise Violation(f"half message {offset} is discarded, and {CHECK_MAX_TOPIC} does not have it")


def _check_value(what: str, found: Value | None, allowed: list[Value | None]) -> None:
    if found not in allowed:
        raise Violation(f"{what} is {found}; it may be {allowed}")


def _outcome(broker: SmallBroker, half: Half, outcome: Outcome) -> ResponseCode | None:
    message = broker.store.message_at(half.shown.place)
    if message is None:
        raise Violation(f"the half message at {half.shown.place} cannot be read")
    replies: list[Reply] = []
    event = Event.COMMIT if outcome is Outcome.COMMIT else Event.ROLLBACK
    broker.transactions.settling.ask(message, event, ("oracle", "-"), replies.append)
    broker.threads.run()
    return replies[0].code if replies else None


def _asked(half: Half) -> str:
    asked = "undecided" if half.asked is None else half.asked.value
    return f"{asked}{' (told)' if half.told_at >= 0 else ''}"


def rebased(found: Recovered, ledger: Ledger) -> Ledger:
    """Return the promises of a broker that goes on from an image: all that the image shows, and nothing else."""
    after = Ledger(ledger.now_ms)
    for queue, message in _all(found):
        end = message.commit_log_offset + message.total_size
        shown = Shown(message.body, message.commit_log_offset, end, key_in_queue(queue, message))
        after.allow(queue, message.body)
        after.show(queue, message.queue_offset, shown)
        if queue[0] == HALF_TOPIC:
            after.allow((CHECK_MAX_TOPIC, HALF_QUEUE_ID), message.body)
        is_timer = queue[0] == WHEEL_TIMER_TOPIC and PropertyName.TIMER_DEL_UNIQKEY not in message.property_map
        if is_timer and (final := real_place(message.property_map)) is not None:
            after.allow(final, message.body)
            after.wait_for_time(message.queue_offset, Waiting(shown, final))
        if queue[0] == SCHEDULE_TOPIC and (final := real_place(message.property_map)) is not None:
            after.allow(final, message.body)
            after.delay(queue[1], message.queue_offset, Waiting(shown, final))
    broker = found.broker
    for body, marker_end in ledger.taken_back.items():
        after.take_back(body, marker_end if marker_end <= broker.store.max_commit_log_offset else -1)
    after.deleting = broker.store.min_commit_log_offset
    after.flushed = broker.store.flushed_offset
    _keep_halves(after, ledger, found)
    _keep_tables(after, ledger, broker)
    return after


def _keep_halves(after: Ledger, ledger: Ledger, found: Recovered) -> None:
    for offset, half in ledger.halves.items():
        kept = after.shown.get((HALF_TOPIC, HALF_QUEUE_ID), {}).get(offset)
        if kept is not None and kept.body == half.shown.body:
            now = after.halves[offset] = Half(kept, half.final)
            if found.broker.transactions.tables.outcomes.state(offset) not in (*OPEN_STATES, State.DISCARDED):
                final = any(message.body == kept.body for message in found.seen.get(half.final, ()))
                now.asked = Outcome.COMMIT if final else Outcome.ROLL_BACK
                now.told_at = after.flushed


def _keep_tables(after: Ledger, ledger: Ledger, broker: SmallBroker) -> None:
    for key in ledger.offsets.values:
        offset = broker.offsets.query(*key)
        after.offsets.start_from(key, None if offset == NOT_KNOWN else offset)
    for name in ledger.topics.values.keys() | broker.topics.table().keys():
        after.topics.start_from(name, broker.topics.get(name))
    for name in ledger.groups.values.keys() | broker.groups.table().keys():
        after.groups.start_from(name, broker.groups.get(name))


def _all(found: Recovered) -> Iterator[tuple[QueueName, StoredMessage]]:
    for queue, messages in found.seen.items():
        for message in messages:
            yield queue, message


def _short(body: bytes) -> str:
    return repr(body[:16])
