"""The request for messages of a queue, in the form of this source: without subscribing, waiting or committing."""

from __future__ import annotations

from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.connection import request
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.headers.pull import BULK_READER, PullMessageRequest
from wire.message.flags import PullFlag
from wire.message.tags import MATCH_ALL


def pull_request(
    group: str,
    queue: MessageQueue,
    offset: int,
    count: int,
    *,
    expression: str = MATCH_ALL,
    expression_type: str = "TAG",
) -> RemotingCommand:
    """Return a request for at most ``count`` messages from ``offset`` on.

    The answer comes at once, even without messages. A gateway gives as many messages as requested, other brokers as
    many as their settings allow.
    """
    header = PullMessageRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=PullFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=expression,
        sub_version=0,
        expression_type=expression_type,
        request_source=BULK_READER,
    )
    return request(RequestCode.PULL_MESSAGE, header)
