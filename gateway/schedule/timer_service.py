"""The service that delivers timer messages at their time.

This service is thin: ``TimerSchedule`` decides; the service reads, appends and wakes up. A thread reads the next second
ahead. Due messages are read in batches and appended to their real topic. Upstream: ``TimerMessageStore``, with the same
files, but without its rounding to a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from gateway.clock import Milliseconds
from gateway.in_thread import Failed, InThread
from gateway.metadata.names import WHEEL_TIMER_TOPIC
from gateway.schedule.near_timers import NearTimer, is_rolled_marker
from gateway.schedule.redirect import DeliveryQueue, the_same_queue
from gateway.schedule.timer_files import TimerFiles
from gateway.schedule.timer_log import Unwritten
from gateway.schedule.timer_message import TIMER_QUEUE_ID, delete_keys, delivered, first_place, rolled
from gateway.schedule.timer_recovery import TimerRecovery, waiting_of
from gateway.schedule.timer_schedule import Opened, Opening, TimerSchedule, WaitingTimer, gather
from gateway.settings.timer import TimerSettings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import Dispatched, PutResult
from gateway.telemetry.logs import EventLog
from wire.disk.timer_log import TimerKind
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage, StoredMessage

log = EventLog("schedule")

READ_AHEAD_MS = 1_000
"""The milliseconds before its start at which a slot is read."""
BATCH_COUNT = 64
"""The number of messages read and appended in one turn of the reactor."""
BATCH_BYTES = 1 << 20
IN_FLIGHT = 4_096
"""The number of messages on their way to the disk."""
RETRY_MS = 10_000
"""The milliseconds until a failed read or store is tried again, as for delay levels."""
LONGEST_SLEEP_MS = 60_000


class TimerService:
    """The service that delivers timer messages.

    :param reactor: used for its clock only.
    :param in_thread: runs work that may wait for the disk.
    :param delivery_queue: returns the queue for a message, and makes a topic that is missing.
    :param is_deleted: returns whether a topic was deleted after a place in the log, and was not made again.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        files: TimerFiles,
        settings: TimerSettings,
        reactor: IReactorTime,
        clock: Milliseconds,
        in_thread: InThread,
        delivery_queue: DeliveryQueue = the_same_queue,
        is_deleted: Callable[[str, int], bool] = lambda _topic, _log_offset: False,
    ) -> None:
        self._store = store
        self._files = files
        self._delivery_queue = delivery_queue
        self._is_deleted = is_deleted
        self._settings = settings
        self._reactor = reactor
        self._clock = clock
        self._in_thread = in_thread
        self._schedule = TimerSchedule(files.wheel, files.log, settings)
        self._call: IDelayedCall | None = None
        self._wake_at_ms = 0
        self._running = False
        self._is_opening = False
        self._is_reading_slot = False
        self._is_making = False
        self._is_failing = False
        """True if the timer log could not be written. Only a save tries again, not each new message."""
        self._stopped: Deferred[None] | None = None
        self._in_flight = 0
        self._retry_told = False
        self.delivered = 0
        """The number of messages delivered since the start."""
        self.entered = 0
        """The number of messages that entered since the start."""
        self.given_up = 0
        """The number of messages given up since the start, because their topic can never take them."""

    # --- life ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Find the waiting messages; blocks.

        :raises GatewayError: the files of the timer log do not fit together.
        :raises OSError: a file cannot be read or written.
        """
        marks = self._files.load()
        found = TimerRecovery(self._store, self._files.log, self._schedule, self._settings, marks).run(self._clock())
        self._files.keep_from = found.keep_from
        if self._schedule.waiting or found.entered:
            log.info(
                "timer messages found",
                waiting=self._schedule.waiting,
                entered_again=found.entered,
                delivered_without_a_mark=found.already_stored,
                written_by="another broker" if marks.is_foreign else "the gateway",
            )

    def start(self) -> None:
        """Start to deliver."""
        self._running = True
        self._look()

    def stop(self) -> Deferred[None]:
        """Deliver no more messages; fires when reads and stores under way have ended."""
        self._running = False
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None
        stopped = self._stopped = Deferred()
        self._tell_stopped()
        return stopped

    def _tell_stopped(self) -> None:
        if self._stopped is not None and not (self._in_flight or self._is_reading_slot):
            stopped, self._stopped = self._stopped, None
            stopped.callback(None)

    def persist_now(self) -> None:
        """Save the progress; blocks. Call this when the store is idle and flushed.

        :raises OSError: the progress cannot be saved.
        """
        if not self._is_opening:
            self._schedule.advance(self._clock())
            self._schedule.carry_over(self._clock())
        self._files.close(self._schedule, self._store)

    # --- what others ask -----------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of waiting messages."""
        return self._schedule.waiting

    @property
    def behind_ms(self) -> int:
        """The milliseconds by which delivery is late."""
        return max(self._clock() - (self._schedule.read_slot + 1) * self._settings.timer_precision_ms, 0)

    @property
    def is_full(self) -> bool:
        """True if no more messages should begin to wait: the timer log does not take the entries it has."""
        return self._files.log.is_full

    @property
    def queue_offset(self) -> int:
        """The offset in the timer topic below which all messages are known."""
        return self._schedule.queue_offset

    def waiting_in(self, slot_ms: int) -> int:
        """Return how many messages wait in the slot that starts at a time."""
        return self._files.wheel.number(self._schedule.slot_of(slot_ms))

    def checkpoint(self) -> bytes:
        """Return the timer checkpoint, for GET_TIMER_CHECK_POINT."""
        return self._files.check.newest.build()

    def keep_from(self) -> int | None:
        """Return the commit log offset from which messages may wait; None if no message waits."""
        return self._files.keep_from if self._schedule.waiting else None

    def save(self) -> Callable[[], object] | None:
        """Note the progress, and return a function that saves it and blocks; None if there is nothing to save."""
        self._write()
        return self._files.save(self._schedule, self._store, self._clock())

    # --- messages come -------------------------------------------------------------------------------------------

    def arrived(self, messages: Iterable[Dispatched]) -> None:
        """Take stored messages; messages of the timer topic begin to wait."""
        came = [message for message in messages if message.topic == WHEEL_TIMER_TOPIC]
        if not came:
            return
        now_ms, schedule = self._clock(), self._schedule
        for message in came:
            if message.queue_id != TIMER_QUEUE_ID:
                continue
            waiting = self._waiting(message)
            if waiting is not None:
                schedule.enter(waiting, now_ms)
                self._files.entered(waiting.commit_log_offset)
                self.entered += 1
            schedule.queue_offset = message.queue_offset + 1
        if not self._is_failing:
            self._write()
        due_ms = schedule.next_due_ms()
        if due_ms is not None and due_ms < self._wake_at_ms:
            self._sleep(now_ms)

    def _waiting(self, message: Dispatched) -> WaitingTimer | None:
        return waiting_of(
            message.message.property_map,
            message.commit_log_offset,
            message.size,
            message.stored_at_ms,
            self._settings.timer_precision_ms,
        )

    def _write(self) -> None:
        """Write new entries; a thread makes a new file."""
        try:
            is_all = self._files.log.write()
        except OSError as error:
            self._has_failed("timer log not written", error)
            return
        self._is_failing = self._is_failing and not is_all
        if self._is_making or (is_all and not self._files.log.end):  # the first file is made for the first entry
            return
        missing = self._files.log.missing_file()
        if missing is not None:
            self._is_making = True
            self._in_thread(partial(self._files.log.make, missing), self._made)

    def _made(self, result: object) -> None:
        self._is_making = False
        if isinstance(result, Failed):
            self._has_failed("timer log file not made", result.error)
        else:
            self._write()

    def _has_failed(self, what: str, error: BaseException) -> None:
        if not self._is_failing:
            log.error(what, error=str(error), until="the next save that succeeds; what comes is kept in memory")
        self._is_failing = True

    # --- slots open ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._call = None
        if not self._running:
            return
        now_ms = self._clock()
        self._open_slots(now_ms)
        self._schedule.advance(now_ms)
        if self._in_flight < IN_FLIGHT:
            self._deliver(self._schedule.take(now_ms, BATCH_COUNT, BATCH_BYTES))
        self._sleep(self._clock())

    def _sleep(self, now_ms: int) -> None:
        """Sleep until the next message is due or the next slot has to be opened."""
        if not self._running:
            return
        due_ms = self._schedule.next_due_ms()
        wake_at_ms = (self._schedule.open_to * self._settings.timer_precision_ms) - READ_AHEAD_MS
        if self._is_opening:
            wake_at_ms = now_ms + self._settings.timer_precision_ms
        if due_ms is not None and self._in_flight < IN_FLIGHT:
            wake_at_ms = min(wake_at_ms, due_ms)
        wait_ms = max(0, min(wake_at_ms - now_ms, LONGEST_SLEEP_MS))
        self._wake_at_ms = now_ms + wait_ms
        if self._call is not None and self._call.active():
            self._call.reset(wait_ms / 1000)
        else:
            self._call = self._reactor.callLater(wait_ms / 1000, self._look)

    def _open_slots(self, now_ms: int) -> None:
        if self._is_opening:
            return
        opening = self._schedule.open_next(now_ms + READ_AHEAD_MS)
        if opening is not None:
            self._is_opening = True
            self._read_slot(opening)

    def _read_slot(self, opening: Opening) -> None:
        self._is_reading_slot = True
        entries = partial(self._entries_of, opening, self._files.log.unwritten())
        self._in_thread(entries, partial(self._have_slot, opening))

    def _entries_of(self, opening: Opening, unwritten: Unwritten) -> tuple[Opened, list[str]]:
        """Return the entries of a slot, and the keys of messages that are taken back; runs in a thread."""
        found = gather(opening.slot, self._files.log.chain(opening.last, unwritten), self._settings.timer_precision_ms)
        keys = []
        for marker in found.markers:
            message = self._store.message_at(marker.commit_log_offset, marker.size)
            key = None if message is None else message.property_map.get(PropertyName.TIMER_DEL_UNIQKEY)
            if key is not None:
                keys.append(key)
        return found, keys

    def _have_slot(self, opening: Opening, result: tuple[Opened, list[str]] | Failed) -> None:
        self._is_reading_slot = False
        if isinstance(result, Failed):
            log.error("timer slot not read", slot=opening.slot, error=repr(result.error))
            if self._running:
                self._reactor.callLater(RETRY_MS / 1000, self._read_again, opening)
        else:
            self._is_opening = False
            self._schedule.opened(*result)
            if self._running:
                self._look_now()
        self._tell_stopped()

    def _read_again(self, opening: Opening) -> None:
        if self._running:
            self._read_slot(opening)

    def _look_now(self) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._look()

    # --- messages go ---------------------------------------------------------------------------------------------

    def _deliver(self, batch: list[NearTimer]) -> None:
        if not batch:
            return
        self._in_flight += len(batch)
        store = self._store
        messages = [store.message_now(timer.commit_log_offset, timer.size) for timer in batch]
        if None not in messages:
            self._have_messages(batch, messages)
            return

        def read() -> list[StoredMessage | None]:
            return [
                store.message_at(timer.commit_log_offset, timer.size) if message is None else message
                for timer, message in zip(batch, messages, strict=True)
            ]

        self._in_thread(read, partial(self._have_messages, batch))

    def _have_messages(self, batch: list[NearTimer], messages: list[StoredMessage | None] | Failed) -> None:
        now_ms = self._clock()
        if isinstance(messages, Failed) or not self._running:
            if isinstance(messages, Failed):
                log.error("timer messages not read", messages=len(batch), error=repr(messages.error))
            for timer in batch:
                self._again(timer, now_ms + RETRY_MS if self._running else now_ms)
            self._tell_stopped()
            return
        for timer, message in zip(batch, messages, strict=True):
            outgoing = None if message is None else self._what_goes(timer, message, now_ms)
            if outgoing is None:
                if message is None:
                    log.error("timer message cannot be read, given up", commit_log_offset=timer.commit_log_offset)
                self._in_flight -= 1
                self._schedule.done(timer, 0)
            elif timer.kind & TimerKind.ROLL and not is_rolled_marker(timer.kind) and self.is_full:
                self._again(timer, now_ms + RETRY_MS)  # it can wait longer where it is
            else:
                self._schedule.begin(timer, self._store.stored_end)
                self._store.append(outgoing, partial(self._stored, timer))
        self._sleep(now_ms)
        self._tell_stopped()

    def _what_goes(self, timer: NearTimer, message: StoredMessage, now_ms: int) -> OutgoingMessage | None:
        """Return the message to store for a due message; None if nothing is stored."""
        if timer.kind & TimerKind.ROLL:
            topic = message.property_map.get(PropertyName.REAL_TOPIC, "")
            return rolled(message, now_ms, is_deleted=self._is_deleted(topic, first_place(message)))
        if PropertyName.TIMER_DEL_UNIQKEY in message.property_map:
            return None
        keys = delete_keys(message.property_map, topic_in_key=self._settings.append_topic_for_timer_delete_key)
        if self._schedule.is_taken_back(timer, keys):
            return None
        outgoing = delivered(message, now_ms)
        if outgoing is None:
            log.error("timer message without a real topic dropped", commit_log_offset=timer.commit_log_offset)
        else:
            outgoing.queue_id = self._delivery_queue(outgoing.topic, outgoing.queue_id, first_place(message))
        return outgoing

    def _stored(self, timer: NearTimer, result: PutResult) -> None:
        if result.status.is_stored:
            self._in_flight -= 1
            self._schedule.done(timer, result.commit_log_offset + result.size)
            self.delivered += 1
            self._retry_told = False
        elif result.status.is_final:
            self._in_flight -= 1
            self.given_up += 1
            log.error(
                "timer message given up",
                offset=timer.commit_log_offset,
                topic=result.topic,
                message_id=result.message.property_map.get(PropertyName.UNIQ_KEY, ""),
                status=result.status.name,
            )
            self._schedule.done(timer, 0)
        else:
            if not self._retry_told:
                log.error("timer message not stored", offset=timer.commit_log_offset, status=result.status.name)
                self._retry_told = True
            self._again(timer, self._clock() + RETRY_MS)
        if self._in_flight == IN_FLIGHT - 1 or is_rolled_marker(timer.kind):
            self._sleep(self._clock())
        self._tell_stopped()

    def _again(self, timer: NearTimer, due_ms: int) -> None:
        self._in_flight -= 1
        self._schedule.again(timer, due_ms)
        if self._running and is_rolled_marker(timer.kind):
            self._reactor.callLater(RETRY_MS / 1000, self._go_on)

    def _go_on(self) -> None:
        self._schedule.is_paused = False
        if self._running:
            self._look_now()
