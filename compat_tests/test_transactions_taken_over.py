"""A broker is killed among transactions, and the other one goes on in its directory and at its address.

The stock producer keeps running: its transactions are unknown at first, and it decides when it is checked, by whichever
broker asks. Every half message has exactly one outcome in the end. Apache RocketMQ 5.5.0 records outcomes half a second
late and checks until then, so with short intervals it delivers some transactions twice (T1, T3 in
docs/transactions/compared.md): it gets five seconds between two checks here.
"""

from __future__ import annotations

import base64
import itertools
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from compat_tests.environment import wait_until
from compat_tests.java_client import JavaClient
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess, Peer, free_ports
from compat_tests.transactions_load.account import Account, End, Event, Wrong
from compat_tests.transactions_load.fate import Fate, fate
from compat_tests.transactions_load.producers import Producer, Work

_SETTINGS = {
    **QUICK,
    "brokerName": "broker-a",
    "mappedFileSizeCommitLog": "104857600",
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
}
_ENTRY = struct.Struct(">iii")
_BEFORE = 250
"""Half messages the first broker takes before it is killed, at least, and some of them decided."""
_AFTER = 60
"""And the second one before nothing more is sent."""
_WITHOUT_CHECK_S = 11.0
"""Longer than two of Apache RocketMQ's intervals of checks, so nobody is asked any more."""
_WORK = {"undecided": True, "unknown_percent": 10, "pause_ms": 20}


class Run:
    """One producer, and what it noted."""

    def __init__(self, nameserver: str, topic: str) -> None:
        self.epoch_ms = int(time.time() * 1000)  # noqa: TID251 - the producer's clock is the machine's
        work = Work(nameserver, topic, "taken", self.epoch_ms, threads=3, longest_s=150, more=_WORK)
        self.producer = Producer(work, itertools.count())
        self.seen: list[tuple[int, int, int]] = []
        self.taken_over_ms = 0

    def look(self) -> None:
        self.seen += self.producer.look()

    def stored(self, since_ms: int = 0) -> int:
        self.look()
        return sum(event == Event.STORED and at_ms >= since_ms for _, event, at_ms in self.seen)

    def decided(self) -> set[int]:
        self.look()
        return {number for number, event, _ in self.seen if event in (Event.COMMIT_SENT, Event.ROLLBACK_SENT)}

    def undecided(self) -> set[int]:
        decided = self.decided()
        stored = {number for number, event, _ in self.seen if event == Event.STORED}
        return {number for number in stored - decided if fate(number) is not Fate.NEVER}

    def is_quiet(self) -> bool:
        """Return whether every producer that can tell was asked, and has not been asked again for a while."""
        if self.undecided():
            return False
        asked = [ms for number, event, ms in self.seen if event == Event.CHECKED and fate(number) is not Fate.NEVER]
        return self.now_ms() - max([*asked, self.taken_over_ms]) > _WITHOUT_CHECK_S * 1000

    def now_ms(self) -> int:
        return int(time.time() * 1000) - self.epoch_ms  # noqa: TID251 - as above


@contextmanager
def running(first: Peer, nameserver: str, client: JavaClient, topic: str) -> Iterator[Run]:
    first.start()
    run = Run(nameserver, topic)
    try:
        made = client.run("create-topic", ns=nameserver, topic=topic, queues=4)
        assert made["queues"] == 4, str(made)
        run.producer.start()
        yield run
    finally:
        run.producer.close()


def go_on(run: Run, first: Peer, second: Peer) -> None:
    """Kill the first broker in the middle, start the second, and wait until nothing is undecided."""
    wait_until(lambda: run.stored() >= _BEFORE and bool(run.decided()), "transactions of the first broker")
    pending = run.undecided()
    assert pending, "the first broker leaves something to do"
    killed_ms = run.now_ms()
    first.kill()
    second.start()
    run.taken_over_ms = run.now_ms()
    wait_until(lambda: run.stored(run.taken_over_ms) >= _AFTER, "transactions of the second broker")
    run.producer.stop_sending()
    wait_until(run.is_quiet, "an outcome for each", timeout_s=60)
    assert pending <= run.decided()
    assert killed_ms < run.taken_over_ms


def account_of(run: Run, client: JavaClient, nameserver: str, topic: str) -> Account:
    """Return the account of the delivered messages against the producer's notes."""
    run.producer.stop()
    read = client.run("read-queues", ns=nameserver, group=f"reader_{topic}", topics=topic, runs="taken", timeout_s=60)
    assert (read["corrupt"], read.text("stuck")) == (0, ""), str(read)
    account = Account(check_interval_ms=1000)
    account.note(run.seen)
    account.uncertain(0, run.now_ms())  # who is asked twice is of no interest here
    account.deliver(n for n, _, _ in _ENTRY.iter_unpack(base64.b64decode(read.json("entries")[topic])) if n >= 0)
    account.settle()
    return account


def every_half_message_has_one_outcome(run: Run, account: Account) -> None:
    assert account.is_clean, "\n".join(account.sentences)
    assert account.wrong[Wrong.DOUBLED] == 0
    stored = {number for number, event, _ in run.seen if event == Event.STORED}
    assert account.ends[End.DELIVERED] >= sum(fate(number) is Fate.COMMIT for number in stored) > 0
    never = sum(fate(number) is Fate.NEVER for number in stored)
    assert account.ends[End.PENDING] <= never, "\n".join(account.sentences)


@pytest.fixture
def ports() -> tuple[int, int]:
    return free_ports()


def test_apache_rocketmq_finishes_what_a_killed_gateway_left(
    newest_client: JavaClient, ports: tuple[int, int], tmp_path: Path
) -> None:
    data = tmp_path / "store"
    ours = GatewayProcess(data, _SETTINGS, ports=ports)
    theirs = ApacheContainer(_SETTINGS, store=data, ports=ports)
    with running(ours, ours.nameserver, newest_client, "taken_over_by_apache") as run:
        try:
            go_on(run, ours, theirs)
            account = account_of(run, newest_client, ours.nameserver, "taken_over_by_apache")
        finally:
            theirs.stop()
    every_half_message_has_one_outcome(run, account)


def test_the_gateway_finishes_what_a_killed_apache_rocketmq_left(
    newest_client: JavaClient, ports: tuple[int, int], tmp_path: Path
) -> None:
    data = tmp_path / "store"
    data.mkdir()
    theirs = ApacheContainer(_SETTINGS, store=data, ports=ports)
    ours = GatewayProcess(data, _SETTINGS, ports=ports)
    try:
        with running(theirs, ours.nameserver, newest_client, "taken_over_by_gateway") as run:
            go_on(run, theirs, ours)
            account = account_of(run, newest_client, ours.nameserver, "taken_over_by_gateway")
            ours.stop()
    finally:
        with suppress(Exception):
            ours.kill()
        theirs.stop()
    every_half_message_has_one_outcome(run, account)
