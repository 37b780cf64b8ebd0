"""The load program in Python: transactions whose outcome is drawn from their number, told at random moments.

    python -m compat_tests.transactions_load.python_program --namesrv … --topic … --ledger FILE …

The same as ``RandomTransactions.java`` with ``gateway.client.TransactionProducer``. It sends until a line ``enough``
comes on standard input, answers checks until a line ``end`` does, and is mostly killed before. What happened is in
the ledger, written before the outcome is sent: entries of three big-endian int32, number, event, milliseconds.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from compat_tests.transactions_load.account import Event
from compat_tests.transactions_load.fate import Fate, fate
from compat_tests.transactions_load.pulse import Pulse
from gateway.client import Message, ReceivedMessage, RocketMQError, TransactionProducer
from gateway.client.connect.producer_settings import TransactionSettings
from gateway.client.transaction_state import TransactionState

ENTRY = struct.Struct(">iii")
"""Number, event, time."""
_UNKNOWN_PERCENT = 30
_BODY_CHARS = 100
_FAILED_PAUSE_S = 0.02
STATES = {
    Fate.COMMIT: TransactionState.COMMIT,
    Fate.ROLLBACK: TransactionState.ROLLBACK,
    Fate.NEVER: TransactionState.UNKNOWN,
}
_EVENTS = {
    TransactionState.COMMIT: Event.COMMIT_SENT,
    TransactionState.ROLLBACK: Event.ROLLBACK_SENT,
    TransactionState.UNKNOWN: Event.UNKNOWN_SENT,
}


class Ledger:
    """Appends what happened; an entry is written with one call, so a kill tears none."""

    def __init__(self, path: Path, epoch_ms: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._epoch_ms = epoch_ms

    def add(self, number: int, first: Event, second: Event) -> None:
        at_ms = self._now_ms()
        os.write(self._descriptor, ENTRY.pack(number, first, at_ms) + ENTRY.pack(number, second, at_ms))

    def stalled(self, seconds: float) -> None:
        """The process did not get to run."""
        os.write(self._descriptor, ENTRY.pack(round(seconds * 1000), Event.STALLED, self._now_ms()))

    def _now_ms(self) -> int:
        return time.time_ns() // 1_000_000 - self._epoch_ms


class Listener:
    """Any producer of the group, in any process, answers for all numbers: the number alone says what becomes of it."""

    def __init__(self, run: str, ledger: Ledger) -> None:
        self._prefix = run + "-"
        self._ledger = ledger

    def execute(self, message: Message, arg: object) -> TransactionState:
        assert isinstance(arg, int)
        return self._answer(arg, Event.STORED)

    def check(self, message: ReceivedMessage) -> TransactionState:
        return self._answer(int(message.keys[0].removeprefix(self._prefix)), Event.CHECKED)

    def _answer(self, number: int, event: Event) -> TransactionState:
        is_unknown = random.randrange(100) < _UNKNOWN_PERCENT
        state = TransactionState.UNKNOWN if is_unknown else STATES[fate(number)]
        self._ledger.add(number, event, _EVENTS[state])
        return state


def load_message(topic: str, run: str, number: int) -> Message:
    """Return a message in the form of ``Tally.message``, so that its readers know it."""
    key = f"{run}-{number}"
    body = key + "|"
    body += "".join(chr(ord("a") + length % 26) for length in range(len(body), _BODY_CHARS))
    return Message(topic, body.encode(), keys=key)


def send(
    producer: TransactionProducer,
    listener: Listener,
    messages: Iterator[tuple[int, Message]],
    enough: threading.Event,
    *,
    blocks: bool,
) -> None:
    """Until there is enough.

    :param blocks: whether transactions are begun with ``begin``, or run by the listener.
    """
    while not enough.is_set():
        number, message = next(messages)
        try:
            if not blocks:
                producer.send_in_transaction(message, number)
                continue
            with producer.begin(message) as transaction:
                state = listener.execute(message, number)
                if state is TransactionState.COMMIT:
                    transaction.commit()
                elif state is TransactionState.ROLLBACK:
                    transaction.rollback()
        except RocketMQError as error:
            print(f"{number}: {error}", file=sys.stderr)
            enough.wait(_FAILED_PAUSE_S)


class _Messages:
    """One after the other, for many threads."""

    def __init__(self, topic: str, run: str, first: int) -> None:
        self._topic = topic
        self._run = run
        self._numbers = itertools.count(first)

    def __iter__(self) -> Iterator[tuple[int, Message]]:
        return self

    def __next__(self) -> tuple[int, Message]:
        number = next(self._numbers)
        return number, load_message(self._topic, self._run, number)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("namesrv", "topic", "run", "group"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("first", "epoch-ms", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    ledger = Ledger(options.ledger, options.epoch_ms)
    Pulse(ledger.stalled)
    listener = Listener(options.run, ledger)
    settings = TransactionSettings(namesrv=options.namesrv, check_thread_pool_max_size=2)
    messages = _Messages(options.topic, options.run, options.first)
    enough = threading.Event()
    with TransactionProducer(options.group, listener, settings) as producer:
        threads = [
            threading.Thread(
                target=send,
                args=(producer, listener, messages, enough),
                kwargs={"blocks": index % 2 == 1},
                daemon=True,
            )
            for index in range(options.threads)
        ]
        for thread in threads:
            thread.start()
        for line in sys.stdin:
            if line.strip() == "enough":
                enough.set()
            elif line.strip() == "end":
                break
        enough.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
