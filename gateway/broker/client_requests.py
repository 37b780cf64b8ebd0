"""The requests that clients ask for all the time, made of a broker's parts when it starts.

Those of tools are in ``tool_requests``: they are loaded when the first one comes.
"""

from __future__ import annotations

import os
from datetime import datetime
from secrets import randbelow
from typing import TYPE_CHECKING

from gateway.broker.announcing.store_hosts import LOOPBACK
from gateway.broker.named_messages import NamedMessages
from gateway.broker.requests.cleaning import CleaningRequests
from gateway.broker.requests.consumers import ConnectedClients
from gateway.broker.requests.groups import GroupRequests
from gateway.broker.requests.heartbeats import HeartbeatRequests
from gateway.broker.requests.locks import LockRequests
from gateway.broker.requests.offsets import OffsetRequests
from gateway.broker.requests.pop.lite_pop import PopLite
from gateway.broker.requests.pop.lite_subscriptions import LiteSubscriptionRequests
from gateway.broker.requests.pop.pop import PopLimits, PopMessage
from gateway.broker.requests.pop.pop_ack import PopAcks
from gateway.broker.requests.pull import PullLimits, PullMessage
from gateway.broker.requests.query import QueryMessages
from gateway.broker.requests.sending.end_transaction import EndTransaction
from gateway.broker.requests.sending.recall import RecallMessage, RecallTerms, may_recall
from gateway.broker.requests.sending.reply import ReplyMessage
from gateway.broker.requests.sending.send import SendLimits, SendMessage
from gateway.broker.requests.sending.send_back import SendBack
from gateway.broker.requests.topics import TopicRequests
from gateway.delivery.long_poll import LONGEST_HOLD_MS
from wire.message.message_id import UniqueKeys, pack_host

if TYPE_CHECKING:
    from gateway.broker.parts import BrokerParts
    from gateway.remoting.dispatch import Dispatch, RequestGroup


def register_client_requests(parts: BrokerParts, dispatch: Dispatch) -> None:
    """Put them on a dispatch."""
    for requests in _requests(parts):
        requests.register(dispatch)
        parts.live.follow(requests)


def _requests(parts: BrokerParts) -> list[RequestGroup]:
    settings, store = parts.settings, parts.store
    topics, groups, offsets = parts.topics, parts.groups, parts.offsets
    send = _send(parts)
    named = NamedMessages(store, parts.cold_reads)
    return [
        send,
        ReplyMessage(
            send=send,
            store=store,
            producers=parts.producers,
            clock_ms=parts.clock,
            stores=settings.store_reply_message_enable,
        ),
        EndTransaction(transactions=parts.transactions, named=named, clock_ms=parts.steady_ms),
        SendBack(
            store=store,
            named=named,
            topics=topics,
            groups=groups,
            levels=parts.levels,
            flows=parts.flows,
            broker_permission=settings.broker_permission,
            random_below=randbelow,
        ),
        _recall(parts),
        _pull(parts),
        _pop(parts),
        _pop_acks(parts),
        _pop_lite(parts),
        _lite_subscriptions(parts),
        HeartbeatRequests(
            heartbeats=parts.heartbeats,
            filters=parts.filters,
            turns=parts.filter_turns,
            property_filter_enabled=settings.enable_property_filter,
        ),
        ConnectedClients(producers=parts.producers, consumers=parts.consumers, turns=parts.turns),
        OffsetRequests(store=store, topics=topics, groups=groups, offsets=offsets, cold_reads=parts.cold_reads),
        LockRequests(locks=parts.locks, topics=parts.topics, groups=parts.groups, turns=parts.turns),
        QueryMessages(store=store, settings=settings, cold_reads=parts.cold_reads),
        TopicRequests(
            topics=topics,
            offsets=offsets,
            store=store,
            in_thread=parts.in_thread,
            deleted=parts.forget_topic,
            turns=parts.turns,
            subscribers=parts.consumers.readers_of_topic,
            mixed_allowed=settings.enable_mixed_message_type,
        ),
        CleaningRequests(store=store, topics=topics, expiry=parts.expiry, in_thread=parts.in_thread),
        GroupRequests(groups=groups, offsets=offsets, turns=parts.turns),
    ]


