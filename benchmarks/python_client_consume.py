"""The question: what does it cost the Python client to consume, and how fast is it done.

    python -m benchmarks.python_client_consume [--messages 200000] [--size 128]

One gateway in a process of its own, a topic with 16 queues filled beforehand, a new group for each row. CPU time is
that of the consuming process alone, of all its threads; it says more than the rate where both share two cores. Every
listener reads each body.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.servers import serving
from gateway.client import (
    AdminClient,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    RocketMQError,
    aio,
)

TOPIC = "python_client_consume"
QUEUES = 16
LEAST_BATCH_RATE = 100_000
MOST_BATCH_CPU_US = 8.0
"""Promised for the batch listener."""


def main() -> None:
    """Fill a topic, consume it in several ways, print a table."""
    options = _options()
    with serving("gateway") as server:
        nameserver = server.nameserver
        _fill(nameserver, options.messages, options.size)
        print(f"{options.messages:,} messages of {options.size} B in {QUEUES} queues")
        print(f"{'way':28}{'messages/s':>12}{'CPU us':>8}")
        for name, consume in WAYS.items():
            _row(name, consume, nameserver, options.messages, options.runs)
    print(f"promised for the batch listener: {LEAST_BATCH_RATE:,}/s, or {MOST_BATCH_CPU_US} us of CPU a message")


def batch_listener_paces(nameserver: str, count: int, size: int, runs: int) -> list[tuple[float, float]]:
    """Messages a second and microseconds of CPU a message, of the batch listener alone."""
    _fill(nameserver, count, size)
    return _paces("push, batch listener", _batch_listener, nameserver, count, runs)


def _row(name: str, consume: Callable[[str, str, int], None], nameserver: str, count: int, runs: int) -> None:
    rates, costs = zip(*_paces(name, consume, nameserver, count, runs), strict=True)
    print(f"{name:28}{max(rates):12,.0f}{min(costs):8.2f}", flush=True)


def _paces(
    name: str, consume: Callable[[str, str, int], None], nameserver: str, count: int, runs: int
) -> list[tuple[float, float]]:
    paces = []
    for run in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        consume(nameserver, f"g_{name.replace(' ', '_').replace(',', '')}_{run}", count)
        paces.append((count / (time.perf_counter() - wall), (time.process_time() - cpu) / count * 1e6))
    return paces


class _Count:
    """Counts what listeners were given; tells when it is enough."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._lock = threading.Lock()
        self.enough = threading.Event()

    def one(self, message: ReceivedMessage) -> None:
        """A listener for single messages."""
        self._note(1, len(message.body))

    def batch(self, messages: Sequence[ReceivedMessage]) -> None:
        """A listener for batches."""
        self._note(len(messages), sum([len(message.body) for message in messages]))

    async def batch_async(self, messages: Sequence[ReceivedMessage]) -> None:
        """Take a batch as ``batch`` does, as a coroutine."""
        self.batch(messages)

    def _note(self, count: int, _read_bytes: int) -> None:
        with self._lock:
            self._left -= count
            if self._left <= 0:
                self.enough.set()


def _push_settings(nameserver: str, workers: int) -> PushSettings:
    return PushSettings(
        namesrv=nameserver,
        consume_from_where=ConsumeFrom.FIRST_OFFSET,
        consume_workers=workers,
        pull_batch_size=1024,
        consume_message_batch_max_size=1024,
    )


def _batch_listener(nameserver: str, group: str, count: int) -> None:
    seen = _Count(count)
    settings = _push_settings(nameserver, 4)
    with PushConsumer(group, None, settings, batch_listener=seen.batch, subscriptions={TOPIC: "*"}):
        assert seen.enough.wait(300)


def _batch_coroutine(nameserver: str, group: str, count: int) -> None:
    seen = _Count(count)
    settings = _push_settings(nameserver, 20)
    with PushConsumer(group, None, settings, batch_listener=seen.batch_async, subscriptions={TOPIC: "*"}):
        assert seen.enough.wait(300)


def _single_listener(nameserver: str, group: str, count: int) -> None:
    seen = _Count(count)
    with PushConsumer(group, seen.one, _push_settings(nameserver, 4), subscriptions={TOPIC: "*"}):
        assert seen.enough.wait(300)


def _lite_settings(nameserver: str) -> LitePullSettings:
    return LitePullSettings(namesrv=nameserver, consume_from_where=ConsumeFrom.FIRST_OFFSET, pull_batch_size=1024)


def _lite_pull(nameserver: str, group: str, count: int) -> None:
    with LitePullConsumer(group, _lite_settings(nameserver), subscriptions={TOPIC: "*"}) as consumer:
        left = count
        for messages in consumer:
            left -= len(messages)
            sum([len(message.body) for message in messages])
            if left <= 0:
                return


def _aio_lite_pull(nameserver: str, group: str, count: int) -> None:
    async def consume() -> None:
        async with aio.LitePullConsumer(group, _lite_settings(nameserver), subscriptions={TOPIC: "*"}) as consumer:
            left = count
            async for messages in consumer:
                left -= len(messages)
                sum([len(message.body) for message in messages])
                if left <= 0:
                    return

    asyncio.run(consume())


WAYS: dict[str, Callable[[str, str, int], None]] = {
    "push, batch listener": _batch_listener,
    "push, batch coroutine": _batch_coroutine,
    "push, single listener": _single_listener,
    "lite pull": _lite_pull,
    "lite pull, asyncio": _aio_lite_pull,
}


def _fill(nameserver: str, count: int, size: int) -> None:
    with AdminClient(namesrv=nameserver) as admin:
        admin.topics.create(TOPIC, queues=QUEUES)
        end = time.monotonic() + 30
        while True:
            try:
                if len(admin.topics.route(TOPIC).publish_queues) == QUEUES:
                    break
            except RocketMQError:
                assert time.monotonic() < end, "no route"
    body = b"x" * size
    batch = 500
    with Producer("p_" + TOPIC, namesrv=nameserver) as producer:
        for start in range(0, count, batch):
            producer.send_batch([Message(TOPIC, body) for _ in range(min(batch, count - start))])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.python_client_consume", description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--runs", type=int, default=3, help="repetitions, of which the best counts")
    return parser.parse_args()


if __name__ == "__main__":
    main()
