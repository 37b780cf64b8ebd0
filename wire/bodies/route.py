"""Where topics and brokers are: what name servers answer.

Clients cache a route for 30 s. Two text forms exist because clients before 4.9.4 read integer map keys only
without quotes, and standard readers only with them: the request decides (framing of GET_ROUTEINFO_BY_TOPIC).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wire.bodies.declare import Body, JsonObject, field
from wire.bodies.fastjson import build_json
from wire.bodies.topics import TopicQueueMapping
from wire.codes import MASTER_ID as MASTER_ID


class QueueData(JsonObject):
    """The queues of a topic on one broker."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0


class BrokerData(JsonObject):
    """The addresses, ``host:port`` by broker id, of all brokers of one name."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str]
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(JsonObject):
    """The route of a topic."""

    queue_datas: Sequence[QueueData] = ()
    broker_datas: Sequence[BrokerData] = ()
    order_topic_conf: str | None = None
    filter_server_table: Mapping[str, Sequence[str]] = field(default_factory=dict)
    topic_queue_mapping_by_broker: Mapping[str, TopicQueueMapping] | None = None

    def build(self, *, standard: bool) -> bytes:
        """The body of the answer.

        :param standard: True: JSON with quoted keys and nothing but ASCII (request version ≥ 401 or
            ``acceptStandardJsonOnly``); False: ``brokerAddrs:{0:"…"}``.
        """
        return build_json(self.to_json(), java_form=not standard, ascii_only=standard)


class ClusterInfo(Body):
    """All brokers by name, and the names by cluster."""

    broker_addr_table: Mapping[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: Mapping[str, Sequence[str]] = field(default_factory=dict)


class BrokerMemberGroup(JsonObject):
    """The brokers of one name, as body: an object within ``brokerMemberGroup``."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str]

    def build(self) -> bytes:
        """The body of the answer (upstream ``GetBrokerMemberGroupResponseBody``)."""
        return build_json({"brokerMemberGroup": self.to_json()}, java_form=True)
