"""A broker of the same process, registered without a network."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gateway.nameserver.addresses import seen_from
from gateway.nameserver.direct import DirectRegistration
from gateway.nameserver.route_table import RouteTable
from gateway.settings import Advertised
from gateway.tests.nameserver.registrations import registration, topics
from gateway.tests.remoting.conversation import outcome
from wire.bodies.topics import DataVersion, TopicConfig

OPEN = Advertised(None, None)
CLIENT_SEES = "172.17.0.2"


@dataclass
class Broker:
    advertised: Advertised = OPEN
    cluster: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = 0
    port: int = 10911
    ha_port: int | None = None
    topics: dict[str, TopicConfig] = field(default_factory=lambda: topics("orders"))
    data_version: DataVersion = field(default_factory=DataVersion)


def registered(broker: Broker) -> RouteTable:
    routes = RouteTable()
    assert outcome(DirectRegistration(routes, lambda: 0).register(broker)) == [None]
    return routes


def test_an_open_host_is_told_as_the_client_sees_it() -> None:
    addresses = registered(Broker()).group_addresses("DefaultCluster", "broker-a", CLIENT_SEES)
    assert addresses == {0: "172.17.0.2:10911"}


def test_a_given_host_is_told_to_everyone() -> None:
    routes = registered(Broker(Advertised("mq.example.org", None), port=30911))
    assert routes.group_addresses("DefaultCluster", "broker-a", CLIENT_SEES) == {0: "mq.example.org:30911"}


@pytest.mark.parametrize(
    ("broker", "told"),
    [
        (Broker(), ""),
        (Broker(ha_port=20_912), "172.17.0.2:20912"),
        (Broker(Advertised("mq.example.org", None), ha_port=20_912), "mq.example.org:20912"),
    ],
)
def test_a_slave_is_told_where_to_copy(broker: Broker, told: str) -> None:
    slave = registration("orders", broker_id=1, address="10.0.0.2:10911")
    found = registered(broker).register(slave, 0).master_ha_address
    assert found is not None
    assert seen_from(found, CLIENT_SEES) == told


def test_a_refusal_is_told_in_words() -> None:
    broker = Broker(topics={"orders": TopicConfig(topic_name="orders")})
    (refusal,) = outcome(DirectRegistration(RouteTable(), lambda: 0).register(broker))
    assert "one topic only" in refusal


def test_it_can_leave() -> None:
    for broker in (Broker(), Broker(Advertised("mq.example.org", None))):
        routes = registered(broker)
        assert outcome(DirectRegistration(routes, lambda: 0).unregister(broker)) == [None]
        assert routes.cluster_info(CLIENT_SEES).broker_addr_table == {}
