"""The start of tracing: a trace sender beside the producer or consumer that is traced."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import os
from typing import Final

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.connect.settings import ClientSettings, TracedSettings
from gateway.client.formats.unique_ids import UniqueIds
from gateway.client.names import MAX_GROUP_CHARS, without_namespace
from gateway.client.send.consume_trace import ConsumeTrace
from gateway.client.send.sender import Sender
from gateway.client.send.trace_sender import TraceSender

PRODUCER: Final = "PRODUCE"
CONSUMER: Final = "CONSUME"


def start_tracing(instance: ClientInstance, settings: TracedSettings, group: str, kind: str) -> TraceSender:
    """Return a trace sender for one client, which sends from now on.

    :param group: the client's group, without the namespace; the group of the traces is named after this group, as in
        the Java client.
    :param kind: ``PRODUCER`` or ``CONSUMER``.
    """
    shared = {entry.name: getattr(settings, entry.name) for entry in dataclasses.fields(ClientSettings)}
    plain = ProducerSettings(**{**shared, "namespace": ""})  # the topic of traces is everybody's
    sender = Sender(instance, f"_INNER_TRACE_PRODUCER-{group}-{kind}-1"[:MAX_GROUP_CHARS], plain)
    instance.join(sender)
    traces = TraceSender(instance, sender, settings.trace_topic)
    traces.start()
    return traces


class ConsumerTracing(ConsumeTrace):
    """The traces of one consumer.

    :param group: the group with its namespace.
    :param timeout: seconds after which a listener counts as timed out.
    """

    def __init__(
        self, instance: ClientInstance, settings: TracedSettings, group: str, *, timeout: float = math.inf
    ) -> None:
        plain_group = without_namespace(settings.namespace, group)
        self._traces = start_tracing(instance, settings, plain_group, CONSUMER)
        ids = UniqueIds(instance.client_ip, os.getpid(), clock=instance.clock, random=instance.random)
        super().__init__(self._traces.add, plain_group, ids=ids, clock=instance.clock, timeout=timeout)

    async def flush(self, timeout: float) -> None:
        """Send the collected records, within ``timeout`` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._traces.flush()
