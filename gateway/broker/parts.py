"""What a broker is made of: every part, made once and handed to those that need it.

Wiring only: no part is looked up, each gets its collaborators here. ``service`` says when they start and
stop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from secrets import randbelow
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from twisted.internet.defer import Deferred

from gateway.broker.cold_reads import ColdReads
from gateway.broker.expiry import Expiry
from gateway.broker.flows import FLOW_SAMPLE_MS, Flows
from gateway.broker.last_save import LastSave, NotAllSaved, save_all
from gateway.broker.requests.awaiting import thread_result
from gateway.broker.requests.cleaning import CleaningRequests
from gateway.broker.requests.consumers import ConnectedClients
from gateway.broker.requests.end_transaction import EndTransaction
from gateway.broker.requests.groups import GroupRequests
from gateway.broker.requests.heartbeats import HeartbeatRequests
from gateway.broker.requests.locks import LockRequests
from gateway.broker.requests.offsets import OffsetRequests
from gateway.broker.requests.pop import PopLimits, PopMessage
from gateway.broker.requests.pop_ack import PopAcks
from gateway.broker.requests.pull import PullLimits, PullMessage
from gateway.broker.requests.query import QueryMessages
from gateway.broker.requests.recall import RecallMessage, RecallTerms
from gateway.broker.requests.reply import ReplyMessage
from gateway.broker.requests.send import SendLimits, SendMessage
from gateway.broker.requests.send_back import SendBack
from gateway.broker.requests.throughput import SAMPLE_MS, Throughput, Totals
from gateway.broker.requests.topics import TopicRequests
from gateway.broker.traffic import Traffic
from gateway.broker.upkeep import Job
from gateway.delivery.filters.subscribed import SubscribedFilters
from gateway.delivery.long_poll import TICK_MS, HeldPulls
from gateway.delivery.pop.check_points import TICK_MS as POP_TICK_MS
from gateway.delivery.pop.order_file import FILE_NAME as ORDER_FILE_NAME
from gateway.delivery.pop.pops import Pops
from gateway.errors import GatewayError
from gateway.membership.consumers import Consumers
from gateway.membership.heartbeats import Heartbeats
from gateway.membership.producers import Producers
from gateway.membership.queue_locks import QueueLocks
from gateway.metadata.groups import Groups
from gateway.metadata.names import CHECK_MAX_TOPIC, SCHEDULE_TOPIC
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.request_modes import RequestModes
from gateway.metadata.topics import Topics
from gateway.schedule.delay_levels import DelayLevels
from gateway.schedule.delay_offsets import DelayOffsets
from gateway.schedule.delay_service import DelayService
from gateway.schedule.redirect import schedule_queue_id
from gateway.schedule.timer_files import TimerFiles
from gateway.schedule.timer_message import TimerTerms, placed_timed
from gateway.schedule.timer_service import TimerService
from gateway.settings import FlushDiskType, Settings
from gateway.store.message_store import MessageStore
from gateway.store.retention import rule_text
from gateway.store.store_settings import StoreSettings
from gateway.telemetry.logs import EventLog
from gateway.telemetry.metrics import Registry
from gateway.transaction.limits import TransactionLimits
from gateway.transaction.metrics_file import FILE_NAME, MetricsFile
from gateway.transaction.state_stores.choice import StateChoice
from gateway.transaction.steady_clock import steady_clock
from gateway.transaction.transactions import Transactions
from wire.codes import RequestCode
from wire.errors import WireError
from wire.message.flags import Permission
from wire.message.message_id import UniqueKeys, pack_host, unpack_host
from wire.message.record import OutgoingMessage

if TYPE_CHECKING:
    from gateway.broker.requests.assignments import QueuesOf
    from gateway.clock import Milliseconds
    from gateway.remoting.channel import Channel
    from gateway.remoting.dispatch import Dispatch, RequestGroup
    from gateway.store.files import FileLayer
    from gateway.store.put_result import Dispatched

log = EventLog("broker")

GROUP_OFFSET_CODES = (
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.QUERY_CORRECTION_OFFSET,
    RequestCode.CLONE_GROUP_OFFSET,
)
CONSUMPTION_CODES = (
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
)
CONSUMER_STATE_CODES = (
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)
ASSIGNMENT_CODES = (
    RequestCode.QUERY_ASSIGNMENT,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
)
POP_WAITING_CODES = (RequestCode.PEEK_MESSAGE, RequestCode.NOTIFICATION, RequestCode.POLLING_INFO)
STATISTICS_CODES = (
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_CONSUME_STATS,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    RequestCode.QUERY_TOPICS_BY_CONSUMER,
)
"""Asked by tools only: loaded when the first one comes, so that the start need not wait for them."""
BROKER_INFO_CODES = (
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.GET_BROKER_RUNTIME_INFO,
)
TRANSACTION_CODES = (
    RequestCode.GATEWAY_LIST_TRANSACTIONS,
    RequestCode.GATEWAY_SHOW_TRANSACTION,
    RequestCode.GATEWAY_SETTLE_TRANSACTION,
    RequestCode.GATEWAY_CHECK_TRANSACTION,
    RequestCode.GATEWAY_RESUME_TRANSACTION,
    RequestCode.GATEWAY_TRANSACTION_STATISTICS,
)
LOOPBACK = "127.0.0.1"
LONGEST_HOLD_MS = 120_000
"""A pull is held no longer than this whatever it asks for; stock clients ask for 15 to 30 s."""
COMPACT_MS = 1_000
"""How often it is seen whether old records of the revive topic are still needed."""
MEMBERSHIP_SCAN_MS = 10_000
"""How often silent clients and run-out queue locks are looked for, as upstream."""


async def no_name_server(_topic: str) -> None:
    """Nobody to ask for queues: the broker's own are all there are."""


