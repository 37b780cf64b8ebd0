"""The offsets of consumer groups: the next message of each queue.

Upstream: ``ConsumerOffsetManager`` and its file ``consumerOffset.json``. The keys of the file, ``topic@group``, are the
keys of the table, too. Commits change memory only; the file follows every few seconds and at a stop, as in upstream.
After a kill a group therefore reads messages of a few seconds again; no message is skipped.

With light queues (``enableLmq``) the file is ``lmqConsumerOffset.json``, as in upstream's ``LmqConsumerOffsetManager``.
The file holds all offsets, with a table of their own for groups that are named like light queues. The offsets survive a
change of ``enableLmq``: the file with the later version is read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.errors import RequestRefused
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.member_resets import MemberResets, Row
from gateway.metadata.names import group_name_fault, topic_name_fault
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.json_file import JsonFile
from gateway.metadata.saved.saved_table import FILE_DEPTH, KnownTexts, SavedTable, next_version
from gateway.metadata.saved.write_behind import Saved
from gateway.metadata.unread_queues import UnreadQueues
from gateway.shares import Shares
from wire.bodies.topics import DataVersion
from wire.codes import ResponseCode
from wire.disk.config_json import ConsumerOffsetsFile
from wire.message.light_queues import LIGHT_QUEUE_ID, is_light_queue

if TYPE_CHECKING:
    from gateway.clock import Milliseconds

MAX_OFFSETS = 2_000_000
"""The number of kept offsets: groups times the queues they consume. One group gets a share of them."""
PAIRS_PER_TURN = 10_000
"""The pairs of topic and group that one step of a search looks at, about a millisecond."""
NOT_KNOWN = -1
APPLIED_END = "gatewayAppliedEnd"
"""The name of ``applied_end`` in the file; Apache brokers drop it. Never change: it is on disk."""
RESETS = "gatewayResets"
"""The name of ``resets`` in the file; Apache brokers drop it. Never change: it is on disk."""
MEMBER_RESETS = "gatewayMemberResets"
"""The name of ``member_resets`` in the file; Apache brokers drop it. Never change: it is on disk."""
MAX_RESETS = 100_000
"""The number of reset queues whose consumers do not know the new offset yet; beyond it the oldest are forgotten."""
LIGHT_TABLE = "lmqOffsetTable"
LIGHT_FILE_NAME = "lmqConsumerOffset.json"
SEPARATOR = "@"
"""The character between topic and group in a key; neither may contain it. Never change: it is on disk."""
BROADCAST_ENDING = "@broadcast"
"""The end of the group's part of a key in which Apache RocketMQ keeps the offset of a broadcasting group."""


def saved_offsets(path: Path, disk: ConfigDisk | None = None) -> ConsumerOffsetsFile | None:
    """Return the last saved offsets, from ``consumerOffset.json`` (``path``) or the light queues' file beside it.

    :raises GatewayError: there is a file, but neither the file nor its backup can be read.
    """
    files = [JsonFile(file, disk).load(ConsumerOffsetsFile.parse) for file in (path, path.with_name(LIGHT_FILE_NAME))]
    found = [content for content in files if content is not None]
    return max(found, key=lambda content: content.data_version.timestamp, default=None)


def sound_offsets(
    table: Mapping[str, Mapping[int, int]], is_topic: Callable[[str], bool]
) -> tuple[dict[str, dict[int, int]], int]:
    """Return those offsets of another broker's table that a broker can have, and how many others there are.

    :param is_topic: whether a topic exists here: the broker's own ones may have names that no client may give.
    """
    sound: dict[str, dict[int, int]] = {}
    others = 0
    for key, queues in table.items():
        topic, _, group = key.partition(SEPARATOR)
        group = group.removesuffix(BROADCAST_ENDING)
        if (topic_name_fault(topic) is None or is_light_queue(topic) or is_topic(topic)) and (
            group_name_fault(group) is None or is_light_queue(group)
        ):
            kept = {queue: offset for queue, offset in queues.items() if 0 <= queue < 1 << 31 and offset >= 0}
            others += len(queues) - len(kept)
            if kept or not queues:
                sound[key] = kept
        else:
            others += max(len(queues), 1)
    return sound, others


def _light_offsets(table: object) -> dict[str, dict[int, int]]:
    """Return the offsets of groups named like light queues, in the form of the other offsets."""
    if not isinstance(table, dict):
        return {}
    return {key: {LIGHT_QUEUE_ID: offset} for key, offset in table.items() if isinstance(offset, int)}


def _parsed_resets(rows: object) -> dict[tuple[str, str, int], int]:
    """Return the reset queues of the file, which has rows of group, topic, queue and offset."""
    try:
        found = msgspec.convert(rows or [], list[tuple[str, str, int, int]])
    except msgspec.ValidationError:
        return {}
    return {(group, topic, queue_id): offset for group, topic, queue_id, offset in found}


