"""A topic's attributes: the change syntax of tools, and which values are taken.

    +message.type=FIFO,-reserve.time        add or alter, remove

Upstream: ``AttributeParser`` and ``TopicAttributes``. Values that would need a kind of queue or of clean-up
this broker does not have are refused, not stored and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.errors import RequestRefused
from wire.codes import ResponseCode

MAX_CHANGES_CHARACTERS = 4_096
_INTEGER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: what a value must be, and whether an existing topic may change it."""

    accepts: Callable[[str], bool]
    expected: str
    mutable: bool


def _one_of(*values: str) -> Callable[[str], bool]:
    return frozenset(values).__contains__


ATTRIBUTES: Mapping[str, Attribute] = {
    "message.type": Attribute(
        _one_of("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"),
        "UNSPECIFIED, NORMAL, FIFO, DELAY, TRANSACTION or MIXED",
        mutable=True,
    ),
    "reserve.time": Attribute(
        lambda value: _INTEGER.fullmatch(value) is not None and -1 <= int(value) < 1 << 63,
        "milliseconds, or -1",
        mutable=True,
    ),
    "cleanup.policy": Attribute(_one_of("DELETE"), "DELETE (this broker does not compact)", mutable=False),
    "queue.type": Attribute(_one_of("SimpleCQ"), "SimpleCQ (this broker has no batch queues)", mutable=False),
}


def changed_attributes(current: Mapping[str, str], changes: str, *, is_new: bool) -> dict[str, str]:
    """The attributes after a change.

    :param changes: the request's text; empty changes nothing.
    :param is_new: the topic does not exist yet, so everything may be set and nothing removed.
    :raises RequestRefused: INVALID_PARAMETER, with the part that is wrong.
    """
    if len(changes) > MAX_CHANGES_CHARACTERS:
        raise _refused(changes[:32], f"the text has more than {MAX_CHANGES_CHARACTERS} characters")
    attributes = dict(current)
    named: set[str] = set()
    for part in filter(None, (part.strip() for part in changes.split(","))):
        name, value = _parsed(part)
        attribute = ATTRIBUTES.get(name)
        if attribute is None:
            raise _refused(part, f"known are {', '.join(sorted(ATTRIBUTES))}")
        if name in named:
            raise _refused(part, "it is named twice")
        named.add(name)
        if value is None:
            if is_new:
                raise _refused(part, "a new topic has nothing to remove")
            attributes.pop(name, None)
            continue
        if not attribute.accepts(value):
            raise _refused(part, f"expected {attribute.expected}")
        if not is_new and not attribute.mutable and attributes.get(name, value) != value:
            raise _refused(part, "it cannot change on an existing topic")
        attributes[name] = value
    return attributes


def _parsed(part: str) -> tuple[str, str | None]:
    """Name and new value; None for "remove"."""
    name, equals, value = part[1:].partition("=")
    if part.startswith("+") and name and equals:
        return name.strip(), value.strip()
    if part.startswith("-") and name and not equals:
        return name.strip(), None
    raise _refused(part, "expected +name=value or -name")


def _refused(part: str, reason: str) -> RequestRefused:
    return RequestRefused(ResponseCode.INVALID_PARAMETER, f"attribute {part!r}: {reason}")
