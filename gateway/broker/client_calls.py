"""What the broker asks its clients, over the connections they opened.

Upstream: ``Broker2Client``. Whom to ask, and what the answer means, is decided by the caller. Not here is
NOTIFY_CONSUMER_IDS_CHANGED: ``gateway.membership.consumers`` decides it and sends it itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.errors import RequestRefused
from gateway.remoting.channel import Channel
from gateway.remoting.pending import CallFailed, CallTimeout
from wire.bodies.consumers import GetConsumerStatusBody
from wire.bodies.message_queue import MessageQueue
from wire.bodies.statistics import QueueOffset, ResetOffsetBody, ResetOffsetBodyForC
from wire.codes import LanguageCode, RequestCode, ResponseCode, response_code_name
from wire.command import RemotingCommand
from wire.headers.admin import ConsumeMessageDirectlyResultRequest, GetConsumerRunningInfoRequest
from wire.headers.declare import Header
from wire.headers.offsets import GetConsumerStatusRequest, ResetOffsetRequest
from wire.headers.send import ReplyMessageRequest
from wire.headers.transaction import CheckTransactionStateRequest

RESET_MIN_VERSION = 28
"""V3_0_7_SNAPSHOT: older clients know neither 220 nor 221."""
FORWARD_MIN_VERSION = 62
"""V3_1_8_SNAPSHOT: older clients know neither 307 nor 309."""
STATUS_TIMEOUT_S = 5.0
"""Upstream's wait for 221."""
FORWARD_TIMEOUT_S = 10.0
"""Upstream's wait for 307, 309 and 326; tools wait a little longer."""


def check_transaction_state(channel: Channel, header: CheckTransactionStateRequest, record: bytes) -> bool:
    """Ask a producer what became of a half message (39, one-way); it answers with END_TRANSACTION.

    :param record: the half message as stored, under its real topic.
    :returns: False when nothing was sent: the channel is closed or its peer does not keep up.
    """
    return channel.notify(RequestCode.CHECK_TRANSACTION_STATE, header, record)


def reset_consumer_offset(
    channel: Channel, header: ResetOffsetRequest, offsets: Mapping[MessageQueue, int], language: int
) -> bool:
    """Tell a consumer to go on at these offsets (220, one-way); it drops what it holds and rebalances.

    :param language: of the client: C++ cannot read objects as keys and gets a list (upstream: ``isC``).
    :returns: False when nothing was sent.
    """
    if language == LanguageCode.CPP:
        queues = [
            QueueOffset(queue.topic, queue.broker_name, queue.queue_id, offset) for queue, offset in offsets.items()
        ]
        body = ResetOffsetBodyForC(queues).build()
    else:
        body = ResetOffsetBody(offsets).build()
    return channel.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)


async def consumer_status(channel: Channel, topic: str, group: str) -> Mapping[MessageQueue, int]:
    """Ask a consumer for the offsets it holds in memory (221).

    :raises RequestRefused: it does not answer within ``STATUS_TIMEOUT_S``, or with an error.
    :raises BodyError: its answer is malformed.
    """
    header = GetConsumerStatusRequest(topic=topic, group=group)
    answer = await _forward(channel, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header, b"", STATUS_TIMEOUT_S)
    if answer.code != ResponseCode.SUCCESS:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"the client {channel.remote_text} answered {response_code_name(answer.code)}: {answer.remark}",
        )
    return GetConsumerStatusBody.parse(answer.body).message_queue_table


async def consumer_running_info(channel: Channel, header: GetConsumerRunningInfoRequest) -> RemotingCommand:
    """Ask a consumer what it is doing (307); the answer is passed on as it is.

    :raises RequestRefused: CONSUME_MSG_TIMEOUT or SYSTEM_ERROR, it did not answer.
    """
    return await _forward(channel, RequestCode.GET_CONSUMER_RUNNING_INFO, header, b"", FORWARD_TIMEOUT_S)


async def consume_message_directly(
    channel: Channel, header: ConsumeMessageDirectlyResultRequest, record: bytes
) -> RemotingCommand:
    """Let a consumer consume one message now (309); the answer is passed on as it is.

    :param record: the message as stored.
    :raises RequestRefused: CONSUME_MSG_TIMEOUT or SYSTEM_ERROR, it did not answer.
    """
    return await _forward(channel, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, record, FORWARD_TIMEOUT_S)


async def push_reply(channel: Channel, header: ReplyMessageRequest, body: bytes) -> RemotingCommand:
    """Bring a reply to the client that asked (326).

    :raises RequestRefused: CONSUME_MSG_TIMEOUT or SYSTEM_ERROR, it did not answer.
    """
    return await _forward(channel, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, header, body, FORWARD_TIMEOUT_S)


def check_client_version(version: int, minimum: int, client_id: str) -> None:
    """Refuse what a client is too old to be asked.

    :raises RequestRefused: SYSTEM_ERROR, as upstream answers.
    """
    if version < minimum:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"the client {client_id} has version {version}, which does not know this request",
        )


async def _forward(
    channel: Channel, code: RequestCode, header: Header, body: bytes, timeout_s: float
) -> RemotingCommand:
    try:
        return await channel.call(code, header, body, timeout_s)
    except CallTimeout as error:
        raise RequestRefused(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"the client {channel.remote_text} timed out: {error}"
        ) from error
    except CallFailed as error:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, f"the client {channel.remote_text} was not asked: {error}"
        ) from error
