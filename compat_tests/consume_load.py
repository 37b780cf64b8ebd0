"""Push consumers while the broker is killed: retry with random failures, or in order with members that come and go.

    python -m compat_tests.consume_load retry                               100,000 messages, 10 kill -9
    python -m compat_tests.consume_load orderly --messages 20000 --kills 3
    python -m compat_tests.consume_load orderly --peer rocketmq-5.5.0       the control

Counted are deliveries beyond the first: those that were asked for, as a listener failed, and those after a success,
which at-least-once allows after a kill or when a queue changes hands. In order: messages that came before an earlier
one was consumed, and listeners of two members in the same queue at once.

0: none lost, and with the gateway none out of order; 1: it is not so.
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
from gateway.client import ConsumeFrom, PushSettings, RetryLater, RocketMQError
from gateway.client.aio import PushConsumer
from gateway.client.message import ReceivedMessage

CONSUMERS = 4
FAILING = 0.1
FAILING_IN_ORDER = 0.01
SHORTEST_S, LONGEST_S = 3.0, 10.0
"""How long a member stays in a group that consumes in order."""


class Consumption(Account):
    """The account of push consumers. In order: the next offset of each queue, and who is in it."""

    def __init__(self, count: int, seed: int) -> None:
        super().__init__(count)
        self.dice = random.Random(seed)
        self.failed = 0
        self.after_success = 0
        self.out_of_order = 0
        self.overlaps = 0
        self.members = 0
        self._next: dict[int, int] = {}
        self._busy: set[int] = set()

    async def consume(self, message: ReceivedMessage) -> None:
        """The listener of concurrent members."""
        self._take(message, FAILING)

    async def consume_in_order(self, message: ReceivedMessage) -> None:
        """The listener of orderly members."""
        queue_id, offset = message.queue.queue_id, message.queue_offset
        if queue_id in self._busy:
            self.overlaps += 1
        if offset > self._next.get(queue_id, 0):
            self.out_of_order += 1
        self._busy.add(queue_id)
        try:
            await asyncio.sleep(0)
            self._take(message, FAILING_IN_ORDER)
            self._next[queue_id] = max(self._next.get(queue_id, 0), offset + 1)
        finally:
            self._busy.discard(queue_id)

    def _take(self, message: ReceivedMessage, failing: float) -> None:
        number = int(message.body)
        self.delivered(number)
        if number in self.settled:
            self.after_success += 1
        elif self.dice.random() < failing:
            self.failed += 1
            raise RetryLater(1)
        else:
            self.settled.add(number)


async def member(account: Consumption, peer: Peer, topic: str, number: int, *, orderly: bool) -> None:
    """Be a member of the group until everything is consumed; an orderly one leaves and comes back now and then."""
    dice = random.Random(number)
    life = 0
    while account.goes_on:
        life += 1
        settings = PushSettings(
            namesrv=peer.nameserver,
            instance_name=f"member-{number}-{life}",
            consume_from_where=ConsumeFrom.FIRST_OFFSET,
            poll_name_server_interval=1.0,
            heartbeat_broker_interval=1.0,
            rebalance_interval=1.0,
            pull_time_delay_when_exception=0.2,
            suspend_current_queue_time=0.05,
            request_timeout=5.0,
        )
        listener = account.consume_in_order if orderly else account.consume
        end = time.monotonic() + dice.uniform(SHORTEST_S, LONGEST_S)
        try:
            async with PushConsumer(f"{topic}_g", listener, settings, subscriptions={topic: "*"}, orderly=orderly):
                account.members += 1
                while account.goes_on and (not orderly or time.monotonic() < end):
                    await asyncio.sleep(0.1)
        except RocketMQError:
            await asyncio.sleep(0.2)
        if orderly:
            await asyncio.sleep(dice.uniform(0.0, 1.0))


async def run(peer: Peer, account: Consumption, way: str, kills: int, seed: int) -> None:
    """Consume under kills."""
    members = [
        asyncio.create_task(member(account, peer, f"load_{way}", number, orderly=way == "orderly"))
        for number in range(CONSUMERS)
    ]
    await kill_at_random(peer, account, kills, seed)
    await asyncio.gather(*members)


def report(name: str, account: Consumption, elapsed_s: float, way: str) -> list[str]:
    """Return the report, for people."""
    lost = account.lost()
    lines = [
        f"{name}: {way}, {account.count:,} messages, {account.kills} kills, {elapsed_s:.0f} s",
        f"  lost: {len(lost)}{' ' + str(lost[:20]) if lost else ''}",
        f"  deliveries: {account.deliveries.total():,}, of them again",
        f"    because a listener failed: {account.failed:,}",
        f"    after a listener had succeeded: {account.after_success:,}",
    ]
    if way == "orderly":
        lines.append(f"  out of order: {account.out_of_order}, two members in a queue at once: {account.overlaps}")
        lines.append(f"  members that came: {account.members}")
    return lines


def main() -> int:
    """Run one load and print its account."""
    options = load_options("consume_load", __doc__, ways=("retry", "orderly"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = Path(tempfile.mkdtemp(prefix="consume-load-"))
    account = Consumption(options.messages, options.seed)
    try:
        with running(options.peer, directory) as peer:
            send_numbers(peer, f"load_{options.way}", options.messages)
            begun = account.changed_s = time.monotonic()
            asyncio.run(run(peer, account, options.way, options.kills, options.seed))
            elapsed_s = time.monotonic() - begun
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("\n".join(report(options.peer, account, elapsed_s, options.way)))
    wrong = account.lost() or (options.peer == "gateway-host" and account.out_of_order)
    return 1 if wrong or account.kills < options.kills else 0


if __name__ == "__main__":
    sys.exit(main())
