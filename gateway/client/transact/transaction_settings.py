"""The settings of transaction producers, in addition to the settings of every producer."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.connect.settings import limited


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TransactionSettings(ProducerSettings):
    """Settings of ``TransactionProducer``. Settings of the Java client have the same names and defaults here."""

    check_thread_pool_max_size: int = limited(1, least=1, most=256)
    """The most checks that run at once: in threads of their own, or as tasks of an ``async def check``."""
    check_request_hold_max: int = limited(2_000, least=1, most=1_000_000)
    """The most checks that may wait for their turn. Further checks are left to the broker, which asks again."""
    check_timeout: float = limited(60.0, least=0.01, most=3_600.0)
    """The seconds after which a check counts as UNKNOWN. A thread cannot be stopped: its place stays taken."""
    outcome_timeout: float = limited(60.0, least=0.0, most=86_400.0)
    """The seconds for which an outcome is tried again while its broker cannot be reached; then the check decides."""
    max_waiting_outcomes: int = limited(10_000, least=0, most=1_000_000)
    """The most outcomes that may wait for their broker at once; further outcomes are left to the check."""
