"""A group's progress: in memory, and in a store at the brokers, or in a local file if every member reads everything.

    <directory>/<client ip>@<instance>/<group>/offsets.json        {"offsetTable":{{"brokerName":…}:5}}

The file has the form of upstream's ``LocalFileOffsetStore``: Java consumers read our files, and we read theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.client.connect.answers import header_of
from gateway.client.errors import BrokerError, RocketMQError
from gateway.client.message_queue import MessageQueue
from wire.bodies.declare import JsonObject, field
from wire.bodies.fastjson import build_pretty_json
from wire.bodies.message_queue import MessageQueue as QueueKey
from wire.codes import RequestCode, ResponseCode
from wire.errors import BodyError
from wire.headers.offsets import QueryConsumerOffsetRequest, QueryConsumerOffsetResponse, UpdateConsumerOffsetRequest

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance

_log = logging.getLogger(__name__)

# The topic or the group is gone, or the queue was set elsewhere (the next pull says so): nothing is to be tried again.
_OVERRULED: Final = (
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.PULL_OFFSET_MOVED,
)

_FILE: Final = "offsets.json"
# Characters of an address that Windows does not allow in names.
_UNSAFE: Final = str.maketrans(dict.fromkeys('<>:"/\\|?*', "_"))


class _OffsetFile(JsonObject):
    """The content of the file (upstream ``OffsetSerializeWrapper``)."""

    offset_table: Mapping[QueueKey, int] = field(default_factory=dict)


def offsets_path(directory: str, client: str, group: str) -> Path:
    """Return the path of a group's file on this machine.

    :param client: ``ip@instance``; must be the same after a restart, otherwise the offsets are not found.
    """
    return Path(directory).expanduser() / client.translate(_UNSAFE) / group.translate(_UNSAFE) / _FILE


def parse_offsets(text: bytes) -> dict[MessageQueue, int]:
    """Return the offsets in the text of a file.

    :raises BodyError: the text is not from such a file.
    """
    table = _OffsetFile.parse(text).offset_table
    return {MessageQueue(key.topic, key.broker_name, key.queue_id): offset for key, offset in table.items()}


def build_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the text of a file with these offsets."""
    table = {QueueKey(*queue): offset for queue, offset in offsets.items()}
    return build_pretty_json(_OffsetFile(table).to_json())


class OffsetTable:
    """The next offset to consume in each queue."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._changed: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue, None if the table does not have the queue."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Note that a queue is consumed up to an offset; an offset below the known one changes nothing."""
        if offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset
            self._changed.add(queue)

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Set an offset, forwards or backwards."""
        if offset != self._offsets.get(queue):
            self._offsets[queue] = offset
            self._changed.add(queue)

    def learn(self, queue: MessageQueue, offset: int) -> None:
        """Take an offset from the store; the offset need not be stored again."""
        self._offsets[queue] = offset
        self._changed.discard(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Remove a queue that now belongs to another member."""
        self._offsets.pop(queue, None)
        self._changed.discard(queue)

    def take_changed(self, queues: Collection[MessageQueue] | None = None) -> dict[MessageQueue, int]:
        """Return the offsets to store, of all or of some queues; from now on they count as stored."""
        taken = self._changed if queues is None else self._changed.intersection(queues)
        offsets = {queue: self._offsets[queue] for queue in sorted(taken)}
        self._changed = self._changed - taken
        return offsets

    def put_back(self, queue: MessageQueue) -> None:
        """Mark a queue's offset to be stored again, after storing has failed."""
        if queue in self._offsets:
            self._changed.add(queue)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets of a topic, or all offsets if the name is empty."""
        return {queue: offset for queue, offset in self._offsets.items() if not topic or queue.topic == topic}


class BrokerOffsets:
    """Offsets kept at the broker of each queue (14, 15)."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Return the stored offset, None if no offset is stored.

        :raises RocketMQError: the offset could not be read.
        """
        header = QueryConsumerOffsetRequest(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id)
        answer = await self._instance.ask(
            queue.broker_name,
            RequestCode.QUERY_CONSUMER_OFFSET,
            header,
            expect=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )
        if answer.code != ResponseCode.SUCCESS:
            return None
        offset = header_of(QueryConsumerOffsetResponse, answer, f"broker {queue.broker_name}").offset
        return offset if offset >= 0 else None

    async def store(self, offsets: Mapping[MessageQueue, int], *, confirm: bool) -> list[MessageQueue]:
        """Store offsets; return the queues for which that failed. Failures are logged.

        :param confirm: wait until the offsets are known to be stored.
        """
        outcomes = await asyncio.gather(*(self._store(queue, offsets[queue], confirm) for queue in offsets))
        return [queue for queue, stored in zip(offsets, outcomes, strict=True) if not stored]

    async def _store(self, queue: MessageQueue, offset: int, confirm: bool) -> bool:
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        try:
            if confirm:
                await self._instance.ask(queue.broker_name, RequestCode.UPDATE_CONSUMER_OFFSET, header)
            else:
                address = self._instance.address_of(queue.broker_name)
                await self._instance.remoting.oneway(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        except RocketMQError as error:
            if isinstance(error, BrokerError) and error.code in _OVERRULED:
                _log.warning("group %s: offset %d of %s was refused: %s", self._group, offset, queue, error)
                return True
            _log.warning("group %s: offset %d of %s was not stored: %s", self._group, offset, queue, error)
            return False
        return True


class LocalOffsets:
    """Offsets in a file of this machine, in the Java client's format.

    If the file is missing or cannot be read, its ``.bak`` is read; without both, the store counts as empty. Unreadable
    files stay on disk, so that you can look at them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backup = path.with_name(path.name + ".bak")
        self._known: dict[MessageQueue, int] | None = None
        self._writing = asyncio.Lock()

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Return the stored offset, None if no offset is stored."""
        return (await self._load()).get(queue)

    async def store(self, offsets: Mapping[MessageQueue, int], *, confirm: bool) -> list[MessageQueue]:  # noqa: ARG002
        """Store offsets as ``BrokerOffsets.store`` does; the whole file is replaced."""
        if not offsets:
            return []
        async with self._writing:
            known = await self._load()
            known.update(offsets)
            try:
                await asyncio.to_thread(self._write, build_offsets(known))
            except OSError as error:
                _log.error("offsets were not written to %s: %s", self._path, error)
                return list(offsets)
        return []

    async def _load(self) -> dict[MessageQueue, int]:
        if self._known is None:
            self._known = await asyncio.to_thread(self._read)
        return self._known

    def _read(self) -> dict[MessageQueue, int]:
        for path in (self._path, self._backup):
            with contextlib.suppress(FileNotFoundError):
                try:
                    return parse_offsets(path.read_bytes())
                except (BodyError, OSError) as error:
                    _log.warning("offsets in %s cannot be read: %s", path, error)
        return {}

    def _write(self, text: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(self._path.name + ".tmp")
        with new.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if self._path.exists():
            self._path.replace(self._backup)
        new.replace(self._path)
