import pytest

from gateway.client.message import MessageQueue
from gateway.client.results import SEND_STATUS_BY_CODE, SendResult, SendStatus, single_results
from wire.codes import ResponseCode


def test_statuses_are_the_response_codes_of_stored_messages() -> None:
    for status in SendStatus:
        name = "SUCCESS" if status is SendStatus.SEND_OK else status.name
        assert int(ResponseCode[name]) == int(status)
        assert SEND_STATUS_BY_CODE[int(status)] is status


@pytest.mark.parametrize("status", SendStatus)
def test_nobody_claims_more_than_the_broker_said(status: SendStatus) -> None:
    result = SendResult(status, "A", "B", MessageQueue("t", "b", 0), 0)
    assert result.durable is (None if status is SendStatus.SEND_OK else False)


def test_a_batch_has_a_result_for_each_message() -> None:
    queue = MessageQueue("t", "b", 1)
    joined = SendResult(SendStatus.SEND_OK, "A,B", "X,Y", queue, 7)
    assert single_results(joined) == [
        SendResult(SendStatus.SEND_OK, "A", "X", queue, 7),
        SendResult(SendStatus.SEND_OK, "B", "Y", queue, 8),
    ]
    one_id = SendResult(SendStatus.SEND_OK, "A,B", "X", queue, 7)
    assert [result.offset_msg_id for result in single_results(one_id)] == ["X", "X"]
