"""Settings of producers, with names and defaults of the Java client."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client.connect.settings import TracedSettings, limited


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ProducerSettings(TracedSettings):
    """Settings of producers; defaults are those of ``DefaultMQProducer``."""

    send_msg_timeout: float = limited(3.0, least=0.001, most=600.0)
    """The most seconds for one send, all attempts included."""
    retry_times_when_send_failed: int = limited(2, least=0, most=100)
    """The most times a failed send is tried again, on another broker if there is one."""
    retry_times_when_send_async_failed: int = limited(2, least=0, most=100)
    """The most times a failed ``send_async`` is tried again, on another broker if there is one."""
    retry_another_broker_when_not_store_ok: bool = False
    """True if FLUSH_DISK_TIMEOUT and similar answers count as failures, so that the send is tried on another broker."""
    compress_msg_body_over: int = limited(4096, least=1)
    """The size in bytes from which bodies are compressed."""
    compress_type: str = limited("zlib", choices=("none", "zlib", "lz4", "zstd"))
    """The compression of bodies; lz4 and zstd need ``rocketmq-gateway[compression]``, here and at consumers."""
    compress_level: int = limited(5, least=0, most=22)
    """The level of compression: up to 9 for zlib, 16 for lz4, 22 for zstd; a higher value is reduced to the limit."""
    max_message_size: int = limited(4_194_304, least=1, most=16_000_000)
    """The most bytes of a body; must not exceed the broker's ``maxMessageSize``."""
    default_topic_queue_nums: int = limited(4, least=1, most=65_535)
    """Queues on each broker of a topic that the broker creates at the first send."""
    create_topic_key: str = "TBW102"
    """The topic whose configuration brokers copy when they create a topic at the first send."""
    send_latency_fault_enable: bool = False
    """True if brokers that answered slowly or not at all are skipped for a while."""
    max_in_flight: int = limited(10_000, least=1, most=1_000_000)
    """The most sends that wait for an answer; further sends wait until there is room."""
    max_in_flight_bytes: int = limited(104_857_600, least=1)
    """The most bytes of bodies that wait for an answer; further sends wait until there is room."""
    enable_opentelemetry: bool = False
    """True if every send is an OpenTelemetry span, whose context travels with the message."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TransactionSettings(ProducerSettings):
    """Settings of ``TransactionProducer``."""

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
