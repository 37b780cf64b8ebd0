"""The periodic work of a broker, and its intervals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.internet.defer import Deferred, succeed

from gateway.broker.figures.flows import FLOW_SAMPLE_MS
from gateway.broker.figures.throughput import SAMPLE_MS
from gateway.broker.parts import BrokerParts
from gateway.broker.upkeep.upkeep import Job
from gateway.delivery.long_poll import TICK_MS
from gateway.delivery.pop.check_points import TICK_MS as POP_TICK_MS
from gateway.reactor.thread_result import thread_result
from gateway.remoting.turns import Work

COMPACT_MS = 1_000
"""Milliseconds between two checks whether old records of the revive topic are still needed."""
ROUND_MS = 1_000
"""Milliseconds from the end of one round through the tables of a slave's master to the next one."""
MEMBERSHIP_SCAN_MS = 10_000
"""Milliseconds between two searches for silent clients and expired queue locks, as upstream."""


def jobs(parts: BrokerParts) -> list[Job]:
    """Return the broker's periodic jobs."""
    settings = parts.settings

    def in_thread(work: Callable[[], object]) -> Callable[[], Deferred[object]]:
        return lambda: thread_result(parts.in_thread, work)

    slave = parts.slave
    own = (
        [
            Job(name="pops", interval_ms=POP_TICK_MS, run=parts.pops.tick),
            Job(name="revive topic", interval_ms=COMPACT_MS, run=parts.pops.revive_log.compact),
            *_lite_jobs(parts),
            *_timer_jobs(parts),
        ]
        if slave is None
        else [Job(name="tables of the master", interval_ms=ROUND_MS, run=slave.round)]
    )
    return [
        Job(name="held pulls", interval_ms=TICK_MS, run=parts.held.tick),
        Job(name="membership", interval_ms=MEMBERSHIP_SCAN_MS, run=partial(_scan_members, parts)),
        Job(
            name="consumer offsets",
            interval_ms=settings.flush_consumer_offset_interval_ms,
            run=partial(_persist_offsets, parts),
        ),
        Job(
            name="delay offsets",
            interval_ms=settings.flush_delay_offset_interval_ms,
            run=parts.delay_offsets.persist,
        ),
        *own,
        Job(name="tables", interval_ms=MEMBERSHIP_SCAN_MS, run=partial(_persist_tables, parts)),
        Job(name="throughput", interval_ms=SAMPLE_MS, run=parts.throughput.sample),
        Job(name="flows", interval_ms=FLOW_SAMPLE_MS, run=parts.flows.sample),
        Job(
            name="commit log flush",
            interval_ms=settings.flush_interval_commit_log_ms,
            run=in_thread(lambda: parts.store.flush_due(parts.clock())),
        ),
        Job(
            name="retention",
            interval_ms=settings.clean_resource_interval_ms,
            run=parts.expiry.round,
            hurry=parts.expiry.hurry,
        ),
    ]


def _lite_jobs(parts: BrokerParts) -> list[Job]:
    settings, lite = parts.settings, parts.lite
    if not settings.fills_light_queues:
        return []

    def expire() -> Deferred[None]:
        if parts.store.hidden_from is not None:  # a lite topic may have messages that are hidden
            return succeed(None)
        expired: Deferred[None] = Deferred()
        lite.expire(lambda: expired.callback(None))
        return expired

    return [
        Job(name="held lite pops", interval_ms=POP_TICK_MS, run=lite.held.tick),
        Job(name="lite topics", interval_ms=settings.lite_ttl_check_interval_ms, run=expire),
        Job(
            name="lite subscriptions",
            interval_ms=settings.lite_subscription_check_interval_ms,
            run=lite.forget_silent,
        ),
    ]


def _timer_jobs(parts: BrokerParts) -> list[Job]:
    timers = parts.timers
    if timers is None:
        return []

    def save() -> Deferred[object] | None:
        work = timers.save()
        return None if work is None else thread_result(parts.in_thread, work)

    return [Job(name="timer files", interval_ms=parts.settings.timer_flush_interval_ms, run=save)]


def _scan_members(parts: BrokerParts) -> Deferred[None]:
    return parts.turns.begin(_members_scanned(parts))


def _members_scanned(parts: BrokerParts) -> Work[None]:
    yield from parts.heartbeats.close_silent()
    yield from parts.locks.forget_run_out()


def _persist_offsets(parts: BrokerParts) -> None:
    if parts.slave is None:
        parts.pops.persist()
    parts.offsets.persist()


def _persist_tables(parts: BrokerParts) -> None:
    """Write tables again that an earlier write did not bring to disk, and tables that are saved only now and then."""
    parts.topics.persist()
    parts.groups.persist()
    if parts.bit_maps is not None:
        parts.bit_maps.persist()
