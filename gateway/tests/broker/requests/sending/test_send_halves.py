"""Sending half messages: hidden until their outcome, alike or not, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.tests.broker.send_requests import refused
from gateway.tests.broker.whole_broker import WholeBroker, sending
from wire.codes import RequestCode, ResponseCode
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store")


@pytest.mark.parametrize("flag", ["true", "TRUE"])
def test_a_half_message_is_hidden_and_answered_with_its_place_in_the_half_queue(broker: WholeBroker, flag: str) -> None:
    producer = broker.connect()
    properties = {"TRAN_MSG": flag, "PGROUP": "producers", "UNIQ_KEY": "K1"}
    answer = broker.send(producer, queue_id=1, sys_flag=SysFlag.TRANSACTION_PREPARED, properties=properties)
    fields = answer.ext_fields
    assert (fields["queueId"], fields["queueOffset"], fields["transactionId"]) == ("1", "0", "K1")
    assert broker.messages("orders", 1) == []
    assert broker.messages("RMQ_SYS_TRANS_HALF_TOPIC")[0].property_map["REAL_TOPIC"] == "orders"


def test_half_messages_that_are_alike_are_stored_alike(broker: WholeBroker) -> None:
    producer = broker.connect()
    keys = [f"{number:032X}" for number in range(4)]
    for queue_id, key in enumerate(keys):
        properties = {"TRAN_MSG": "true", "UNIQ_KEY": key, "WAIT": "true", "PGROUP": "producers"}
        answer = broker.send(producer, queue_id=queue_id, properties=properties)
        fields = answer.ext_fields
        assert (fields["queueId"], fields["queueOffset"], fields["transactionId"]) == (str(queue_id),) * 2 + (key,)
    stored = broker.messages("RMQ_SYS_TRANS_HALF_TOPIC")
    texts = [message.properties.decode().replace(key, "?") for message, key in zip(stored, keys, strict=True)]
    assert texts == [
        "TRAN_MSG\x01true\x02UNIQ_KEY\x01?\x02WAIT\x01true\x02PGROUP\x01producers\x02"
        "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
        f"REAL_TOPIC\x01orders\x02REAL_QID\x01{queue_id}\x02__transactionId__\x01?\x02"
        for queue_id in range(4)
    ]


@pytest.mark.parametrize("odd", [{"DELAY": "1"}, {"PGROUP": ""}, {"PGROUP": "a\tb"}, {"TIMER_DELAY_SEC": "3"}])
def test_every_one_of_many_half_messages_that_cannot_be_taken_is_refused(
    broker: WholeBroker, odd: dict[str, str]
) -> None:
    producer = broker.connect()
    for number in range(4):
        properties = {"TRAN_MSG": "true", "UNIQ_KEY": f"{number}", "WAIT": "true", "PGROUP": "p", **odd}
        assert broker.send(producer, properties=properties).code == ResponseCode.MESSAGE_ILLEGAL
    assert broker.messages("RMQ_SYS_TRANS_HALF_TOPIC") == []


def test_half_messages_are_refused_from_when_transactions_are_switched_off(broker: WholeBroker) -> None:
    producer = broker.connect()
    codes = []
    for number in range(6):
        if number == 3:
            changed = broker.ask(producer, RequestCode.UPDATE_BROKER_CONFIG, body=b"rejectTransactionMessage=true")
            assert changed.code == ResponseCode.SUCCESS
        properties = {"TRAN_MSG": "true", "UNIQ_KEY": f"{number}", "WAIT": "true", "PGROUP": "p"}
        codes.append(broker.send(producer, properties=properties).code)
    assert codes == [ResponseCode.SUCCESS] * 3 + [ResponseCode.NO_PERMISSION] * 3


def test_a_half_message_and_an_outcome_of_one_turn_go_to_the_log_together(broker: WholeBroker) -> None:
    producer = broker.connect()

    def half(key: str) -> Any:
        return sending(properties={"TRAN_MSG": "true", "UNIQ_KEY": key, "WAIT": "true", "PGROUP": "producers"})

    fields = broker.ask(producer, RequestCode.SEND_MESSAGE, half("K1")).ext_fields
    outcome = EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=int(fields["queueOffset"]),
        commit_log_offset=int(fields["msgId"][-16:], 16),
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
        msg_id="K1",
    )
    together: list[list[str]] = []
    broker.parts.store.listen(lambda outcomes: together.append([outcome.topic for outcome in outcomes]))
    producer.ask_all(RequestCode.SEND_MESSAGE, half("K2"))  # first, when nothing waits yet
    producer.ask_all(RequestCode.END_TRANSACTION, outcome)
    broker.turn()
    assert together == [["RMQ_SYS_TRANS_HALF_TOPIC", "orders", "RMQ_SYS_TRANS_OP_HALF_TOPIC"]]


def test_a_half_message_with_a_delay_is_refused(broker: WholeBroker) -> None:
    code, remark = refused(broker.send(broker.connect(), properties={"TRAN_MSG": "true", "DELAY": "1"}))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert "DELAY" in remark


def test_transactions_can_be_switched_off(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", reject_transaction_message=True)
    assert refused(broker.send(broker.connect(), properties={"TRAN_MSG": "true"}))[0] == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("kind", [SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK])
def test_transaction_bits_alone_do_not_hide_a_message(broker: WholeBroker, kind: int) -> None:
    broker.send(broker.connect(), sys_flag=kind | SysFlag.COMPRESSED)
    assert [message.sys_flag for message in broker.messages("orders")] == [SysFlag.COMPRESSED]
