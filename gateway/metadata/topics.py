"""The topics of this broker: their queues, permissions and flags.

Upstream: ``TopicConfigManager`` and its file ``topics.json``, which upstream and gateway both read and write. A change
takes effect at once and raises the data version. A thread writes the file. Listeners are notified, for example to
register with the name servers. The store knows which queues hold messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import structs

from gateway.errors import RequestRefused
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata import names
from gateway.metadata.lite_attributes import is_parent
from gateway.metadata.named_configs import CLIENTS, NOBODY, Makers, NamedConfigs
from gateway.metadata.queue_count import QueueCount
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.json_file import JsonFile
from gateway.metadata.saved.saved_table import FILE_DEPTH, KnownTexts, next_version
from gateway.telemetry.logs import EventLog
from wire.bodies.topics import MAX_QUEUES, DataVersion, TopicConfig, TopicConfigTable
from wire.codes import ResponseCode
from wire.disk.config_json import TopicsFile
from wire.errors import LayoutError
from wire.message.flags import Permission
from wire.message.light_queues import is_light_queue
from wire.message.topic_prefixes import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX

if TYPE_CHECKING:
    from gateway.clock import Milliseconds
    from gateway.settings.broker import BrokerSettings

MAX_TOPICS = 100_000
"""The number of topics of one broker, including retry and dead-letter topics.

A host gets a share of the topics that are made automatically.
"""
BENCHMARK_QUEUES = 1_024
CLUSTER_TOPIC_QUEUES = 16
SCHEDULE_QUEUES = 18
"""The queues of the schedule topic: one for each of upstream's default delay levels; further levels add queues."""

Changed = Callable[[], None]

NO_TOPICS: Final[Mapping[str, TopicConfig]] = MappingProxyType({})
"""A table without topics."""

log = EventLog("topics")


