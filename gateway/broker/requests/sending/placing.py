"""The place of a sent message: whether it may go to its topic, which queue gets it, and where it waits before.

Only decisions are here: everything that they need of the broker is an argument, and nothing is looked up, stored or
created. Codes and remarks follow upstream's ``SendMessageProcessor`` and ``HookUtils``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from gateway.access.needs import topic_needs
from gateway.delivery.retry import dead_letter_topic
from gateway.errors import RequestRefused
from gateway.metadata.message_types import PRIORITY, priority_of, type_of_message
from gateway.metadata.names import NOT_ALLOWED_SEND_TOPICS
from gateway.remoting.declared import PUB
from gateway.remoting.dispatch import Request
from gateway.schedule.redirect import TIMER_PROPERTIES, delay_level
from gateway.schedule.timer_message import wants_timer
from gateway.transaction.records.half_messages import refuse_reason
from wire.bodies.topics import TopicConfig
from wire.codes import ResponseCode
from wire.message.flags import Permission
from wire.message.light_queues import (
    MAX_NAME_CHARACTERS,
    is_light_queue,
    lite_queue,
    room_for_offsets,
    wanted_queues,
)
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, build_properties
from wire.message.record import OutgoingMessage

MAX_LIGHT_QUEUES: Final = 1024
"""The number of light queues that one message may name: each takes a file and a unit."""
PLACING: Final = frozenset({PropertyName.TRAN_MSG, PropertyName.DELAY, *TIMER_PROPERTIES})
"""The properties that send a message to another place; most messages have none of them and go where they are sent."""


class StoredIn(Enum):
    """The place where a message is stored at first."""

    ITS_TOPIC = "its topic"
    HALF_TOPIC = "the topic of half messages"
    SCHEDULE_TOPIC = "the topic of delay levels"
    TIMER_TOPIC = "the topic of timer messages"


def refuse_system_topic(name: str) -> None:
    """Refuse the name of a topic to which clients must not send.

    :raises RequestRefused: NO_PERMISSION: clients must not send to this system topic.
    """
    if name in NOT_ALLOWED_SEND_TOPICS:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"sending message to topic[{name}] is forbidden: system topic")


def check_light_queues(request: Request, properties: Mapping[str, str]) -> None:
    """Look at the light queues that a message names: each takes a file, and the sender must be allowed to send there.

    :raises RequestRefused: MESSAGE_ILLEGAL, the message names more than ``MAX_LIGHT_QUEUES``; or the sender may not
        send to one of them.
    """
    names = wanted_queues(properties)
    if len(names) > MAX_LIGHT_QUEUES:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL, f"the message names {len(names)} light queues, at most {MAX_LIGHT_QUEUES} go"
        )
    if request.caller is not None:
        for name in names:
            if is_light_queue(name):
                request.require(*topic_needs(name, PUB))


def check_room_for_offsets(waiting: OutgoingMessage) -> None:
    """Refuse a waiting message that could not come to its topic: there it gets its offsets in its light queues.

    Such a message of a delay level would hold up all later ones of its level.

    :raises RequestRefused: MESSAGE_ILLEGAL: its properties have no room for the offsets.
    """
    room = room_for_offsets(waiting.property_map)
    if room and len(waiting.properties) + room > MAX_PROPERTIES_BYTES:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message properties take {len(waiting.properties)} bytes, and {room} more for the offsets in its "
            f"light queues: they are over {MAX_PROPERTIES_BYTES} bytes",
        )


def refuse_order(topic: TopicConfig, name: str, broker_permission: int) -> None:
    """Refuse an ordered topic while the broker's permission lacks WRITE.

    :raises RequestRefused: NO_PERMISSION: the topic is ordered, and the broker lacks WRITE.
    """
    if topic.order and not broker_permission & Permission.WRITE:
        raise RequestRefused(
            ResponseCode.NO_PERMISSION, f"sending message to ordered topic[{name}] is forbidden (brokerPermission)"
        )


def queue_of(message: OutgoingMessage, topic: TopicConfig, random_below: Callable[[int], int]) -> int:
    """Return the id of the queue that a message goes to, which is a queue that consumers can read.

    A negative queue id asks for any queue that can be both read and written; such a queue is chosen at random.

    :raises RequestRefused: INVALID_PARAMETER: there is no such queue; SYSTEM_ERROR: nobody could read the message.
    """
    queue_id, readable = message.queue_id, topic.read_queue_nums
    queues = max(readable, topic.write_queue_nums)
    if queue_id >= queues:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{queue_id}] is illegal, topic[{message.topic}] has {queues} queues",
        )
    if 0 <= queue_id < readable:
        return queue_id
    usable = min(readable, topic.write_queue_nums)
    if queue_id < 0 < usable:
        return random_below(usable)
    raise RequestRefused(
        ResponseCode.SYSTEM_ERROR,
        f"nobody could read a message sent to queueId[{queue_id}] of topic[{message.topic}]: "
        f"its readQueueNums is {readable}, its writeQueueNums {topic.write_queue_nums}",
    )


def put_into_lite_topic(message: OutgoingMessage, *, fills_light_queues: bool) -> None:
    """Add the lite topic that a message to a parent of lite topics names, so that the message goes there, too.

    :raises RequestRefused: MESSAGE_ILLEGAL: lite topics are off, or no lite topic can have this name.
    """
    properties = message.property_map
    lite_topic = properties[PropertyName.LITE_TOPIC]
    if not lite_topic:
        return
    queue = lite_queue(message.topic, lite_topic)
    if not fills_light_queues:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL, "there are no lite topics without enableLmq and enableMultiDispatch"
        )
    if not is_light_queue(queue):
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the lite topic {lite_topic[:64]!r} of {message.topic} has a name that no lite topic can have: "
            f"letters, digits and %|_$- are allowed, {MAX_NAME_CHARACTERS} in all",
        )
    properties[PropertyName.INNER_MULTI_DISPATCH] = queue
    message.properties = build_properties(properties)


def put_by_priority(message: OutgoingMessage, topic: TopicConfig) -> None:
    """Give a message the queue that stands for its priority.

    The message's type decides, and not its topic's type, as upstream. A message of another type loses the property.
    """
    properties = message.property_map
    priority = priority_of(properties)
    if priority < 0:
        return
    if type_of_message(properties) != PRIORITY:
        del properties[PropertyName.PRIORITY]
        message.properties = build_properties(properties)
        return
    queues = min(topic.read_queue_nums, topic.write_queue_nums)
    if queues > 0:
        message.queue_id = min(priority, queues - 1)


def put_to_dead_letters(message: OutgoingMessage, group: str) -> None:
    """Redirect a message to the dead letters of a group, without a delay."""
    properties = message.property_map
    properties[PropertyName.DELAY] = "-1"
    message.topic = dead_letter_topic(group)
    message.queue_id = 0
    message.properties = build_properties(properties)


def place_of(message: OutgoingMessage, *, takes_halves: bool) -> StoredIn:
    """Return the place where a message is stored, as its properties ask.

    :param takes_halves: whether the broker takes transactional messages.
    :raises RequestRefused: the delay level is not a number, or the broker cannot take the half message.
    """
    properties = message.property_map
    if PLACING.isdisjoint(properties):
        return StoredIn.ITS_TOPIC
    level = delay_level(properties)
    if level is None:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"the delay level of a message is a number, not {properties[PropertyName.DELAY][:32]!r}",
        )
    is_half = (properties.get(PropertyName.TRAN_MSG) or "").lower() == "true"
    if is_half and not (message.reconsume_times > 0 and level > 0):
        if not takes_halves:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                "the broker sends no transaction messages (rejectTransactionMessage=true)",
            )
        reason = refuse_reason(properties)
        if reason is not None:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, reason)
        return StoredIn.HALF_TOPIC
    if level > 0:
        return StoredIn.SCHEDULE_TOPIC
    return StoredIn.TIMER_TOPIC if wants_timer(message) else StoredIn.ITS_TOPIC
