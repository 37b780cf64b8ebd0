"""The testing kit for users: a gateway in a container, by the testcontainers module."""

from __future__ import annotations

import asyncio

from compat_tests.environment import LABEL, owner
from compat_tests.images import image
from gateway.client import AdminClient, Message, Producer, aio
from gateway.client.testing.container import RocketMQGatewayContainer


def test_a_gateway_in_a_container_is_reached_at_the_address_it_advertises() -> None:
    container = RocketMQGatewayContainer(image("gateway"), settings={"brokerName": "in-a-container"})
    with container.with_kwargs(labels={LABEL: owner()}):
        with AdminClient(namesrv=container.nameserver) as admin:
            admin.topics.create("orders", queues=1)
            (broker,) = admin.cluster.info().broker_addr_table.values()
            assert broker.broker_name == "in-a-container"
            assert broker.broker_addrs[0].partition(":")[2] == container.broker.partition(":")[2]
        with Producer("p", namesrv=container.nameserver) as producer:
            result = producer.send(Message("orders", b"from outside"))

        async def read() -> bytes:
            async with aio.AdminClient(namesrv=container.nameserver) as admin:
                return (await admin.messages.by_offset(result.queue, result.queue_offset)).body

        assert asyncio.run(read()) == b"from outside"
