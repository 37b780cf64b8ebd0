"""What requests work with: the parts of a broker that they share, under one name each.

Every class of requests is made of a desk and works with what lies on it. Those that run for every message keep what
they use, which is quicker. ``parts`` makes what lies on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.broker.announcing.store_hosts import StoreHosts
    from gateway.broker.cold_reads import ColdReads
    from gateway.broker.figures.flows import Flows
    from gateway.broker.figures.throughput import Throughput
    from gateway.broker.figures.traffic import Traffic
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
    from gateway.remoting.turns import Turns
    from gateway.schedule.delay_levels import DelayLevels
    from gateway.schedule.delay_service import DelayService
    from gateway.schedule.timer_service import TimerService
    from gateway.settings import Settings
    from gateway.store.message_store import MessageStore
    from gateway.telemetry.metrics import Registry
    from gateway.transaction.transactions import Transactions
    from wire.message.record import OutgoingMessage

QueuesOf = Callable[[str], Awaitable[Mapping[str, int] | None]]
"""Asks the name servers for the read queues of a topic by broker name; None when none of them knows the topic."""


class Desk(Protocol):
    """The shared parts of one broker."""

    # -- settings and time ----------------------------------------------------------------------------------

    settings: Settings
    """The settings in effect; a class that goes on with changed ones has a method ``use``."""
    live: LiveSettings
    clock: Milliseconds
    """Epoch milliseconds, as the operating system tells them."""
    steady_ms: Milliseconds
    """Milliseconds that never go back: the clock of ``transactions``."""
    booted: tuple[int, int]
    """When the broker started, in epoch milliseconds, and where its commit log ended then."""
    random_below: Callable[[int], int]

    # -- messages -------------------------------------------------------------------------------------------

    store: MessageStore
    cold_reads: ColdReads
    """Reads the disk in a thread."""
    named: NamedMessages
    """Reads messages that requests name by their place in the log."""
    store_hosts: StoreHosts
    transactions: Transactions
    levels: DelayLevels
    delays: DelayService
    timers: TimerService | None
    """None when timer messages are off."""
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
    """Runs blocking work in a thread."""
    soon: Callable[[Callable[[], None]], None]
    """Runs a function at the end of the reactor turn and writes out the answers it made."""
    turns: Turns
    """Shares the reactor among long answers."""
    filter_turns: FilterTurns
    """Shares the reactor among looks at messages that filters and pops ask for."""

    def timed(self, message: OutgoingMessage) -> OutgoingMessage:
        """Return a message that asks for a time of delivery as it waits for that time.

        :raises RequestRefused: it cannot wait so long, or no more messages can.
        """

    def forget_topic(self, topic: str) -> Awaitable[list[str]]:
        """Forget what belongs to a deleted topic; the result names the light queues that have to go with it."""

    def name_servers(self, reached_at: str) -> str:
        """Return the broker's name servers, as somebody sees them who reached the broker at an address."""
