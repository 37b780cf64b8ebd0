"""What came in to a topic and what a group got of it, under the names that tools ask by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.flows import DAY, HOUR, MINUTE, Amount
from gateway.errors import RequestRefused
from gateway.remoting.dispatch import Answer
from wire.bodies.statistics import BrokerStatsData, BrokerStatsItem
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import ViewBrokerStatsDataRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.broker.flows import Flow, Flows
    from gateway.clock import Milliseconds
    from gateway.remoting.dispatch import Dispatch, Request

SIZE_SUFFIX = "_SIZE"
KEY_SEPARATOR = "@"
"""Between topic and group in a key."""


class Counts:
    """Answers VIEW_BROKER_STATS_DATA (315).

    The statistics are TOPIC_PUT_NUMS and TOPIC_PUT_SIZE (key: a topic), GROUP_GET_NUMS and GROUP_GET_SIZE
    (``topic@group``), BROKER_PUT_NUMS and BROKER_GET_NUMS (the cluster).
    """

    def __init__(self, *, flows: Flows, clock_ms: Milliseconds, cluster: str) -> None:
        self._flows = flows
        self._clock_ms = clock_ms
        self._cluster = cluster

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.VIEW_BROKER_STATS_DATA, ViewBrokerStatsDataRequest, self.view)

    def view(self, _request: Request, header: ViewBrokerStatsDataRequest) -> Answer:
        """One statistic over the last minute, hour and day."""
        find = self._finders().get(header.stats_name)
        flows = [] if find is None else find(header.stats_key)
        if not flows:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            )
        now_ms, sizes = self._clock_ms(), header.stats_name.endswith(SIZE_SUFFIX)
        minute, hour, day = (
            _item([flow.within(window, now_ms) for flow in flows], sizes) for window in (MINUTE, HOUR, DAY)
        )
        return Answer(body=BrokerStatsData(minute, hour, day).build())

    def _finders(self) -> dict[str, Callable[[str], list[Flow]]]:
        return {
            "TOPIC_PUT_NUMS": self._into,
            "TOPIC_PUT_SIZE": self._into,
            "GROUP_GET_NUMS": self._out_of,
            "GROUP_GET_SIZE": self._out_of,
            "BROKER_PUT_NUMS": lambda key: list(self._flows.all_in()) if key == self._cluster else [],
            "BROKER_GET_NUMS": lambda key: list(self._flows.all_out()) if key == self._cluster else [],
        }

    def _into(self, topic: str) -> list[Flow]:
        flow = self._flows.into(topic)
        return [] if flow is None else [flow]

    def _out_of(self, key: str) -> list[Flow]:
        topic, _, group = key.partition(KEY_SEPARATOR)
        flow = self._flows.out_of(topic, group)
        return [] if flow is None else [flow]


def _item(amounts: list[Amount], sizes: bool) -> BrokerStatsItem:
    total = sum(amount.bytes if sizes else amount.messages for amount in amounts)
    calls = sum(amount.calls for amount in amounts)
    elapsed_ms = max(amount.elapsed_ms for amount in amounts)
    return BrokerStatsItem(
        sum=total,
        tps=round(total * 1000 / elapsed_ms, 2) if elapsed_ms > 0 else 0.0,
        avgpt=round(total / calls, 2) if calls else 0.0,
    )
