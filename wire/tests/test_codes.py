"""The numbers of the protocol."""

from __future__ import annotations

import pytest

from wire.codes import (
    SERVER_VERSION,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SerializeType,
    language_name,
    request_code_name,
    response_code_name,
)


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (RequestCode.SEND_MESSAGE, 10),
        (RequestCode.PULL_MESSAGE, 11),
        (RequestCode.HEART_BEAT, 34),
        (RequestCode.END_TRANSACTION, 37),
        (RequestCode.CHECK_TRANSACTION_STATE, 39),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, 105),
        (RequestCode.SEND_MESSAGE_V2, 310),
        (RequestCode.SEND_BATCH_MESSAGE, 320),
        (RequestCode.POP_MESSAGE, 200050),
        (RequestCode.TRIGGER_LITE_DISPATCH, 200079),
        (RequestCode.SWITCH_TIMER_ENGINE, 5001),
        (ResponseCode.SUCCESS, 0),
        (ResponseCode.PULL_OFFSET_MOVED, 21),
        (ResponseCode.GO_AWAY, 1500),
        (ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, 2018),
        (ResponseCode.RPC_TIME_OUT, -1006),
        (LanguageCode.NODE_JS, 13),
        (SerializeType.ROCKETMQ, 1),
    ],
)
def test_a_code_has_the_number_of_the_protocol(code: int, number: int) -> None:
    assert code == number


def test_no_two_request_codes_share_a_number() -> None:
    assert len(RequestCode.__members__) == len(RequestCode)


def test_only_names_that_5x_gave_up_share_a_number_with_another_response() -> None:
    aliases = {name for name, code in ResponseCode.__members__.items() if name != code.name}

    assert aliases == {
        "UPDATE_AND_CREATE_ACL_CONFIG_FAILED",
        "DELETE_ACL_CONFIG_FAILED",
        "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED",
        "CONTROLLER_REGISTER_BROKER_FAILED",
    }


def test_a_producer_goes_elsewhere_for_exactly_the_codes_of_its_retry_list() -> None:
    assert {int(code) for code in ResponseCode if code.retriable} == {1, 2, 14, 16, 17, 204, 205, 1500}


def test_codes_are_named_even_when_nobody_defined_them() -> None:
    assert request_code_name(11) == "PULL_MESSAGE"
    assert request_code_name(4711) == "UNKNOWN_4711"
    assert response_code_name(209) == "POLLING_FULL"
    assert response_code_name(-5) == "UNKNOWN_-5"


def test_a_language_nobody_defined_is_called_other() -> None:
    assert language_name(9) == "GO"
    assert language_name(14) == "OTHER"
    assert language_name(-1) == "OTHER"


def test_languages_count_up_without_a_gap() -> None:
    assert [int(code) for code in LanguageCode] == list(range(len(LanguageCode)))


def test_our_version_lets_clients_use_sql_filters() -> None:
    assert SERVER_VERSION >= 232
