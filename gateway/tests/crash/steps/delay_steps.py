"""Steps of messages that wait: delay levels, timer messages and what takes them back."""

from __future__ import annotations

from functools import partial

from gateway.schedule.redirect import redirect_delayed
from gateway.schedule.timer_message import delete_keys, placed_timed
from gateway.store.put_result import PutResult
from gateway.tests.crash.disk.image import NO_LIMIT
from gateway.tests.crash.messages import QUEUES
from gateway.tests.crash.small_broker import LEVELS, TIMERS
from gateway.tests.crash.stage import Stage, Steps
from wire.message.properties import PropertyName
from wire.message.record import OutgoingMessage

ROLLED_AFTER_MS = 3_000
"""Timer messages that are due later may be rolled, and what takes them back."""


class DelaySteps(Steps):
    """Producers that want a message later, and the time that passes meanwhile."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._timed_waiting: list[OutgoingMessage] = []

    def delayed(self) -> None:
        message = self._stage.message(self._random.choice(QUEUES))
        message.property_map = {**message.property_map, PropertyName.DELAY: str(self._random.randint(1, LEVELS.last))}
        waiting = redirect_delayed(message, LEVELS)
        self._stage.allow(waiting)
        self._stage.allow(message)
        self._broker.store.append(waiting, self._delay_stored)

    def _delay_stored(self, result: PutResult) -> None:
        waiting = self._stage.stored_aside(result)
        if waiting is None:
            return
        queue_id, offset = result.queue_id, result.queue_offset
        self._stage.fact(lambda ledger: ledger.delay(queue_id, offset, waiting))

    def timed(self) -> None:
        message = self._stage.message(self._random.choice(QUEUES))
        due_ms = self._clock() + self._random.randint(1, 9_000)
        message.property_map = {**message.property_map, PropertyName.TIMER_DELIVER_MS: str(due_ms)}
        waiting = placed_timed(message, self._clock(), TIMERS, waiting_in=lambda _: 0, random_below=lambda _: 0)
        self._stage.allow(waiting)
        self._stage.allow(message)
        self._broker.store.append(waiting, self._timer_stored)

    def _timer_stored(self, result: PutResult) -> None:
        waiting = self._stage.stored_aside(result)
        if waiting is None:
            return
        self._stage.fact(lambda ledger: ledger.wait_for_time(result.queue_offset, waiting))
        self._timed_waiting.append(result.message)

    def recall(self) -> None:
        """A timer message that is never rolled is taken back, as it can be until its second begins."""
        self._take_back(ROLLED_AFTER_MS)

    def recall_any(self) -> None:
        """One that may be rolled, too."""
        self._take_back(NO_LIMIT)

    def _take_back(self, longest_ms: int) -> None:
        now_ms = self._clock()
        self._timed_waiting = [waiting for waiting in self._timed_waiting if _recall_until_ms(waiting) > now_ms]
        soon = [waiting for waiting in self._timed_waiting if _due_ms(waiting) - waiting.born_at_ms <= longest_ms]
        if not soon:
            return
        waiting = soon[self._random.randrange(len(soon))]
        self._timed_waiting.remove(waiting)
        key = self._random.choice(
            delete_keys(waiting.property_map, topic_in_key=TIMERS.append_topic_for_timer_delete_key)
        )
        marker = self._stage.message(self._random.choice(QUEUES))
        marker.property_map = {
            PropertyName.TIMER_DEL_UNIQKEY: key,
            PropertyName.TIMER_DELIVER_MS: str(_recall_until_ms(waiting)),
        }
        placed = placed_timed(marker, now_ms, TIMERS, waiting_in=lambda _: 0, random_below=lambda _: 0)
        self._stage.allow(placed)
        self._stage.fact(lambda ledger: ledger.take_back(waiting.body))
        self._broker.store.append(placed, partial(self._recalled, waiting))

    def _recalled(self, waiting: OutgoingMessage, result: PutResult) -> None:
        self._stage.stored(result)
        if result.status.is_stored and self._clock() < _due_ms(waiting):
            end = result.commit_log_offset + result.size
            self._stage.fact(lambda ledger: ledger.take_back(waiting.body, end))

    def save_timers(self) -> None:
        self._broker.save_timers()

    def tick(self) -> None:
        """Let some of the time until the next timer message pass."""
        milliseconds = self._random.choice((1, 40, 300, 1_000))
        self._stage.let_pass(milliseconds)
        self._broker.reactor.advance(milliseconds / 1_000)

    def persist_delays(self) -> None:
        self._broker.delay_offsets.persist()

    def wait(self) -> None:
        """Time for delays to end, and for checks."""
        seconds = self._random.choice((1, 2, 5))
        self._stage.let_pass(1_000 * seconds)
        self._broker.reactor.advance(seconds)


def _due_ms(waiting: OutgoingMessage) -> int:
    """Return when a timer message is due."""
    return int(waiting.property_map[PropertyName.TIMER_DELIVER_MS])


def _recall_until_ms(waiting: OutgoingMessage) -> int:
    """Before this it can be taken back: the time that its handle says."""
    return int(waiting.property_map[PropertyName.TIMER_OUT_MS]) + 1
