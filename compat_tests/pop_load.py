"""`python -m compat_tests.pop_load`: pops with random acknowledgements and time-outs while the broker is killed.

Every message is acknowledged in the end, or it is lost. Counted are deliveries beyond the first: those that nobody
acknowledged (asked for: the time ran out or was changed), those whose acknowledgement was not answered because of a
kill, and those whose acknowledgement *was* answered, which at-least-once allows and the gateway promises not to have.

0: none lost, and with the gateway none came again after an answered acknowledgement; 1: it is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compat_tests import environment
from compat_tests.environment import wait_until
from compat_tests.peers import QUICK, GatewayProcess, Peer, make_peer
from gateway.client import (
    AdminClient,
    BrokerError,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    RocketMQError,
    SimpleSettings,
)
from gateway.client.aio import SimpleConsumer
from gateway.client.popped import PoppedMessage

MESSAGES, KILLS, CONSUMERS, SEED = 100_000, 10, 4, 7
QUEUES = 8
INVISIBLE_S = 5.0
TOPIC, GROUP = "pop_load", "pop_load_g"
ACK, HIDE, LEAVE = range(3)
IDLE_S = 60.0
"""When nothing comes for so long, what is missing is lost."""


class Account:
    """What became of every message."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.deliveries: Counter[int] = Counter()
        self.acknowledged: set[int] = set()
        self.unanswered: set[int] = set()
        self.refused = 0
        self.again_after_ack = 0
        self.again_after_unanswered = 0
        self.again_as_asked = 0
        self.changed_ms = time.monotonic()

    def delivered(self, number: int) -> None:
        self.changed_ms = time.monotonic()
        if self.deliveries[number]:
            if number in self.acknowledged:
                self.again_after_ack += 1
            elif number in self.unanswered:
                self.again_after_unanswered += 1
            else:
                self.again_as_asked += 1
        self.deliveries[number] += 1

    @property
    def missing(self) -> int:
        return self.count - len(self.acknowledged | self.unanswered)

    def lost(self) -> list[int]:
        """Never given out, or given out and neither acknowledged nor given out again."""
        done = self.acknowledged | self.unanswered
        return [number for number in range(self.count) if number not in done]


async def consume(account: Account, peer: Peer, seed: int) -> None:
    """Pop until every message is acknowledged, or nothing comes any more."""
    dice = random.Random(seed)
    settings = SimpleSettings(
        namesrv=peer.nameserver,
        consume_from_where=ConsumeFrom.FIRST_OFFSET,
        poll_name_server_interval=1.0,
        request_timeout=10.0,
    )
    while account.missing and time.monotonic() - account.changed_ms < IDLE_S:
        try:
            async with SimpleConsumer(GROUP, settings, subscriptions={TOPIC: "*"}) as consumer:
                while account.missing and time.monotonic() - account.changed_ms < IDLE_S:
                    popped = await consumer.receive(32, invisible_time=INVISIBLE_S, timeout=2)
                    await asyncio.gather(*(_settle(account, consumer, message, dice) for message in popped))
        except RocketMQError:
            await asyncio.sleep(0.2)


async def _settle(account: Account, consumer: SimpleConsumer, message: PoppedMessage, dice: random.Random) -> None:
    number = int(message.body)
    account.delivered(number)
    act = dice.choices((ACK, HIDE, LEAVE), (90, 5, 5))[0]
    if act == LEAVE:
        return
    try:
        if act == ACK:
            await consumer.ack(message)
            account.acknowledged.add(number)
        else:
            await consumer.change_invisible_time(message, dice.choice((0, 1, 2)))
    except BrokerError:
        account.refused += 1  # too late
    except RocketMQError:
        if act == ACK:
            account.unanswered.add(number)
        raise


def send(peer: Peer, count: int) -> None:
    """Send numbered messages, all at once."""
    with AdminClient(namesrv=peer.nameserver) as admin:

        def is_there() -> bool:
            try:
                admin.topics.create(TOPIC, queues=QUEUES)
                return len(admin.topics.route(TOPIC).subscribe_queues) == QUEUES
            except RocketMQError:
                return False

        wait_until(is_there, f"a route of {TOPIC}", timeout_s=60)
    numbers = iter(range(count))
    settings = ProducerSettings(namesrv=peer.nameserver, send_msg_timeout=60.0)
    with Producer("pop_load_p", settings) as producer:
        while batch := list(itertools.islice(numbers, 200)):
            for future in [producer.send_async(Message(TOPIC, b"%d" % number)) for number in batch]:
                future.result(90)


async def run(peer: Peer, account: Account, kills: int, seed: int) -> int:
    """Consume under kills; how many there were."""
    dice = random.Random(seed)
    consumers = [asyncio.create_task(consume(account, peer, seed + number)) for number in range(CONSUMERS)]
    done = 0
    while done < kills and account.missing:
        share = len(account.acknowledged) / account.count
        if share >= (done + dice.random()) / (kills + 1):
            await asyncio.sleep(dice.random())
            await asyncio.to_thread(peer.kill)
            await asyncio.to_thread(peer.start)
            done += 1
            account.changed_ms = time.monotonic()
            print(f"  killed {done} times, {len(account.acknowledged):,} acknowledged", flush=True)
        await asyncio.sleep(0.05)
    await asyncio.gather(*consumers)
    return done


@contextlib.contextmanager
def running(name: str, directory: Path) -> Iterator[Peer]:
    data = directory / "data"
    settings = {**QUICK, "flushConsumerOffsetInterval": "5000"}
    peer = (
        GatewayProcess(data, settings, bind="127.0.0.1") if name == "gateway-host" else make_peer(name, data, settings)
    )
    peer.start()
    try:
        yield peer
    finally:
        peer.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.pop_load", description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"default: {MESSAGES:,}")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"of the broker, as kill -9 (default: {KILLS})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"default: {SEED}")
    parser.add_argument("--peer", choices=("gateway-host", "rocketmq-5.5.0"), default="gateway-host")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if arguments.peer != "gateway-host":
        environment.start_engine()
    directory = Path(tempfile.mkdtemp(prefix="pop-load-"))
    account = Account(arguments.messages)
    try:
        with running(arguments.peer, directory) as peer:
            send(peer, arguments.messages)
            begun = time.monotonic()
            account.changed_ms = begun
            kills = asyncio.run(run(peer, account, arguments.kills, arguments.seed))
            elapsed = time.monotonic() - begun
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    lost = account.lost()
    print(f"{arguments.peer}: {arguments.messages:,} messages, {kills} kills, {elapsed:.0f} s")
    print(f"  lost: {len(lost)}{' ' + str(lost[:20]) if lost else ''}")
    print(f"  deliveries: {account.deliveries.total():,}, of them again")
    print(f"    because nobody acknowledged in time: {account.again_as_asked:,}")
    print(f"    after an acknowledgement that a kill left without an answer: {account.again_after_unanswered:,}")
    print(f"    after an acknowledgement that was answered: {account.again_after_ack:,}")
    print(f"  acknowledgements refused as too late: {account.refused:,}")
    wrong = lost or (arguments.peer == "gateway-host" and account.again_after_ack)
    return 1 if wrong or kills < arguments.kills else 0


if __name__ == "__main__":
    sys.exit(main())
