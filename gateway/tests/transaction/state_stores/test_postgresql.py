"""The checks that need no server; ``compat_tests/test_transaction_database.py`` has one."""

from __future__ import annotations

import sys

import pytest

from gateway.errors import SettingsError
from gateway.transaction.state_stores import postgresql
from gateway.transaction.state_stores.changes import StatesUnavailable
from gateway.transaction.state_stores.postgresql import PostgresDatabase

NOBODY = "postgresql://rmq@127.0.0.1:1/transactions"


def test_the_missing_driver_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    with pytest.raises(SettingsError, match=r"pip install 'rocketmq-gateway\[postgres\]'"):
        PostgresDatabase(NOBODY)


def test_a_dsn_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"gateway\.transactionDatabase: .*nonsense"):
        PostgresDatabase("postgresql://h/d?nonsense=1")


def test_a_server_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "POOL_TIMEOUT_S", 0.5)
    database = PostgresDatabase(NOBODY)
    unavailable = pytest.raises(StatesUnavailable, match="PostgreSQL database transactions at 127")
    with unavailable as refused, database.transaction():
        pass
    database.close()
    assert "Connection refused" in str(refused.value)
    assert "couldn't get a connection" not in str(refused.value)


def test_a_pool_that_only_waited_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """No attempt to connect ended yet: nothing more is known."""
    monkeypatch.setattr(postgresql, "POOL_TIMEOUT_S", 0.05)
    database = PostgresDatabase(NOBODY)
    monkeypatch.setattr(database._pool, "open", lambda: None)
    with pytest.raises(StatesUnavailable, match="PostgreSQL database transactions at 127"), database.transaction():
        pass
    database.close()


def test_closing_what_was_never_used_does_nothing() -> None:
    PostgresDatabase(NOBODY).close()