class BrokerParts:
    """Store, tables, members, delivery, schedule, transactions and the requests on top of them.

    :param soon: runs a function at the end of the reactor turn and writes out the answers it made.
    :param in_log_thread: runs blocking work on the commit log, in order.
    :param in_thread: runs other blocking work in a thread pool.
    :param listen_port: the broker's main port, once it listens.
    :param read_queues: read queues of a topic by broker name, asked of the name servers.
    :param files: the disk of the store; the operating system's files when left out.
    """

    def __init__(
        self,
        settings: Settings,
        reactor: Any,
        clock: Milliseconds,
        *,
        soon: Callable[[Callable[[], None]], None],
        in_log_thread: Callable[[Callable[[], object], Callable[[Any], None]], None],
        in_thread: Callable[[Callable[[], Any], Callable[[Any], None]], None],
        listen_port: Callable[[], int],
        read_queues: QueuesOf = no_name_server,
        files: FileLayer | None = None,
    ) -> None:
        self._settings = settings
        self._reactor = reactor
        self._clock = clock
        self._in_thread = in_thread
        self._soon = soon
        self._read_queues = read_queues
        self._cold_reads = ColdReads(in_thread, threads=settings.cold_read_threads, limit=settings.cold_reads_limit)
        self._listen_port = listen_port
        self._store_hosts: dict[bytes, bytes] = {}
        self._traffic = Traffic()
        self._flows = Flows(clock)
        self.registry = Registry()
        config = settings.store_path_root_dir / "config"
        self._levels = DelayLevels.parse(settings.message_delay_level)
        self.store = MessageStore(
            settings.store_path_root_dir,
            store_settings(settings),
            clock,
            files=files,
            delay_of=self._delay_of,
            soon=soon,
            in_thread=in_log_thread,
            later=self._later,
            registry=self.registry,
        )
        self._expiry = Expiry(
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
        self.offsets = ConsumerOffsets(path=config / "consumerOffset.json", clock_ms=clock, in_thread=self._after_flush)
        self._modes = RequestModes(path=config / "messageRequestMode.json", in_thread=in_thread)
        self._delay_offsets = DelayOffsets(config / "delayOffset.json", in_thread)
        self.producers = Producers()
        self.consumers = Consumers(groups=self.groups)
        self._locks = QueueLocks(clock)
        self._filters = SubscribedFilters()
        self._heartbeats = Heartbeats(
            producers=self.producers,
            consumers=self.consumers,
            groups=self.groups,
            topics=self.topics,
            clock_ms=clock,
            expired_after_ms=settings.channel_expired_timeout_ms,
        )
        self._held = HeldPulls(clock, settings.held_pulls_limit)
        host = pack_host(_literal(settings.advertised.host or LOOPBACK, LOOPBACK), settings.listen_port)
        self.pops = Pops(
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            settings=settings,
            order_path=config / ORDER_FILE_NAME,
            store_host=host,
            clock_ms=clock,
            cold_read=self._cold_reads.read,
            in_thread=self._after_flush,
        )
        self._delays = DelayService(
            store=self.store, levels=self._levels, reactor=reactor, clock=clock, in_thread=in_thread
        )
        self._timer_terms = timer_terms(settings)
        self._timers = self._make_timers(files) if settings.timer_wheel_enable else None
        self._throughput = Throughput(self._totals, clock, _day_of)
        self.store.keep_from = self._oldest_pending
        self._steady_ms = steady_clock(clock)
        self.transactions = Transactions(
            store=self.store,
            consumer_offsets=self.offsets,
            producers=self.producers,
            reactor=reactor,
            clock_ms=self._steady_ms,
            limits=TransactionLimits.from_settings(settings),
            journal_path=settings.store_path_root_dir / "transaction" / "checks",
            host=host,
            soon=soon,
            in_thread=in_thread,
            metrics=self.registry,
            files=files,
            choice=StateChoice.from_settings(settings, files),
            broker_name=settings.broker_name,
            has_topic=lambda topic, queue_id: self.topics.find_or_create(topic, queue_id) is not None,
        )

    # -- life -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Recover the store, load the tables, find open transactions; blocks.

        :raises GatewayError: something on disk cannot be used.
        """
        report = self.store.open()
        log.info(
            "store opened",
            directory=self._settings.store_path_root_dir,
            closed_properly=report.clean,
            walked_from=report.start_offset,
            log_end=report.end_offset,
            records_walked=report.records,
            queues_rebuilt=report.rebuilt_queues,
            torn_bytes=report.torn_bytes,
        )
        log.info("disk space", rule=rule_text(self.store.deletion.disk_space(), self._settings))
        try:
            self._load()
        except (GatewayError, OSError):
            self.store.close()  # what it recovered is fine: the next start shall not recover it again
            raise
        self.store.listen(self._dispatched)

    def _load(self) -> None:
        self.topics.load()
        self.topics.create_system_topics()
        self.topics.ensure(CHECK_MAX_TOPIC, 1, Permission.READ_WRITE)
        self.groups.load()
        self.groups.create_system_groups()
        self.offsets.load()
        self._delays.resume_from(self._delay_offsets.load())
        self._delay_offsets.follow(self._delays.durable_offsets)
        self._adopt_queues()
        self._modes.load()
        self.pops.rebuild()
        self.transactions.rebuild()
        if self._timers is not None:
            self._timers.open()

    def register(self, dispatch: Dispatch) -> None:
        """Put all requests on a dispatch."""
        for requests in self._requests():
            requests.register(dispatch)
        dispatch.loads(STATISTICS_CODES, self._statistics)
        dispatch.loads(ASSIGNMENT_CODES, self._assignments)
        dispatch.loads(POP_WAITING_CODES, self._pop_waiting)
        dispatch.loads((RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,), self._reset_offsets)
        dispatch.loads(GROUP_OFFSET_CODES, self._group_offsets)
        dispatch.loads(CONSUMPTION_CODES, self._consumption)
        dispatch.loads(CONSUMER_STATE_CODES, self._consumer_state)
        dispatch.loads((RequestCode.VIEW_BROKER_STATS_DATA,), self._counts)
        dispatch.loads((RequestCode.QUERY_CONSUME_QUEUE,), self._queue_units)
        dispatch.loads((RequestCode.GET_BROKER_HA_STATUS,), self._replication)
        dispatch.loads((RequestCode.GET_TIMER_CHECK_POINT,), self._timer_state)
        dispatch.loads(BROKER_INFO_CODES, self._broker_info)
        dispatch.loads(TRANSACTION_CODES, self._transaction_control)

    def start(self) -> None:
        """Begin what runs by itself."""
        self._delays.start()
        if self._timers is not None:
            self._timers.start()
        self.transactions.start()

    async def stop(self) -> None:
        """End what runs by itself and answer the held pulls; ends when everything appended is durable."""
        self._delays.stop()
        timers_stopped = None if self._timers is None else self._timers.stop()
        self._held.resume_all()
        self.pops.stop()
        await self.transactions.stop()
        waiting: Deferred[None] = Deferred()
        self.store.when_idle(lambda: waiting.callback(None))
        await waiting
        if timers_stopped is not None:
            await timers_stopped

    def close(self) -> None:
        """Save the tables, flush and close the store; blocks.

        :raises NotAllSaved: something could not be; everything else is saved, and all is closed.
        """
        self.store.flush()  # what tables say of the log is saved no further than that is on disk
        failed = save_all(self._last_saves())
        is_flushed = self.store.close()
        if failed or not is_flushed:
            raise NotAllSaved(failed, None if is_flushed else self._settings.store_path_root_dir)

    def _last_saves(self) -> list[LastSave]:
        config = self._settings.store_path_root_dir / "config"
        counts = MetricsFile(config, self.transactions.counts, self._clock)
        return [
            LastSave(self.topics, config / "topics.json", "topics created or changed since it was saved last"),
            LastSave(self.groups, config / "subscriptionGroup.json", "groups made or changed since it was saved last"),
            LastSave(
                self.pops,
                config / ORDER_FILE_NAME,
                "a start reads more of the topic in which pops are written down",
            ),
            LastSave(
                self._modes, config / "messageRequestMode.json", "groups consume as was set when it was saved last"
            ),
            LastSave(
                self.offsets,
                config / "consumerOffset.json",
                "consumers go on at the offsets saved last: messages acknowledged since come again",
            ),
            LastSave(
                self._delay_offsets,
                config / "delayOffset.json",
                "delay levels go on at the offsets saved last: delayed messages released since come again",
            ),
            *self._last_timer_saves(),
            LastSave(
                counts, config / FILE_NAME, "nothing here: counts of transactions that only Apache RocketMQ reads"
            ),
        ]

    def _last_timer_saves(self) -> list[LastSave]:
        if self._timers is None:
            return []
        return [
            LastSave(
                self._timers,
                self._settings.store_path_root_dir / "config" / "timercheck",
                "the next start looks through the commit log for timer messages delivered since",
            )
        ]

    def _make_timers(self, files: FileLayer | None) -> TimerService:
        settings = self._settings
        timers = TimerService(
            store=self.store,
            files=TimerFiles(settings.store_path_root_dir, settings.mapped_file_size_timer_log, files),
            terms=self._timer_terms,
            reactor=self._reactor,
            clock=self._clock,
            in_thread=self._in_thread,
        )
        self.registry.watch("rocketmq_timing_messages", "Timer messages that wait", lambda: timers.waiting)
        return timers

    # -- requests -------------------------------------------------------------------------------------------

    def _requests(self) -> list[Any]:
        settings, store = self._settings, self.store
        topics, groups, offsets = self.topics, self.groups, self.offsets
        send = self._send()
        return [
            send,
            ReplyMessage(
                send=send,
                store=store,
                producers=self.producers,
                clock_ms=self._clock,
                stores=settings.store_reply_message_enable,
            ),
            EndTransaction(transactions=self.transactions, store=store, clock_ms=self._steady_ms),
            SendBack(
                store=store,
                topics=topics,
                groups=groups,
                levels=self._levels,
                broker_permission=settings.broker_permission,
                random_below=randbelow,
            ),
            self._recall(),
            self._pull(),
            self._pop(),
            self._pop_acks(),
            HeartbeatRequests(
                heartbeats=self._heartbeats,
                filters=self._filters,
                property_filter_enabled=settings.enable_property_filter,
            ),
            ConnectedClients(producers=self.producers, consumers=self.consumers),
            OffsetRequests(store=store, topics=topics, groups=groups, offsets=offsets, cold_reads=self._cold_reads),
            LockRequests(locks=self._locks),
            QueryMessages(store=store, settings=settings, cold_reads=self._cold_reads),
            TopicRequests(
                topics=topics, offsets=offsets, store=store, in_thread=self._in_thread, deleted=self.pops.forget_topic
            ),
            CleaningRequests(store=store, topics=topics, expiry=self._expiry, in_thread=self._in_thread),
            GroupRequests(groups=groups, offsets=offsets),
        ]

    def _statistics(self) -> RequestGroup:
        from gateway.broker.requests.statistics import StatisticsRequests

        return StatisticsRequests(
            store=self.store,
            topics=self.topics,
            offsets=self.offsets,
            consumers=self.consumers,
            broker_name=self._settings.broker_name,
            flows=self._flows,
        )

    def _reset_offsets(self) -> RequestGroup:
        from gateway.broker.requests.admin.reset_offsets import ResetOffsets

        return ResetOffsets(
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            consumers=self.consumers,
            held=self._held,
            pops=self.pops,
            cold_reads=self._cold_reads,
            broker_name=self._settings.broker_name,
            by_server=self._settings.use_server_side_reset_offset,
        )

    def _group_offsets(self) -> RequestGroup:
        from gateway.broker.requests.admin.group_offsets import GroupOffsets

        return GroupOffsets(
            store=self.store, offsets=self.offsets, consumers=self.consumers, delay_offsets=self._delays.offsets
        )

    def _consumption(self) -> RequestGroup:
        from gateway.broker.requests.admin.consumption import Consumption

        return Consumption(
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            consumers=self.consumers,
            flows=self._flows,
            cold_reads=self._cold_reads,
            clock_ms=self._clock,
            broker_name=self._settings.broker_name,
            address=lambda request: "{}:{}".format(*unpack_host(self._store_host(request.channel))),
        )

    def _consumer_state(self) -> RequestGroup:
        from gateway.broker.requests.admin.consumer_state import ConsumerState

        return ConsumerState(
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            consumers=self.consumers,
            cold_reads=self._cold_reads,
        )

    def _counts(self) -> RequestGroup:
        from gateway.broker.requests.admin.counts import Counts

        return Counts(flows=self._flows, clock_ms=self._clock, cluster=self._settings.broker_cluster_name)

    def _queue_units(self) -> RequestGroup:
        from gateway.broker.requests.admin.queue_units import QueueUnitRequests

        return QueueUnitRequests(
            store=self.store, topics=self.topics, consumers=self.consumers, cold_reads=self._cold_reads
        )

    def _replication(self) -> RequestGroup:
        from gateway.broker.requests.admin.replication import Replication

        return Replication(store=self.store)

    def _timer_state(self) -> RequestGroup:
        from gateway.broker.requests.admin.timer_state import TimerState

        return TimerState(self._timers)

    def _broker_info(self) -> RequestGroup:
        from gateway.broker.requests.broker_info import BrokerInfo
        from gateway.broker.store_identity import FILE_NAME, store_identity
        from gateway.metadata.json_file import JsonFile

        return BrokerInfo(
            settings=self._settings,
            store=self.store,
            throughput=self._throughput,
            clock_ms=self._clock,
            version_text="V5_5_0",
            delay_offsets=self._delay_progress,
            registry=self.registry,
            store_id=store_identity(
                JsonFile(self._settings.store_path_root_dir / "config" / FILE_NAME), lambda: uuid4().hex
            ),
            timers=self._timers,
        )

    def _transaction_control(self) -> RequestGroup:
        from gateway.broker.requests.transaction_control import TransactionControl
        from gateway.transaction.audit import AuditLog

        directory = self._settings.store_path_root_dir / "transaction"
        return TransactionControl(
            transactions=self.transactions,
            cold_reads=self._cold_reads,
            audit=AuditLog(directory, self._clock, in_thread=self._in_thread),
            access=self._settings.operator_access,
        )

    def _send(self) -> SendMessage:
        settings = self._settings
        return SendMessage(
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            half_messages=self.transactions,
            levels=self._levels,
            timed=self._timed,
            limits=SendLimits(
                max_message_bytes=settings.max_message_size,
                broker_permission=settings.broker_permission,
                broker_name=settings.broker_name,
                cluster=settings.broker_cluster_name,
                region=settings.region_id,
                trace_on=settings.trace_on,
                reject_transactions=settings.reject_transaction_message,
            ),
            store_host=self._store_host,
            unique_key=self._unique_keys().create_unique_key,
            random_below=randbelow,
            group_is_orderly=self._locks.group_is_orderly,
        )

    def _recall(self) -> RecallMessage:
        settings = self._settings
        return RecallMessage(
            store=self.store,
            topics=self.topics,
            terms=RecallTerms(
                enabled=settings.recall_message_enable,
                broker_name=settings.broker_name,
                is_writable=bool(settings.broker_permission & Permission.WRITE)
                or settings.allow_recall_when_broker_not_writeable,
                max_delay_ms=self._timer_terms.max_delay_ms,
                topic_in_key=self._timer_terms.topic_in_key,
                region=settings.region_id,
            ),
            timed=self._timed,
            store_host=self._store_host,
            clock_ms=self._clock,
        )

    def _timed(self, message: OutgoingMessage) -> OutgoingMessage:
        """A message that asks for a time of delivery as it waits."""
        timers = self._timers
        return placed_timed(
            message,
            self._clock(),
            self._timer_terms,
            waiting_in=timers.waiting_in if timers is not None else lambda _: 0,
            random_below=randbelow,
        )

    def _pull(self) -> PullMessage:
        settings = self._settings
        return PullMessage(
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            consumers=self.consumers,
            offsets=self.offsets,
            held=self._held,
            limits=PullLimits(
                broker_permission=settings.broker_permission,
                max_count=min(settings.max_transfer_count_on_message_in_memory, settings.pull_batch_max_message_count),
                max_bytes=settings.max_transfer_bytes_on_message_in_memory,
                max_count_cold=settings.max_transfer_count_on_message_in_disk,
                max_bytes_cold=settings.max_transfer_bytes_on_message_in_disk,
                max_count_bulk=settings.bulk_read_count,
                max_bytes_bulk=settings.bulk_read_bytes,
                lite_pull_enabled=True,
                property_filter_enabled=settings.enable_property_filter,
                long_polling=settings.long_polling_enable,
                short_polling_ms=settings.short_polling_time_ms,
                longest_hold_ms=LONGEST_HOLD_MS,
            ),
            clock=self._clock,
            cold_reads=self._cold_reads,
            traffic=self._traffic,
            flows=self._flows,
            filters=self._filters,
        )

    def _pop(self) -> PopMessage:
        settings, pops = self._settings, self.pops
        return PopMessage(
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            positions=pops.positions,
            check_points=pops.check_points,
            orders=pops.orders,
            revive_log=pops.revive_log,
            held=pops.held,
            limits=PopLimits(
                broker_permission=settings.broker_permission,
                max_bytes=settings.max_transfer_bytes_on_message_in_memory,
                max_bytes_cold=settings.max_transfer_bytes_on_message_in_disk,
                property_filter_enabled=settings.enable_property_filter,
                retry_probability=settings.pop_from_retry_probability,
                retry_v2=settings.enable_retry_topic_v2,
                retry_v1_too=settings.retrieve_message_from_pop_retry_topic_v1,
                actual_retry_topic=settings.pop_response_return_actual_retry_topic,
                check_points=settings.pop_check_points_limit,
                longest_hold_ms=LONGEST_HOLD_MS,
            ),
            broker_name=settings.broker_name,
            clock_ms=self._clock,
            cold_reads=self._cold_reads,
            traffic=self._traffic,
            flows=self._flows,
            soon=self._soon,
            random_below=randbelow,
        )

    def _pop_acks(self) -> PopAcks:
        pops = self.pops
        return PopAcks(
            store=self.store,
            topics=self.topics,
            offsets=self.offsets,
            check_points=pops.check_points,
            orders=pops.orders,
            revive_log=pops.revive_log,
            held=pops.held,
            broker_name=self._settings.broker_name,
            clock_ms=self._clock,
            soon=self._soon,
        )

    def _pop_waiting(self) -> RequestGroup:
        from gateway.broker.requests.pop_waiting import PopWaiting

        settings, pops = self._settings, self.pops
        return PopWaiting(
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            positions=pops.positions,
            orders=pops.orders,
            held=pops.held,
            notified=pops.notified,
            broker_permission=settings.broker_permission,
            max_bytes=settings.max_transfer_bytes_on_message_in_memory,
            longest_hold_ms=LONGEST_HOLD_MS,
            clock_ms=self._clock,
            cold_reads=self._cold_reads,
            random_below=randbelow,
        )

    def _assignments(self) -> RequestGroup:
        from gateway.broker.requests.assignments import Assignments

        settings = self._settings
        return Assignments(
            topics=self.topics,
            groups=self.groups,
            consumers=self.consumers,
            modes=self._modes,
            queues_of=self._read_queues,
            broker_name=settings.broker_name,
            default_mode=settings.default_message_request_mode,
            default_share=settings.default_pop_share_queue_num,
            balances=settings.server_load_balancer_enable,
        )

    # -- jobs -----------------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        """What has to be done again and again."""
        settings = self._settings

        def in_thread(work: Callable[[], object]) -> Callable[[], Deferred[object]]:
            return lambda: thread_result(self._in_thread, work)

        return [
            Job(name="held pulls", interval_ms=TICK_MS, run=self._held.tick),
            Job(name="membership", interval_ms=MEMBERSHIP_SCAN_MS, run=self._scan_members),
            Job(
                name="consumer offsets",
                interval_ms=settings.flush_consumer_offset_interval_ms,
                run=self._persist_offsets,
            ),
            Job(name="pops", interval_ms=POP_TICK_MS, run=self.pops.tick),
            Job(name="revive topic", interval_ms=COMPACT_MS, run=self.pops.revive_log.compact),
            Job(
                name="delay offsets",
                interval_ms=settings.flush_delay_offset_interval_ms,
                run=self._delay_offsets.persist,
            ),
            *self._timer_jobs(),
            Job(name="tables", interval_ms=MEMBERSHIP_SCAN_MS, run=self._persist_tables),
            Job(name="throughput", interval_ms=SAMPLE_MS, run=self._throughput.sample),
            Job(name="flows", interval_ms=FLOW_SAMPLE_MS, run=self._flows.sample),
            Job(
                name="commit log flush",
                interval_ms=settings.flush_interval_commit_log_ms,
                run=in_thread(lambda: self.store.flush_due(self._clock())),
            ),
            Job(
                name="retention",
                interval_ms=settings.clean_resource_interval_ms,
                run=self._expiry.round,
                hurry=self._expiry.hurry,
            ),
        ]

    def _timer_jobs(self) -> list[Job]:
        timers = self._timers
        if timers is None:
            return []

        def save() -> Deferred[object] | None:
            work = timers.save()
            return None if work is None else thread_result(self._in_thread, work)

        return [Job(name="timer files", interval_ms=self._settings.timer_flush_interval_ms, run=save)]

    def _scan_members(self) -> None:
        self._heartbeats.close_silent()
        self._locks.forget_run_out()

    def _persist_offsets(self) -> None:
        self.pops.persist()
        self.offsets.persist()

    def _after_flush(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run a write of what follows from the log in a thread, when the log itself is on disk."""
        if self._settings.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            self._in_thread(work, done)
            return

        def flushed() -> object:
            if not self.store.flush():
                raise OSError("the log is not on disk yet")
            return work()

        self._in_thread(flushed, done)

    def _persist_tables(self) -> None:
        """Try again what an earlier write failed to bring to disk."""
        self.topics.persist()
        self.groups.persist()

    # -- what happened --------------------------------------------------------------------------------------

    def _dispatched(self, messages: list[Dispatched]) -> None:
        """New messages can be read: tell everyone who waits for some."""
        self._traffic.stored_messages += len(messages)
        self._flows.stored(messages)
        self.transactions.half_stored(messages)
        self._delays.arrived(messages)
        if self._timers is not None:
            self._timers.arrived(messages)
        self._held.arrived(messages)
        self.pops.arrived(messages)

    def _adopt_queues(self) -> None:
        """Give queues whose topic was created just before a kill their topic again."""
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
        """The place of the oldest half message without an outcome, or timer message: retention keeps it."""
        pending = self.transactions.pending
        half = pending.place(pending.base)[0] if pending.count else None
        timer = None if self._timers is None else self._timers.keep_from()
        return min((place for place in (half, timer) if place is not None), default=None)

    def _delay_of(self, level: int) -> int | None:
        return self._levels.delay_ms(level) if level > 0 else None

    def _store_host(self, channel: Channel) -> bytes:
        """The broker's address in a record: as advertised, else the one its producer reached."""
        packed = self._store_hosts.get(channel.local_host)
        if packed is None:
            advertised = self._settings.advertised
            local = channel.local[0]
            host = local if advertised.host is None else _literal(advertised.host, local)
            packed = pack_host(host, advertised.port or self._listen_port())
            self._store_hosts[channel.local_host] = packed
        return packed

    def _unique_keys(self) -> UniqueKeys:
        return UniqueKeys(
            ip=pack_host(LOOPBACK, 0)[:4],
            process_id=os.getpid(),
            instance_hash=randbelow(1 << 31),
            elapsed_ms=lambda: _ms_into_month(self._clock()),
        )

    def _delay_progress(self) -> Mapping[int, tuple[int, int]]:
        return {
            level: (offset, self.store.max_offset(SCHEDULE_TOPIC, schedule_queue_id(level)))
            for level, offset in self._delays.offsets().items()
        }

    def _totals(self) -> Totals:
        traffic = self._traffic
        return Totals(
            puts=traffic.stored_messages,
            gets=traffic.given_messages,
            found_pulls=traffic.found_pulls,
            missed_pulls=traffic.missed_pulls,
            timers_entered=0 if self._timers is None else self._timers.entered,
            timers_delivered=0 if self._timers is None else self._timers.delivered,
        )


def timer_terms(settings: Settings) -> TimerTerms:
    """The settings of timer messages, in milliseconds."""
    return TimerTerms(
        enabled=settings.timer_wheel_enable,
        precision_ms=settings.timer_precision_ms,
        max_delay_ms=settings.timer_max_delay_sec * 1_000,
        roll_slots=settings.timer_roll_window_slot,
        congested=settings.timer_congest_num_each_slot,
        topic_in_key=settings.append_topic_for_timer_delete_key,
    )


def store_settings(settings: Settings) -> StoreSettings:
    """The store's own settings; those of the same name are copied over."""
    values = {
        field.name: getattr(settings, field.name) for field in fields(StoreSettings) if hasattr(settings, field.name)
    }
    values["flush_disk_type"] = str(settings.flush_disk_type)
    values["commit_log_directory"] = str(settings.store_path_commit_log or "")
    return StoreSettings(**values)


def _literal(host: str, fallback: str) -> str:
    """An advertised host name as an address for records, which keep no names."""
    try:
        pack_host(host, 0)
    except WireError:
        return fallback
    return host


def _day_of(moment_ms: int) -> int:
    return datetime.fromtimestamp(moment_ms / 1000).toordinal()  # of the local midnight


def _ms_into_month(moment_ms: int) -> int:
    moment = datetime.fromtimestamp(moment_ms / 1000)  # clients count in local time
    start = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int((moment - start).total_seconds() * 1000)
