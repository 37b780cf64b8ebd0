"""`python -m compat_tests.pop_load`: pops with random acknowledgements and time-outs while the broker is killed.

Every message is acknowledged in the end, or it is lost. Counted are deliveries beyond the first: those that nobody
acknowledged (asked for: the time ran out or was changed), those whose acknowledgement was not answered because of a
kill, and those whose acknowledgement *was* answered, which at-least-once allows and the gateway promises not to have.

0: none lost, and with the gateway none came again after an answered acknowledgement; 1: it is not so.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.killed_load import Account, kill_at_random, load_options, running, send_numbers
from compat_tests.peers import Peer
from gateway.client import BrokerError, ConsumeFrom, RocketMQError, SimpleSettings
from gateway.client.aio import SimpleConsumer
from gateway.client.consume.pop.pop_handles import PoppedMessage

CONSUMERS = 4
INVISIBLE_S = 5.0
TOPIC, GROUP = "pop_load", "pop_load_g"
ACK, HIDE, LEAVE = range(3)


class Pops(Account):
    """The account of pops; settled is what was acknowledged, or may be, as a kill left that without an answer."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.acknowledged: set[int] = set()
        self.refused = 0
        self.again_after_ack = 0
        self.again_after_unanswered = 0
        self.again_as_asked = 0

    def delivered(self, number: int) -> int:
        """A message came; how often it came before."""
        before = super().delivered(number)
        if before:
            if number in self.acknowledged:
                self.again_after_ack += 1
            elif number in self.settled:
                self.again_after_unanswered += 1
            else:
                self.again_as_asked += 1
        return before


async def consume(account: Pops, peer: Peer, seed: int) -> None:
    """Pop until every message is acknowledged, or nothing comes any more."""
    dice = random.Random(seed)
    settings = SimpleSettings(
        namesrv=peer.nameserver,
        consume_from_where=ConsumeFrom.FIRST_OFFSET,
        poll_name_server_interval=1.0,
        request_timeout=10.0,
    )
    while account.goes_on:
        try:
            async with SimpleConsumer(GROUP, settings, subscriptions={TOPIC: "*"}) as consumer:
                while account.goes_on:
                    popped = await consumer.receive(32, invisible_time=INVISIBLE_S, timeout=2)
                    await asyncio.gather(*(_settle(account, consumer, message, dice) for message in popped))
        except RocketMQError:
            await asyncio.sleep(0.2)


async def _settle(account: Pops, consumer: SimpleConsumer, message: PoppedMessage, dice: random.Random) -> None:
    number = int(message.body)
    account.delivered(number)
    act = dice.choices((ACK, HIDE, LEAVE), (90, 5, 5))[0]
    if act == LEAVE:
        return
    try:
        if act == ACK:
            await consumer.ack(message)
            account.acknowledged.add(number)
            account.settled.add(number)
        else:
            await consumer.change_invisible_time(message, dice.choice((0, 1, 2)))
    except BrokerError:
        account.refused += 1  # too late
    except RocketMQError:
        if act == ACK:
            account.settled.add(number)
        raise


async def run(peer: Peer, account: Pops, kills: int, seed: int) -> None:
    """Consume under kills."""
    consumers = [asyncio.create_task(consume(account, peer, seed + number)) for number in range(CONSUMERS)]
    await kill_at_random(peer, account, kills, seed)
    await asyncio.gather(*consumers)


def main() -> int:
    """Run the load and print its account."""
    options = load_options("pop_load", __doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = Path(tempfile.mkdtemp(prefix="pop-load-"))
    account = Pops(options.messages)
    try:
        with running(options.peer, directory) as peer:
            send_numbers(peer, TOPIC, options.messages)
            begun = account.changed_s = time.monotonic()
            asyncio.run(run(peer, account, options.kills, options.seed))
            elapsed = time.monotonic() - begun
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    lost = account.lost()
    print(f"{options.peer}: {options.messages:,} messages, {account.kills} kills, {elapsed:.0f} s")
    print(f"  lost: {len(lost)}{' ' + str(lost[:20]) if lost else ''}")
    print(f"  deliveries: {account.deliveries.total():,}, of them again")
    print(f"    because nobody acknowledged in time: {account.again_as_asked:,}")
    print(f"    after an acknowledgement that a kill left without an answer: {account.again_after_unanswered:,}")
    print(f"    after an acknowledgement that was answered: {account.again_after_ack:,}")
    print(f"  acknowledgements refused as too late: {account.refused:,}")
    wrong = lost or (options.peer == "gateway-host" and account.again_after_ack)
    return 1 if wrong or account.kills < options.kills else 0


if __name__ == "__main__":
    sys.exit(main())
