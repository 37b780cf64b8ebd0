"""Apache's keys are known as data, with their defaults."""

import pytest

from gateway.settings.files.apache_keys import REFUSED, apache_keys


def test_all_keys_of_all_six_classes_are_there() -> None:
    keys = apache_keys()
    assert len(keys) > 500
    assert {key.owner for key in keys.values()} == {
        "BrokerConfig",
        "MessageStoreConfig",
        "NamesrvConfig",
        "NettyServerConfig",
        "AuthConfig",
        "TlsSystemConfig",
    }


@pytest.mark.parametrize(
    ("key", "java_type", "default", "owner"),
    [
        ("listenPort", "int", "6888", "BrokerConfig"),
        ("flushDiskType", "FlushDiskType", "ASYNC_FLUSH", "MessageStoreConfig"),
        ("messageDelayLevel", "String", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", None),
        ("brokerIP1", "String", "", "BrokerConfig"),
    ],
)
def test_a_key_has_type_default_and_owner(key: str, java_type: str, default: str, owner: str | None) -> None:
    found = apache_keys()[key]
    assert (found.java_type, found.default) == (java_type, default)
    assert owner in (None, found.owner)


def test_every_refused_key_is_one_of_apaches() -> None:
    assert {key for key, _ in REFUSED} <= set(apache_keys())
    assert all(value == value.lower() for _, value in REFUSED)
