"""The stock C++ client under remote control: `main.py listen PORT` answers requests on a TCP port, a line each.

It is `librocketmq`, called through the package `rocketmq`. Verbs, options and answers are those of the Java program
(compat_tests/java_client), as far as they are here.
"""

from __future__ import annotations

import json
import os
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from rocketmq.client import (  # type: ignore[import-not-found]  # of its container
    Message,
    Producer,
    PushConsumer,
    RecvMessage,
    SendStatus,
)

Options = dict[str, str]
Fields = dict[str, Any]
_STOPPED: set[str] = set()


def body_of(run: str, number: int, size: int) -> bytes:
    head = f"{run}-{number}|".encode()
    return head + bytes(97 + at % 26 for at in range(len(head), size))


class Tally:
    """The numbers of a run that were seen, and how often."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.seen: set[int] = set()
        self.duplicates = self.strangers = self.corrupt = 0
        self.errors: dict[str, int] = {}
        self.changed = time.monotonic()
        self.lock = threading.Lock()

    def receive(self, message: RecvMessage) -> None:
        run, _, number = message.keys.decode().rpartition("-")
        with self.lock:
            self.changed = time.monotonic()
            if run != self.run:
                self.strangers += 1
                return
            self.corrupt += message.body != body_of(run, int(number), len(message.body))
            self.duplicates += int(number) in self.seen
            self.seen.add(int(number))

    def fields(self, name: str) -> Fields:
        bits = sum(1 << number for number in self.seen)
        numbers = bits.to_bytes((bits.bit_length() + 7) // 8, "little").hex()
        counts = {"duplicates": self.duplicates, "strangers": self.strangers, "corrupt": self.corrupt}
        return {name: len(self.seen), "numbers": numbers, "errors": self.errors, **counts}


def told(client: Any, o: Options) -> Any:
    """Tell a client its name server, and the keys of its account."""
    client.set_namesrv_addr(o["ns"])
    if "access_key" in o:
        client.set_session_credentials(o["access_key"], o["secret_key"], "ALIYUN")
    return client


def send(o: Options) -> Fields:
    tally, count = Tally(o["run"]), int(o["count"])
    producer = told(Producer(f"p_{o['run']}", timeout=10_000), o)
    producer.start()
    failed = not_ok = 0
    for number in range(count):
        message = Message(o["topic"])
        message.set_keys(f"{o['run']}-{number}")
        message.set_body(body_of(o["run"], number, 100))
        try:
            is_stored = producer.send_sync(message).status is SendStatus.OK
        except Exception as error:  # noqa: BLE001 - whatever the client raises is counted
            failed += 1
            tally.errors[str(error)] = tally.errors.get(str(error), 0) + 1
            continue
        not_ok += not is_stored
        tally.seen |= {number} if is_stored else set()
    producer.shutdown()
    return {**tally.fields("acknowledged"), "started": count, "failed": failed, "not_ok": not_ok, "unanswered": 0}


def consume(o: Options) -> Fields:
    tally, count = Tally(o["run"]), int(o["count"])
    consumer = told(PushConsumer(o["group"]), o)
    consumer.subscribe(o["topic"], tally.receive)
    consumer.start()
    end = begun = time.monotonic()
    end += float(o["timeout_s"])
    idle, linger = float(o.get("idle_s", 60)), float(o.get("linger_ms", 1000)) / 1000
    while time.monotonic() < end and o.get("until") not in _STOPPED:
        still = time.monotonic() - max(begun, tally.changed)
        if still > (linger if len(tally.seen) >= count else idle):
            break
        threading.Event().wait(0.02)
    consumer.shutdown()
    return tally.fields("received")


def stop(o: Options) -> Fields:
    _STOPPED.add(o["name"])
    return {}


VERBS: dict[str, Callable[[Options], Fields]] = {"send-sync": send, "consume-push": consume, "stop": stop}


class Control(socketserver.StreamRequestHandler):
    """One connection of a test."""

    def handle(self) -> None:
        for line in self.rfile:
            verb, *words = line.decode().split()
            try:
                options = {key: unquote(value) for key, _, value in (word.partition("=") for word in words)}
                answer = {"verb": verb, "ok": True, **VERBS[verb](options)}
            except Exception:  # noqa: BLE001 - the test shows it
                answer = {"verb": verb, "ok": False, "error": traceback.format_exc()}
            self.wfile.write(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("", int(sys.argv[2])), Control) as server:
        os.write(1, b"ready\n")
        server.serve_forever()
