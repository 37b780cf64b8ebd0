"""Settings of transactions that have more than a range."""

from __future__ import annotations

import pytest

from gateway.errors import SettingsError
from gateway.settings.files.load import Role, load_settings
from gateway.settings.transaction import TransactionStateStore, database_expected


@pytest.mark.parametrize("text", ["queue", "TABLE", "Database"])
def test_a_state_store_is_named_whatever_its_case(text: str) -> None:
    settings = load_settings(Role.BROKER, assignments=[f"transactionStateStore={text}"]).settings
    assert settings.transaction_state_store is TransactionStateStore(text.lower())


def test_another_state_store_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(SettingsError, match="expected queue or table or database"):
        load_settings(Role.BROKER, assignments=["transactionStateStore=redis"])


def test_the_environment_sets_it_too() -> None:
    environment = {"ROCKETMQ_GATEWAY_TRANSACTION_STATE_STORE": "table"}
    loaded = load_settings(Role.BROKER, environment=environment)
    assert loaded.settings.transaction_state_store is TransactionStateStore.TABLE
    assert loaded.sources["transactionStateStore"] == "environment ROCKETMQ_GATEWAY_TRANSACTION_STATE_STORE"


@pytest.mark.parametrize(
    "text",
    ["", "sqlite:/var/rows.db", "postgresql://h/d", "postgres://u@h:5/d?options=-csearch_path%3Dx", "postgres://"],
)
def test_a_database_is_a_file_or_a_dsn(text: str) -> None:
    assert database_expected(text) is None


@pytest.mark.parametrize("text", ["mysql://h/d", "rows.db", "sqlite:rows.db", "sqlite:/"])
def test_other_databases_are_refused(text: str) -> None:
    assert database_expected(text) == "nothing, sqlite:/PATH or postgresql://USER@HOST:PORT/DATABASE"


@pytest.mark.parametrize(
    "text",
    [
        *("postgresql://u:secret@h/d", "postgresql://u:x@secret@h/d", "postgres://h/d?user=u&password=secret"),
        *("postgresql://h/d?sslpassword=secret", "postgresql://h/d?user=u&SSLPassword=secret"),
        *("postgresql://h/d?pass%77ord=secret", "postgresql://h/d?%70assword=secret"),
        "postgresql://h/d?oauth_client_secret=x_secret",
    ],
)
def test_a_password_has_no_place_in_a_setting(text: str) -> None:
    with pytest.raises(SettingsError, match="a DSN without a password") as refused:
        load_settings(Role.BROKER, assignments=[f"gateway.transactionDatabase={text}"])
    assert "PGPASSWORD" in str(refused.value)
    assert "secret" not in str(refused.value).replace("client_secret=", "")