def _send(parts: BrokerParts) -> SendMessage:
    settings = parts.settings
    return SendMessage(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        half_messages=parts.transactions,
        levels=parts.levels,
        timed=parts.timed,
        limits=SendLimits.from_settings(settings),
        store_host=parts.store_hosts.of,
        unique_key=_unique_keys(parts).create_unique_key,
        random_below=randbelow,
        group_is_orderly=parts.locks.group_is_orderly,
    )


def _recall(parts: BrokerParts) -> RecallMessage:
    settings = parts.settings
    return RecallMessage(
        store=parts.store,
        topics=parts.topics,
        terms=RecallTerms(
            enabled=settings.recall_message_enable,
            broker_name=settings.broker_name,
            is_writable=may_recall(settings),
            max_delay_ms=parts.timer_terms.max_delay_ms,
            topic_in_key=parts.timer_terms.topic_in_key,
            region=settings.region_id,
        ),
        timed=parts.timed,
        store_host=parts.store_hosts.of,
        clock_ms=parts.clock,
    )


def _pull(parts: BrokerParts) -> PullMessage:
    settings = parts.settings
    return PullMessage(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        consumers=parts.consumers,
        offsets=parts.offsets,
        held=parts.held,
        limits=PullLimits.from_settings(settings, LONGEST_HOLD_MS),
        clock=parts.clock,
        cold_reads=parts.cold_reads,
        traffic=parts.traffic,
        flows=parts.flows,
        filters=parts.filters,
        turns=parts.filter_turns,
    )


def _pop(parts: BrokerParts) -> PopMessage:
    settings, pops = parts.settings, parts.pops
    return PopMessage(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        positions=pops.positions,
        check_points=pops.check_points,
        orders=pops.orders,
        revive_log=pops.revive_log,
        held=pops.held,
        limits=PopLimits.from_settings(settings, LONGEST_HOLD_MS),
        broker_name=settings.broker_name,
        clock_ms=parts.clock,
        cold_reads=parts.cold_reads,
        traffic=parts.traffic,
        flows=parts.flows,
        soon=parts.soon,
        random_below=randbelow,
        turns=parts.filter_turns,
    )


def _pop_acks(parts: BrokerParts) -> PopAcks:
    pops = parts.pops
    return PopAcks(
        store=parts.store,
        topics=parts.topics,
        offsets=parts.offsets,
        check_points=pops.check_points,
        orders=pops.orders,
        revive_log=pops.revive_log,
        wake=pops.wake,
        broker_name=parts.settings.broker_name,
        cold_reads=parts.cold_reads,
        clock_ms=parts.clock,
        soon=parts.soon,
    )


def _pop_lite(parts: BrokerParts) -> PopLite:
    pops = parts.pops
    return PopLite(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        lite=parts.lite,
        positions=pops.positions,
        orders=pops.orders,
        revive_log=pops.revive_log,
        settings=parts.settings,
        longest_hold_ms=LONGEST_HOLD_MS,
        clock_ms=parts.clock,
        cold_reads=parts.cold_reads,
        traffic=parts.traffic,
        flows=parts.flows,
        turns=parts.filter_turns,
    )


def _lite_subscriptions(parts: BrokerParts) -> LiteSubscriptionRequests:
    return LiteSubscriptionRequests(
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        offsets=parts.offsets,
        lite=parts.lite,
        cold_reads=parts.cold_reads,
        clock_ms=parts.clock,
        turns=parts.turns,
    )


def _unique_keys(parts: BrokerParts) -> UniqueKeys:
    return UniqueKeys(
        ip=pack_host(LOOPBACK, 0)[:4],
        process_id=os.getpid(),
        instance_hash=randbelow(1 << 31),
        elapsed_ms=lambda: _ms_into_month(parts.clock()),
    )


def _ms_into_month(moment_ms: int) -> int:
    moment = datetime.fromtimestamp(moment_ms / 1000)  # clients count in local time
    start = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int((moment - start).total_seconds() * 1000)
