"""A topic full of messages for Spark to read: batches as a producer sends them, several on their way."""

from __future__ import annotations

import os
import random
import time
from typing import Any

from benchmarks.java_tools import BenchmarkError
from gateway.client.formats.unique_ids import UniqueIds
from gateway.client.message_queue import MessageQueue
from gateway.client.testing.server import GatewayServer
from gateway.spark.asking.cluster import Access, Cluster
from gateway.spark.asking.connection import request
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.send import ShortSendMessageRequest
from wire.message.batch import BatchPart, build_batch
from wire.message.properties import PropertyName, build_properties

BATCH = 1000
BATCH_BYTES = 1_000_000
"""Of bodies in a batch at most."""
UNDER_WAY = 8


def fill(server: GatewayServer, topic: str, count: int, size: int, *, keyed: bool = False) -> None:
    """Send messages of ``size`` bytes to all queues of a topic in turns; return when they can be read.

    Bodies are the same, ids are not.

    :param count: how many; what does not fill a batch is left out.
    :param keyed: whether each has a tag, which all share, and a key of its own.
    :raises BenchmarkError: a batch is refused.
    """
    most = max(min(BATCH, BATCH_BYTES // size), 1)
    cluster = Cluster(Access(name_servers=(server.nameserver,), request_timeout_s=30.0))
    queues = cluster.queues(topic) or ()
    ids = UniqueIds("127.0.0.1", os.getpid(), clock=lambda: int(time.time() * 1000), random=random.Random(1))  # noqa: TID251
    connection = cluster.broker(queues[0].broker_name, topic)
    under_way: list[int] = []
    for number in range(count // most):
        parts = []
        for place in range(number * most, (number + 1) * most):
            own = {PropertyName.KEYS: key_of(place), PropertyName.TAGS: "A"} if keyed else {}
            raw = build_properties({**own, PropertyName.WAIT: "true", PropertyName.UNIQ_KEY: ids.create()})
            parts.append(BatchPart(0, b"x" * size, raw))
        under_way.append(connection.start(_batch(queues[number % len(queues)], parts), 30.0))
        if len(under_way) == UNDER_WAY:
            _check(connection.finish(under_way.pop(0), 30.0))
    for opaque in under_way:
        _check(connection.finish(opaque, 30.0))
    while sum(cluster.ends(queues).values()) < count // most * most:
        time.sleep(0.1)  # noqa: TID251 - the gateway flushes
    cluster.close()


def key_of(number: int) -> str:
    """The key of a message."""
    return f"order-{number:09d}"


def _check(answer: RemotingCommand) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise BenchmarkError(f"a batch was refused: {answer.remark}")


def _batch(queue: MessageQueue, parts: list[BatchPart]) -> Any:
    header = ShortSendMessageRequest(
        producer_group="benchmark",
        topic=queue.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue.queue_id,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),  # noqa: TID251
        flag=0,
        properties="WAIT\x01true\x02",
        batch=True,
    )
    return request(RequestCode.SEND_BATCH_MESSAGE, header, build_batch(parts))
