"""The requests that tools ask for, loaded when the first one comes, so that the start need not wait for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from secrets import randbelow
from typing import TYPE_CHECKING
from uuid import uuid4

from gateway.delivery.long_poll import LONGEST_HOLD_MS
from gateway.metadata.names import SCHEDULE_TOPIC
from gateway.schedule.redirect import schedule_queue_id
from wire.message.message_id import unpack_host

if TYPE_CHECKING:
    from gateway.broker.parts import BrokerParts
    from gateway.remoting.dispatch import Dispatch, RequestGroup


def register_tool_requests(parts: BrokerParts, dispatch: Dispatch) -> None:
    """Tell a dispatch what to load when the first of them comes."""
    dispatch.loads_late(partial(load, parts) for load in LOADED_LATE)


def _statistics(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.statistics import StatisticsRequests

    return StatisticsRequests(
        store=parts.store,
        topics=parts.topics,
        offsets=parts.offsets,
        consumers=parts.consumers,
        broker_name=parts.settings.broker_name,
        flows=parts.flows,
        cold_reads=parts.cold_reads,
        turns=parts.turns,
    )


def _assignments(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.assignments import Assignments

    settings = parts.settings
    return Assignments(
        topics=parts.topics,
        groups=parts.groups,
        consumers=parts.consumers,
        modes=parts.modes,
        queues_of=parts.read_queues,
        broker_name=settings.broker_name,
        default_mode=settings.default_message_request_mode,
        default_share=settings.default_pop_share_queue_num,
        balances=settings.server_load_balancer_enable,
        turns=parts.turns,
    )


def _pop_waiting(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.pop_waiting import PopWaiting

    settings, pops = parts.settings, parts.pops
    waiting = PopWaiting(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        positions=pops.positions,
        orders=pops.orders,
        held=pops.held,
        notified=pops.notified,
        broker_permission=settings.broker_permission,
        max_bytes=settings.max_transfer_bytes_on_message_in_memory,
        longest_hold_ms=LONGEST_HOLD_MS,
        clock_ms=parts.clock,
        cold_reads=parts.cold_reads,
        random_below=randbelow,
        turns=parts.filter_turns,
    )
    parts.live.follow(waiting)
    return waiting


def _reset_offsets(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.reset_offsets import ResetOffsets

    return ResetOffsets(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        offsets=parts.offsets,
        consumers=parts.consumers,
        held=parts.held,
        pops=parts.pops,
        cold_reads=parts.cold_reads,
        broker_name=parts.settings.broker_name,
        by_server=parts.settings.use_server_side_reset_offset,
        turns=parts.turns,
    )


def _group_offsets(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.group_offsets import GroupOffsets

    return GroupOffsets(
        store=parts.store,
        offsets=parts.offsets,
        consumers=parts.consumers,
        delay_offsets=parts.delays.offsets,
        turns=parts.turns,
    )


def _consumption(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.consumption import Consumption

    return Consumption(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        offsets=parts.offsets,
        consumers=parts.consumers,
        flows=parts.flows,
        cold_reads=parts.cold_reads,
        clock_ms=parts.clock,
        broker_name=parts.settings.broker_name,
        address=lambda request: "{}:{}".format(*unpack_host(parts.store_hosts.of(request.channel))),
        turns=parts.turns,
    )


def _consumer_state(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.consumer_state import ConsumerState

    return ConsumerState(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        consumers=parts.consumers,
        cold_reads=parts.cold_reads,
        turns=parts.turns,
    )


def _counts(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.counts import Counts

    return Counts(
        flows=parts.flows,
        clock_ms=parts.clock,
        cluster=parts.settings.broker_cluster_name,
        is_system_topic=parts.topics.is_system,
    )


def _lite_info(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.lite_info import LiteInfo

    return LiteInfo(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        offsets=parts.offsets,
        orders=parts.pops.orders,
        lite=parts.lite,
        turns=parts.turns,
        cold_reads=parts.cold_reads,
        most_light_queues=parts.settings.max_lmq_consume_queue_num,
    )


def _queue_units(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.queue_units import QueueUnitRequests

    return QueueUnitRequests(
        store=parts.store,
        topics=parts.topics,
        consumers=parts.consumers,
        cold_reads=parts.cold_reads,
        turns=parts.turns,
    )


def _replication(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.replication import Replication

    return Replication(store=parts.store)


def _pop_store(_parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.pop_store import PopStore

    return PopStore()


def _timer_state(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.timer_state import TimerState

    return TimerState(parts.timers)


def _broker_info(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.broker_info import BrokerInfo
    from gateway.broker.upkeep.store_identity import FILE_NAME, store_identity
    from gateway.metadata.saved.json_file import JsonFile

    return BrokerInfo(
        live=parts.live,
        store=parts.store,
        cold_reads=parts.cold_reads,
        throughput=parts.throughput,
        clock_ms=parts.clock,
        booted=parts.booted,
        traffic=parts.traffic,
        name_servers=parts.name_servers,
        version_text="V5_5_0",
        delay_offsets=lambda: _delay_progress(parts),
        registry=parts.registry,
        store_id=store_identity(
            JsonFile(parts.settings.store_path_root_dir / "config" / FILE_NAME), lambda: uuid4().hex
        ),
        timers=parts.timers,
    )


def _transaction_control(parts: BrokerParts) -> RequestGroup:
    from gateway.broker.requests.rare.transaction_control import TransactionControl
    from gateway.transaction.operators.audit import AuditLog

    directory = parts.settings.store_path_root_dir / "transaction"
    return TransactionControl(
        transactions=parts.transactions,
        cold_reads=parts.cold_reads,
        turns=parts.turns,
        audit=AuditLog(directory, parts.clock, in_thread=parts.in_thread),
    )


def _delay_progress(parts: BrokerParts) -> Mapping[int, tuple[int, int]]:
    """The next offset and the end of each level that ever held a message."""
    offsets = parts.delays.offsets()
    ends = {
        level: parts.store.max_offset(SCHEDULE_TOPIC, schedule_queue_id(level))
        for level in sorted({*offsets, *range(1, parts.levels.last + 1)})
    }
    return {level: (offsets.get(level, 0), end) for level, end in ends.items() if level in offsets or end > 0}


LOADED_LATE: tuple[Callable[[BrokerParts], RequestGroup], ...] = (
    _statistics,
    _assignments,
    _pop_waiting,
    _reset_offsets,
    _group_offsets,
    _consumption,
    _consumer_state,
    _lite_info,
    _counts,
    _queue_units,
    _replication,
    _timer_state,
    _pop_store,
    _broker_info,
    _transaction_control,
)
