"""The blocking admin client: the methods of ``gateway.client.aio.AdminClient``, whose texts name units and errors.

    with AdminClient(namesrv="localhost:9876") as admin:
        admin.topics.create("orders", queues=8)
        print(admin.offsets.lag("billing"))

Usable from many threads.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gateway.client import aio
from gateway.client.admin.admin_results import DEFAULT_QUEUES, MAX_FOUND
from gateway.client.blocking.face import Face
from gateway.client.connect.settings import ClientSettings
from wire.message.flags import Permission

if TYPE_CHECKING:
    from gateway.client.admin.admin_cluster import AdminCluster
    from gateway.client.admin.admin_groups import AdminGroups
    from gateway.client.admin.admin_messages import AdminMessages
    from gateway.client.admin.admin_offsets import AdminOffsets, ResetTo
    from gateway.client.admin.admin_results import ConsumeTimeSpan, GroupProgress, QueueStats
    from gateway.client.admin.admin_topics import AdminTopics
    from gateway.client.admin.offset_reset import OffsetReset
    from gateway.client.connect.routes import TopicRoute
    from gateway.client.message import ReceivedMessage
    from gateway.client.message_queue import MessageQueue
    from wire.bodies.consumers import ConsumerConnection, ProducerConnection, ProducerInfo
    from wire.bodies.route import ClusterInfo
    from wire.bodies.subscriptions import SubscriptionData, SubscriptionGroupConfig
    from wire.bodies.tools.statistics import ConsumerOffsetTable, ConsumeStatsList
    from wire.bodies.topics import TopicConfig


class AdminClient(Face):
    """Administration; ``topics``, ``groups``, ``offsets``, ``messages`` and ``cluster`` hold the methods.

    :param settings: None: ``ClientSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :raises ConfigurationError: a setting cannot work.
    """

    def __init__(self, settings: ClientSettings | None = None, *, namesrv: str | Sequence[str] | None = None) -> None:
        client = aio.AdminClient(settings, namesrv=namesrv)
        super().__init__(client)
        self.settings = client.settings
        self.topics = BlockingTopics(client.topics, self)
        self.groups = BlockingGroups(client.groups, self)
        self.offsets = BlockingOffsets(client.offsets, self)
        self.messages = BlockingMessages(client.messages, self)
        self.cluster = BlockingCluster(client.cluster, self)


class _Part:
    """A part of the client: runs the methods of the same part of the asyncio client."""

    def __init__(self, core: Any, face: Face) -> None:
        self._core = core
        self._run = face._run


class BlockingTopics(_Part):
    """Topics: create, delete, list, their configuration, the contents of their queues, and their brokers."""

    _core: AdminTopics

    def create(
        self,
        topic: str,
        *,
        queues: int = DEFAULT_QUEUES,
        write_queues: int | None = None,
        perm: int = Permission.READ_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker_name: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Create a topic or change it; return when clients can find the topic."""
        self._run(
            self._core.create(
                topic,
                queues=queues,
                write_queues=write_queues,
                perm=perm,
                order=order,
                attributes=attributes,
                cluster=cluster,
                broker_name=broker_name,
                timeout=timeout,
            )
        )

    def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic with its messages and the offsets of its queues."""
        self._run(self._core.delete(topic, cluster=cluster))

    def list(self, *, cluster: str | None = None) -> builtins.list[str]:
        """Return the names of all topics, sorted."""
        return self._run(self._core.list(cluster=cluster))

    def config(self, topic: str) -> dict[str, TopicConfig]:
        """Return the configuration of a topic by broker name."""
        return self._run(self._core.config(topic))

    def stats(self, topic: str) -> dict[MessageQueue, QueueStats]:
        """Return the offsets and the time of the last message by queue of a topic."""
        return self._run(self._core.stats(topic))

    def route(self, topic: str) -> TopicRoute:
        """Return the queues of a topic and the addresses of its brokers."""
        return self._run(self._core.route(topic))


class BlockingGroups(_Part):
    """Groups: create, delete, list, their configuration, their connected clients and subscriptions."""

    _core: AdminGroups

    def create(self, config: SubscriptionGroupConfig | str, *, cluster: str | None = None) -> None:
        """Create a consumer group, or change it."""
        self._run(self._core.create(config, cluster=cluster))

    def delete(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group."""
        self._run(self._core.delete(group, clean_offsets=clean_offsets, cluster=cluster))

    def list(self, *, cluster: str | None = None) -> builtins.list[str]:
        """Return the names of all consumer groups, sorted."""
        return self._run(self._core.list(cluster=cluster))

    def config(self, group: str) -> dict[str, SubscriptionGroupConfig]:
        """Return the configuration of a consumer group by broker name."""
        return self._run(self._core.config(group))

    def of_topic(self, topic: str) -> builtins.list[str]:
        """Return the groups that consume a topic."""
        return self._run(self._core.of_topic(topic))

    def topics(self, group: str) -> builtins.list[str]:
        """Return the topics in which a group has offsets."""
        return self._run(self._core.topics(group))

    def consumers(self, group: str) -> ConsumerConnection | None:
        """Return the connected clients of a consumer group and their subscriptions; None without a connected client."""
        return self._run(self._core.consumers(group))

    def producers(self, group: str) -> ProducerConnection:
        """Return the connected clients of a producer group."""
        return self._run(self._core.producers(group))

    def all_producers(self) -> dict[str, builtins.list[ProducerInfo]]:
        """Return the connected producers of all brokers by group."""
        return self._run(self._core.all_producers())

    def running_info(self, group: str, client_id: str, *, jstack: bool = False) -> dict[str, Any]:
        """Return the report of one client of a consumer group about its present work."""
        return self._run(self._core.running_info(group, client_id, jstack=jstack))

    def consume_directly(self, group: str, client_id: str, offset_msg_id: str, topic: str) -> dict[str, Any]:
        """Let one client consume one message now, and return the result."""
        return self._run(self._core.consume_directly(group, client_id, offset_msg_id, topic))

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return the subscription of a group to a topic, as far as brokers remember it."""
        return self._run(self._core.subscription(group, topic))


class BlockingOffsets(_Part):
    """Offsets: the first and last of queues, the progress of groups, and moving groups back or forth."""

    _core: AdminOffsets

    def min(self, queue: MessageQueue) -> int:
        """Return the offset of the first message of a queue that is still stored."""
        return self._run(self._core.min(queue))

    def max(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of a queue will get."""
        return self._run(self._core.max(queue))

    def at(self, queue: MessageQueue, moment: datetime) -> int:
        """Return the offset of the first message of a queue that was stored at a time or later."""
        return self._run(self._core.at(queue, moment))

    def earliest_stored_at_ms(self, queue: MessageQueue) -> int | None:
        """Return the time at which the first message of a queue was stored; None if the queue is empty."""
        return self._run(self._core.earliest_stored_at_ms(queue))

    def of_group(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset that a group will read next in a queue; None if the group has no offset there."""
        return self._run(self._core.of_group(group, queue))

    def set(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Write the offset that a group will read next in a queue."""
        self._run(self._core.set(group, queue, offset))

    def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Return the progress of a group in each queue that it consumes, or in the queues of one topic."""
        return self._run(self._core.progress(group, topic))

    def lag(self, group: str, topic: str | None = None) -> int:
        """Return how many messages a group has not consumed yet."""
        return self._run(self._core.lag(group, topic))

    def preview_reset(self, group: str, topic: str, to: ResetTo) -> OffsetReset:
        """Return the changes that ``reset`` would make, without making them."""
        return self._run(self._core.preview_reset(group, topic, to))

    def reset(self, group: str, topic: str, to: ResetTo) -> OffsetReset:
        """Move a group back or forth in a topic, and return the changes."""
        return self._run(self._core.reset(group, topic, to))

    def clone(self, source: str, target: str, topic: str) -> None:
        """Let group ``target`` start in a topic at the offsets of group ``source``."""
        self._run(self._core.clone(source, target, topic))

    def time_spans(self, group: str, topic: str) -> list[ConsumeTimeSpan]:
        """Return the storage times of the messages of each queue, and the time up to which the group has consumed."""
        return self._run(self._core.time_spans(group, topic))

    def table(self, broker_name: str) -> ConsumerOffsetTable:
        """Return all offsets of a broker, as a slave gets them."""
        return self._run(self._core.table(broker_name))


class BlockingMessages(_Part):
    """Looks up messages by id, by key and by place."""

    _core: AdminMessages

    def by_id(self, msg_id: str, topic: str | None = None) -> ReceivedMessage:
        """Return the message with an id: the id that its producer gave (needs ``topic``), or the offset id."""
        return self._run(self._core.by_id(msg_id, topic))

    def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        max_num: int = MAX_FOUND,
    ) -> list[ReceivedMessage]:
        """Return the messages of a topic with a key, in the order of storage."""
        return self._run(self._core.by_key(topic, key, begin=begin, end=end, max_num=max_num))

    def by_offset(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """Return the message at an offset of a queue."""
        return self._run(self._core.by_offset(queue, offset))


class BlockingCluster(_Part):
    """Clusters and brokers: their names and addresses, their figures and settings."""

    _core: AdminCluster

    def info(self) -> ClusterInfo:
        """Return all brokers that the name servers know."""
        return self._run(self._core.info())

    def runtime(self, broker_name: str) -> dict[str, str]:
        """Return the figures of a broker by name, as the broker writes them."""
        return self._run(self._core.runtime(broker_name))

    def config(self, broker_name: str) -> dict[str, str]:
        """Return the settings of a broker by Apache RocketMQ's names."""
        return self._run(self._core.config(broker_name))

    def set_config(self, broker_name: str, changes: dict[str, str]) -> None:
        """Change settings of a running broker."""
        self._run(self._core.set_config(broker_name, changes))

    def consume_stats(self, broker_name: str, *, ordered_only: bool = False) -> ConsumeStatsList:
        """Return the progress of all groups of a broker."""
        return self._run(self._core.consume_stats(broker_name, ordered_only=ordered_only))

    def delay_offsets(self, broker_name: str) -> dict[str, Any]:
        """Return the progress of a broker in its delay levels, as a slave gets it."""
        return self._run(self._core.delay_offsets(broker_name))
