"""The desk: the parts of a broker that requests share, under one name each.

Every class of requests is made from a desk and works with the parts on the desk. Classes that run for every message
keep the parts that they use, because that is quicker. ``parts`` makes what lies on the desk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from gateway.broker.announcing.store_hosts import StoreHosts
from gateway.broker.cold_reads import ColdReads
from gateway.broker.figures.flows import Flows
from gateway.broker.figures.throughput import Throughput, Traffic
from gateway.broker.live_settings import LiveSettings
from gateway.broker.named_messages import NamedMessages
from gateway.broker.upkeep.expiry import Expiry
from gateway.clock import Milliseconds
from gateway.delivery.filters.subscribed import SubscribedFilters
from gateway.delivery.filters.turns import FilterTurns
from gateway.delivery.lite.lite_topics import LiteTopics
from gateway.delivery.long_poll import HeldPulls
from gateway.delivery.pop.pops import Pops
from gateway.in_thread import InThread
from gateway.membership.consumers import Consumers
from gateway.membership.heartbeats import Heartbeats
from gateway.membership.producers import Producers
from gateway.membership.queue_locks import QueueLocks
from gateway.metadata.groups import Groups
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.request_modes import RequestModes
from gateway.metadata.topics import Topics
from gateway.remoting.requests import Requests
from gateway.remoting.turns import Turns
from gateway.schedule.delay_service import DelayService
from gateway.schedule.redirect import DelayLevels
from gateway.schedule.timer_service import TimerService
from gateway.settings import Settings
from gateway.store.message_store import MessageStore
from gateway.telemetry.metrics import Registry
from gateway.transaction.transactions import Transactions
from wire.message.record import OutgoingMessage

if TYPE_CHECKING:  # access control and replication are imported only if they are on
    from gateway.access.control import AccessControl
    from gateway.broker.life import BrokerLife
    from gateway.replication.controlled.place import PlaceInGroup
    from gateway.replication.master.role import Master
    from gateway.replication.slave.role import Slave

QueuesOf = Callable[[str], Awaitable[Mapping[str, int] | None]]
"""A function that asks the name servers for the read queues of a topic, by broker name.

The result is None when none of the name servers knows the topic.
"""


class Desk(Protocol):
    """The shared parts of one broker."""

    # -- settings and time ----------------------------------------------------------------------------------

    settings: Settings
    """The settings in effect: ``live`` changes them, so nobody keeps the value of a live setting."""
    live: LiveSettings
    clock: Milliseconds
    """The operating system's time in epoch milliseconds."""
    steady_ms: Milliseconds
    """Milliseconds that never go back: the clock of ``transactions``."""
    booted: tuple[int, int]
    """The time at which the broker started, in epoch milliseconds, and the end of its commit log at that time."""
    random_below: Callable[[int], int]

    # -- messages -------------------------------------------------------------------------------------------

    master: Master | None
    """The master's side of replication; None if no slave may copy."""
    slave: Slave | None
    """The slave's side of replication; None if the broker is a master."""
    life: BrokerLife | None
    """The life of the broker, through which its role changes; None where it does not."""
    group: PlaceInGroup | None
    """The place in the group of a controller; None if ``brokerRole`` alone decides the role."""
    store: MessageStore
    cold_reads: ColdReads
    """A runner of disk reads in threads."""
    named: NamedMessages
    """A reader of messages that requests name by their place in the log."""
    store_hosts: StoreHosts
    transactions: Transactions
    levels: DelayLevels
    delays: DelayService
    timers: TimerService | None
    """The service for timer messages; None when timer messages are off."""
    expiry: Expiry

    # -- topics, groups, members ----------------------------------------------------------------------------

    topics: Topics
    groups: Groups
    offsets: ConsumerOffsets
    modes: RequestModes
    producers: Producers
    consumers: Consumers
    heartbeats: Heartbeats
    locks: QueueLocks
    read_queues: QueuesOf

    # -- access control -------------------------------------------------------------------------------------

    access: AccessControl | None
    """The accounts of the process and their audit file; None if requests need no account."""

    # -- delivery -------------------------------------------------------------------------------------------

    held: HeldPulls
    filters: SubscribedFilters
    pops: Pops
    lite: LiteTopics

    # -- figures --------------------------------------------------------------------------------------------

    traffic: Traffic
    flows: Flows
    throughput: Throughput
    registry: Registry

    # -- threads and turns ----------------------------------------------------------------------------------

    in_thread: InThread
    """A function that runs blocking work in a thread."""
    soon: Callable[[Callable[[], None]], None]
    """A function that runs another at the end of the reactor's turn and writes out the answers that were made there."""
    turns: Turns
    """The turns by which long answers share the reactor."""
    filter_turns: FilterTurns
    """The turns by which filters and pops share the reactor when they look at messages."""

    def timed(self, message: OutgoingMessage) -> OutgoingMessage:
        """Return a message with a time of delivery as it is stored until then.

        A message whose time has come is returned unchanged.

        :raises RequestRefused: the time is invalid or too far away, timers are off, or no more messages can wait.
        """

    def forget_topic(self, topic: str) -> Awaitable[list[str]]:
        """Forget what belongs to a deleted topic.

        The result names the light queues that have to be deleted with the topic.
        """

    def name_servers(self, reached_at: str) -> str:
        """Return the name servers as a peer sees them that reached the broker at the address ``reached_at``.

        Addresses are separated by semicolons.
        """


class DeskRequests(Requests):
    """A class of requests that works with the parts on the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def turns(self) -> Turns:  # type: ignore[override]
        """The turns by which long answers share the reactor."""
        return self._desk.turns
