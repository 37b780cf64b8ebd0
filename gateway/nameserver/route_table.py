"""The brokers that are alive, and the topics that they serve. Pure: the time is an argument, nothing is sent or logged.

    topic  → broker name → broker group
    broker name → broker group: cluster; broker id → address; topic → queues
    address → time of its last sign of life, its data version, its channel

A broker that leaves disappears from every route at once. Its entries in the index of topics are removed piece by piece.
The cost of a broker's requests depends on the topics of this broker, not on the number of other brokers. A broker that
is registered over a second connection goes back to the first connection when the second one closes (``Displaced``).

Upstream: ``RouteInfoManager`` of 5.x. Left out are acting masters (a slave that answers for a lost master), static
topics, and filter servers, which no client since 4.x asks for.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from gateway.nameserver.addresses import BrokerAddress, seen_from
from gateway.nameserver.displaced import Displaced
from gateway.remoting.turns import ENTRIES_PER_TURN, Work, finish
from gateway.settings.name_server import NameServerSettings
from wire.bodies.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRouteData
from wire.bodies.topics import DataVersion, TopicConfig
from wire.message.flags import Permission

DEFAULT_BROKER_TIMEOUT_MS = 120_000
"""The default time-out of a silent broker in milliseconds (``DEFAULT_BROKER_CHANNEL_EXPIRED_TIME``).

The broker has missed four registrations by then.
"""
MOST_BYTES_PER_TOPIC = 200
"""The bytes of the index for each topic above which the index is copied: a dict that empties keeps its size."""
MAX_BROKERS_PER_NAME = 64
"""The most brokers of one name: a master, which always has a place, and its slaves. Real groups have two to five.

All of them are in the route of each topic of the name.
"""
MAX_KNOWN_QUEUES = 1_024
"""The most combinations of queues and permissions that are remembered for one broker, so that its topics share them."""


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a broker registers about itself.

    ``timeout_ms`` is how long the broker may stay silent. ``channel_id`` is the connection over which the broker
    registered, None for a broker of this process.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: BrokerAddress
    ha_address: BrokerAddress
    topics: Mapping[str, TopicConfig]
    data_version: DataVersion
    timeout_ms: int = DEFAULT_BROKER_TIMEOUT_MS
    channel_id: int | None = None


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a broker that registers.

    ``refusal`` is the reason why the broker was not accepted, None if it was accepted. The addresses are None unless
    the broker is a slave whose master is known. ``is_new`` is True if this address was not at its place before.
    """

    refusal: str | None = None
    outdated: bool = False
    master_address: BrokerAddress | None = None
    master_ha_address: BrokerAddress | None = None
    is_new: bool = False


class LiveBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process that gave a sign of life within its time-out."""

    cluster: str
    broker_name: str
    broker_id: int
    address: BrokerAddress
    ha_address: BrokerAddress
    data_version: DataVersion
    seen_at_ms: int
    timeout_ms: int
    channel_id: int | None


class _Told(msgspec.Struct, frozen=True):
    """The queues of topics as their broker registered them.

    ``changes`` counts how often the broker's permission was changed until then.
    """

    queues: QueueData
    changes: int


@dataclass(slots=True, eq=False)
class _BrokerGroup:
    """The brokers that share a name, a master and its slaves, and the topics of the master.

    An administrator who changes the permission of a broker changes one number, not every topic.
    """

    name: str
    cluster: str
    addresses: dict[int, BrokerAddress] = field(default_factory=dict)
    topics: dict[str, _Told] = field(default_factory=dict)
    taken: Mapping[str, TopicConfig] = field(default_factory=dict)
    """The last registered topics of a broker in this process; empty once somebody else changed its topics."""
    is_gone: bool = False
    _changes: int = 0
    _wiped_at: int = 0
    _opened_at: int = 0
    _known: dict[tuple[int, int, int, int], _Told] = field(default_factory=dict)
    alone: dict[str, _BrokerGroup] = field(init=False)
    """The groups of each topic that only this group serves. All such topics share it, so nobody changes it."""

    def __post_init__(self) -> None:
        self.alone = {self.name: self}

    def has_room(self, broker_id: int) -> bool:
        """Return whether a broker may be at this id; a master has always room."""
        if broker_id == MASTER_ID or broker_id in self.addresses:
            return True
        return len(self.addresses) + (MASTER_ID not in self.addresses) < MAX_BROKERS_PER_NAME

    def wipe(self) -> int:
        """Take the write permission from all topics registered until now; return how many there are."""
        self._wiped_at = self._change()
        return len(self.topics)

    def open(self) -> int:
        """Give the permissions to read and to write to all topics registered until now; return how many there are."""
        self._opened_at = self._change()
        return len(self.topics)

    def told(self, config: TopicConfig) -> _Told:
        """Return the entry for a topic configuration that the broker registers now; equal topics share one entry."""
        key = config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag
        told = self._known.get(key)
        if told is None:
            if len(self._known) >= MAX_KNOWN_QUEUES:
                self._known.clear()
            told = self._known[key] = _Told(QueueData(self.name, *key), self._changes)
        return told

    def put(self, topic: str, queues: QueueData) -> None:
        """Set the queues of one topic."""
        self.topics[topic] = _Told(queues, self._changes)

    def queues(self, topic: str) -> QueueData:
        """Return the queues of a topic with the permission that holds now."""
        told = self.topics[topic]
        if told.changes == self._changes and MASTER_ID in self.addresses:
            return told.queues
        perm = told.queues.perm
        if told.changes < self._opened_at:
            perm = Permission.READ_WRITE
        if max(told.changes, self._opened_at) < self._wiped_at or MASTER_ID not in self.addresses:
            perm &= ~Permission.WRITE
        return structs.replace(told.queues, perm=int(perm))

    def flag(self, topic: str) -> int:
        """Return the system flag of a topic."""
        return self.topics[topic].queues.topic_sys_flag

    def _change(self) -> int:
        self._changes += 1
        self._known.clear()
        self.taken = {}
        return self._changes


class RouteTable:
    """Everything that is known about brokers and topics.

    :param in_turns: starts work that is done piece by piece; the default does the work at once.
    """

    def __init__(
        self, settings: NameServerSettings | None = None, *, in_turns: Callable[[Work[None]], object] = finish
    ) -> None:
        self._settings = settings or NameServerSettings()
        self._in_turns = in_turns
        self._groups: dict[str, _BrokerGroup] = {}
        self._topics: dict[str, dict[str, _BrokerGroup]] = {}
        self._live: dict[BrokerAddress, LiveBroker] = {}
        self._by_channel: dict[int, dict[BrokerAddress, None]] = {}
        self._displaced: Displaced[LiveBroker] = Displaced()
        self._entries = 0
        self._leaving: deque[_BrokerGroup] = deque()

    # Brokers come and go

    def register(self, registration: Registration, now_ms: int) -> Registered:
        """Take in a broker's registration, unless there is a reason to refuse the registration."""
        return finish(self.register_in_steps(registration, now_ms))

    def register_in_steps(self, registration: Registration, now_ms: int) -> Work[Registered]:
        """Do ``register`` in steps, many topics one piece at a time; a broker that leaves meanwhile is refused.

        Between two steps the routes have the topics taken so far.
        """
        # A peer that comes and goes adds no more than it makes room for.
        for _ in range(len(registration.topics) // ENTRIES_PER_TURN):
            if self._leaving:
                self._forget(ENTRIES_PER_TURN)
                yield
        self._forget(len(registration.topics) % ENTRIES_PER_TURN)
        group = self._groups.get(registration.broker_name)
        if group is not None and self._is_outdated(group, registration):
            return Registered(outdated=True)
        refusal = self._refusal(group, registration)
        if refusal is not None:
            return Registered(refusal=refusal)
        before = self._live.get(registration.address)
        while before is not None and _was_elsewhere(before, registration):
            self._leave_former_name(before, registration)
            before = self._live.get(registration.address)  # of another connection, if it was put back
        group = self._groups.get(registration.broker_name)
        if group is None:
            group = _BrokerGroup(registration.broker_name, registration.cluster)
            self._groups[registration.broker_name] = group
        is_new = self._place(group, before, _live(registration, now_ms))
        is_same = not is_new and before is not None and before.data_version == registration.data_version
        if registration.broker_id == MASTER_ID:
            is_there = yield from self._take_topics(group, registration, is_same)
            if not is_there:
                return Registered(refusal="register broker failed: the broker left while its topics were taken in")
        return self._registered(group, registration, is_new)

    def unregister(self, broker_name: str, broker_id: int, address: BrokerAddress) -> bool:
        """Remove a broker that leaves; return False if the broker is not known at this place."""
        group = self._groups.get(broker_name)
        if group is None or group.addresses.get(broker_id) != address:
            return False
        behind = self._displaced.take(address)
        others = [other for other in behind if (other.broker_name, other.address) != (broker_name, address)]
        live = self._live.get(address)
        if live is None or live.broker_name != broker_name:  # another name has its address
            for other in others:
                self._displaced.keep(address, other)
            del group.addresses[broker_id]
            self._tidy(group)
        else:
            self._depart(live, others)
        return True

    def heartbeat(self, address: BrokerAddress, now_ms: int) -> bool:
        """Note that a broker is alive; return False if the broker is not known."""
        live = self._live.get(address)
        if live is None:
            return False
        self._live[address] = structs.replace(live, seen_at_ms=now_ms)
        return True

    def expire(self, now_ms: int) -> list[LiveBroker]:
        """Remove and return the brokers that were silent for too long."""
        gone: list[LiveBroker] = []
        while silent := [live for live in self._live.values() if now_ms - live.seen_at_ms > live.timeout_ms]:
            gone += silent
            for live in silent:
                self._depart(live, self._displaced.take(live.address))
        return gone

    def channel_closed(self, channel_id: int) -> list[LiveBroker]:
        """Remove and return the brokers of this channel, except brokers that another channel registered too."""
        for live in self._displaced.closed(channel_id):
            self._leave_place(live)
        gone = [self._live[address] for address in self._by_channel.get(channel_id, ())]
        for live in gone:
            self._depart(live, self._displaced.take(live.address))
        return [live for live in gone if live.address not in self._live]

    def clusters_of(self, broker_name: str, address: BrokerAddress) -> set[str]:
        """Return the clusters of the brokers that have this name, or this address."""
        group, live = self._groups.get(broker_name), self._live.get(address)
        return {known.cluster for known in (group, live) if known is not None}

    def data_version(self, address: BrokerAddress) -> DataVersion | None:
        """Return the data version of a broker's last registration; None for an unknown broker."""
        live = self._live.get(address)
        return None if live is None else live.data_version

    # What clients ask

    def addresses_of(self, topic: str) -> int:
        """Return how many addresses the route of a topic has: of masters and of slaves."""
        return sum(len(group.addresses) for group in self._serving(topic))

    def route(self, topic: str, reached_at: str) -> TopicRouteData | None:
        """Return the queues and brokers of a topic, or None if no known broker serves the topic."""
        serving = self._serving(topic)
        if not serving:
            return None
        return TopicRouteData(
            queue_datas=[group.queues(topic) for group in serving],
            broker_datas=[_broker_data(group, reached_at) for group in serving],
        )

    def cluster_info(self, reached_at: str) -> ClusterInfo:
        """Return all brokers, by name and by cluster."""
        clusters: dict[str, list[str]] = {}
        for name, group in self._groups.items():
            clusters.setdefault(group.cluster, []).append(name)
        return ClusterInfo(
            broker_addr_table={name: _broker_data(group, reached_at) for name, group in self._groups.items()},
            cluster_addr_table=clusters,
        )

    def group_addresses(self, cluster: str, broker_name: str, reached_at: str) -> dict[int, str]:
        """Return the addresses of the brokers of this name, by broker id; empty if this cluster has no such broker."""
        group = self._groups.get(broker_name)
        if group is None or group.cluster != cluster:
            return {}
        return _addresses(group, reached_at)

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        if not self._leaving:
            return list(self._topics)
        return [topic for topic in self._topics if self._serving(topic)]

    def topics_of_cluster(self, cluster: str) -> Work[list[str]]:
        """Return the topics that brokers of this cluster serve."""
        return self._topics_whose(lambda _, groups: any(group.cluster == cluster for group in groups))

    def system_topics(self, reached_at: str) -> tuple[list[str], str | None]:
        """Return the topics that every cluster has, and the address of any broker, or None.

        These topics have the names of clusters and brokers.
        """
        clusters = (group.cluster for group in self._groups.values())
        names = dict.fromkeys((*clusters, *self._groups))
        first = next(iter(self._live), None)
        return list(names), None if first is None else seen_from(first, reached_at)

    def topics_with_flags(self, wanted: int, unwanted: int = 0) -> Work[list[str]]:
        """Return the topics whose system flag (``TopicSysFlag``) has all of ``wanted`` and none of ``unwanted``."""
        looked_at = wanted | unwanted
        return self._topics_whose(lambda topic, groups: groups[0].flag(topic) & looked_at == wanted)

    def _topics_whose(self, matches: Callable[[str, list[_BrokerGroup]], bool]) -> Work[list[str]]:
        """Return the topics whose name and serving brokers match, among the topics known when the work starts."""
        names, found = list(self._topics), []
        for first in range(0, len(names), ENTRIES_PER_TURN):
            if first:
                yield
            for topic in names[first : first + ENTRIES_PER_TURN]:
                groups = self._serving(topic)
                if groups and matches(topic, groups):
                    found.append(topic)
        return found

    def _serving(self, topic: str) -> list[_BrokerGroup]:
        return [group for group in self._topics.get(topic, {}).values() if not group.is_gone]

    # What administrators change

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, of one cluster's brokers or of all; a master that still has the topic brings it back."""
        for group in list(self._topics.get(topic, {}).values()):
            if not group.is_gone and (cluster is None or group.cluster == cluster):
                self._drop_queue(topic, group)
                group.taken = {}

    def add_queues(self, topic: str, queues: Sequence[QueueData]) -> str | None:
        """Add a topic's queues on known brokers (REGISTER_TOPIC_IN_NAMESRV).

        As upstream, queues from the first unknown broker on are not added. A new topic is then not added at all.

        :return: the reason of a refusal, or None.
        """
        known: list[tuple[_BrokerGroup, QueueData]] = []
        for queue in queues:
            group = self._groups.get(queue.broker_name)
            if group is None:
                if topic not in self._topics:
                    return None
                break
            known.append((group, queue))
        settings = self._settings
        if known and topic not in self._topics and len(self._topics) >= settings.nameserver_topics_limit:
            return (
                f"{settings.nameserver_topics_limit} topics are registered, the limit (gateway.nameserverTopicsLimit)"
            )
        if self._entries + len(known) > settings.nameserver_entries_limit:
            most = _ENTRIES_LIMIT.format(settings.nameserver_entries_limit)
            return f"{self._entries} queues of topics are registered, {most}"
        for group, queue in known:
            self._index(topic, group)
            group.put(topic, queue)
            group.taken = {}
        return None

    def wipe_write_permission(self, broker_name: str) -> int:
        """Take the write permission from a broker's topics; return how many topics the broker has.

        The permission comes back when the broker registers a change.
        """
        group = self._groups.get(broker_name)
        return 0 if group is None else group.wipe()

    def add_write_permission(self, broker_name: str) -> int:
        """Give the permissions to read and to write to all topics of a broker.

        Return how many topics the broker has.
        """
        group = self._groups.get(broker_name)
        return 0 if group is None else group.open()

    # How it is done

    def _refusal(self, group: _BrokerGroup | None, registration: Registration) -> str | None:
        settings, topics = self._settings, registration.topics
        known = group is not None and registration.broker_id in group.addresses
        if not known and len(topics) == 1:
            # So tells a 5.x broker of one new topic (enableSingleTopicRegister): it has to be known before.
            return f"register broker failed: {registration.broker_name} is not known and tells of one topic only"
        if len(topics) > settings.registration_topics_limit:
            return (
                f"register broker failed: {len(topics)} topics in one registration, "
                f"the limit is {settings.registration_topics_limit} (gateway.registrationTopicsLimit)"
            )
        if group is not None and not group.has_room(registration.broker_id):
            return (
                f"register broker failed: {MAX_BROKERS_PER_NAME - 1} slaves of {group.name} are registered, the limit "
                "(the last place of a name is its master's)"
            )
        if not known and (reason := self._no_broker_more(registration.channel_id)) is not None:
            return reason
        return self._no_topics_more(group, topics)

    def _no_broker_more(self, channel_id: int | None) -> str | None:
        most, most_here = self._settings.nameserver_brokers_limit, self._settings.connection_brokers_limit
        if len(self._live) >= most:
            return f"register broker failed: {most} brokers are registered (gateway.nameserverBrokersLimit)"
        of_channel = () if channel_id is None else self._by_channel.get(channel_id, ())
        if len(of_channel) >= most_here:
            return (
                f"register broker failed: {most_here} brokers are registered over this connection "
                "(gateway.connectionBrokersLimit)"
            )
        return None

    def _no_topics_more(self, group: _BrokerGroup | None, topics: Mapping[str, TopicConfig]) -> str | None:
        most, most_entries = self._settings.nameserver_topics_limit, self._settings.nameserver_entries_limit
        if len(self._topics) + len(topics) > most:
            new = sum(topic not in self._topics for topic in topics)
            if len(self._topics) + new > most:
                return f"register broker failed: more than {most} topics (gateway.nameserverTopicsLimit)"
        if self._entries + len(topics) > most_entries:
            new = sum(group is None or topic not in group.topics for topic in topics)
            if self._entries + new > most_entries:
                return f"register broker failed: too many topics, {_ENTRIES_LIMIT.format(most_entries)}"
        return None

    def _is_outdated(self, group: _BrokerGroup, registration: Registration) -> bool:
        """Return whether another address holds this id with a larger state version (a later epoch of 5.x)."""
        holder = group.addresses.get(registration.broker_id)
        if holder is None or holder == registration.address:
            return False
        live = self._live.get(holder)
        return live is not None and live.data_version.state_version > registration.data_version.state_version

    def _leave_former_name(self, live: LiveBroker, registration: Registration) -> None:
        """Remove an address from its former name, because one address is one process with one name.

        If another connection gives the new name, the former registration is kept while its own connection is open.
        """
        if live.channel_id == registration.channel_id or not self._displaced.keep(live.address, live):
            self.unregister(live.broker_name, live.broker_id, live.address)
        else:
            self._drop_live(live.address)

    def _place(self, group: _BrokerGroup, before: LiveBroker | None, live: LiveBroker) -> bool:
        """Put a broker at its id, and only there; return True if its address was not there before.

        :param before: the registration of the address before, under this name.
        """
        group.cluster = live.cluster
        address, broker_id = live.address, live.broker_id
        there = group.addresses.get(broker_id)
        holder = None if there is None or there == address else self._live.get(there)
        behind = self._displaced.take(address)
        if holder is not None:
            behind += self._displaced.take(holder.address)
        behind += [former for former in (holder, before) if former is not None]
        if holder is not None:
            self._drop_live(holder.address)
        if before is not None and before.broker_id != broker_id:
            del group.addresses[before.broker_id]
        group.addresses[broker_id] = address
        self._keep_live(live)
        self._settle(behind)
        return there != address

    def _take_topics(self, group: _BrokerGroup, registration: Registration, is_same: bool) -> Work[bool]:
        """Take the topics that changed; if the master registered this version before, take only the missing topics.

        :return: False if the broker left meanwhile.
        """
        taken, topics = group.taken, group.topics
        if not is_same:
            # A broker of this process tells of each new topic together with ten thousand others, which stay the same.
            group.taken = registration.topics if registration.channel_id is None else {}
        for at, (topic, config) in enumerate(registration.topics.items(), start=1):
            if topic not in topics:
                self._index(topic, group)
                topics[topic] = group.told(config)
            elif not is_same and taken.get(topic) is not config:
                topics[topic] = group.told(config)
            if at % ENTRIES_PER_TURN == 0:
                yield
                if not _is_master(group, registration):
                    return False
        if not is_same and self._settings.delete_topic_with_broker_registration:
            return (yield from self._drop_unlisted(group, registration))
        return True

    def _drop_unlisted(self, group: _BrokerGroup, registration: Registration) -> Work[bool]:
        """Drop the topics that a master no longer lists; return False if the broker left meanwhile."""
        unlisted = [topic for topic in group.topics if topic not in registration.topics]
        for at, topic in enumerate(unlisted, start=1):
            self._drop_queue(topic, group)
            if at % ENTRIES_PER_TURN == 0:
                yield
                if not _is_master(group, registration):
                    return False
        return True

    def _registered(self, group: _BrokerGroup, registration: Registration, is_new: bool) -> Registered:
        master = group.addresses.get(MASTER_ID)
        if registration.broker_id == MASTER_ID or master is None:
            return Registered(is_new=is_new)
        live = self._live.get(master)
        ha_address = None if live is None else live.ha_address
        return Registered(master_address=master, master_ha_address=ha_address, is_new=is_new)

    def _depart(self, live: LiveBroker, behind: Sequence[LiveBroker]) -> None:
        """Remove a broker that leaves; the registrations that it displaced come back, the latest first."""
        self._drop_live(live.address)
        group = self._groups[live.broker_name]
        del group.addresses[live.broker_id]
        self._settle(behind)
        self._tidy(group)

    def _settle(self, behind: Sequence[LiveBroker]) -> None:
        """Put displaced brokers back into free places, the latest first.

        The others stay displaced by the brokers that hold the places.
        """
        for displaced in [each for each in reversed(behind) if not self._is_put_back(each)][::-1]:
            group = self._groups.get(displaced.broker_name)
            holder = None if group is None else group.addresses.get(displaced.broker_id)
            instead = self._live.get(displaced.address) or (None if holder is None else self._live.get(holder))
            if (
                instead is None
                or instead.channel_id == displaced.channel_id
                or not self._displaced.keep(instead.address, displaced)
            ):
                self._leave_place(displaced)

    def _is_put_back(self, displaced: LiveBroker) -> bool:
        """Put a broker back if nobody has its address or its place; return whether that was possible.

        The broker's routes may have changed meanwhile. Its data version gets the counter −1, so that the broker sends
        all topics again.
        """
        group, address = self._groups.get(displaced.broker_name), displaced.address
        if group is None or address in self._live or group.addresses.get(displaced.broker_id, address) != address:
            return False
        if not group.has_room(displaced.broker_id):
            return False
        group.cluster = displaced.cluster
        group.addresses[displaced.broker_id] = address
        version = structs.replace(displaced.data_version, counter=-1)
        self._keep_live(structs.replace(displaced, data_version=version))
        return True

    def _leave_place(self, displaced: LiveBroker) -> None:
        """Remove the address that a broker still has under its former name, after another name got the address."""
        group = self._groups.get(displaced.broker_name)
        if group is None:
            return
        live = self._live.get(displaced.address)
        is_there = live is not None and (live.broker_name, live.broker_id) == (group.name, displaced.broker_id)
        if not is_there and group.addresses.get(displaced.broker_id) == displaced.address:
            del group.addresses[displaced.broker_id]
        self._tidy(group)

    def _tidy(self, group: _BrokerGroup) -> None:
        """Remove a group without brokers.

        A group without a master takes no messages until a master registers its topics.
        """
        if group.is_gone:
            return
        if not group.addresses:
            del self._groups[group.name]
            self._leave(group)
        elif MASTER_ID not in group.addresses:
            group.wipe()

    # Living brokers, also by their channel

    def _keep_live(self, live: LiveBroker) -> None:
        self._drop_live(live.address)
        self._live[live.address] = live
        if live.channel_id is not None:
            self._by_channel.setdefault(live.channel_id, {})[live.address] = None

    def _drop_live(self, address: BrokerAddress) -> None:
        live = self._live.pop(address, None)
        if live is None or live.channel_id is None:
            return
        of_channel = self._by_channel[live.channel_id]
        del of_channel[address]
        if not of_channel:
            del self._by_channel[live.channel_id]

    # Topics of brokers, brokers of topics

    def _index(self, topic: str, group: _BrokerGroup) -> None:
        """Note that a broker serves a topic; the caller puts the queues."""
        if topic not in group.topics:
            self._entries += 1
            groups = self._topics.get(topic)
            if groups is None:
                self._topics[topic] = group.alone
            elif len(groups) == 1:  # perhaps shared
                self._topics[topic] = {**groups, group.name: group}
            else:
                groups[group.name] = group

    def _drop_queue(self, topic: str, group: _BrokerGroup) -> None:
        del group.topics[topic]
        self._entries -= 1
        self._unindex(topic, group)

    def _unindex(self, topic: str, group: _BrokerGroup) -> None:
        groups = self._topics.get(topic, {})
        if groups.get(group.name) is group:  # a broker of the same name may have come since
            if len(groups) == 1:
                del self._topics[topic]
            else:
                del groups[group.name]

    def _leave(self, group: _BrokerGroup) -> None:
        """Take a group out of all routes now, and out of the index of topics piece by piece."""
        group.is_gone = True
        self._entries -= len(group.topics)
        self._leaving.append(group)
        if len(self._leaving) == 1:
            self._in_turns(self._forget_leaving())

    def _forget_leaving(self) -> Work[None]:
        while self._leaving:
            self._forget(ENTRIES_PER_TURN)
            if self._leaving:
                yield
        if sys.getsizeof(self._topics) > MOST_BYTES_PER_TOPIC * (len(self._topics) + 100):
            self._topics = dict(self._topics)

    def _forget(self, entries: int) -> None:
        """Remove at most ``entries`` entries of groups that left from the index of topics."""
        while self._leaving and entries > 0:
            group = self._leaving[0]
            entries -= 1
            if group.topics:
                self._unindex(group.topics.popitem()[0], group)
            else:
                self._leaving.popleft().alone.clear()  # a cycle


_ENTRIES_LIMIT = "the limit is {} pairs of topic and broker (gateway.nameserverEntriesLimit)"


def _broker_data(group: _BrokerGroup, reached_at: str) -> BrokerData:
    return BrokerData(cluster=group.cluster, broker_name=group.name, broker_addrs=_addresses(group, reached_at))


def _addresses(group: _BrokerGroup, reached_at: str) -> dict[int, str]:
    return {broker_id: seen_from(address, reached_at) for broker_id, address in group.addresses.items()}


def _is_master(group: _BrokerGroup, registration: Registration) -> bool:
    """Return whether a master that registers is still at its place."""
    return not group.is_gone and group.addresses.get(MASTER_ID) == registration.address


def _was_elsewhere(before: LiveBroker, registration: Registration) -> bool:
    """Return whether an address had another name, or another cluster according to the same connection."""
    if before.broker_name != registration.broker_name:
        return True
    return before.cluster != registration.cluster and before.channel_id == registration.channel_id


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
