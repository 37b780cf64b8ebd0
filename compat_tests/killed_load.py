"""The common parts of loads under kills: numbered messages, a broker that is killed at random moments, an account.

``pop_load``, ``consume_load`` and ``timers_load`` say what is done with the messages, and what is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from compat_tests.environment import start_engine, wait_until
from compat_tests.peers import QUICK, GatewayProcess, Peer, make_peer
from gateway.client import AdminClient, Message, Producer, ProducerSettings, RocketMQError

MESSAGES, KILLS, SEED = 100_000, 10, 7
PEERS = ("gateway-host", "rocketmq-5.5.0")
QUEUES = 8
IN_FLIGHT = 200
PATIENCE_S = 600.0
"""For one start: loads run on machines that do other things, and for long."""
IDLE_S = 60.0
"""When nothing comes for so long, what is missing is lost."""


class Account:
    """The fate of every message; loads add their own counts."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.deliveries: Counter[int] = Counter()
        self.settled: set[int] = set()
        self.kills = 0
        self.changed_s = time.monotonic()

    def delivered(self, number: int) -> int:
        """A message came; how often it came before."""
        self.changed_s = time.monotonic()
        before = self.deliveries[number]
        self.deliveries[number] = before + 1
        return before

    @property
    def missing(self) -> int:
        """Messages that are not settled yet."""
        return self.count - len(self.settled)

    @property
    def goes_on(self) -> bool:
        """Return whether something is missing that may still come."""
        return self.missing > 0 and time.monotonic() - self.changed_s < IDLE_S

    def lost(self) -> list[int]:
        """Never given out, or given out, not settled and not given out again."""
        return [number for number in range(self.count) if number not in self.settled]


def send_numbers(peer: Peer, topic: str, count: int) -> None:
    """Send messages with the numbers as bodies."""
    with AdminClient(namesrv=peer.nameserver) as admin:

        def is_there() -> bool:
            try:
                admin.topics.create(topic, queues=QUEUES)
                return len(admin.topics.route(topic).subscribe_queues) == QUEUES
            except RocketMQError:
                return False

        wait_until(is_there, f"a route of {topic}", timeout_s=60)
    numbers = iter(range(count))
    settings = ProducerSettings(namesrv=peer.nameserver, send_msg_timeout=60.0)
    with Producer(f"{topic}_p", settings) as producer:
        while batch := list(itertools.islice(numbers, IN_FLIGHT)):
            for future in [producer.send_async(Message(topic, b"%d" % number)) for number in batch]:
                future.result(90)


async def kill_at_random(peer: Peer, account: Account, kills: int, seed: int) -> None:
    """Kill the broker and start it again, evenly over the work, until all kills are done or nothing is missing."""
    dice = random.Random(seed)
    while account.kills < kills and account.goes_on:
        share = len(account.settled) / account.count
        if share >= (account.kills + dice.random()) / (kills + 1):
            await asyncio.sleep(dice.random())
            await asyncio.to_thread(peer.kill)
            await asyncio.to_thread(peer.start)
            account.kills += 1
            account.changed_s = time.monotonic()
            print(f"  killed {account.kills} times, {len(account.settled):,} settled", flush=True)
        await asyncio.sleep(0.05)


@contextlib.contextmanager
def running(name: str, directory: Path, settings: dict[str, str] | None = None) -> Iterator[Peer]:
    """A peer that clients of this machine reach."""
    data = directory / "data"
    values = {**QUICK, "flushConsumerOffsetInterval": "5000", **(settings or {})}
    if name != "gateway-host":
        start_engine()
    peer: Peer
    if name == "gateway-host":
        peer = GatewayProcess(data, values, bind="127.0.0.1", start_timeout_s=PATIENCE_S)
    else:
        peer = make_peer(name, data, values)
    peer.start()
    try:
        yield peer
    finally:
        peer.stop()


def load_options(module: str, doc: str | None, *, ways: Sequence[str] = ()) -> argparse.Namespace:
    """The options that loads have; ``ways``: what this one can do, if it can do several things."""
    parser = argparse.ArgumentParser(prog=f"python -m compat_tests.{module}", description=(doc or "").split("\n")[0])
    if ways:
        parser.add_argument("way", choices=ways)
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"default: {MESSAGES:,}")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"of the broker, as kill -9 (default: {KILLS})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"default: {SEED}")
    parser.add_argument("--peer", choices=PEERS, default=PEERS[0])
    return parser.parse_args()
