"""The question: how many messages a second does the Python producer send, and what does one cost it.

    python -m benchmarks.python_client [--namesrv HOST:PORT] [--seconds 5] [--size 128] [--server gateway]

Without ``--namesrv`` a fresh server is started. ``client us`` is CPU time of this process per message: on a machine
that is busy with other things it says more than the rate. Each way is measured three times; the best one counts.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.servers import serving
from gateway.client import Message, Producer, SendResult, aio

_ROUNDS = 3
_TOPIC = "PythonBench"
_IN_FLIGHT = 1_000


@dataclass(frozen=True, slots=True)
class Load:
    """The load: what is sent, to which place, and for how long."""

    namesrv: str
    body: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class Rate:
    """The measured rate."""

    messages: int
    wall_s: float
    cpu_s: float

    @property
    def per_second(self) -> float:
        """Messages a second of wall time."""
        return self.messages / self.wall_s

    @property
    def client_us(self) -> float:
        """CPU time of this process for each message."""
        return self.cpu_s / self.messages * 1e6


def blocking_sync(load: Load) -> Rate:
    """One thread that waits for each answer."""
    with Producer("bench", namesrv=load.namesrv) as producer:
        producer.send(Message(_TOPIC, load.body))
        with _timed() as done:
            end = time.monotonic() + load.seconds
            while time.monotonic() < end:
                producer.send(Message(_TOPIC, load.body))
                done.messages += 1
    return done.rate()


def blocking_async(load: Load) -> Rate:
    """One thread that waits for room only."""
    with Producer("bench", namesrv=load.namesrv) as producer:
        producer.send(Message(_TOPIC, load.body))
        with _timed() as done:
            end = time.monotonic() + load.seconds
            while time.monotonic() < end:
                futures = [producer.send_async(Message(_TOPIC, load.body)) for _ in range(_IN_FLIGHT)]
                for future in futures:
                    future.result()
                done.messages += len(futures)
    return done.rate()


def asyncio_async(load: Load) -> Rate:
    """One task, a thousand messages in flight."""

    async def send(done: _Timed, producer: aio.Producer) -> None:
        in_flight: deque[asyncio.Future[SendResult]] = deque()
        end = time.monotonic() + load.seconds
        while time.monotonic() < end:
            for _ in range(100):
                if len(in_flight) == _IN_FLIGHT:
                    await in_flight.popleft()
                in_flight.append(await producer.send_async(Message(_TOPIC, load.body)))
            done.messages += 100
        for future in in_flight:
            await future

    return asyncio.run(_with_producer(load, send))


def asyncio_tasks(load: Load) -> Rate:
    """A hundred tasks that wait for each answer."""

    async def send(done: _Timed, producer: aio.Producer) -> None:
        end = time.monotonic() + load.seconds

        async def one() -> None:
            while time.monotonic() < end:
                await producer.send(Message(_TOPIC, load.body))
                done.messages += 1

        await asyncio.gather(*(one() for _ in range(100)))

    return asyncio.run(_with_producer(load, send))


def asyncio_batch(load: Load) -> Rate:
    """Batches of a hundred messages, one after the other."""

    async def send(done: _Timed, producer: aio.Producer) -> None:
        end = time.monotonic() + load.seconds
        while time.monotonic() < end:
            await producer.send_batch([Message(_TOPIC, load.body) for _ in range(100)])
            done.messages += 100

    return asyncio.run(_with_producer(load, send))


WAYS: tuple[Callable[[Load], Rate], ...] = (blocking_sync, blocking_async, asyncio_async, asyncio_tasks, asyncio_batch)


async def _with_producer(load: Load, send: Callable[[_Timed, aio.Producer], Awaitable[None]]) -> Rate:
    async with aio.Producer("bench", namesrv=load.namesrv) as producer:
        await producer.send(Message(_TOPIC, load.body))
        with _timed() as done:
            await send(done, producer)
    return done.rate()


class _Timed:
    """Counts messages between two looks at the clocks."""

    def __init__(self) -> None:
        self.messages = 0
        self.wall_s = 0.0
        self.cpu_s = 0.0

    def rate(self) -> Rate:
        return Rate(self.messages, self.wall_s, self.cpu_s)


@contextmanager
def _timed() -> Iterator[_Timed]:
    done = _Timed()
    wall, cpu = time.perf_counter(), time.process_time()
    yield done
    done.wall_s = time.perf_counter() - wall
    done.cpu_s = time.process_time() - cpu


def measure(load: Load, ways: tuple[Callable[[Load], Rate], ...] = WAYS) -> None:
    """Measure and print a row for each way."""
    print(f"{'way':16} {'messages/s':>12} {'client us':>10}")
    for way in ways:
        rates = [way(load) for _ in range(_ROUNDS)]
        best = max(rate.per_second for rate in rates)
        least = min(rate.client_us for rate in rates)
        print(f"{way.__name__:16} {best:12,.0f} {least:10.1f}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--namesrv", help="of a running server; without it one is started")
    parser.add_argument("--server", choices=("gateway", "apache"), default="gateway", help="which one to start")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--way", choices=[way.__name__ for way in WAYS], help="only this one")
    given = parser.parse_args()
    ways = tuple(way for way in WAYS if given.way in (None, way.__name__))
    if given.namesrv:
        measure(Load(given.namesrv, b"x" * given.size, given.seconds), ways)
        return
    with serving(given.server) as server:
        measure(Load(server.nameserver, b"x" * given.size, given.seconds), ways)


if __name__ == "__main__":
    main()
