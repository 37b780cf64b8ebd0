"""Offsets of queues as JSON: in options and in Spark's checkpoints.

An offset is always the next one to read, so the end of a range is exclusive. Spark compares the offsets of a stream as
text, and a text with its keys in another order would look like new messages. Therefore all JSON is written here in one
order and has whole numbers only.

A checkpoint is ``{"away":{…},"base":{…},"e":{"broker-a":"<store id>"},"lives":{…},"more":{…},
"q":{"topic":{"broker-a":{"0":6}}},"v":2}``.

``base`` is where the stream began. Spark does not store the first offset of a stream, and asks for the offset again
when it repeats the first batch after a crash. So the end of the first batch carries ``base``, which takes precedence
over what Spark says. ``away`` has the offsets of queues that the stream goes on without: a queue that comes back is
read from its offset on. ``more`` has the ends of queues that had more messages than the batch read. ``lives`` has the
first offset of each queue and the time when its first message was stored: both tell a queue from one that was created
again.

``away``, ``base``, ``lives`` and ``more`` are left out if they are empty. Builds that do not know ``lives`` yet also
leave ``lives`` out, and the next batch of a newer build adds the lives. Version 1 had neither ``away`` nor ``more``;
version 1 is still read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from gateway.client.message_queue import MessageQueue
from gateway.spark.errors import CheckpointRefused, OptionRefused

V = TypeVar("V")

QueueNumbers: TypeAlias = Mapping[MessageQueue, int]
"""An offset or a time for each queue."""

EARLIEST: Final = -2
LATEST: Final = -1
NOTHING_STORED: Final = -1
"""The storing time, in place of a real one, for a queue without messages."""
VERSION: Final = 2
"""The version of the checkpoint that is written. Checkpoints are on disk: never change what a version means."""
_OLDEST_VERSION: Final = 1
_MAX_OFFSET: Final = 2**63 - 1
_SHAPE: Final = '{"topic":{"broker":{"0":23,"1":-1}}}'


@dataclass(frozen=True, slots=True)
class Life:
    """The facts that tell a queue from another queue of the same name in the same store.

    :param begin: the first offset of the queue; asked before ``stored_at_ms``.
    :param stored_at_ms: when the first message of the queue was stored, epoch milliseconds.
    """

    begin: int
    stored_at_ms: int

    def is_other_than(self, before: Life) -> bool:
        """Return whether the queue was created again after ``before`` was noted.

        Retention can take the first message of a queue, so that the queue begins later. A queue without messages proves
        nothing.
        """
        if self.begin == before.begin:
            return NOTHING_STORED not in (self.stored_at_ms, before.stored_at_ms) and self != before
        return self.begin < before.begin and self.stored_at_ms != NOTHING_STORED


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The progress of a stream.

    :param offsets: the next offset to read of each queue.
    :param stores: the id of each broker's store, for brokers that report one.
    :param base: where the stream began, as long as no batch after the first one is planned.
    :param away: the next offset to read of each queue that the stream goes on without.
    :param more: the ends of the queues that had more messages than the batch read; None: not written down (version 1).
    :param lives: what tells each queue from one that was created again, as far as the brokers were asked.
    """

    offsets: QueueNumbers
    stores: Mapping[str, str] = field(default_factory=dict)
    base: QueueNumbers | None = None
    away: QueueNumbers = field(default_factory=dict)
    more: QueueNumbers | None = field(default_factory=dict)
    lives: Mapping[MessageQueue, Life] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document, with its keys in the one fixed order."""
        document: dict[str, Any] = {}
        if self.away:
            document["away"] = offsets_to_json(self.away)
        if self.base is not None:
            document["base"] = offsets_to_json(self.base)
        document["e"] = dict(sorted(self.stores.items()))
        if self.lives:
            document["lives"] = _by_queue(
                {queue: [life.begin, life.stored_at_ms] for queue, life in self.lives.items()}
            )
        if self.more:
            document["more"] = offsets_to_json(self.more)
        document["q"] = offsets_to_json(self.offsets)
        document["v"] = VERSION
        return document

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Checkpoint:
        """Read what ``to_json`` wrote.

        :raises CheckpointRefused: the checkpoint has another version, or is not ours.
        """
        version = document.get("v") if isinstance(document, Mapping) else None
        if version not in (_OLDEST_VERSION, VERSION):
            raise CheckpointRefused(
                f"the checkpoint has version {version!r}, this source knows versions {_OLDEST_VERSION} and {VERSION}: "
                f"it was written by a newer one, or by another source. Use that one, or another checkpointLocation"
            )
        try:
            base = document.get("base")
            return cls(
                offsets=_numbers(document["q"], least=0),
                stores={str(name): str(store) for name, store in document.get("e", {}).items()},
                base=None if base is None else _numbers(base, least=0),
                away=_numbers(document.get("away", {}), least=0),
                more=None if version == _OLDEST_VERSION else _numbers(document.get("more", {}), least=0),
                lives={queue: _life(value) for queue, value in _entries(document.get("lives", {}))},
            )
        except (KeyError, AttributeError, ValueError) as error:
            raise CheckpointRefused(f"the checkpoint cannot be read: {error!r} in {document!r}") from error


def offsets_to_json(offsets: QueueNumbers) -> dict[str, dict[str, dict[str, int]]]:
    """Return topic → broker → queue → number, sorted as text."""
    return _by_queue({queue: int(offset) for queue, offset in offsets.items()})


def _by_queue(values: Mapping[MessageQueue, V]) -> dict[str, dict[str, dict[str, V]]]:
    document: dict[str, dict[str, dict[str, V]]] = {}
    for queue in sorted(values, key=lambda queue: (queue.topic, queue.broker_name, str(queue.queue_id))):
        brokers = document.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = values[queue]
    return document


def parse_offsets(option: str, text: str, *, least: int = EARLIEST) -> dict[MessageQueue, int]:
    """Return the numbers of an option, ``{"topic":{"broker":{"0":23,"1":-1}}}``.

    :param least: −2 for options that allow −2 (earliest) and −1 (latest), 0 for times.
    :raises OptionRefused: the text is not JSON or has another shape, or a number is out of range.
    """
    try:
        return _numbers(_json(text), least=least)
    except ValueError as error:
        raise OptionRefused(f"{option}: {error}; it takes JSON like {_SHAPE}") from error


def parse_assignment(option: str, text: str) -> tuple[MessageQueue, ...]:
    """Return the queues of an option, ``{"topic":{"broker":[0,1]}}``, sorted.

    :raises OptionRefused: the text is not JSON, has another shape or names no queue.
    """
    queues: set[MessageQueue] = set()
    try:
        for topic, brokers in _members("the whole", _json(text)):
            for broker, numbers in _members(f"topic {topic!r}", brokers):
                if not isinstance(numbers, list):
                    raise ValueError(f"{topic!r}, {broker!r} has {numbers!r} and not a list of queue numbers")
                queues.update(MessageQueue(topic, broker, _whole(number, 0, 2**31 - 1)) for number in numbers)
    except ValueError as error:
        raise OptionRefused(f'{option}: {error}; it takes JSON like {{"topic":{{"broker":[0,1]}}}}') from error
    if not queues:
        raise OptionRefused(f"{option} names no queue")
    return tuple(sorted(queues))


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return members


def _numbers(document: Any, *, least: int) -> dict[MessageQueue, int]:
    return {queue: _whole(number, least, _MAX_OFFSET) for queue, number in _entries(document)}


def _entries(document: Any) -> Iterator[tuple[MessageQueue, Any]]:
    """Return each queue of a document with its value."""
    for topic, brokers in _members("the whole", document):
        for broker, queues in _members(f"topic {topic!r}", brokers):
            for queue_id, value in _members(f"{topic!r}, {broker!r}", queues):
                if not (queue_id.isascii() and queue_id.isdecimal()):
                    raise ValueError(f"{queue_id!r} is no queue number")
                yield MessageQueue(topic, broker, int(queue_id)), value


def _life(value: Any) -> Life:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{value!r} is not where a queue begins, and since when")
    return Life(_whole(value[0], 0, _MAX_OFFSET), _whole(value[1], NOTHING_STORED, _MAX_OFFSET))


def _members(what: str, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {value!r} and not an object")
    return list(value.items())


def _whole(number: Any, least: int, most: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise ValueError(f"{number!r} is no whole number from {least} to {most}")
    return number
