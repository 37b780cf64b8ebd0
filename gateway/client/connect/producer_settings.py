"""Settings of producers, on top of those of every client; names and defaults are the Java client's."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client.connect.settings import TracedSettings, limited


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ProducerSettings(TracedSettings):
    """Settings of producers; defaults are those of ``DefaultMQProducer``."""

    send_msg_timeout: float = limited(3.0, least=0.001, most=600.0)
    """Seconds one send may take, all its tries together."""
    retry_times_when_send_failed: int = limited(2, least=0, most=100)
    """How often a failed send is tried again, on another broker if there is one."""
    retry_times_when_send_async_failed: int = limited(2, least=0, most=100)
    """The same for ``send_async``."""
    retry_another_broker_when_not_store_ok: bool = False
    """Whether FLUSH_DISK_TIMEOUT and the like count as failures that are tried elsewhere."""
    compress_msg_body_over: int = limited(4096, least=1)
    """Bodies of at least so many bytes are compressed."""
    compress_type: str = limited("zlib", choices=("none", "zlib", "lz4", "zstd"))
    """What they are compressed with; lz4 and zstd need ``rocketmq-gateway[compression]``, here and at consumers."""
    compress_level: int = limited(5, least=0, most=22)
    """Of zlib up to 9, of lz4 up to 16, of zstd up to 22; more is cut down to that."""
    max_message_size: int = limited(4_194_304, least=1, most=16_000_000)
    """Bytes of a body; at most the broker's ``maxMessageSize``."""
    default_topic_queue_nums: int = limited(4, least=1, most=65_535)
    """Queues of a topic that the broker creates at the first send, on each broker."""
    create_topic_key: str = "TBW102"
    """The topic whose configuration brokers copy for it."""
    send_latency_fault_enable: bool = False
    """Whether brokers that answered slowly or not at all are left out for a while."""
    max_in_flight: int = limited(10_000, least=1, most=1_000_000)
    """Sends that wait for their answer; more wait their turn."""
    max_in_flight_bytes: int = limited(104_857_600, least=1)
    """Bytes of bodies that wait for their answer."""
    enable_opentelemetry: bool = False
    """Whether every send is an OpenTelemetry span, whose context travels with the message."""
