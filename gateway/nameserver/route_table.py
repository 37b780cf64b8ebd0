"""Which brokers live, and which topics they serve. Pure: the time is an argument, nothing is sent or logged.

    topic  → broker name → QueueData
    broker name → cluster, broker id → address
    address → when it last showed itself, its data version, its channel

Upstream: ``RouteInfoManager`` of 5.x. Left out: acting masters (a slave answering for a lost master), static
topics, and filter servers, which no client since 4.x asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from gateway.nameserver.addresses import BrokerAddress, seen_from
from wire.bodies.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRouteData
from wire.bodies.topics import DataVersion, TopicConfig
from wire.message.flags import Permission

DEFAULT_BROKER_TIMEOUT_MS = 120_000
"""``DEFAULT_BROKER_CHANNEL_EXPIRED_TIME``: four missed registrations."""

MAX_BROKERS = 10_000
MAX_TOPICS = 500_000
"""Far beyond the largest clusters; a peer that invents names must not fill the memory."""


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker says about itself.

    ``timeout_ms`` is how long it may stay silent, ``channel_id`` what it registered over (None: in process).
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: BrokerAddress
    ha_address: str
    topics: Mapping[str, TopicConfig]
    data_version: DataVersion
    timeout_ms: int = DEFAULT_BROKER_TIMEOUT_MS
    channel_id: int | None = None


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """What a registering broker is told.

    ``refusal`` says why it was not accepted (None: it was). The addresses are None unless the broker is a
    slave whose master is known. ``is_new``: this address was not at its place before.
    """

    refusal: str | None = None
    outdated: bool = False
    master_address: BrokerAddress | None = None
    master_ha_address: str | None = None
    is_new: bool = False


class LiveBroker(msgspec.Struct, frozen=True, kw_only=True):
    """One broker process that has shown itself in time."""

    cluster: str
    broker_name: str
    broker_id: int
    address: BrokerAddress
    ha_address: str
    data_version: DataVersion
    seen_at_ms: int
    timeout_ms: int
    channel_id: int | None


@dataclass(slots=True)
class _BrokerGroup:
    """The brokers that share a name: a master and its slaves."""

    cluster: str
    addresses: dict[int, BrokerAddress] = field(default_factory=dict)


class RouteTable:
    """All that is known about brokers and topics.

    :param forget_unlisted_topics: drop a topic from a master's routes once it no longer lists it
        (``deleteTopicWithBrokerRegistration``).
    """

    def __init__(self, *, forget_unlisted_topics: bool = False) -> None:
        self._forget_unlisted_topics = forget_unlisted_topics
        self._groups: dict[str, _BrokerGroup] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._live: dict[BrokerAddress, LiveBroker] = {}
        # Of brokers in this process, by name: what they told last, unless somebody else changed their topics since.
        self._taken: dict[str, Mapping[str, TopicConfig]] = {}

    # Brokers come and go

    def register(self, registration: Registration, now_ms: int) -> Registered:
        """Take in what a broker says, unless something speaks against it."""
        group = self._groups.get(registration.broker_name)
        if group is not None and self._is_outdated(group, registration):
            return Registered(outdated=True)
        refusal = self._refusal(group, registration)
        if refusal is not None:
            return Registered(refusal=refusal)
        self._leave_former_name(registration)
        group = self._groups.get(registration.broker_name)
        if group is None:
            group = self._groups[registration.broker_name] = _BrokerGroup(registration.cluster)
        is_new = self._place(group, registration)
        if registration.broker_id == MASTER_ID:
            self._take_topics(registration)
        self._live[registration.address] = _live(registration, now_ms)
        return self._registered(group, registration, is_new)

    def unregister(self, broker_name: str, broker_id: int, address: BrokerAddress) -> bool:
        """A broker leaves; False when it is not known at this place."""
        group = self._groups.get(broker_name)
        if group is None or group.addresses.get(broker_id) != address:
            return False
        self._live.pop(address, None)
        del group.addresses[broker_id]
        if not group.addresses:
            del self._groups[broker_name]
            self._drop_broker_from_topics(broker_name)
        elif MASTER_ID not in group.addresses:
            self.wipe_write_permission(broker_name)
        return True

    def heartbeat(self, address: BrokerAddress, now_ms: int) -> bool:
        """A broker shows that it lives; False when it is not known."""
        live = self._live.get(address)
        if live is None:
            return False
        self._live[address] = structs.replace(live, seen_at_ms=now_ms)
        return True

    def expire(self, now_ms: int) -> list[LiveBroker]:
        """Remove and return the brokers that were silent for too long."""
        silent = [live for live in self._live.values() if now_ms - live.seen_at_ms > live.timeout_ms]
        self._remove(silent)
        return silent

    def channel_closed(self, channel_id: int) -> list[LiveBroker]:
        """Remove and return the brokers that registered over this channel."""
        gone = [live for live in self._live.values() if live.channel_id == channel_id]
        self._remove(gone)
        return gone

    def data_version(self, address: BrokerAddress) -> DataVersion | None:
        """The data version of a broker's last registration."""
        live = self._live.get(address)
        return None if live is None else live.data_version

    # What clients ask

    def route(self, topic: str, reached_at: str) -> TopicRouteData | None:
        """Queues and brokers of a topic, or None when no known broker serves it."""
        queues = [queue for name, queue in self._topics.get(topic, {}).items() if name in self._groups]
        if not queues:
            return None
        return TopicRouteData(
            queue_datas=queues,
            broker_datas=[self._broker_data(queue.broker_name, reached_at) for queue in queues],
        )

    def cluster_info(self, reached_at: str) -> ClusterInfo:
        """All brokers, by name and by cluster."""
        clusters: dict[str, list[str]] = {}
        for name, group in self._groups.items():
            clusters.setdefault(group.cluster, []).append(name)
        return ClusterInfo(
            broker_addr_table={name: self._broker_data(name, reached_at) for name in self._groups},
            cluster_addr_table=clusters,
        )

    def group_addresses(self, cluster: str, broker_name: str, reached_at: str) -> dict[int, str]:
        """Broker id → address of the brokers of this name; empty when there are none in this cluster."""
        group = self._groups.get(broker_name)
        if group is None or group.cluster != cluster:
            return {}
        return _addresses(group, reached_at)

    def topics(self) -> list[str]:
        """All topics."""
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """The topics that brokers of this cluster serve."""
        names = {name for name, group in self._groups.items() if group.cluster == cluster}
        return [topic for topic, queues in self._topics.items() if not names.isdisjoint(queues)]

    def system_topics(self, reached_at: str) -> tuple[list[str], str | None]:
        """The topics every cluster has, named after clusters and brokers; and the address of any broker."""
        info = self.cluster_info(reached_at)
        names = dict.fromkeys((*info.cluster_addr_table, *info.broker_addr_table))
        addresses = (text for data in info.broker_addr_table.values() for text in data.broker_addrs.values())
        return list(names), next(addresses, None)

    def topics_with_flags(self, wanted: int, unwanted: int = 0) -> list[str]:
        """The topics whose system flag (``TopicSysFlag``) has all of ``wanted`` and none of ``unwanted``."""
        found: list[str] = []
        for topic, queues in self._topics.items():
            first = next(iter(queues.values()))
            if first.topic_sys_flag & (wanted | unwanted) == wanted:
                found.append(topic)
        return found

    # What administrators change

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, of one cluster's brokers or of all; masters bring it back if they still have it."""
        self._taken.clear()
        queues = self._topics.get(topic, {})
        for name in list(queues):
            group = self._groups.get(name)
            if cluster is None or group is None or group.cluster == cluster:
                del queues[name]
        if not queues:
            self._topics.pop(topic, None)

    def add_queues(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Add a topic's queues on known brokers (REGISTER_TOPIC_IN_NAMESRV); others are ignored."""
        self._taken.clear()
        for queue in queues:
            if queue.broker_name in self._groups:
                self._topics.setdefault(topic, {})[queue.broker_name] = queue

    def wipe_write_permission(self, broker_name: str) -> int:
        """Let nothing be written to a broker until it registers a change; returns the number of topics."""
        return self._change_permission(broker_name, lambda perm: perm & ~Permission.WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Let all topics of a broker be read and written; returns the number of topics."""
        return self._change_permission(broker_name, lambda _: Permission.READ_WRITE)

    # How it is done

    def _refusal(self, group: _BrokerGroup | None, registration: Registration) -> str | None:
        known = group is not None and registration.broker_id in group.addresses
        if not known and len(registration.topics) == 1:
            # So tells a 5.x broker of one new topic (enableSingleTopicRegister): it has to be known before.
            return f"register broker failed: {registration.broker_name} is not known and tells of one topic only"
        if not known and len(self._live) >= MAX_BROKERS:
            return f"register broker failed: {MAX_BROKERS} brokers are registered"
        if len(self._topics) + len(registration.topics) > MAX_TOPICS:
            new = sum(topic not in self._topics for topic in registration.topics)
            if len(self._topics) + new > MAX_TOPICS:
                return f"register broker failed: more than {MAX_TOPICS} topics"
        return None

    def _is_outdated(self, group: _BrokerGroup, registration: Registration) -> bool:
        """Whether another address holds this id with a larger state version (a later epoch of 5.x)."""
        holder = group.addresses.get(registration.broker_id)
        if holder is None or holder == registration.address:
            return False
        live = self._live.get(holder)
        return live is not None and live.data_version.state_version > registration.data_version.state_version

    def _leave_former_name(self, registration: Registration) -> None:
        """An address is one process: with another name or cluster it is no longer what it was."""
        live = self._live.get(registration.address)
        if live is not None:
            now = registration.cluster, registration.broker_name
            if (live.cluster, live.broker_name) != now:
                self.unregister(live.broker_name, live.broker_id, live.address)

    def _place(self, group: _BrokerGroup, registration: Registration) -> bool:
        """Put the address at its id, and only there; True when it was not there before."""
        group.cluster = registration.cluster
        address, broker_id = registration.address, registration.broker_id
        for other_id in [at for at, held in group.addresses.items() if held == address and at != broker_id]:
            del group.addresses[other_id]
            if other_id == MASTER_ID:
                self.wipe_write_permission(registration.broker_name)
        before = group.addresses.get(broker_id)
        group.addresses[broker_id] = address
        if before is not None and before != address:
            self._live.pop(before, None)
        return before != address

    def _take_topics(self, registration: Registration) -> None:
        live = self._live.get(registration.address)
        if live is not None and live.data_version == registration.data_version:
            return
        name = registration.broker_name
        taken = self._taken.get(name, {})
        for topic, config in registration.topics.items():
            if taken.get(topic) is not config:
                self._topics.setdefault(topic, {})[name] = _queue_data(name, config)
        if registration.channel_id is None:
            # A broker of this process tells of each new topic together with ten thousand others, which stay the same.
            self._taken[name] = registration.topics
        if self._forget_unlisted_topics:
            for topic in [topic for topic, queues in self._topics.items() if name in queues]:
                if topic not in registration.topics:
                    self._drop_queue(topic, name)

    def _registered(self, group: _BrokerGroup, registration: Registration, is_new: bool) -> Registered:
        master = group.addresses.get(MASTER_ID)
        if registration.broker_id == MASTER_ID or master is None:
            return Registered(is_new=is_new)
        live = self._live.get(master)
        ha_address = None if live is None else live.ha_address
        return Registered(master_address=master, master_ha_address=ha_address, is_new=is_new)

    def _remove(self, brokers: Iterable[LiveBroker]) -> None:
        for live in brokers:
            self.unregister(live.broker_name, live.broker_id, live.address)

    def _change_permission(self, broker_name: str, change: Callable[[int], int]) -> int:
        changed = 0
        self._taken.pop(broker_name, None)
        for queues in self._topics.values():
            queue = queues.get(broker_name)
            if queue is not None:
                queues[broker_name] = structs.replace(queue, perm=change(queue.perm))
                changed += 1
        return changed

    def _drop_broker_from_topics(self, broker_name: str) -> None:
        self._taken.pop(broker_name, None)
        for topic in [topic for topic, queues in self._topics.items() if broker_name in queues]:
            self._drop_queue(topic, broker_name)

    def _drop_queue(self, topic: str, broker_name: str) -> None:
        queues = self._topics[topic]
        del queues[broker_name]
        if not queues:
            del self._topics[topic]

    def _broker_data(self, broker_name: str, reached_at: str) -> BrokerData:
        group = self._groups[broker_name]
        return BrokerData(cluster=group.cluster, broker_name=broker_name, broker_addrs=_addresses(group, reached_at))


def _addresses(group: _BrokerGroup, reached_at: str) -> dict[int, str]:
    return {broker_id: seen_from(address, reached_at) for broker_id, address in group.addresses.items()}


def _queue_data(broker_name: str, config: TopicConfig) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )


def _live(registration: Registration, now_ms: int) -> LiveBroker:
    return LiveBroker(
        cluster=registration.cluster,
        broker_name=registration.broker_name,
        broker_id=registration.broker_id,
        address=registration.address,
        ha_address=registration.ha_address,
        data_version=registration.data_version,
        seen_at_ms=now_ms,
        timeout_ms=registration.timeout_ms,
        channel_id=registration.channel_id,
    )
