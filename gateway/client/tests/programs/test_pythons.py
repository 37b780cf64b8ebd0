"""Differences between Pythons, on each Python of this machine: start and exit, forks, signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.client.tests.blocking.broker_thread import broker_thread
from gateway.client.tests.programs import pythons

READY = pythons.ready()
LONGEST_S = 60
"""Seconds until a program counts as one that never ends; it takes one or two."""

START = """
import asyncio, atexit, os, signal, sys, threading
from gateway.client import (
    AdminClient, ConsumeFrom, LitePullConsumer, Message, MessageModel, Producer, PushConsumer, PushSettings,
    SimpleConsumer, TransactionProducer, TransactionState, UsedAfterFork, aio,
)

NAMESRV = sys.argv[1]
TOPICS = {"orders": "*"}


class Checker:
    def check(self, message):
        return TransactionState.UNKNOWN


def do_nothing(message):
    pass


def clients(kinds, suffix):
    return [
        kinds.AdminClient(namesrv=NAMESRV),
        kinds.Producer("p" + suffix, namesrv=NAMESRV),
        kinds.TransactionProducer("t" + suffix, Checker(), namesrv=NAMESRV),
        kinds.PushConsumer("c" + suffix, do_nothing, namesrv=NAMESRV, subscriptions=TOPICS),
        kinds.LitePullConsumer("l" + suffix, namesrv=NAMESRV, subscriptions=TOPICS),
        kinds.SimpleConsumer("s" + suffix, namesrv=NAMESRV, subscriptions=TOPICS),
    ]
"""

FORGOTTEN = """
import gateway.client


async def main():
    for client in clients(aio, "-aio"):
        await client.start()


asyncio.run(main())

registered = Producer("registered", namesrv=NAMESRV)
atexit.register(registered.close)
registered.start()
registered.send(Message("orders", b"1"))


class Service:
    def __init__(self):
        self.producer = Producer("service", namesrv=NAMESRV)
        self.producer.start()

    def __del__(self):
        self.producer.close()


service = Service()
service.producer.send(Message("orders", b"2"))
service.producer.send(Message("orders", b"3"))
left = clients(gateway.client, "")
for client in left:
    client.start()
for _ in range(2):
    left[1].send(Message("orders", b"4"))


def last():
    # While the main thread is over: a first send to a host name, and offsets into a file.
    late.send(Message("orders", b"5"))
    late.close()
    reader.close()
    print("closed in order", flush=True)


consumed = threading.Event()
atexit.register(last)
late = Producer("late", namesrv=NAMESRV.replace("127.0.0.1", "localhost"))
late.start()
reader = PushConsumer(
    "reader",
    lambda message: consumed.set(),
    PushSettings(
        namesrv=NAMESRV, message_model=MessageModel.BROADCASTING, consume_from_where=ConsumeFrom.FIRST_OFFSET
    ),
    subscriptions=TOPICS,
)
reader.start()
consumed.wait(30)
"""

FORKED = """
def child(parents):
    try:
        parents.send(Message("orders", b"1"))
    except UsedAfterFork:
        pass
    else:
        sys.exit(3)
    with Producer("child", namesrv=NAMESRV) as own:
        own.send(Message("orders", b"2"))
    sys.exit(0)


forgotten = Producer("forgotten", namesrv=NAMESRV)
forgotten.start()
parents = Producer("parent", namesrv=NAMESRV)
parents.start()
parents.send(Message("orders", b"0"))
pid = os.fork()
if pid == 0:
    child(parents)
_, status = os.waitpid(pid, 0)
assert status == 0, status
with parents:
    parents.send(Message("orders", b"3"))
"""

INTERRUPTED = """
def end(*_):
    sys.exit(5)


signal.signal(signal.SIGTERM, end)
with LitePullConsumer("lite", namesrv=NAMESRV, subscriptions=TOPICS) as consumer:
    with PushConsumer("push", do_nothing, namesrv=NAMESRV, subscriptions=TOPICS):
        print("ready", flush=True)
        while True:
            consumer.poll(60)
"""

INTERRUPTED_OFTEN = """
import gc, random, time


class Interrupted(BaseException):
    pass


def interrupt(*_):
    raise Interrupted


def poll():
    consumer.poll(LONGEST_S)


def send():
    while True:
        producer.send(Message("paid", b"1"))


def send_async():
    while True:
        producer.send_async(Message("paid", b"1")).result(LONGEST_S)


