"""Planning and reading beside a server that answers badly half of the time: rows, or an error of the package.

The server is that of the Python client's tests; ``GATEWAY_HOSTILE_SECONDS`` and ``GATEWAY_HOSTILE_SEED`` run it longer
and otherwise.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from gateway.client.blocking.loop_thread import LoopThread
from gateway.client.errors import RequestTimeout, RocketMQError
from gateway.client.message_queue import MessageQueue
from gateway.client.tests.hostile.hostile_server import HostileServer
from gateway.spark.asking.cluster import Access, Cluster
from gateway.spark.asking.connection import open_connection, request
from gateway.spark.errors import DataLoss, SparkSourceError
from gateway.spark.reading.planning import QueueRange, batch_ranges, split
from gateway.spark.reading.range_reader import RangeReader
from gateway.spark.table.schema import wanted_columns
from gateway.tests.spark.messages import record
from gateway.tests.spark.pretend_cluster import PretendCluster, queue
from gateway.tests.spark.reading.test_planning import options
from gateway.tests.spark.reading.test_range_reader import offsets
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.frame import build_frame
from wire.headers.declare import build_header
from wire.headers.pull import PullMessageResponse

SECONDS = float(os.environ.get("GATEWAY_HOSTILE_SECONDS", "4"))
SEED = int(os.environ.get("GATEWAY_HOSTILE_SEED", "34"))
MOST_MIB = 300


@pytest.fixture
def server() -> Iterator[HostileServer]:
    """A hostile server with a thousand messages."""
    thread = LoopThread("hostile server")
    thread.start()

    async def begin() -> HostileServer:
        server = HostileServer(SEED)
        await server.start()
        for number in range(1_000):
            server.put("t", b"%d" % number, queue_id=number % 2)
        return server

    found = thread.run(begin())
    try:
        yield found
    finally:
        thread.run(found.stop())
        thread.stop()


def test_a_source_beside_a_hostile_server(server: HostileServer) -> None:
    access = Access(name_servers=(server.address,), connect_timeout_s=0.2, request_timeout_s=0.2, tries=2)
    given = options(subscribe="t", reconnectTimeoutMs="100", pullTimeoutMs="200")
    queues = [MessageQueue("t", "broker-a", number) for number in range(2)]
    wanted = wanted_columns(
        [(name, "string") for name in ("topic", "msgId")] + [("body", "binary")], json_properties=False
    )
    came: Counter[str] = Counter()

    def read_all(cluster: Cluster) -> None:
        for work in (QueueRange(queues[0], 0, 100), QueueRange(queues[1], 50, 2**62)):
            for number, batch in enumerate(RangeReader(cluster, given, wanted, work).batches()):
                came["rows"] += batch.num_rows
                if number > 20:
                    break

    calls: list[Callable[[Cluster], object]] = [
        lambda cluster: cluster.queues("t"),
        lambda cluster: cluster.topics(),
        lambda cluster: cluster.begins(queues),
        lambda cluster: cluster.ends(queues),
        lambda cluster: cluster.at_time(queues, dict.fromkeys(queues, 5)),
        lambda cluster: cluster.store_ids(["broker-a"], "t"),
        lambda cluster: cluster.mean_bytes(queues[0], 0),
        lambda cluster: cluster.commit("g", dict.fromkeys(queues, 3)),
        lambda cluster: split(batch_ranges(cluster, given), max_records=10),
        read_all,
    ]
    begun = time.monotonic()
    tracemalloc.start()
    try:
        while time.monotonic() - begun < SECONDS:
            cluster = Cluster(access)
            for call in calls:
                try:
                    call(cluster)
                except (RocketMQError, SparkSourceError) as error:
                    came[type(error).__name__] += 1
            cluster.close()
        peak = tracemalloc.get_traced_memory()[1] >> 20
    finally:
        tracemalloc.stop()
    assert peak < MOST_MIB
    assert time.monotonic() - begun < SECONDS + 60
    assert came.total() > 10


def test_a_next_offset_far_beyond_the_records_is_a_loss_and_no_memory() -> None:
    cluster = PretendCluster({queue(0): []})
    fields = build_header(
        PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=2**62, min_offset=0, max_offset=2**62)
    )
    body = b"".join(record(offset, b"x") for offset in (0, 1, 5, 6))
    cluster.faults.append(RemotingCommand(ResponseCode.SUCCESS, flag=1, ext_fields=fields, body=body))
    with pytest.raises(DataLoss) as caught:
        offsets(cluster, 0, 2**62)
    assert (caught.value.first, caught.value.end) == (2, 5)
    cluster.faults.append(RemotingCommand(ResponseCode.SUCCESS, flag=1, ext_fields=fields, body=body))
    assert offsets(cluster, 0, 2**62, failOnDataLoss="false") == [0, 1, 5, 6]


def test_an_end_that_makes_too_many_partitions_is_refused() -> None:
    with pytest.raises(SparkSourceError, match="more than 1000000 partitions"):
        split([QueueRange(queue(0), 0, 2**62)], max_records=10)


@pytest.mark.parametrize("way", ["single bytes", "answers to others", "requests"])
def test_a_server_that_sends_on_and_on_is_waited_for_until_the_timeout(server: HostileServer, way: str) -> None:
    server.badly = 0.0
    command = request(RequestCode.GET_BROKER_RUNTIME_INFO)

    async def drip(asked: RemotingCommand) -> None:
        other = asked.response(0)
        other.opaque += 1_000
        if way == "single bytes":
            server.send_garbage(struct.pack(">iI", 1 << 20, (1 << 20) - 8))
        endless = {
            "single bytes": b" ",
            "answers to others": build_frame(other),
            "requests": build_frame(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, flag=2)),
        }[way]
        for _ in range(60_000):
            server.send_garbage(endless)
            await asyncio.sleep(0.001)

    server.on(RequestCode.GET_BROKER_RUNTIME_INFO, drip)
    connection = open_connection(server.address, timeout_s=1.0)
    begun = time.monotonic()
    with pytest.raises(RequestTimeout):
        connection.call(command, 0.1)
    assert time.monotonic() - begun < 20.0
    connection.close()
