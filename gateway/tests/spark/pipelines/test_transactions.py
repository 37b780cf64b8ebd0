"""The brokers whose topics say how transactions ended."""

from __future__ import annotations

import pytest

from gateway.spark.errors import OutcomesUnknown
from gateway.spark.pipelines.transactions import HALF_TOPIC, check_state_stores
from gateway.tests.spark.asking.test_cluster import Network, a_cluster, success
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand


@pytest.mark.parametrize("store", ["table", "database"])
def test_a_broker_without_op_records_is_refused_since_rolled_back_transactions_would_be_called_pending(
    store: str,
) -> None:
    network = Network()
    settings = f"brokerName=broker-a\ntransactionStateStore={store}\nflushDiskType=SYNC_FLUSH"
    network.replies[RequestCode.GET_BROKER_CONFIG] = success(body=settings.encode())
    with pytest.raises(OutcomesUnknown, match=f"broker-a .* in a {store} .* 'rocketmq-gateway transactions list'"):
        check_state_stores(a_cluster(network))


def test_a_broker_with_op_records_is_read() -> None:
    network = Network()
    network.replies[RequestCode.GET_BROKER_CONFIG] = success(body=b"transactionStateStore=queue")
    check_state_stores(a_cluster(network))
    assert {command.ext_fields["topic"] for _, command in network.asked if command.ext_fields} == {HALF_TOPIC}


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION])
def test_apache_rocketmq_which_has_no_such_setting_is_read(code: int) -> None:
    network = Network()
    network.replies[RequestCode.GET_BROKER_CONFIG] = lambda _: RemotingCommand(
        code, flag=1, body=b"brokerName=broker-a"
    )
    check_state_stores(a_cluster(network))


def test_where_no_transaction_was_ever_sent_no_broker_is_asked() -> None:
    network = Network()
    network.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: RemotingCommand(
        ResponseCode.TOPIC_NOT_EXIST, flag=1
    )
    check_state_stores(a_cluster(network))
    assert len(network.asked) == 1
