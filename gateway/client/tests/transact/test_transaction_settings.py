from __future__ import annotations

import pytest

from gateway.client.connect.producer_settings import TransactionSettings
from gateway.client.errors import ConfigurationError


def test_defaults_are_those_of_the_java_client_where_it_has_them() -> None:
    settings = TransactionSettings(namesrv="mq:9876")
    assert (settings.check_thread_pool_max_size, settings.check_request_hold_max) == (1, 2000)
    assert settings.send_msg_timeout == 3.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("check_thread_pool_max_size", 0),
        ("check_request_hold_max", 0),
        ("check_timeout", 0),
        ("outcome_timeout", -1.0),
        ("max_waiting_outcomes", -1),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(key: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=key):
        TransactionSettings(namesrv="mq:9876", **{key: value})  # type: ignore[arg-type]
