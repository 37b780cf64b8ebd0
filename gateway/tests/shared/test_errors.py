"""Errors say one sentence and know their exit code or their answer."""

from gateway.errors import GatewayError, RequestRefused, SettingsError
from wire.codes import ResponseCode


def test_a_gateway_error_says_its_sentence_and_ends_with_one() -> None:
    error = GatewayError("the data directory is in use")
    assert str(error) == "the data directory is in use"
    assert error.exit_code == 1


def test_an_exit_code_can_be_given_without_changing_other_errors() -> None:
    assert GatewayError("disk full", exit_code=5).exit_code == 5
    assert GatewayError("something else").exit_code == 1


def test_a_wrong_setting_ends_with_two() -> None:
    assert SettingsError("no such setting").exit_code == 2


def test_a_refused_request_carries_code_and_remark() -> None:
    refused = RequestRefused(ResponseCode.TOPIC_NOT_EXIST, "topic X does not exist")
    assert (refused.code, refused.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic X does not exist")
    assert str(refused) == "TOPIC_NOT_EXIST: topic X does not exist"
