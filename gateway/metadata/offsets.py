"""How far each consumer group has come in each queue.

Upstream: ``ConsumerOffsetManager`` and its file ``consumerOffset.json``, whose keys ``topic@group`` are the
table's too. Commits change memory only; the file follows every few seconds and at stop, as upstream. After a
kill a group therefore reads a few seconds' messages again; none is skipped.

Where there are light queues (``enableLmq``) the file is ``lmqConsumerOffset.json``, as upstream's
``LmqConsumerOffsetManager`` has it: all offsets, those of groups called as light queues in a table of their own.
Offsets survive a change of that setting here: of the two files the one with the later version is read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.errors import RequestRefused
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.member_resets import MemberResets, Row
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.data_versions import next_version
from gateway.metadata.saved.json_file import JsonFile
from gateway.metadata.saved.known_texts import FILE_DEPTH, KnownTexts
from gateway.metadata.saved.saved_table import SavedTable
from gateway.metadata.unread_queues import UnreadQueues
from gateway.shares import Shares
from wire.bodies.topics import DataVersion
from wire.codes import ResponseCode
from wire.disk.config_json import ConsumerOffsetsFile
from wire.message.light_queues import LIGHT_QUEUE_ID, is_light_queue

if TYPE_CHECKING:
    from gateway.clock import Milliseconds

MAX_OFFSETS = 2_000_000
"""Offsets kept: groups times the queues they consume. One group gets a share of them."""
NOT_KNOWN = -1
APPLIED_END = "gatewayAppliedEnd"
"""Name of ``applied_end`` in the file; Apache brokers drop it. Never change: it is on disk."""
RESETS = "gatewayResets"
"""Name of ``resets`` in the file; Apache brokers drop it. Never change: it is on disk."""
MEMBER_RESETS = "gatewayMemberResets"
"""Name of ``member_resets`` in the file; Apache brokers drop it. Never change: it is on disk."""
MAX_RESETS = 100_000
"""Queues set elsewhere whose consumers do not know it yet; of more, the oldest are forgotten."""
LIGHT_TABLE = "lmqOffsetTable"
LIGHT_FILE_NAME = "lmqConsumerOffset.json"
SEPARATOR = "@"
"""Between topic and group in a key; neither may contain it. Never change: it is on disk."""


def saved_offsets(path: Path, disk: ConfigDisk | None = None) -> ConsumerOffsetsFile | None:
    """What was saved last, in ``consumerOffset.json`` (``path``) or in the file of light queues beside it.

    :raises GatewayError: there is a file but neither it nor its backup can be read.
    """
    files = [JsonFile(file, disk).load(ConsumerOffsetsFile.parse) for file in (path, path.with_name(LIGHT_FILE_NAME))]
    found = [content for content in files if content is not None]
    return max(found, key=lambda content: content.data_version.timestamp, default=None)


def _light_offsets(table: object) -> dict[str, dict[int, int]]:
    """The offsets of groups called as light queues, kept as the others are."""
    if not isinstance(table, dict):
        return {}
    return {key: {LIGHT_QUEUE_ID: offset} for key, offset in table.items() if isinstance(offset, int)}


def _parsed_resets(rows: object) -> dict[tuple[str, str, int], int]:
    """The queues set elsewhere, as the file has them: rows of group, topic, queue and offset."""
    try:
        found = msgspec.convert(rows or [], list[tuple[str, str, int, int]])
    except msgspec.ValidationError:
        return {}
    return {(group, topic, queue_id): offset for group, topic, queue_id, offset in found}


def _parsed_member_resets(rows: object) -> list[Row]:
    """The same for members of broadcasting groups."""
    try:
        return msgspec.convert(rows or [], list[Row])
    except msgspec.ValidationError:
        return []


class ConsumerOffsets(SavedTable[ConsumerOffsetsFile]):
    """The offset of the next message, by group, topic and queue.

    :param path: ``config/consumerOffset.json`` of the data directory.
    :param light_queues: whether there are any (``enableLmq``).
    :param in_thread: runs the writes; the default writes at once, for tools and tests.
    """

    def __init__(
        self,
        *,
        path: Path,
        light_queues: bool = False,
        clock_ms: Milliseconds,
        in_thread: InThread = in_this_thread,
        max_offsets: int = MAX_OFFSETS,
        disk: ConfigDisk | None = None,
    ) -> None:
        own_path = path.with_name(LIGHT_FILE_NAME) if light_queues else path
        super().__init__(own_path, ConsumerOffsetsFile.parse, in_thread, disk)
        self._ordinary_path = path
        self._light_queues = light_queues
        self._disk = disk
        self._clock_ms = clock_ms
        self._shares: Shares[str] = Shares(max_offsets)
        self._table: dict[str, dict[int, int]] = {}
        self._texts = KnownTexts(FILE_DEPTH)
        # Keys whose queues are in no copy of the table and may be changed; those of others are replaced.
        self._own: set[str] = set()
        self.resets: dict[tuple[str, str, int], int] = {}
        """Queues set elsewhere whose consumer does not know it yet: group, topic and queue to offset. Saved with the
        table: consumers outlive a restart of the broker."""
        self.member_resets = MemberResets(MAX_RESETS, self._writer.touch)
        """The same for members of broadcasting groups, each of which is told."""
        self.applied_end = 0
        """What the log says of offsets (pops) is in the table up to here; -1 when nobody knows."""
        self.unread = UnreadQueues()
        """Which queues of topics with very many may have something for a group; told of every offset that changes."""
        self._version = DataVersion(timestamp=clock_ms())
        self._extra: Mapping[str, Any] = {}

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Remember the next offset of a queue; it may also go back.

        :return: False if the offset is ignored, because the queue is in ``resets``.
        :raises RequestRefused: SYSTEM_BUSY, this would be one offset more than the share of the group.
        """
        if self.resets and (group, topic, queue_id) in self.resets:
            return False
        self._put(group, topic, queue_id, offset)
        return True

    def keep(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The same for what the broker itself has to know, such as where a pop ended: never refused."""
        if not self.resets or (group, topic, queue_id) not in self.resets:
            self._put(group, topic, queue_id, offset, is_own=True)

    def reset(self, group: str, topic: str, queue_id: int, offset: int, members: Sequence[str] = ()) -> None:
        """Set a queue to an offset against its consumer's will: the next pull elsewhere is sent there.

        :param members: client ids of a broadcasting group, one for each connection: each member is sent there.
        :raises RequestRefused: as ``commit``.
        """
        self._put(group, topic, queue_id, offset)
        if members:
            self.member_resets.remember((group, topic, queue_id), offset, members)
        else:
            self._remember_reset((group, topic, queue_id), offset)

    def decide(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember the offset that an operator wants; in a queue of ``resets`` it is where consumers are sent.

        :raises RequestRefused: as ``commit``.
        """
        if not self.commit(group, topic, queue_id, offset):
            self.reset(group, topic, queue_id, offset)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset that a queue was set to, told once; None when it was not, or its consumer already knows it."""
        offset = self.resets.pop((group, topic, queue_id), None)
        if offset is not None:
            self._writer.dirty = True
        return offset

    def follow_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The same, and from now on it is the group's offset, whatever was committed before its consumer was told."""
        offset = self.take_reset(group, topic, queue_id)
        if offset is not None:
            self.keep(group, topic, queue_id, offset)
        return offset

    def _remember_reset(self, key: tuple[str, str, int], offset: int) -> None:
        self.resets.pop(key, None)  # the newest is the last
        self.resets[key] = offset
        group, topic, queue_id = key
        self.unread.touch(f"{topic}{SEPARATOR}{group}", queue_id)
        while len(self.resets) > MAX_RESETS:
            del self.resets[next(iter(self.resets))]
        self._writer.dirty = True

    def _put(self, group: str, topic: str, queue_id: int, offset: int, is_own: bool = False) -> None:
        key = f"{topic}{SEPARATOR}{group}"
        queues = self._table.get(key)
        if queues is None or queue_id not in queues:
            if not is_own and not self._shares.has_room(group):
                raise RequestRefused(
                    ResponseCode.SYSTEM_BUSY, self._shares.refusal(group, f"consumer offsets of group {group}")
                )
            self._shares.add(group)
        if queues is None or key not in self._own:
            queues = self._table[key] = {} if queues is None else queues.copy()
            self._own.add(key)
        queues[queue_id] = offset
        self.unread.touch(key, queue_id)
        self._writer.dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset of a queue, -1 when the group never committed one."""
        queues = self._table.get(f"{topic}{SEPARATOR}{group}")
        return NOT_KNOWN if queues is None else queues.get(queue_id, NOT_KNOWN)

    def begin_of(self, group: str, topic: str, queue_id: int) -> int:
        """Where a consumer of a queue begins: the next offset, or the start of a topic made again; -1: nobody knows."""
        offset = self.query(group, topic, queue_id)
        return self.resets.get((group, topic, queue_id), NOT_KNOWN) if offset < 0 else offset

    def of_topic(self, group: str, topic: str) -> dict[int, int]:
        """A group's offsets in a topic by queue; empty when there are none."""
        return dict(self._table.get(f"{topic}{SEPARATOR}{group}", {}))

    def all(self) -> Mapping[str, Mapping[int, int]]:
        """Every offset: ``topic@group`` to queue to offset; a view that changes with the table."""
        return MappingProxyType(self._table)

    @property
    def data_version(self) -> DataVersion:
        """Rises with every write of the file."""
        return self._version

    def topics_of(self, group: str) -> list[str]:
        """The topics in which a group has offsets, sorted."""
        end = f"{SEPARATOR}{group}"
        found = (key.partition(SEPARATOR) for key in self._table if key.endswith(end))
        return sorted(topic for topic, _, owner in found if owner == group)

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have offsets in a topic, sorted."""
        start = f"{topic}{SEPARATOR}"
        return sorted(key[len(start) :] for key in self._table if key.startswith(start))

    def pairs(self) -> list[tuple[str, str]]:
        """Every group with each topic in which it has offsets."""
        parts = (key.partition(SEPARATOR) for key in self._table)
        return [(group, topic) for topic, _, group in parts]

    def remove(self, group: str, topic: str) -> None:
        """Forget a group's offsets in a topic."""
        key = f"{topic}{SEPARATOR}{group}"
        if key in self._table:
            self._remove([key])

    def remove_topic(self, topic: str) -> None:
        """Forget every group's offsets in a topic."""
        self.remove_topics((topic,))

    def remove_topics(self, topics: Container[str]) -> None:
        """Forget every group's offsets in some topics."""
        self._remove([key for key in self._table if key.partition(SEPARATOR)[0] in topics])

    def forget_topic(self, topic: str, subscribers: Mapping[str, Sequence[str]], queue_count: int) -> None:
        """Forget every group's offsets in a topic that is deleted, and what their consumers remember of it.

        A topic of this name that is made again has other messages at these offsets. Each group that read the topic, or
        subscribes to it, begins at the start of the new one: the offsets that its consumers pull and commit until they
        were told so are those of the topic that is gone.

        :param subscribers: groups with consumers that are connected; they may have committed nothing yet. With the
            client ids of the members of a broadcasting group, one for each connection.
        :param queue_count: the queues that the topic had.
        """
        read = [(group, queue_id) for group in self.groups_of(topic) for queue_id in self.of_topic(group, topic)]
        self.remove_topic(topic)
        self.member_resets.begin_anew(topic)
        attached = ((group, queue_id) for group in subscribers for queue_id in range(queue_count))
        room = MAX_RESETS
        for group, queue_id in islice(chain(read, attached), MAX_RESETS):
            members = subscribers.get(group)
            if members:
                room -= len(members)
                if room < 0:
                    continue  # groups whose members share the queues need none of this room
                self.member_resets.remember((group, topic, queue_id), 0, members)
            else:
                self._remember_reset((group, topic, queue_id), 0)

    def remove_group(self, group: str) -> None:
        """Forget a group's offsets in every topic."""
        end = f"{SEPARATOR}{group}"
        self._remove([key for key in self._table if key.endswith(end) and key.partition(SEPARATOR)[2] == group])
        for key in [key for key in self.resets if key[0] == group]:
            del self.resets[key]
        self.member_resets.forget(group)

    def load(self) -> None:
        """Read what was saved last; blocks, so only before the broker serves.

        :raises GatewayError: there is a file but neither it nor its backup can be read.
        """
        content = saved_offsets(self._ordinary_path, self._disk)
        if content is not None:
            self._restore(content)

    def _restore(self, content: ConsumerOffsetsFile) -> None:
        self._table.update({key: dict(queues) for key, queues in content.offset_table.items()})
        self._version = content.data_version
        self._extra = dict(content.extra)
        self._table.update(_light_offsets(self._extra.pop(LIGHT_TABLE, None)))
        self.resets.update(_parsed_resets(self._extra.pop(RESETS, None)))
        self.member_resets.restore(_parsed_member_resets(self._extra.pop(MEMBER_RESETS, None)))
        applied_end = content.extra.get(APPLIED_END, -1)
        self.applied_end = applied_end if isinstance(applied_end, int) else -1
        for key, queues in self._table.items():
            if queues:
                self._shares.add(key.partition(SEPARATOR)[2], len(queues))

    def _frozen(self) -> Callable[[], bytes]:
        self._version = version = next_version(self._version, self._clock_ms())
        table, self._own = self._table.copy(), set()  # of a hundred thousand only those are copied that change later
        extra = {**self._extra, APPLIED_END: self.applied_end}
        if self.resets:
            extra[RESETS] = [[*key, offset] for key, offset in self.resets.items()]
        if self.member_resets.waiting:
            extra[MEMBER_RESETS] = self.member_resets.rows()
        if self._light_queues:
            light = [key for key in table if is_light_queue(key.partition(SEPARATOR)[2])]
            extra[LIGHT_TABLE] = {key: table.pop(key).get(LIGHT_QUEUE_ID, 0) for key in light}
        return lambda: ConsumerOffsetsFile(self._texts.of(table), version, extra).build()

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            queues = self._table.pop(key)
            self.unread.forget(key)
            topic, _, group = key.partition(SEPARATOR)
            if queues:
                self._shares.give_back(group, len(queues))
            if self.resets:
                for queue_id in queues:
                    self.resets.pop((group, topic, queue_id), None)
        if keys:
            self._writer.touch()