LONGEST_S = 30
gc.disable()  # what the collector calls swallows exceptions
signal.signal(signal.SIGALRM, interrupt)
chance = random.Random(35)
consumer = LitePullConsumer("l", namesrv=NAMESRV, subscriptions=TOPICS)
with Producer("p", namesrv=NAMESRV) as producer, consumer:
    while consumer.poll(1) or not consumer.assignment:
        pass
    for _ in range(4):  # what is imported meanwhile swallows exceptions, too
        producer.send(Message("paid", b"1"))
        producer.send_async(Message("paid", b"1")).result(LONGEST_S)
    for _ in range(int(sys.argv[2])):
        for act in (poll, poll, poll, send, send_async):
            begun = time.monotonic()
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 4e-4))
                act()
            except Interrupted:
                pass
            else:
                sys.exit(f"a signal during {act.__name__} is lost")
            if time.monotonic() - begun > LONGEST_S / 2:
                sys.exit(f"a signal during {act.__name__} is noticed late")
"""
ROUNDS = 20
"""Each has five signals."""

INTERRUPTED_LOCK = """
import random
from gateway.client.blocking.waiting import Condition, ThreadFuture
from gateway.client.lock import Lock


class Interrupted(BaseException):
    pass


def interrupt(*_):
    raise Interrupted


def hold(lock):
    while True:
        with lock:
            pass


def look(future):
    while True:
        future.done()


def depth(lock):
    held = lock._release_save()
    lock._acquire_restore(held)
    return held[0]


signal.signal(signal.SIGALRM, interrupt)
chance = random.Random(36)
for _ in range(int(sys.argv[2])):
    future = ThreadFuture()
    for act, on, lock in (hold, *[Lock()] * 2), (hold, *[Condition()] * 2), (look, future, future._condition):
        with lock:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 1e-4))
                act(on)
            except Interrupted:
                pass
            if depth(lock) != 1:
                sys.exit(f"a signal during {act.__name__} leaves the {type(lock).__name__} locked")
"""


@contextmanager
def running(version: str, program: str, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A program on one of the Pythons, beside a broker; with arguments, and more variables in its environment."""
    with broker_thread(queues=1) as server:
        server.put("orders", b"0")
        command = [READY[version], "-W", "always::ResourceWarning", "-c", START + program, server.broker.address]
        command += arguments
        environment = {**pythons.environment(version), **variables}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[str, Counter[str]]:
    """Return what an ended program wrote to standard error, and which clients it names as not closed."""
    try:
        _, errors = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        pytest.fail("the program does not end")
    assert "Exception ignored" not in errors, errors
    assert "Fatal Python error" not in errors, errors
    warned = (line.partition("ResourceWarning: ")[2] for line in errors.splitlines())
    return errors, Counter(text.partition(" was not closed")[0] for text in warned if " was not closed" in text)


@pytest.mark.parametrize("version", READY)
def test_point_14_a_program_that_forgets_close_ends_and_is_told_once_of_each_client(
    version: str, tmp_path: Path
) -> None:
    with running(version, FORGOTTEN, HOME=str(tmp_path)) as process:
        errors, forgotten = ended(process)
        assert process.returncode == 0, errors
    assert "Traceback" not in errors, errors
    (stored,) = tmp_path.rglob("offsets.json")
    assert '"brokerName":"broker-a"' in stored.read_text()
    names = ["producer p", "producer t", "push consumer c", "lite pull consumer l", "simple consumer s"]
    every = ["AdminClient", "AdminClient", "producer service", *names, *(f"{name}-aio" for name in names)]
    assert forgotten == Counter(every), errors


@pytest.mark.parametrize("version", READY)
def test_point_14_a_forked_child_makes_clients_of_its_own_and_ends(version: str) -> None:
    with running(version, FORKED) as process:
        errors, forgotten = ended(process)
        assert process.returncode == 0, errors
    assert forgotten == Counter(["producer forgotten"]), "the parent says so, and not the child"


@pytest.mark.parametrize("version", READY)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 5)])
def test_point_14_a_signal_ends_blocked_clients_in_order(version: str, number: signal.Signals, code: int) -> None:
    with running(version, INTERRUPTED) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        errors, forgotten = ended(process)
        assert process.returncode == code, errors
    assert not forgotten


@pytest.mark.parametrize("version", READY)
def test_a_signal_as_a_wait_begins_is_neither_lost_nor_late_and_does_no_harm(version: str) -> None:
    with running(version, INTERRUPTED_OFTEN, str(ROUNDS)) as process:
        errors, forgotten = ended(process)
        assert process.returncode == 0, errors
    assert not forgotten


@pytest.mark.parametrize("version", READY)
def test_a_signal_as_a_lock_is_taken_leaves_it_as_it_was(version: str) -> None:
    with running(version, INTERRUPTED_LOCK, "500") as process:
        errors, _ = ended(process)
        assert process.returncode == 0, errors


def test_the_pythons_that_are_missing_are_named() -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert own in READY
    assert {*READY, *(version for version in pythons.SUPPORTED if version in pythons.missing())} == {*pythons.SUPPORTED}
