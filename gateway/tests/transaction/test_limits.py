"""The limits follow the settings."""

from __future__ import annotations

from gateway.settings.tree import Settings
from gateway.transaction.limits import TransactionLimits


def test_default_settings_give_the_default_limits() -> None:
    assert TransactionLimits.from_settings(Settings()) == TransactionLimits()


def test_settings_are_taken_over_with_their_units() -> None:
    settings = Settings(transaction_check_max=2, file_reserved_time_hours=1, transaction_timeout_ms=5)
    limits = TransactionLimits.from_settings(settings)
    assert (limits.check_max, limits.max_age_ms, limits.timeout_ms) == (2, 3_600_000, 5)
