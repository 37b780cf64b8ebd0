"""A client behind a listed proxy is known by its own address in messages, lists of connections and rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.settings.transaction import OperatorAccess
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.bodies.consumers import ProducerConnection
from wire.bodies.heartbeat import HeartbeatData
from wire.codes import RequestCode, ResponseCode
from wire.headers.transaction import TransactionStatisticsRequest
from wire.message.message_id import pack_host

PROXY = "10.1.2.3"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WholeBroker]:
    broker = WholeBroker(tmp_path, proxy_addresses=PROXY, operator_access=OperatorAccess.LOOPBACK)
    yield broker
    broker.stop()


def behind_proxy(broker: WholeBroker, host: str) -> Peer:
    peer = broker.conversation.connect(PROXY)
    family = "TCP6" if ":" in host else "TCP4"
    own = "::1" if family == "TCP6" else "10.0.0.1"
    peer.send_bytes(f"PROXY {family} {host} {own} 40000 10911\r\n".encode())
    return peer


@pytest.mark.parametrize("host", ["192.0.2.9", "2001:db8::9"])
def test_messages_and_lists_have_the_clients_address(broker: WholeBroker, host: str) -> None:
    peer = behind_proxy(broker, host)
    assert broker.send(peer).code == ResponseCode.SUCCESS
    [message] = broker.messages("orders")
    assert message.born_host == pack_host(host, 40_000)
    broker.ask(peer, RequestCode.HEART_BEAT, body=HeartbeatData("c1", producers=("p",)).build())
    answer = broker.ask(peer, RequestCode.GET_PRODUCER_CONNECTION_LIST, fields={"producerGroup": "p"})
    (connection,) = ProducerConnection.parse(answer.body).connections
    assert connection.client_addr == f"{host}:40000"


@pytest.mark.parametrize(
    ("host", "code"), [("127.0.0.1", ResponseCode.SUCCESS), ("192.0.2.9", ResponseCode.NO_PERMISSION)]
)
def test_rules_about_addresses_see_the_client(broker: WholeBroker, host: str, code: int) -> None:
    header = TransactionStatisticsRequest(max_num=1)
    peer = behind_proxy(broker, host)
    assert broker.ask(peer, RequestCode.GATEWAY_TRANSACTION_STATISTICS, header).code == code