class Topics(NamedConfigs[TopicsFile, TopicConfig]):
    """All topics by name.

    :param path: ``config/topics.json`` of the data directory.
    :param in_thread: runs the writes; the default writes at once, for tools and tests.
    """

    def __init__(
        self,
        *,
        path: Path,
        settings: BrokerSettings,
        clock_ms: Milliseconds,
        in_thread: InThread = in_this_thread,
        max_topics: int = MAX_TOPICS,
        disk: ConfigDisk | None = None,
    ) -> None:
        super().__init__(path, _parsed, clock_ms, Makers(max_topics, "topics"), in_thread, disk)
        self._settings = settings
        self._queues = QueueCount(self._table)
        self._texts = KnownTexts(FILE_DEPTH)
        self._listeners: list[Changed] = []
        self._own_system_topics = _own_system_topics(settings)
        self._announced_permission = settings.broker_permission

    def settings_changed(self) -> None:
        """Follow changed settings: a changed brokerPermission raises the version, which name servers compare."""
        self.create_system_topics()  # autoCreateTopicEnable needs one of its own
        if self._announced_permission != self._settings.broker_permission:
            self._announced_permission = self._settings.broker_permission
            self._changed()

    # -- reading --------------------------------------------------------------------------------------------

    def get(self, topic: str) -> TopicConfig | None:
        """Return the topic's configuration, or None. A light queue is a topic with one queue if ``enableLmq`` is on."""
        config = self._table.get(topic)
        if config is None and self._settings.enable_lmq and is_light_queue(topic):
            return TopicConfig(topic, 1, 1, Permission.READ_WRITE)
        return config

    def is_system(self, topic: str) -> bool:
        """Return whether no request may create, change or delete this topic."""
        return (
            topic in names.SYSTEM_TOPICS
            or topic in self._own_system_topics
            or topic.startswith(names.SYSTEM_TOPIC_PREFIX)
        )

    def is_gone(self, topic: str) -> bool:
        """Return whether queues of this name are left over: of no topic, not the system's, and no light queue."""
        return not (self.get(topic) or self.is_system(topic) or is_light_queue(topic))

    def is_lite_parent(self, topic: str) -> bool:
        """Return whether a topic exists and has lite topics."""
        config = self._table.get(topic)
        return config is not None and is_parent(config.attributes)

    @property
    def is_copy(self) -> bool:
        """True if the topics are those of a master, so that no client may make one here."""
        return self._settings.is_slave

    def system_topics(self) -> list[str]:
        """Return the names of the existing system topics, sorted."""
        return sorted(topic for topic in self._table if self.is_system(topic))

    # -- changing -------------------------------------------------------------------------------------------

    def on_change(self, listener: Changed) -> None:
        """Call ``listener`` after every change."""
        self._listeners.append(listener)

    def ensure(
        self,
        topic: str,
        queue_nums: int,
        perm: int,
        *,
        topic_sys_flag: int = 0,
        order: bool = False,
        maker: str = NOBODY,
    ) -> TopicConfig:
        """Return the topic, or make it with equal numbers of read and write queues, at most ``MAX_QUEUES`` each.

        An existing topic stays as it is.

        :param maker: the same as in ``put_all``.
        """
        config = self._table.get(topic)
        if config is None:
            queue_nums = min(queue_nums, MAX_QUEUES)  # a group's file may say any number of retry queues
            config = TopicConfig(
                topic_name=topic,
                read_queue_nums=queue_nums,
                write_queue_nums=queue_nums,
                perm=perm,
                topic_sys_flag=topic_sys_flag,
                order=order,
            )
            self.put_all([config], maker)
            log.info("topic created", topic=topic, queues=queue_nums)
        return config

    def ensure_readable(self, topic: str, queue_nums: int, perm: int, *, topic_sys_flag: int = 0) -> TopicConfig:
        """Return the topic like ``ensure``, if consumers can read a queue of the topic.

        :raises RequestRefused: SYSTEM_ERROR, the topic has no read queue; SYSTEM_BUSY, the limit of topics is reached;
            INVALID_PARAMETER, no topic may have this name, as one that is made from a very long group's.
        """
        if topic not in self._table:
            names.check_topic_name(topic)
        config = self.ensure(topic, queue_nums, perm, topic_sys_flag=topic_sys_flag)
        if config.read_queue_nums <= 0:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"topic[{topic}] has no read queue: nobody could read the message (readQueueNums)",
            )
        return config

    def create_from_default(
        self, topic: str, default_topic: str, queue_nums: int, sys_flag: int, maker: str = CLIENTS
    ) -> TopicConfig | None:
        """Return the topic that a first send creates, like ``default_topic``; None if creation is not allowed.

        An existing topic is returned unchanged.

        :param queue_nums: the number that the producer asks for, limited to the number of the default topic.
        :param maker: the same as in ``put_all``.
        """
        config = self._table.get(topic)
        if config is not None:
            return config
        if default_topic == names.DEFAULT_TOPIC and not self._settings.auto_create_topic_enable:
            return None
        default = self._table.get(default_topic)
        if default is None or not default.perm & Permission.INHERIT:
            return None
        queues = max(1, min(queue_nums, default.write_queue_nums))
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=default.perm & ~Permission.INHERIT,
            topic_filter_type=default.topic_filter_type,
            topic_sys_flag=sys_flag,
        )
        self.put_all([config], maker)
        log.info("topic created by a send", topic=topic, queues=queues, like=default_topic)
        return config

    def delivery_queue(self, topic: str, queue_id: int, *, was_deleted: bool) -> int:
        """Return the queue for a message meant for ``queue_id`` that waited for its time; see ``readable_queue``.

        A topic that the table lost is made again; a deleted topic is not, as upstream.

        :param was_deleted: whether a topic of this name was deleted after the message was stored.
        """
        config = self._restored(topic, queue_id, was_deleted)
        return queue_id if config is None else readable_queue(config, queue_id)

    def find_or_create(self, topic: str, queue_id: int, *, was_deleted: bool) -> TopicConfig | None:
        """Return the topic of a message that is committed; a deleted topic is created again as by a send.

        Return None if the topic was deleted, and automatic creation is off or does not give it this queue.

        :param was_deleted: whether a topic of this name was deleted after the half message was stored.
        :raises RequestRefused: SYSTEM_BUSY, the limit of topics is reached.
        """
        config = self._restored(topic, queue_id, was_deleted)
        if config is not None:
            return config
        default = self._table.get(names.DEFAULT_TOPIC)
        if default is None or queue_id >= default.write_queue_nums or names.topic_name_fault(topic) is not None:
            return None
        return self.create_from_default(topic, names.DEFAULT_TOPIC, default.write_queue_nums, 0)

    def _restored(self, topic: str, queue_id: int, was_deleted: bool) -> TopicConfig | None:
        config = self.get(topic)
        return self.adopt(topic, queue_id + 1) if config is None and not was_deleted else config

    def adopt(self, topic: str, queue_count: int) -> TopicConfig | None:
        """Make a topic for messages that are in the log and whose topic is not in ``topics.json``, and return it.

        A kill between a topic's creation and the write of the file leaves such messages, and so does the promotion of a
        slave that copied the table before. The messages were acknowledged and stay readable. Producers of the topic
        know a route with as many queues as a new topic gets, so the topic gets at least this number, also beyond the
        limits of topics and queues. An existing topic stays as it is. Return None for a light queue; log a line and
        return None if no topic may have this name.
        """
        config = self._table.get(topic)
        if config is not None:
            return config
        if is_light_queue(topic):
            return None
        fault = names.topic_name_fault(topic)
        if fault is not None or not 0 < queue_count <= MAX_QUEUES:
            log.warning("messages without a topic left alone", topic=topic, queues=queue_count, reason=fault)
            return None
        log.warning("topic restored from its messages", topic=topic, queues=queue_count)
        is_a_groups = topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX))
        least = 1 if is_a_groups else self._settings.default_topic_queue_nums
        queues = min(max(queue_count, least), MAX_QUEUES)
        config = TopicConfig(topic, queues, queues, Permission.READ_WRITE)
        self._make_missing([config])
        return config

    def delete(self, topic: str) -> bool:
        """Remove a topic; return False if it does not exist.

        :raises RequestRefused: INVALID_PARAMETER, the topic belongs to the system.
        """
        if self.is_system(topic):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is a system topic, it cannot be deleted"
            )
        if not self._remove(topic):
            return False
        self._changed()
        log.info("topic deleted", topic=topic)
        return True

    def follow(self, master: TopicConfigTable) -> list[str]:
        """Become the table of a master, with its version; return the topics that are gone.

        :raises LayoutError: a topic has more queues than ``MAX_QUEUES``; nothing is changed.
        :raises RequestRefused: SYSTEM_BUSY, the master has more topics than ``MAX_FOLLOWED``; nothing is changed.
        """
        _check_queues(master.configs)
        return self._follow(master.configs, master.data_version)

    def begin_state(self, state_version: int) -> None:
        """Raise the version to that of a controller's epoch, by which name servers know a later master."""
        self._changed(structs.replace(next_version(self._version, self._clock_ms()), state_version=state_version))

    def create_system_topics(self) -> None:
        """Make the missing system topics, also in a full table; existing ones stay as they are."""
        self._make_missing(
            TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
            for name, (queues, perm) in _system_topics(self._settings).items()
        )

    def _check_sizes(self, fresh: list[TopicConfig]) -> None:
        counted = [config for config in fresh if not self.is_system(config.topic_name)]
        self._queues.check_room(counted, self._settings.queues_limit)

    def _place(self, name: str, config: TopicConfig) -> None:
        if not self.is_system(name):
            self._queues.placed(config)
        super()._place(name, config)

    def _remove(self, name: str) -> bool:
        if not self.is_system(name):
            self._queues.gone(name)
        return super()._remove(name)

    # -- the file -------------------------------------------------------------------------------------------

    def _restore(self, content: TopicsFile) -> None:
        self._take_over(content.configs, content.data_version, content.extra)

    @staticmethod
    def _name_of(config: TopicConfig) -> str:
        return config.topic_name

    def _frozen(self) -> Callable[[], bytes]:
        configs, version, extra = dict(self._table), self._version, self._extra
        return lambda: TopicsFile(self._texts.of(configs), version, extra).build()

    def _changed(self, version: DataVersion | None = None) -> None:
        super()._changed(version)
        for listener in self._listeners:
            listener()


