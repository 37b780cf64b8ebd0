"""A message with a delay: where it waits, and which message it becomes when its time has come.

Pure, after upstream's ``HookUtils.transformDelayLevelMessage`` and ``ScheduleMessageService.messageTimeUp``: delayed
messages wait in SCHEDULE_TOPIC_XXXX, with one queue for each level and with their real place in two properties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from gateway.errors import GatewayError
from gateway.metadata.names import HALF_TOPIC, SCHEDULE_TOPIC, topic_name_fault
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage, StoredMessage, restated
from wire.message.topic_prefixes import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"(\d{1,9})([smhd])")


class DelayLevels(msgspec.Struct, frozen=True):
    """The delays of levels 1, 2, …, in milliseconds.

    A level above the last one waits as long as the last one; level 0 and below means "now", as upstream.
    """

    delays_ms: Sequence[int]

    @classmethod
    def parse(cls, text: str) -> DelayLevels:
        """Parse ``1s 5s 10s 1m 2h``: numbers with the units s, m, h or d, separated by spaces.

        :raises GatewayError: there is no level, or a level is not a number with a unit.
        """
        delays = []
        for word in text.split():
            match = _LEVEL.fullmatch(word)
            if match is None:
                raise GatewayError(
                    f"messageDelayLevel: {word!r} is not a delay; write a number and s, m, h or d, like 10s"
                )
            delays.append(int(match[1]) * _UNITS_MS[match[2]])
        if not delays:
            raise GatewayError("messageDelayLevel: needs at least one delay, like 1s 5s 10s")
        return cls(tuple(delays))

    @property
    def last(self) -> int:
        """The highest level."""
        return len(self.delays_ms)

    def clip(self, level: int) -> int:
        """Return the level, limited to 0 … last; a negative level becomes 0, which means "now"."""
        return max(0, min(level, self.last))

    def delay_ms(self, level: int) -> int:
        """Return how long level 1 … last waits, in milliseconds; levels above the last wait as long as the last."""
        return self.delays_ms[min(level, self.last) - 1]


MAX_QUEUE_ID_DIGITS = 9
"""The most digits of a queue id, which is a signed 32-bit number in a record; real ones are far smaller."""

_JAVA_INT = re.compile(r"([+-]?)0*+([0-9]{0,10})(?<=[0-9])")

TIMER_PROPERTIES = (
    PropertyName.TIMER_DELAY_SEC,
    PropertyName.TIMER_DELAY_MS,
    PropertyName.TIMER_DELIVER_MS,
)


def delay_level(properties: Mapping[str, str]) -> int | None:
    """Return the delay level that a message asks for; 0 if none, None if it is not a number as Java reads one."""
    text = properties.get(PropertyName.DELAY)
    if not text:
        return 0
    match = _JAVA_INT.fullmatch(text)
    if match is None:
        return None
    level = int(f"{match[1]}0{match[2]}")  # without the other zeros: int() refuses thousands of digits
    return level if -(2**31) <= level < 2**31 else None


def schedule_queue_id(level: int) -> int:
    """Return the queue of the schedule topic in which a level waits."""
    return level - 1


def delay_level_of_queue(queue_id: int) -> int:
    """Return the level that waits in a queue of the schedule topic."""
    return queue_id + 1


DeliveryQueue: TypeAlias = Callable[[str, int, int], int]
"""A function that returns the queue for a message: of its topic, the queue that it names, and its place in the log."""


def the_same_queue(_topic: str, queue_id: int, _log_offset: int) -> int:
    """Return the queue that a message names; used if the number of the topic's read queues is unknown."""
    return queue_id


def redirect_delayed(message: OutgoingMessage, levels: DelayLevels) -> OutgoingMessage:
    """Return the message as it waits: in the schedule topic, with its real topic and queue as properties."""
    level = levels.clip(delay_level(message.property_map) or 0)
    properties = dict(message.property_map)
    for name in TIMER_PROPERTIES:  # the level wins
        properties.pop(name, None)
    properties[PropertyName.DELAY] = str(level)
    properties[PropertyName.REAL_TOPIC] = message.topic
    properties[PropertyName.REAL_QID] = str(message.queue_id)
    return restated(message, SCHEDULE_TOPIC, schedule_queue_id(level), build_properties(properties), properties)


def released(waiting: StoredMessage) -> OutgoingMessage | None:
    """Return the message as it is delivered after its delay, or None if its real place is missing or not allowed.

    The properties stay as they are, including the level and the real place: clients show the level.
    """
    properties = waiting.property_map
    topic = properties.get(PropertyName.REAL_TOPIC)
    queue_id = properties.get(PropertyName.REAL_QID, "")
    if not topic or topic == HALF_TOPIC or not queue_id.isdecimal() or len(queue_id) > MAX_QUEUE_ID_DIGITS:
        return None
    return restated(waiting, topic, int(queue_id), waiting.properties, properties)


def dead_letter(refused: OutgoingMessage) -> OutgoingMessage | None:
    """Return a released message that its topic can never take, for the dead letters of its group.

    The result is None for a message that is no retry, because no group is known, and if the group's name is too long.
    A dead letter leaves out the real place and so is smaller than the message that waited.
    """
    topic = DEAD_LETTER_TOPIC_PREFIX + refused.topic.removeprefix(RETRY_TOPIC_PREFIX)
    if not refused.topic.startswith(RETRY_TOPIC_PREFIX) or topic_name_fault(topic) is not None:
        return None
    properties = {**refused.property_map, PropertyName.DELAY: "0"}
    for name in (PropertyName.REAL_TOPIC, PropertyName.REAL_QID):
        properties.pop(name, None)
    return restated(refused, topic, 0, build_properties(properties), properties)
