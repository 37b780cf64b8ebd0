"""The parts of a broker: each part is made once and handed to the parts that need it.

Only wiring is here: no part looks up another, because each gets its collaborators from ``BrokerParts``. Requests take
their collaborators from the same parts, which they see as a ``Desk``. ``service`` says when the parts start and stop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from secrets import randbelow, token_bytes
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred

from gateway.broker.announcing.store_hosts import StoreHosts
from gateway.broker.awaiting import delete_queues, saved
from gateway.broker.cold_reads import ColdReads
from gateway.broker.desk import QueuesOf
from gateway.broker.figures.flows import Flows
from gateway.broker.figures.throughput import Throughput, Totals, Traffic
from gateway.broker.live_settings import LiveSettings
from gateway.broker.named_messages import NamedMessages
from gateway.broker.takeover import CopyMark, take_over
from gateway.broker.upkeep.expiry import Expiry
from gateway.broker.upkeep.last_save import LastSave, NotAllSaved, save_all
from gateway.clock import Milliseconds, steady_clock
from gateway.delivery.filters.bloom import BloomShape
from gateway.delivery.filters.group_bits import FILE_NAME as BIT_MAPS_FILE_NAME
from gateway.delivery.filters.group_bits import GroupBitMaps
from gateway.delivery.filters.subscribed import SubscribedFilters
from gateway.delivery.filters.turns import FilterTurns
from gateway.delivery.lite.lite_topics import LiteTopics
from gateway.delivery.long_poll import HeldPulls
from gateway.delivery.pop.order_file import FILE_NAME as ORDER_FILE_NAME
from gateway.delivery.pop.pops import Pops
from gateway.delivery.surroundings import BrokerTables, DeliverySurroundings
from gateway.errors import GatewayError, RequestRefused
from gateway.in_thread import Failed, InThread
from gateway.membership.consumers import Consumers, notify_consumer_ids_changed
from gateway.membership.heartbeats import Heartbeats
from gateway.membership.notices import MemberNotices
from gateway.membership.producers import Producers
from gateway.membership.queue_locks import QueueLocks
from gateway.metadata.groups import Groups
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.request_modes import RequestModes
from gateway.metadata.saved.broker_name import FILE_NAME as NAME_FILE_NAME
from gateway.metadata.saved.broker_name import keep_name
from gateway.metadata.topics import Topics, topics_in_file
from gateway.remoting.declared import OnSlave
from gateway.remoting.dispatch import CarryOut
from gateway.remoting.pending import CallFailed
from gateway.remoting.tls.makers import NO_LINKS, LinkMakers
from gateway.remoting.turns import Turns
from gateway.replication.hidden_tail import HiddenTail
from gateway.replication.replicated_mark import ReplicatedMark
from gateway.schedule.delay_offsets import DelayOffsets
from gateway.schedule.delay_service import DelayService
from gateway.schedule.redirect import DelayLevels
from gateway.schedule.timer_files import TimerFiles
from gateway.schedule.timer_message import placed_timed
from gateway.schedule.timer_service import TimerService
from gateway.settings import Address, Settings
from gateway.store.disk.files import FileLayer
from gateway.store.durability.dispatch import no_bit_map
from gateway.store.durability.light_queues import light_arrivals
from gateway.store.durability.surroundings import BatchObserver, StoreSurroundings, no_stage
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutOutcome, each_result, message_count
from gateway.store.space.retention import rule_text
from gateway.telemetry.logs import EventLog
from gateway.telemetry.metrics import Registry
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.counts import FILE_NAME, MetricsFile, TransactionCounts
from gateway.transaction.needs import TransactionNeeds
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.tables.transaction_tables import TransactionTables
from gateway.transaction.transactions import Transactions
from wire.codes import RequestCode, ResponseCode
from wire.message.flags import Permission
from wire.message.record import OutgoingMessage

if TYPE_CHECKING:
    from gateway.access.control import AccessControl
    from gateway.broker.life import BrokerLife
    from gateway.replication.controlled.place import PlaceInGroup
    from gateway.replication.master.role import Master
    from gateway.replication.slave.role import Slave
    from gateway.replication.surroundings import Call, ReplicationSurroundings
    from wire.command import RemotingCommand
    from wire.headers.declare import Header


async def no_name_server(_topic: str) -> None:
    """Return None: no name server can be asked for queues, so the broker's own queues are all there are."""


