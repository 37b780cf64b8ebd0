"""The clients for asyncio. The blocking clients in ``gateway.client`` have the same names and methods.

    async with aio.Producer("group", namesrv="localhost:9876") as producer:
        await producer.send(Message("topic", b"hello"))

Each class is loaded at its first use, so that a program imports only the clients it uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.client.admin.admin import AdminClient
    from gateway.client.consume.lite_pull.lite_pull_consumer import LitePullConsumer
    from gateway.client.consume.pop.simple_consumer import SimpleConsumer
    from gateway.client.consume.push.push_consumer import PushConsumer
    from gateway.client.send.producer import Producer
    from gateway.client.transact.transaction_producer import TransactionProducer

_MODULES: Final = {
    "AdminClient": "admin.admin",
    "LitePullConsumer": "consume.lite_pull.lite_pull_consumer",
    "Producer": "send.producer",
    "PushConsumer": "consume.push.push_consumer",
    "SimpleConsumer": "consume.pop.simple_consumer",
    "TransactionProducer": "transact.transaction_producer",
}

__all__ = ["AdminClient", "LitePullConsumer", "Producer", "PushConsumer", "SimpleConsumer", "TransactionProducer"]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gateway.client.{module}"), name)
    globals()[name] = value
    return value