def _parsed_member_resets(rows: object) -> list[Row]:
    """Return the reset queues of broadcasting members, from the file's rows."""
    try:
        return msgspec.convert(rows or [], list[Row])
    except msgspec.ValidationError:
        return []


class ConsumerOffsets(SavedTable[ConsumerOffsetsFile]):
    """The offset of the next message, by group, topic and queue.

    :param path: ``config/consumerOffset.json`` of the data directory.
    :param light_queues: whether light queues are on (``enableLmq``).
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
        self._added = 0  # how often a key was added
        self.resets: dict[tuple[str, str, int], int] = {}
        """The offset of each queue that was reset and whose consumer does not know the offset yet, by group, topic and
        queue id. Saved with the table, because consumers outlive a restart of the broker."""
        self.member_resets = MemberResets(MAX_RESETS, self._writer.touch)
        """The reset offsets for the members of broadcasting groups; each member has to learn the offset."""
        self.applied_end = 0
        """The commit log offset up to which offsets from the log (of pops) are in the table; -1 if it is unknown."""
        self.unread = UnreadQueues()
        """The queues that may have messages for a group, in topics with very many queues; new offsets are noted."""
        self._version = DataVersion(timestamp=clock_ms())
        self._extra: Mapping[str, Any] = {}

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Remember the next offset of a queue; it may be lower than before.

        :return: False if the offset is ignored, because the queue is in ``resets``.
        :raises RequestRefused: SYSTEM_BUSY, this would be one offset more than the share of the group.
        """
        if self.resets and (group, topic, queue_id) in self.resets:
            return False
        self._put(group, topic, queue_id, offset)
        return True

    def keep(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember an offset like ``commit``, but never refuse: for the broker's own offsets, such as a pop's end."""
        if not self.resets or (group, topic, queue_id) not in self.resets:
            self._put(group, topic, queue_id, offset, is_own=True)

    def reset(self, group: str, topic: str, queue_id: int, offset: int, members: Sequence[str] = ()) -> None:
        """Set a queue to an offset against its consumer's will: a pull from another offset is sent to the new one.

        :param members: client ids of a broadcasting group, one for each connection: each member is sent to the new
            offset.
        :raises RequestRefused: as ``commit`` does.
        """
        self._put(group, topic, queue_id, offset)
        if members:
            self.member_resets.remember((group, topic, queue_id), offset, members)
        else:
            self._remember_reset((group, topic, queue_id), offset)

    def decide(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember the offset that an operator wants; if the queue is in ``resets``, consumers are sent to this offset.

        :raises RequestRefused: as ``commit`` does.
        """
        if not self.commit(group, topic, queue_id, offset):
            self.reset(group, topic, queue_id, offset)
        self._writer.owe()

    def persist_owed(self, saved: Saved) -> None:
        """Do ``persist``, but write nothing if only commits came since the last write.

        Whoever deletes what does not exist must not have the whole table written each time.
        """
        self._writer.save_owed(saved)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that a queue was reset to, once.

        Return None if the queue was not reset, or if its consumer already knows the offset.
        """
        offset = self.resets.pop((group, topic, queue_id), None)
        if offset is not None:
            self._writer.dirty = True
        return offset

    def follow_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset like ``take_reset``, and make it the group's offset.

        The reset replaces any offset that was committed before the consumer was notified.
        """
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
        if queues is None:
            self._added += 1
        if queues is None or key not in self._own:
            queues = self._table[key] = {} if queues is None else queues.copy()
            self._own.add(key)
        queues[queue_id] = offset
        self.unread.touch(key, queue_id)
        self._writer.dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the next offset of a queue; -1 if the group never committed one."""
        queues = self._table.get(f"{topic}{SEPARATOR}{group}")
        return NOT_KNOWN if queues is None else queues.get(queue_id, NOT_KNOWN)

    def begin_of(self, group: str, topic: str, queue_id: int) -> int:
        """Return where a consumer of a queue starts: the next offset, or the start of a remade topic; -1 if unknown."""
        offset = self.query(group, topic, queue_id)
        return self.resets.get((group, topic, queue_id), NOT_KNOWN) if offset < 0 else offset

    def of_topic(self, group: str, topic: str) -> dict[int, int]:
        """Return a group's offsets in a topic by queue; empty if there are none."""
        return dict(self._table.get(f"{topic}{SEPARATOR}{group}", {}))

    def all(self) -> Mapping[str, Mapping[int, int]]:
        """Return every offset by ``topic@group`` and queue id. The result is a view: later commits change it."""
        return MappingProxyType(self._table)

    def copy(self) -> dict[str, dict[int, int]]:
        """Return a copy of ``all``. Later commits change offsets in it too, but add no pair of topic and group."""
        return self._table.copy()

    @property
    def data_version(self) -> DataVersion:
        """The version of the table, which rises with every write of the file."""
        return self._version

    def topics_of(self, group: str) -> Generator[None, None, list[str]]:
        """Find the topics in which a group has offsets, in the steps of a ``Work``; return them sorted."""
        end = f"{SEPARATOR}{group}"
        pairs = yield from self._find(lambda key: key.endswith(end))
        return sorted(topic for topic, owner in pairs if owner == group)

    def groups_of(self, topic: str) -> Generator[None, None, list[str]]:
        """Find the groups that have offsets in a topic, in the steps of a ``Work``; return them sorted."""
        start = f"{topic}{SEPARATOR}"
        pairs = yield from self._find(lambda key: key.startswith(start))
        return sorted(group for _, group in pairs)

    def groups_by_topic(self, is_wanted: Callable[[str], bool]) -> Generator[None, None, dict[str, list[str]]]:
        """Do ``groups_of`` for all topics that are wanted."""
        pairs = yield from self._find(lambda key: is_wanted(key.partition(SEPARATOR)[0]))
        groups: dict[str, list[str]] = {}
        for topic, group in sorted(pairs):
            groups.setdefault(topic, []).append(group)
        return groups

    def _find(self, is_wanted: Callable[[str], bool]) -> Generator[None, None, list[tuple[str, str]]]:
        """Return topic and group of the wanted keys that are in the table when the search ends; in steps."""
        keys, found = list(self._table), dict[str, None]()
        while keys:
            added = self._added
            for first in range(0, len(keys), PAIRS_PER_TURN):
                if first:
                    yield
                found.update(dict.fromkeys(filter(is_wanted, keys[first : first + PAIRS_PER_TURN])))
            keys = list(islice(reversed(self._table), self._added - added))  # the newest, which are the last
        parts = (key.partition(SEPARATOR) for key in found if key in self._table)
        return [(topic, group) for topic, _, group in parts]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield every pair of a group and a topic in which the group has offsets; the table may change meanwhile."""
        for key in list(self._table):
            topic, _, group = key.partition(SEPARATOR)
            yield group, topic

    def follow(self, master: Mapping[str, Mapping[int, int]], applied_end: int = NOT_KNOWN) -> None:
        """Become the table of a master, in the form of ``all``; an offset may be lower than before.

        :param applied_end: the master's ``applied_end``.
        :raises RequestRefused: SYSTEM_BUSY, the master has more offsets than fit here; nothing is changed.
        """
        if sum(map(len, master.values())) > self._shares.total:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"the master has more than {self._shares.total} offsets")
        self.applied_end = applied_end
        moved = {key: queues for key, queues in master.items() if self._table.get(key) != queues}
        self._remove([key for key in self._table if key in moved or key not in master])
        for key, queues in moved.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in queues.items():
                self._put(group, topic, queue_id, offset, is_own=True)

    def remove(self, group: str, topic: str) -> None:
        """Forget a group's offsets in a topic."""
        key = f"{topic}{SEPARATOR}{group}"
        if key in self._table:
            self._remove([key])

    def forget_topic(
        self, topic: str, groups: Sequence[str], subscribers: Mapping[str, Sequence[str]], queue_count: int
    ) -> None:
        """Forget every group's offsets in a deleted topic, and reset what their consumers remember of the topic.

        A topic that is made again with this name has other messages at these offsets. So each group that read the
        topic, or subscribes to it, begins at the start of the new topic. Until its consumers have been notified, the
        offsets that they pull and commit are those of the deleted topic.

        :param groups: all groups that have offsets in the topic.
        :param subscribers: groups with connected consumers, which may have committed nothing yet; for a broadcasting
            group with the client ids of its members, one for each connection.
        :param queue_count: the number of queues that the topic had.
        """
        self._writer.owe()
        read = [(group, queue_id) for group in groups for queue_id in self.of_topic(group, topic)]
        self._remove([f"{topic}{SEPARATOR}{group}" for group in groups])
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

    def remove_group(self, group: str) -> Generator[None, None, None]:
        """Forget a group's offsets in every topic; the search takes steps, as a ``Work``, and its end forgets all."""
        topics = yield from self.topics_of(group)
        self._remove([f"{topic}{SEPARATOR}{group}" for topic in topics])
        for key in [key for key in self.resets if key[0] == group]:
            del self.resets[key]
            self._writer.owe()
        if self.member_resets.forget(group):
            self._writer.owe()

    def load(self) -> None:
        """Read the last saved offsets; blocks, so call this only before the broker serves.

        :raises GatewayError: there is a file, but neither the file nor its backup can be read.
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
            self._writer.owe()