async def no_other_broker(address: Address, _code: int, _header: Header | None) -> RemotingCommand:
    """Fail: no other broker can be called.

    :raises CallFailed: always.
    """
    raise CallFailed(f"{address} cannot be called from here")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Everything that a broker needs and does not make itself, as one value.

    :param clock: the time in epoch milliseconds.
    :param soon: runs a function at the end of the reactor's turn and writes out the answers that were made there.
    :param in_log_thread: runs blocking work on the commit log, in the order of the calls.
    :param in_sync: runs the syncs of the commit log's batches; ``in_log_thread`` when left out.
    :param in_thread: runs other blocking work in a thread pool.
    :param listen_port: returns the broker's main port, once the broker listens.
    :param read_queues: asks the name servers for the queues of a topic.
    :param call: calls another broker.
    :param links: makes the sides of TLS for the connection between a master and its slave.
    :param files: the disk of the store; the operating system's files when left out.
    :param access: the accounts of the process; None if requests need none.
    :param group: the place in the group of a controller; None if ``brokerRole`` alone decides.
    """

    reactor: Any
    clock: Milliseconds
    soon: Callable[[Callable[[], None]], None]
    in_log_thread: InThread
    in_sync: InThread | None = None
    in_thread: InThread
    listen_port: Callable[[], int]
    read_queues: QueuesOf = no_name_server
    call: Call = no_other_broker
    links: LinkMakers = NO_LINKS
    files: FileLayer | None = None
    access: AccessControl | None = None
    group: PlaceInGroup | None = None


log = EventLog("broker")
T = TypeVar("T")

LEAST_TABLES_BYTES = 1024 * 1024
"""Bytes of the disk that stay reserved for tables that grow and for small files."""


class BrokerParts:
    """The parts from which requests are made: store, tables, members, delivery, schedule, transactions."""

    def __init__(self, settings: Settings, around: Surroundings) -> None:
        clock, soon, in_thread, files = around.clock, around.soon, around.in_thread, around.files
        self.settings = settings
        self.live = LiveSettings(settings, self._settings_changed)
        self._reactor = reactor = around.reactor
        self.clock = clock
        self.booted = (clock(), 0)
        """The time when the broker started, in epoch milliseconds, and the end of the commit log at that time."""
        self.name_server_port: Callable[[], int] | None = None
        """A function that returns the port of the name server in this process; None without a name server."""
        self._may_run = self._runs = False
        self.life: BrokerLife | None = None
        """The life of the broker, through which its role changes; None where it does not."""
        self.in_thread = in_thread
        self._files = files
        self._tail = HiddenTail(ReplicatedMark(settings.store_path_root_dir, files), around.soon)
        self.soon = soon
        self.read_queues = around.read_queues
        self._call = around.call
        self._links = around.links
        self.access = around.access
        self.group = around.group
        self.random_below: Callable[[int], int] = randbelow
        self.cold_reads = ColdReads(in_thread, threads=settings.cold_read_threads, limit=settings.cold_reads_limit)
        self.store_hosts = StoreHosts(settings, around.listen_port)
        self.traffic = Traffic()
        self.flows = Flows(clock)
        self.registry = Registry()
        config = settings.store_path_root_dir / "config"
        self.filter_turns = FilterTurns(soon)
        self.levels = DelayLevels.parse(settings.message_delay_level)
        self.bit_maps = self._make_bit_maps(config / BIT_MAPS_FILE_NAME)
        self.master = self._make_master()
        self.slave = self._make_slave()
        self.store = MessageStore(
            settings.store_path_root_dir,
            settings,
            StoreSurroundings(
                clock_ms=clock,
                files=files,
                soon=soon,
                in_log_thread=around.in_log_thread,
                in_sync=around.in_sync,
                later=self._later,
                stage=self._stage(),
                registry=self.registry,
            ),
            delay_of=self._delay_of,
            bit_map_of=no_bit_map if self.bit_maps is None else self.bit_maps.of_message,
            topics=lambda: topics_in_file(config / "topics.json"),
        )
        self.named = NamedMessages(self.store, self.cold_reads)
        self.expiry = Expiry(
            store=self.store,
            clock_ms=clock,
            reactor=reactor,
            in_thread=in_thread,
            pause_ms=settings.delete_commit_log_files_interval_ms,
        )
        self.topics = Topics(path=config / "topics.json", settings=settings, clock_ms=clock, in_thread=in_thread)
        self.groups = Groups(
            path=config / "subscriptionGroup.json", settings=settings, clock_ms=clock, in_thread=in_thread
        )
        self.offsets = ConsumerOffsets(
            path=config / "consumerOffset.json",
            light_queues=settings.enable_lmq,
            clock_ms=clock,
            in_thread=self._after_flush,
        )
        self.modes = RequestModes(path=config / "messageRequestMode.json", in_thread=in_thread)
        self.delay_offsets = DelayOffsets(config / "delayOffset.json", in_thread)
        self.producers = Producers()
        self.turns = Turns(reactor)
        # Upstream tells before it answers the heartbeat that changed the group. The member then shares out the queues
        # while its heartbeat still waits for the answer, and the heartbeat that should follow, with its subscriptions'
        # new versions, is left out: one at a time. Its pulls are refused until the next one, up to 30 s later.
        notices = MemberNotices(
            notify=notify_consumer_ids_changed,
            clock_ms=clock,
            soon=soon,
            later=self._later,
            in_turns=self.turns.begin,
        )
        self.consumers = Consumers(groups=self.groups, tell=notices.tell)
        self.locks = QueueLocks(clock)
        self.filters = SubscribedFilters(self.bit_maps, self.filter_turns)
        self.heartbeats = Heartbeats(
            producers=self.producers,
            consumers=self.consumers,
            groups=self.groups,
            topics=self.topics,
            clock_ms=clock,
            expired_after_ms=settings.channel_expired_timeout_ms,
        )
        host = self.store_hosts.own
        tables = BrokerTables(self.topics, self.groups, self.offsets)
        delivery = DeliverySurroundings(
            clock_ms=clock,
            in_thread=in_thread,
            cold_read=self.cold_reads.read,
            turns=self.filter_turns,
            in_turns=self.turns.begin,
            store_host=host,
        )
        self.held = HeldPulls(
            clock,
            self.filter_turns,
            delivery.held_bytes,
            settings.held_pulls_limit,
            settings.held_pulls_per_connection,
        )
        self.pops = Pops(self.store, tables, settings, replace(delivery, in_thread=self._after_flush))
        self.lite = LiteTopics(self.store, tables, self.pops, settings, delivery)
        self.pops.when_opened(self.lite.opened)
        self.delays = DelayService(
            store=self.store,
            levels=self.levels,
            reactor=reactor,
            clock=clock,
            in_thread=in_thread,
            delivery_queue=self._delivery_queue,
        )
        has_timers = settings.timer_wheel_enable and self.slave is None
        self.timers = self._make_timers(files) if has_timers else None
        self.registry.watch(
            "rocketmq_gateway_delayed_messages_given_up",
            "Delayed and timer messages that their topic can never take, since the start",
            lambda: self.delays.given_up + (0 if self.timers is None else self.timers.given_up),
        )
        self.throughput = Throughput(self._totals, clock, _day_of)
        self.store.deletion.keep_from = self._oldest_pending if self.slave is None else self.slave.keep_from
        self.store.deletion.reserved_bytes = self._tables_bytes
        self.steady_ms = steady_clock(clock)
        checks_file = settings.store_path_root_dir / "transaction" / "checks"
        self.transactions = Transactions(
            TransactionTables(settings, TransactionCounts(self.registry)),
            self.store,
            TransactionNeeds(
                reactor=reactor,
                clock_ms=self.steady_ms,
                in_thread=in_thread,
                read=self.cold_reads.read,
                soon=self.store.before_batch,
                producers=self.producers,
                offsets=self.offsets,
                host=host,
                broker_name=settings.broker_name,
                topics=self.topics.table(),
                has_topic=self._has_topic,
            ),
            CheckJournal(checks_file, in_thread=in_thread, files=files),
            StateChoice.from_settings(settings, files),
        )

    # -- life -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Recover the store, load the tables and find open transactions; blocks.

        :raises GatewayError: a file on disk cannot be used.
        """
        report = self.store.open()
        log.info(
            "store opened",
            directory=self.settings.store_path_root_dir,
            closed_properly=report.clean,
            walked_from=report.start_offset,
            log_end=report.end_offset,
            records_walked=report.records,
            queues_rebuilt=report.rebuilt_queues,
            torn_bytes=report.torn_bytes,
        )
        self.booted = (self.booted[0], self.store.stored_end)
        log.info("disk space", rule=rule_text(self.store.deletion.disk_space(), self.settings))
        try:
            self._load()
            if self.bit_maps is not None:
                self.bit_maps.load()
                if not report.clean:
                    self.bit_maps.distrust()
        except (GatewayError, OSError):
            self.store.close()  # what it recovered is fine: the next start shall not recover it again
            raise
        self.store.listen(self._dispatched)
        self._keep_name()

    def _keep_name(self) -> None:
        """Store the broker's name in the directory, so that every later host serves it under the same name."""
        root = self.settings.store_path_root_dir
        try:
            keep_name(root, self.settings.broker_name)
        except OSError as error:
            log.warning(
                "the broker's name cannot be kept: on another host it may be another one",
                file=root / NAME_FILE_NAME,
                reason=error.strerror or str(error),
            )

    def _load(self) -> None:
        self.topics.load()
        self.topics.create_system_topics()
        self.topics.ensure(CHECK_MAX_TOPIC, 1, Permission.READ_WRITE)
        self.groups.load()
        self.groups.create_system_groups()
        self.offsets.load()
        self.delays.resume_from(self.delay_offsets.load())
        self.delay_offsets.follow(self.delays.durable_offsets)
        self.modes.load()
        if self.group is not None and self.group.lead is not None:
            self.topics.begin_state(self.group.epoch)
        copy = CopyMark(self.settings.store_path_root_dir, self._files)
        if self.slave is not None:
            self.transactions.check_database()  # as a master it would not start
            copy.set()
            self.pops.revive_log.forget_cut()
            self.slave.begin(self.store, self._tail, self._show)
            return  # what a log says besides its messages is found when the broker becomes a master
        self._adopt_queues()
        takes_over = copy.is_set
        if takes_over:
            has_keys = self.settings.message_index_enable
            take_over(self.store, self.offsets, self.delays, self.levels, has_keys=has_keys)
        self.pops.rebuild(takes_over=takes_over)
        self.transactions.rebuild(takes_over=takes_over)
        if self.timers is not None:
            self.timers.open()
        if takes_over:
            self.offsets.persist_now()
            self.delay_offsets.persist_now()
            copy.remove()
        if self.master is None:
            self._tail.forget()
        else:
            self.master.begin(self.store, self._tail, self._show, takes_over=takes_over)

    def start(self) -> None:
        """Start the parts that run by themselves: delays, timers and transactions; on a slave, none.

        They start later if messages are hidden: what they do may depend on these.
        """
        self._may_run = True
        self._run()

    def _run(self) -> None:
        if self.slave is not None or not self._may_run or self.store.hidden_from is not None:
            return
        self._runs = True
        self.delays.start()
        if self.timers is not None:
            self.timers.start()
        self.transactions.start()

    def _show(self, place: int, is_all: bool) -> bool:
        """Show a part of what was hidden since the start, and wake those who wait for it; return False at its end."""
        shown = self.store.show_to(place, is_all=is_all)
        self.held.shown(shown)
        if self.slave is None:
            self.pops.shown(shown)
            if self.settings.fills_light_queues:
                self.lite.shown(queue.topic for queue in shown)
            self._run()
        return bool(shown)

    async def stop(self) -> None:
        """Stop the parts that run by themselves and answer the held pulls; ends when everything appended is durable."""
        self._may_run = False
        self.delays.stop()
        timers_stopped = None if self.timers is None else self.timers.stop()
        self.held.resume_all()
        self.pops.stop()
        self.lite.held.end_all()
        if self.slave is None:
            if not self._runs:
                self.transactions.start()  # what the start found has to be written down
            await self.transactions.stop()
        if self.master is not None:
            await self.master.drain()
        if self.slave is not None:
            self.slave.drain()
        waiting: Deferred[None] = Deferred()
        self.store.when_idle(lambda: waiting.callback(None))
        await waiting
        if timers_stopped is not None:
            await timers_stopped

    def close(self) -> None:
        """Save the tables, then flush and close the store; blocks.

        :raises NotAllSaved: something was not saved or not flushed; everything else is saved, and everything is closed.
        """
        self.store.flush()  # what tables say of the log is saved no further than that is on disk
        failed = save_all(self._last_saves())
        is_flushed = self.store.close()
        self._tail.close()
        if failed or not is_flushed:
            raise NotAllSaved(failed, None if is_flushed else self.settings.store_path_root_dir)

    def _last_saves(self) -> list[LastSave]:
        config = self.settings.store_path_root_dir / "config"
        counts = MetricsFile(config, self.transactions.counts, self.clock)
        return [
            LastSave(self.topics, config / "topics.json", "topics created or changed since it was saved last"),
            LastSave(self.groups, config / "subscriptionGroup.json", "groups made or changed since it was saved last"),
            LastSave(
                self.pops,
                config / ORDER_FILE_NAME,
                "a start reads more of the topic in which pops are written down",
            ),
            LastSave(
                self.modes, config / "messageRequestMode.json", "groups consume as was set when it was saved last"
            ),
            LastSave(
                self.offsets,
                self.offsets.path,
                "consumers go on at the offsets saved last: messages acknowledged since come again",
            ),
            LastSave(
                self.delay_offsets,
                config / "delayOffset.json",
                "delay levels go on at the offsets saved last: delayed messages released since come again",
            ),
            *self._last_timer_saves(),
            *self._last_bit_map_saves(),
            LastSave(counts, config / FILE_NAME, "nothing here: only Apache RocketMQ reads these counts"),
        ]

    def _last_bit_map_saves(self) -> list[LastSave]:
        if self.bit_maps is None:
            return []
        lost = "groups that came since read the records of more messages than they have to"
        return [LastSave(self.bit_maps, self.bit_maps.path, lost)]

    def _last_timer_saves(self) -> list[LastSave]:
        if self.timers is None:
            return []
        return [
            LastSave(
                self.timers,
                self.settings.store_path_root_dir / "config" / "timercheck",
                "the next start looks through the commit log for timer messages delivered since",
            )
        ]

    def _make_bit_maps(self, path: Path) -> GroupBitMaps | None:
        settings = self.settings
        if not (settings.enable_calc_filter_bit_map and settings.enable_consume_queue_ext):
            return None
        return GroupBitMaps(
            path=path,
            shape=BloomShape(settings.max_error_rate_of_bloom_filter, settings.expect_consumer_num_use_filter),
            now_ms=lambda: max(self.clock(), self.store.last_stored_ms),
            is_live=lambda group, topic: self.consumers.subscription(group, topic) is not None,
            in_thread=self.in_thread,
            turns=self.filter_turns,
        )

    def _make_master(self) -> Master | None:
        if not self.settings.opens_ha_port:
            return None
        from gateway.replication.master.role import Master  # for those who replicate

        return Master(self.settings, self._replication_surroundings(), None if self.group is None else self.group.lead)

    def _make_slave(self) -> Slave | None:
        if not self.settings.is_slave:
            return None
        from gateway.replication.slave.role import Slave  # for those who copy

        return Slave(self.settings, self._replication_surroundings(), None if self.group is None else self.group.follow)

    def _stage(self) -> Callable[[BatchObserver], BatchObserver]:
        """Return what makes the stage of the role between the disk and what is visible."""
        role = self.slave if self.master is None else self.master
        return no_stage if role is None else role.stage

    def _replication_surroundings(self) -> ReplicationSurroundings:
        from gateway.replication.surroundings import ReplicationSurroundings

        return ReplicationSurroundings(
            reactor=self._reactor,
            clock_ms=self.clock,
            later=self._later,
            in_thread=self.in_thread,
            call=self._call,
            registry=self.registry,
            random_bytes=token_bytes,
            links=self._links,
        )

    def refusal_of(self, code: RequestCode, on_slave: OnSlave) -> CarryOut | None:
        """Return what refuses a request in the broker's role; None if the request is answered."""
        return None if self.slave is None else self.slave.refusal_of(code, on_slave)

    def _make_timers(self, files: FileLayer | None) -> TimerService:
        settings = self.settings
        timers = TimerService(
            store=self.store,
            files=TimerFiles(settings.store_path_root_dir, settings.mapped_file_size_timer_log, files),
            settings=settings,
            reactor=self._reactor,
            clock=self.clock,
            in_thread=self.in_thread,
            delivery_queue=self._delivery_queue,
            is_deleted=lambda topic, place: self.topics.get(topic) is None and self._was_deleted(topic, place),
        )
        self.registry.watch("rocketmq_timing_messages", "Timer messages that wait", lambda: timers.waiting)
        return timers

    def _settings_changed(self) -> None:
        self.topics.settings_changed()
        self.pops.check_points.shares.resize(self.settings.pop_check_points_limit)
        self.lite.subscriptions.resize(self.settings.max_lite_subscription_count)

    def forget_topic(self, topic: str) -> Awaitable[list[str]]:
        """Forget what belongs to a deleted topic.

        The result names the light queues that have to be deleted with the topic.
        """
        self.pops.forget_topic(topic)
        self.held.wake_topic(topic)
        return self.lite.forget_parent(topic)

    async def forget_topics(self, topics: list[str]) -> None:
        """Forget what belongs to topics that a slave's master does not have any more, but their queues."""
        for topic in topics:
            await self.forget_topic(topic)

    @property
    def log_end(self) -> int:
        """The offset after the last message of the log."""
        return self.store.max_commit_log_offset

    @property
    def kept_end(self) -> int:
        """The end of the log that a power failure leaves; with ASYNC_FLUSH, which promises none, ``log_end``."""
        return self.store.durable_end if self.settings.sync_flush else self.log_end

    @property
    def shown_end(self) -> int:
        """The offset after the last message that readers may see."""
        return self.store.shown_end

    def lacks_filler(self, log_end: int) -> bool:
        """Return whether the log may lack only the filler that ends a file of its master's log.

        A slave stores the filler with the record that follows it.
        """
        file_bytes = self.settings.mapped_file_size_commit_log
        return log_end % file_bytes == 0 and log_end - self.log_end < file_bytes

    async def delete_queues_below(self, topics: Collection[str], log_end: int) -> None:
        """Delete the queues of topics whose messages all lie below an offset of the log, and note the deletions.

        Topics without a queue are noted as well: messages of them may wait for their time or their outcome.

        :raises RequestRefused: SYSTEM_ERROR: a deletion is not on disk.
        """
        ends = self._ends_of(topics)
        away = [topic for topic in topics if topic not in ends]
        await saved(
            partial(self.store.deletion.note_deleted, away, log_end, self.in_thread),
            "deletion of topics without queues",
        )
        old = [topic for topic, end in ends.items() if end <= log_end]
        # Looked at once more, one by one: messages of a topic that was made again may come while others are deleted.
        still_old = (topic for topic in old if self._ends_of([topic]).get(topic, 0) <= log_end)
        await delete_queues(self.store, still_old, self.in_thread, log_end)

    def _ends_of(self, topics: Collection[str]) -> dict[str, int]:
        """Return the offset of the log after the last message of each of these topics that has queues."""
        ends: dict[str, int] = {}
        for topic in topics:
            for queue_id in self.store.queues_of(topic):
                ends[topic] = max(ends.get(topic, 0), self.store.covered_end(topic, queue_id))
        return ends

    def timed(self, message: OutgoingMessage) -> OutgoingMessage:
        """Return a message with a time of delivery as it is stored until then.

        A message whose time has come is returned unchanged.

        :raises RequestRefused: the time is invalid or too far away, timers are off, or no more messages can wait.
        """
        timers = self.timers
        placed = placed_timed(
            message,
            self.clock(),
            self.settings,
            waiting_in=timers.waiting_in if timers is not None else lambda _: 0,
            random_below=self.random_below,
        )
        if placed is not message and timers is not None and timers.is_full:
            raise RequestRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "the timer log cannot be written, and too many timer messages wait for it already",
            )
        return placed

    def _after_flush(self, work: Callable[[], T], done: Callable[[T | Failed], None]) -> None:
        """Run ``work`` in a thread once the log is on disk, because ``work`` writes facts that follow from the log."""
        if self.settings.sync_flush:
            self.in_thread(work, done)
            return

        def flushed() -> T:
            if not self.store.flush_log():
                raise OSError("the log is not on disk yet")
            return work()

        self.in_thread(flushed, done)

    # -- what happened --------------------------------------------------------------------------------------

    def _dispatched(self, outcomes: list[PutOutcome]) -> None:
        """Notify every part that waits for new messages that these can be read now."""
        # A copied message was stored by the master's clock, and nobody waited for it here.
        waited_ms = max(self.clock() - outcomes[0].stored_at_ms, 0) if self.slave is None else 0
        self.traffic.stored(message_count(outcomes), waited_ms)
        # Who waits for one topic only does not look through all messages.
        topics = self.flows.stored(outcomes, waited_ms)
        if self.slave is not None:
            self.held.arrived(outcomes)
            return
        if HALF_TOPIC in topics or self.transactions.follows_all:
            self.transactions.half_stored(outcomes)
        if SCHEDULE_TOPIC in topics:
            self.delays.arrived(each_result(outcomes))
        if self.timers is not None and WHEEL_TIMER_TOPIC in topics:
            self.timers.arrived(each_result(outcomes))
        self.held.arrived(outcomes)
        if self.settings.fills_light_queues:
            arrivals = list(light_arrivals(outcomes))
            self.held.arrived(arrivals)
            self.lite.arrived(arrivals)
        self.pops.arrived(outcomes)

    def _was_deleted(self, topic: str, log_offset: int) -> bool:
        return log_offset < self.store.deletion.deleted_topics.offsets.get(topic, 0)

    def _delivery_queue(self, topic: str, queue_id: int, log_offset: int) -> int:
        return self.topics.delivery_queue(topic, queue_id, was_deleted=self._was_deleted(topic, log_offset))

    def _has_topic(self, topic: str, queue_id: int, log_offset: int) -> bool:
        was_deleted = self._was_deleted(topic, log_offset)
        return self.topics.find_or_create(topic, queue_id, was_deleted=was_deleted) is not None

    def _adopt_queues(self) -> None:
        """Create the topic again for queues that have none, because a kill came just after their topic was created."""
        counts: dict[str, int] = {}
        for topic, queue_id in self.store.queues():
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        for topic, count in counts.items():
            self.topics.adopt(topic, count)

    def _later(self, delay_ms: int, function: Callable[[], None]) -> Callable[[], None]:
        call = self._reactor.callLater(delay_ms / 1000, function)
        return lambda: call.cancel() if call.active() else None

    # -- small values ---------------------------------------------------------------------------------------

    def _oldest_pending(self) -> int | None:
        """Return the log offset of the oldest message that retention keeps; None if there is none.

        Retention keeps timer messages, and half messages without an outcome.
        """
        pending = self.transactions.pending
        half = pending.place(pending.base)[0] if pending.count else None
        timer = None if self.timers is None else self.timers.keep_from()
        return min((place for place in (half, timer) if place is not None), default=None)

    def name_servers(self, reached_at: str) -> str:
        """Return the name servers as a peer sees them that reached the broker at the address ``reached_at``.

        Addresses are separated by semicolons.
        """
        port = self.name_server_port
        own = [] if port is None else [Address(reached_at, port())]
        return ";".join(str(address) for address in (*own, *self.settings.name_server_addresses))

    def _tables_bytes(self) -> int:
        """Return how many bytes of disk the tables need when all of them are written again."""
        tables = (self.topics, self.groups, self.offsets, self.modes)
        return LEAST_TABLES_BYTES + sum(table.file_bytes for table in tables)

    def _delay_of(self, level: int) -> int | None:
        return self.levels.delay_ms(level) if level > 0 else None

    def _totals(self) -> Totals:
        traffic = self.traffic
        return Totals(
            puts=traffic.stored_messages,
            gets=traffic.given_messages,
            found_pulls=traffic.found_pulls,
            missed_pulls=traffic.missed_pulls,
            timers_entered=0 if self.timers is None else self.timers.entered,
            timers_delivered=0 if self.timers is None else self.timers.delivered,
        )


def _day_of(moment_ms: int) -> int:
    return datetime.fromtimestamp(moment_ms / 1000).toordinal()  # of the local midnight