def readable_queue(config: TopicConfig, queue_id: int) -> int:
    """Return ``queue_id``, or another queue of the topic if nobody can read that queue.

    The number of read queues may have become smaller while a message waited for its time or its outcome. A topic
    without read queues keeps the queue: consumers read the message when the topic has read queues again.
    """
    count = config.read_queue_nums
    return queue_id if queue_id < count or count <= 0 else queue_id % count


def _parsed(content: bytes) -> TopicsFile:
    """Return the parsed content of ``topics.json``.

    :raises LayoutError: the content is unreadable, or a topic has more queues than ``MAX_QUEUES``.
    """
    file = TopicsFile.parse(content)
    _check_queues(file.configs)
    return file


def _check_queues(configs: Mapping[str, TopicConfig]) -> None:
    for name, config in configs.items():
        fault = config.queues_fault
        if fault is not None:
            raise LayoutError(f"topic {name[:64]!r}: {fault}")


def _own_system_topics(settings: BrokerSettings) -> frozenset[str]:
    """Return the system topics whose names come from the settings."""
    return frozenset(
        {
            settings.broker_cluster_name,
            settings.broker_name,
            settings.msg_trace_topic_name,
            names.reply_topic(settings.broker_cluster_name),
        }
    )


def _system_topics(settings: BrokerSettings) -> dict[str, tuple[int, int]]:
    """Return the topics that upstream creates at start: name to number of queues and permission."""
    read_write = Permission.READ_WRITE
    cluster, broker = settings.broker_cluster_name, settings.broker_name
    topics = {
        names.SELF_TEST_TOPIC: (1, read_write),
        names.BENCHMARK_TOPIC: (BENCHMARK_QUEUES, read_write),
        cluster: (
            CLUSTER_TOPIC_QUEUES,
            Permission.ALL if settings.cluster_topic_enable else Permission.INHERIT,
        ),
        broker: (1, Permission.ALL if settings.broker_topic_enable else Permission.INHERIT),
        names.OFFSET_MOVED_TOPIC: (1, read_write),
        names.SCHEDULE_TOPIC: (SCHEDULE_QUEUES, read_write),
        names.reply_topic(cluster): (1, read_write),
        names.HALF_TOPIC: (1, read_write),
        names.OP_HALF_TOPIC: (1, read_write),
        names.revive_topic(cluster): (settings.revive_queue_num, read_write),
        f"{names.SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{broker}": (1, Permission.INHERIT),
        names.WHEEL_TIMER_TOPIC: (1, read_write),
    }
    if settings.auto_create_topic_enable:
        topics[names.DEFAULT_TOPIC] = (settings.default_topic_queue_nums, Permission.ALL)
    if settings.trace_topic_enable:
        topics[settings.msg_trace_topic_name] = (1, read_write)
    return topics


def topics_in_file(path: Path) -> frozenset[str] | None:
    """Return the topics of ``topics.json`` or its backup, with the system's topics; None if there is no file.

    :raises GatewayError: neither of the two files can be read.
    """
    found = JsonFile(path).load(TopicsFile.parse)
    return None if found is None else names.SYSTEM_TOPICS.union(found.configs)
