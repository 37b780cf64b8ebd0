"""A client for Apache RocketMQ and for this gateway: producers, consumers and administration, blocking.

    with Producer("group", namesrv="localhost:9876") as producer:
        producer.send(Message("topic", b"hello"))

The same classes with ``async`` methods are in ``gateway.client.aio``. The only other part of the gateway that this
package needs is ``wire``. Importing the package starts nothing; each class is loaded at its first use.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any, Final

from gateway.client.default_log import OncePerKind

if TYPE_CHECKING:
    from gateway.client import aio
    from gateway.client.admin.admin_results import MessageNotFound, NothingConsumed
    from gateway.client.blocking.admin import AdminClient
    from gateway.client.blocking.lite_pull_consumer import LitePullConsumer
    from gateway.client.blocking.producer import Producer
    from gateway.client.blocking.push_consumer import PushConsumer
    from gateway.client.blocking.simple_consumer import SimpleConsumer
    from gateway.client.blocking.transaction_producer import TransactionProducer
    from gateway.client.connect.producer_settings import ProducerSettings, TransactionSettings
    from gateway.client.connect.settings import ClientSettings, TlsSettings
    from gateway.client.consume.pop.pop_handles import PoppedMessage
    from gateway.client.consume.settings.consumer_settings import (
        ConsumeFrom,
        LitePullSettings,
        MessageModel,
        PushSettings,
        SimpleSettings,
    )
    from gateway.client.consume.subscriptions import Sql
    from gateway.client.errors import (
        AclError,
        BrokerError,
        BrokerNotFound,
        ClientClosed,
        ConfigurationError,
        ConnectError,
        ConnectionLost,
        MessageRefused,
        MessageTooLarge,
        NotANameServer,
        NotCommitted,
        NotSent,
        PartlySent,
        ProtocolError,
        RequestTimeout,
        RocketMQError,
        RouteNotFound,
        TooManyRequests,
        UsedAfterFork,
        UsedOnOtherLoop,
    )
    from gateway.client.message import Message, ReceivedMessage
    from gateway.client.message_queue import MessageQueue
    from gateway.client.results import SendResult, SendStatus
    from gateway.client.retry_later import RetryLater
    from gateway.client.transact.transaction import AlreadyDecided, HalfNotSafe, TransactionSendResult
    from gateway.client.transaction_state import TransactionChecker, TransactionListener, TransactionState

__all__ = [
    "AclError",
    "AdminClient",
    "AlreadyDecided",
    "BrokerError",
    "BrokerNotFound",
    "ClientClosed",
    "ClientSettings",
    "ConfigurationError",
    "ConnectError",
    "ConnectionLost",
    "ConsumeFrom",
    "HalfNotSafe",
    "LitePullConsumer",
    "LitePullSettings",
    "Message",
    "MessageModel",
    "MessageNotFound",
    "MessageQueue",
    "MessageRefused",
    "MessageTooLarge",
    "NotANameServer",
    "NotCommitted",
    "NotSent",
    "NothingConsumed",
    "PartlySent",
    "PoppedMessage",
    "Producer",
    "ProducerSettings",
    "ProtocolError",
    "PushConsumer",
    "PushSettings",
    "ReceivedMessage",
    "RequestTimeout",
    "RetryLater",
    "RocketMQError",
    "RouteNotFound",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "SimpleSettings",
    "Sql",
    "TlsSettings",
    "TooManyRequests",
    "TransactionChecker",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionSettings",
    "TransactionState",
    "UsedAfterFork",
    "UsedOnOtherLoop",
    "aio",
]

# Public name → the module below this package that has it.
_MODULES: Final = {
    **dict.fromkeys(__all__, "errors"),  # and those below
    "AdminClient": "blocking.admin",
    "AlreadyDecided": "transact.transaction",
    "ClientSettings": "connect.settings",
    "ConsumeFrom": "consume.settings.consumer_settings",
    "HalfNotSafe": "transact.transaction",
    "LitePullConsumer": "blocking.lite_pull_consumer",
    "LitePullSettings": "consume.settings.consumer_settings",
    "Message": "message",
    "MessageModel": "consume.settings.consumer_settings",
    "MessageNotFound": "admin.admin_results",
    "MessageQueue": "message_queue",
    "NothingConsumed": "admin.admin_results",
    "PoppedMessage": "consume.pop.pop_handles",
    "Producer": "blocking.producer",
    "ProducerSettings": "connect.producer_settings",
    "PushConsumer": "blocking.push_consumer",
    "PushSettings": "consume.settings.consumer_settings",
    "ReceivedMessage": "message",
    "RetryLater": "retry_later",
    "SendResult": "results",
    "SendStatus": "results",
    "SimpleConsumer": "blocking.simple_consumer",
    "SimpleSettings": "consume.settings.consumer_settings",
    "Sql": "consume.subscriptions",
    "TlsSettings": "connect.settings",
    "TransactionChecker": "transaction_state",
    "TransactionListener": "transaction_state",
    "TransactionProducer": "blocking.transaction_producer",
    "TransactionSendResult": "transact.transaction",
    "TransactionSettings": "connect.producer_settings",
    "TransactionState": "transaction_state",
}

# A library does not decide where its log goes, as long as the program does.
logging.getLogger(__name__).addHandler(OncePerKind())


def __getattr__(name: str) -> Any:
    if name == "aio":
        return importlib.import_module("gateway.client.aio")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
