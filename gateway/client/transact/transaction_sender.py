"""The sender of a transaction producer, which also stores half messages."""

from __future__ import annotations

from gateway.client.errors import MessageRefused, RocketMQError
from gateway.client.message import Message
from gateway.client.results import SendResult, SendStatus
from gateway.client.send.sender import Sender
from gateway.client.send.sending import Sending, SendOptions
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName

_ANY_STATUS = tuple(int(status) for status in SendStatus)


class TransactionSender(Sender):
    """Sends the messages of one group of transaction producers."""

    async def send_half(self, message: Message, timeout: float | None = None) -> SendResult:
        """Store a half message; every status counts as success.

        A try with an unknown outcome is not repeated. Each stored half message gets checked, and two half messages of
        one local transaction would both be committed.

        :param timeout: seconds; None: ``send_msg_timeout`` of the settings.
        :raises MessageRefused: the message has a delay, which a transaction does not allow.
        """
        if message.is_delayed:
            raise MessageRefused("delay", "cannot be combined with a transaction: brokers ignore it there")
        settings = self.settings
        options = SendOptions(
            timeout=settings.send_msg_timeout if timeout is None else timeout,
            retries=settings.retry_times_when_send_failed,
            accept=_ANY_STATUS,
            more_properties={PropertyName.TRAN_MSG: "true", PropertyName.PGROUP: self.group},
            sys_flag=SysFlag.TRANSACTION_PREPARED,
        )
        return await (await self.submit(message, options))

    def _may_retry(self, sending: Sending, error: RocketMQError) -> bool:
        if sending.options.sys_flag & SysFlag.TRANSACTION_PREPARED and error.outcome_unknown:
            return False
        return super()._may_retry(sending, error)
