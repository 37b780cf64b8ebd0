"""Tests of asking where queues begin and end."""

from __future__ import annotations

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.queue_offsets import QueueOffsets
from gateway.client.consume.settings.consumer_settings import ConsumeFrom
from gateway.client.tests.consuming_broker import ConsumingBroker
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode


def test_a_queue_has_a_begin_an_end_and_times() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.first_offsets["t", 0] = 3
            broker.put("t", b"0", b"1")
            instance = ClientInstance(ClientSettings(namesrv=broker.address))
            await instance.route("t")
            offsets, queue = QueueOffsets(instance), broker.queue("t")
            assert (await offsets.first(queue), await offsets.end(queue)) == (3, 5)
            assert await offsets.start(queue, ConsumeFrom.FIRST_OFFSET, 77) == 0
            assert await offsets.start(queue, ConsumeFrom.LAST_OFFSET, 77) == 5
            assert await offsets.start(queue, ConsumeFrom.TIMESTAMP, 77) == 3
            (request,) = broker.asked(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
            assert request.ext_fields["timestamp"] == "77"
            await instance.close()

    run(scenario())
