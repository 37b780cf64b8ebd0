"""Counts of what a topic received and what a group got from a topic, under the names that tools ask for."""

from __future__ import annotations

from collections.abc import Callable

from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.figures.flows import DAY, HOUR, MINUTE, Amount, Flow
from gateway.errors import RequestRefused
from gateway.remoting.declared import CLUSTER_GET, SERVED
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from wire.bodies.tools.statistics import BrokerStatsData, BrokerStatsItem
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import ViewBrokerStatsDataRequest

SIZE_SUFFIX = "_SIZE"
LATENCY_SUFFIX = "_LATENCY"
KEY_SEPARATOR = "@"
"""The character between topic and group in a key."""


class Counts(DeskRequests):
    """Answers VIEW_BROKER_STATS_DATA (315).

    The statistics are TOPIC_PUT_NUMS and TOPIC_PUT_SIZE (key: a topic), GROUP_GET_NUMS, GROUP_GET_SIZE and
    SNDBCK_PUT_NUMS (``topic@group``), BROKER_PUT_NUMS, BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC and BROKER_GET_NUMS (the
    cluster). TOPIC_PUT_LATENCY (``queue@topic``) and GROUP_GET_LATENCY (``queue@topic@group``) are in milliseconds.
    Both latencies cover all queues, whichever queue the key names.
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._cluster = desk.settings.broker_cluster_name

    @answers(RequestCode.VIEW_BROKER_STATS_DATA, ViewBrokerStatsDataRequest, CLUSTER_GET, slave=SERVED)
    def view(self, _request: Request, header: ViewBrokerStatsDataRequest) -> Answer:
        """Answer with one statistic over the last minute, hour and day."""
        find = self._finders().get(header.stats_name)
        flows = [] if find is None else find(header.stats_key)
        if not flows:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            )
        now_ms = self._desk.clock()
        minute, hour, day = (
            _item([flow.within(window, now_ms) for flow in flows], header.stats_name) for window in (MINUTE, HOUR, DAY)
        )
        return Answer(body=BrokerStatsData(minute, hour, day).build())

    def _finders(self) -> dict[str, Callable[[str], list[Flow]]]:
        return {
            "TOPIC_PUT_NUMS": self._into,
            "TOPIC_PUT_SIZE": self._into,
            "GROUP_GET_NUMS": self._out_of,
            "GROUP_GET_SIZE": self._out_of,
            "TOPIC_PUT_LATENCY": lambda key: self._into(key.partition(KEY_SEPARATOR)[2]),
            "GROUP_GET_LATENCY": lambda key: self._out_of(key.partition(KEY_SEPARATOR)[2]),
            "SNDBCK_PUT_NUMS": lambda key: self._of_group(key, self._desk.flows.back_from),
            "BROKER_PUT_NUMS": lambda key: list(self._desk.flows.all_in()) if key == self._cluster else [],
            "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": (
                lambda key: list(self._desk.flows.all_in(self._desk.topics.is_system)) if key == self._cluster else []
            ),
            "BROKER_GET_NUMS": lambda key: list(self._desk.flows.all_out()) if key == self._cluster else [],
        }

    def _into(self, topic: str) -> list[Flow]:
        flow = self._desk.flows.into(topic)
        return [] if flow is None else [flow]

    def _out_of(self, key: str) -> list[Flow]:
        return self._of_group(key, self._desk.flows.out_of)

    def _of_group(self, key: str, find: Callable[[str, str], Flow | None]) -> list[Flow]:
        topic, _, group = key.partition(KEY_SEPARATOR)
        flow = find(topic, group)
        return [] if flow is None else [flow]


def _item(amounts: list[Amount], statistic: str) -> BrokerStatsItem:
    if statistic.endswith(LATENCY_SUFFIX):
        total = sum(amount.waited_ms for amount in amounts)
    elif statistic.endswith(SIZE_SUFFIX):
        total = sum(amount.bytes for amount in amounts)
    else:
        total = sum(amount.messages for amount in amounts)
    calls = sum(amount.calls for amount in amounts)
    elapsed_ms = max(amount.elapsed_ms for amount in amounts)
    return BrokerStatsItem(
        sum=total,
        tps=round(total * 1000 / elapsed_ms, 2) if elapsed_ms > 0 else 0.0,
        avgpt=round(total / calls, 2) if calls else 0.0,
    )
