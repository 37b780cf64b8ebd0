"""The route of a topic as clients use it: the queues to write, the queues to read, and the brokers' addresses.

Built from the body of a name server's answer; no I/O. The rules are those of upstream's
``MQClientInstance.topicRouteData2TopicPublishInfo`` and ``…SubscribeInfo``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.client.message_queue import MessageQueue
from wire.codes import MASTER_ID
from wire.message.flags import is_readable, is_writable

if TYPE_CHECKING:
    from wire.bodies.route import BrokerData, QueueData, TopicRouteData


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The queues of a topic, and the brokers that hold them.

    :param topic: the topic's name.
    :param publish_queues: writable queues of brokers that have a master, in the order in which producers use them.
    :param subscribe_queues: readable queues, ordered by broker name and number.
    :param brokers: addresses ``host:port`` by broker id (0 is the master), by broker name.
    :param clusters: the cluster of each broker name.
    :param ordered: whether the topic has a fixed set of queues for ordered messages.
    """

    topic: str
    publish_queues: tuple[MessageQueue, ...]
    subscribe_queues: tuple[MessageQueue, ...]
    brokers: Mapping[str, Mapping[int, str]]
    clusters: Mapping[str, str] = field(default_factory=dict)
    ordered: bool = False

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of one broker, None if the address is not known."""
        return self.brokers.get(broker_name, {}).get(broker_id)


def topic_route(topic: str, data: TopicRouteData, *, most_queues: int | None = None) -> TopicRoute:
    """Return the route of ``topic`` from the answer of a name server.

    :param most_queues: for a topic that does not exist yet, whose route is made from the template topic's route: the
        number of queues that the producer wants; the route has at most as many as the template.
    """
    brokers = {broker.broker_name: broker for broker in data.broker_datas}
    queues = sorted(data.queue_datas, key=lambda entry: entry.broker_name)
    return TopicRoute(
        topic=topic,
        publish_queues=_publish_queues(topic, data, queues, brokers, most_queues),
        subscribe_queues=tuple(
            MessageQueue(topic, entry.broker_name, queue_id)
            for entry in queues
            if is_readable(entry.perm)
            for queue_id in range(entry.read_queue_nums)
        ),
        brokers={name: dict(broker.broker_addrs) for name, broker in brokers.items()},
        clusters={name: broker.cluster for name, broker in brokers.items()},
        ordered=bool(data.order_topic_conf),
    )


def _publish_queues(
    topic: str,
    data: TopicRouteData,
    queues: list[QueueData],
    brokers: Mapping[str, BrokerData],
    most_queues: int | None,
) -> tuple[MessageQueue, ...]:
    if data.order_topic_conf and most_queues is None:
        from wire.bodies.route import ordered_queues  # with the first route, not with the import

        return tuple(
            MessageQueue(topic, name, queue_id)
            for name, count in ordered_queues(data.order_topic_conf)
            for queue_id in range(count)
        )
    found: list[MessageQueue] = []
    for entry in queues:
        broker = brokers.get(entry.broker_name)
        if broker is None or MASTER_ID not in broker.broker_addrs or not is_writable(entry.perm):
            continue
        count = entry.write_queue_nums if most_queues is None else min(most_queues, entry.read_queue_nums)
        found.extend(MessageQueue(topic, entry.broker_name, queue_id) for queue_id in range(count))
    return tuple(found)
