"""A popped message, which belongs for a while to the member that popped it, and is acknowledged with its receipt."""

from __future__ import annotations

from gateway.client.consume.pop.pop_handles import ReceiptWords
from gateway.client.message import ReceivedMessage
from wire.message.record import StoredMessage


class PoppedMessage(ReceivedMessage):
    """A message with the receipt that acknowledges it."""

    __slots__ = ("given_back", "hidden_until", "receipt")

    def __init__(
        self, record: StoredMessage, broker_name: str, receipt: ReceiptWords, until: float, namespace: str
    ) -> None:
        super().__init__(record, broker_name, namespace=namespace)
        self.receipt = receipt
        """The receipt to send back to the broker; ``change_invisible_time`` replaces the receipt."""
        self.hidden_until = until
        """The time until which no other consumer gets the message, in seconds of the event loop's clock."""
        self.given_back = False
        """True if the message was left to come again; such a message must not be acknowledged."""
