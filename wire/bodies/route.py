"""Routes of topics and lists of brokers: the answers of name servers.

Clients cache a route for 30 s. There are two text forms, because clients before 4.9.4 read integer map keys only
without quotes, and standard readers only with quotes. The request decides which form is sent (GET_ROUTEINFO_BY_TOPIC).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from wire.bodies.declare import LIST_BODY_BYTES, REQUEST_CONTAINERS, Body, JsonObject, SmallRequestBody, field
from wire.bodies.fastjson import build_json
from wire.bodies.topics import MAX_QUEUES, TopicQueueMapping, queues_fault
from wire.codes import MASTER_ID as MASTER_ID
from wire.errors import BodyError

MAX_ROUTE_QUEUES = 262_144
"""The most queues of one topic on all brokers, counted separately to read and to write.

The limit has room for 16 queues on each of 10,000 brokers. A client holds about 200 bytes for each queue.
"""
MAX_ROUTE_ADDRESSES = 10_000
"""The most broker addresses of one topic, as many as our name server knows; clients connect to each address."""
MAX_ADDED_BROKERS = 2_000
"""The most brokers for which one request adds a topic; the brokers of Apache RocketMQ name only themselves."""
_MOST_DIGITS = len(str(MAX_QUEUES))


class QueueData(JsonObject):
    """The queues of a topic on one broker."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the queues for a JSON value that was read already.

        :raises BodyError: the value is not such an object, or has more queues than ``MAX_QUEUES``.
        """
        data = super().from_json(value)
        fault = queues_fault("readQueueNums", data.read_queue_nums) or queues_fault(
            "writeQueueNums", data.write_queue_nums
        )
        if fault is not None:
            raise BodyError(f"queues of broker {data.broker_name[:64]!r}: {fault}")
        return data


class BrokerData(JsonObject):
    """The addresses, ``host:port`` by broker id, of all brokers of one name."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str]
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(JsonObject):
    """The route of a topic."""

    MAX_BYTES: ClassVar[int] = LIST_BODY_BYTES
    MAX_CONTAINERS: ClassVar[int] = 4 * REQUEST_CONTAINERS  # 10,000 brokers are three for each

    queue_datas: Sequence[QueueData] = ()
    broker_datas: Sequence[BrokerData] = ()
    order_topic_conf: str | None = None
    filter_server_table: Mapping[str, Sequence[str]] = field(default_factory=dict)
    topic_queue_mapping_by_broker: Mapping[str, TopicQueueMapping] | None = None

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the route for a JSON value that was read already.

        :raises BodyError: the value is not such an object, or has more queues than ``MAX_QUEUES`` on a broker or
            ``MAX_ROUTE_QUEUES`` on all brokers, or more addresses than ``MAX_ROUTE_ADDRESSES``.
        """
        data = super().from_json(value)
        for what, counts in (
            ("queues to read", (queues.read_queue_nums for queues in data.queue_datas)),
            ("queues to write", (queues.write_queue_nums for queues in data.queue_datas)),
            ("queues in order", (count for _, count in ordered_queues(data.order_topic_conf or ""))),
        ):
            total = sum(max(count, 0) for count in counts)
            if total > MAX_ROUTE_QUEUES:
                raise BodyError(f"the topic has {total} {what}, the limit of all brokers is {MAX_ROUTE_QUEUES}")
        addresses = sum(len(broker.broker_addrs) for broker in data.broker_datas)
        if addresses > MAX_ROUTE_ADDRESSES:
            raise BodyError(f"the topic has {addresses} addresses of brokers, the limit is {MAX_ROUTE_ADDRESSES}")
        return data

    def build(self, *, standard: bool) -> bytes:
        """Return the body of the answer.

        :param standard: True for JSON with quoted keys and ASCII only (request version ≥ 401 or
            ``acceptStandardJsonOnly``); False for ``brokerAddrs:{0:"…"}``.
        """
        return build_json(self.to_json(), java_form=not standard, ascii_only=standard)


class AddedQueues(SmallRequestBody):
    """The queues of one topic that REGISTER_TOPIC_IN_NAMESRV adds; only this member of the route is read."""

    MAX_CONTAINERS: ClassVar[int] = 2 * MAX_ADDED_BROKERS

    queue_datas: Sequence[QueueData] = ()

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the queues for a JSON value that was read already.

        :raises BodyError: the value is not such an object, or names more brokers than ``MAX_ADDED_BROKERS``.
        """
        queues = value.get("queueDatas") if isinstance(value, dict) else None
        if isinstance(queues, list) and len(queues) > MAX_ADDED_BROKERS:
            raise BodyError(f"queues on {len(queues)} brokers, the limit of one request is {MAX_ADDED_BROKERS}")
        return super().from_json(value)


def ordered_queues(order_conf: str) -> list[tuple[str, int]]:
    """Return the brokers and their numbers of queues in an ``orderTopicConf``: ``"broker-a:4;broker-b:8"``.

    Parts that are not a name and a number are left out.

    :raises BodyError: a broker has more queues than ``MAX_QUEUES``.
    """
    found: list[tuple[str, int]] = []
    for part in order_conf.split(";"):
        name, _, text = part.rpartition(":")
        if not name or not text.isdecimal():
            continue
        digits = text.lstrip("0")
        if len(digits) > _MOST_DIGITS or int(digits or "0") > MAX_QUEUES:
            raise BodyError(f"orderTopicConf of broker {name[:64]!r}: {digits[:20]} queues, the limit is {MAX_QUEUES}")
        found.append((name, int(digits or "0")))
    return found


class ClusterInfo(Body):
    """All brokers by name, and the names by cluster."""

    broker_addr_table: Mapping[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: Mapping[str, Sequence[str]] = field(default_factory=dict)


class BrokerMemberGroup(JsonObject):
    """The brokers of one name; the body has this object within ``brokerMemberGroup``."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str]

    def build(self) -> bytes:
        """Return the body of the answer (upstream ``GetBrokerMemberGroupResponseBody``)."""
        return build_json({"brokerMemberGroup": self.to_json()}, java_form=True)
