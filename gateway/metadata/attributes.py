"""Attributes of topics and groups: the change syntax of tools, and the accepted values.

    +message.type=FIFO,-reserve.time        add or alter, remove

In the lists that tools send (requests 18 and 200), such changes are a map: ``{"+message.type": "FIFO"}``. Upstream:
``AttributeParser`` and ``AttributeUtil``, ``TopicAttributes``, ``SubscriptionGroupAttributes``. Values for a kind of
queue or of clean-up that this broker does not have are refused, not stored and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from gateway.errors import RequestRefused
from gateway.metadata import lite_attributes as lite
from gateway.metadata.message_types import MESSAGE_TYPE, MIXED, TOPIC_TYPES
from wire.codes import ResponseCode

MAX_CHANGES_CHARACTERS = 4_096
QUEUE_TYPE, BATCH_QUEUES = "queue.type", "BatchCQ"
PRIORITY_FACTOR = "priority.factor"
"""The attribute that says how many of 100 pops read the highest priority first, for a topic of type PRIORITY."""
DEFAULT_PRIORITY_FACTOR = 100
_INTEGER = re.compile(r"-?[0-9]{1,19}")

Change = tuple[str, str | None]
"""A name and its new value; the value None means "remove"."""


class Attribute(msgspec.Struct, frozen=True):
    """One attribute: which values it accepts, and whether an existing topic or group may change it."""

    accepts: Callable[[str], bool]
    expected: str
    mutable: bool


def _one_of(*values: str) -> Callable[[str], bool]:
    return frozenset(values).__contains__


def _whole(least: int, most: int) -> Callable[[str], bool]:
    return lambda value: _INTEGER.fullmatch(value) is not None and least <= int(value) <= most


def _truth(value: str) -> bool:
    return value.lower() in ("true", "false")


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    MESSAGE_TYPE: Attribute(_one_of(*TOPIC_TYPES), f"{', '.join(TOPIC_TYPES[:-1])} or {TOPIC_TYPES[-1]}", mutable=True),
    "reserve.time": Attribute(_whole(-1, (1 << 63) - 1), "milliseconds, or -1", mutable=True),
    "cleanup.policy": Attribute(_one_of("DELETE"), "DELETE (this broker does not compact)", mutable=False),
    QUEUE_TYPE: Attribute(_one_of("SimpleCQ", BATCH_QUEUES), f"SimpleCQ or {BATCH_QUEUES}", mutable=False),
    lite.EXPIRATION: Attribute(
        _whole(-1, lite.MAX_EXPIRATION_MINUTES), f"minutes up to {lite.MAX_EXPIRATION_MINUTES}, or -1", mutable=True
    ),
}
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {
    PRIORITY_FACTOR: Attribute(_whole(0, 100), "an integer from 0 to 100", mutable=True),
    lite.BIND_TOPIC: Attribute(bool, "the name of a topic", mutable=True),
    lite.MODEL: Attribute(_one_of(lite.SHARED, lite.EXCLUSIVE), f"{lite.SHARED} or {lite.EXCLUSIVE}", mutable=True),
    lite.RESET_EXCLUSIVE: Attribute(_truth, "true or false", mutable=True),
    lite.RESET_UNSUBSCRIBE: Attribute(_truth, "true or false", mutable=True),
    lite.CLIENT_QUOTA: Attribute(_whole(-1, (1 << 63) - 1), "a number, or -1 for any", mutable=True),
    lite.MAX_EVENT_COUNT: Attribute(_whole(10, (1 << 63) - 1), "a number from 10", mutable=True),
    lite.WILDCARD: Attribute(bool, "any text", mutable=True),
}


def changed_attributes(
    current: Mapping[str, str],
    changes: str | Mapping[str, str],
    *,
    is_new: bool,
    known: Mapping[str, Attribute] = TOPIC_ATTRIBUTES,
    mixed_allowed: bool = True,
) -> dict[str, str]:
    """Return the attributes after a change.

    :param changes: the request's text or map; empty changes nothing. A name without a sign in a map is added or
        altered.
    :param is_new: True if nothing exists yet: everything may be set and nothing removed.
    :param known: the possible attributes.
    :param mixed_allowed: whether a topic may be of the type MIXED (enableMixedMessageType).
    :raises RequestRefused: INVALID_PARAMETER, with the part that is wrong.
    """
    attributes = dict(current)
    named: set[str] = set()
    for part, (name, value) in _of_text(changes) if isinstance(changes, str) else _of_map(changes):
        attribute = known.get(name)
        if attribute is None:
            raise _refused(part, f"known are {', '.join(sorted(known))}")
        if name in named:
            raise _refused(part, "it is named twice")
        named.add(name)
        if value is None:
            if is_new:
                raise _refused(part, "what is new has nothing to remove")
            attributes.pop(name, None)
            continue
        if not attribute.accepts(value):
            raise _refused(part, f"expected {attribute.expected}")
        if not mixed_allowed and (name, value) == (MESSAGE_TYPE, MIXED):
            raise _refused(part, "MIXED message type is not supported (enableMixedMessageType=false)")
        if not is_new and not attribute.mutable and attributes.get(name, value) != value:
            raise _refused(part, "it cannot change on an existing topic")
        attributes[name] = value
    return attributes


def priority_factor(attributes: Mapping[str, str]) -> int:
    """Return a group's ``priority.factor``; the default if the value in the file is missing or not a number."""
    text = attributes.get(PRIORITY_FACTOR, "")
    return int(text) if _INTEGER.fullmatch(text) else DEFAULT_PRIORITY_FACTOR


def has_batch_queues(attributes: Mapping[str, str]) -> bool:
    """Return whether each batch of a topic with these attributes is stored as one record."""
    return attributes.get(QUEUE_TYPE) == BATCH_QUEUES


def _of_text(changes: str) -> Iterable[tuple[str, Change]]:
    if len(changes) > MAX_CHANGES_CHARACTERS:
        raise _refused(changes[:32], f"the text has more than {MAX_CHANGES_CHARACTERS} characters")
    for part in filter(None, (part.strip() for part in changes.split(","))):
        yield part, _parsed(part)


def _of_map(changes: Mapping[str, str]) -> Iterable[tuple[str, Change]]:
    for key, value in changes.items():
        if key.startswith("-"):
            yield key, (key[1:].strip(), None)
        else:
            yield key, (key.removeprefix("+").strip(), str(value).strip())


def _parsed(part: str) -> Change:
    name, equals, value = part[1:].partition("=")
    if part.startswith("+") and name and equals:
        return name.strip(), value.strip()
    if part.startswith("-") and name and not equals:
        return name.strip(), None
    raise _refused(part, "expected +name=value or -name")


def _refused(part: str, reason: str) -> RequestRefused:
    return RequestRefused(ResponseCode.INVALID_PARAMETER, f"attribute {part!r}: {reason}")
