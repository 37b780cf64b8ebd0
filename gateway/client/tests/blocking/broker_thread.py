"""A scripted broker on a thread of its own, for tests of clients that block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.client.blocking.loop_thread import LoopThread
from gateway.client.tests.consuming_broker import ConsumingBroker


class BrokerThread:
    """Puts messages from the test's thread."""

    def __init__(self, broker: ConsumingBroker, thread: LoopThread) -> None:
        self.broker = broker
        self._thread = thread

    def put(self, topic: str, *bodies: bytes, queue_id: int = 0) -> None:
        """Implement ``ConsumingBroker.put``."""

        async def on_loop() -> None:
            self.broker.put(topic, *bodies, queue_id=queue_id)

        self._thread.run(on_loop())


@contextmanager
def broker_thread(*, queues: int = 4) -> Iterator[BrokerThread]:
    """A broker while the block runs."""
    thread = LoopThread("scripted broker")
    thread.start()

    async def make() -> ConsumingBroker:
        broker = ConsumingBroker(queues=queues)
        await broker.start()
        return broker

    broker = thread.run(make())
    try:
        yield BrokerThread(broker, thread)
    finally:
        thread.run(broker.stop())
        thread.stop()
