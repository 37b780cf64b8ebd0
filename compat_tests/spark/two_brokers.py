"""A name server and two brokers, processes; the brokers are stopped, killed, emptied and brought back by chance."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from compat_tests.peers import free_ports, gateway_command
from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import STORE_ID
from gateway.spark.asking.connection import open_connection, request
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header, parse_header
from wire.headers.send import SendMessageRequest, SendMessageResponse
from wire.headers.topics import CreateTopicRequest

GOES_ON, FAILS = TOPICS = "goes-on", "fails"
"""Whatever is written is written to both."""
QUEUES = 2
TIMEOUT_S = 30.0

Message: TypeAlias = tuple[str, MessageQueue, int]
"""The store, the queue and the offset of a message."""


class Process:
    """``rocketmq-gateway`` with some arguments, on this machine."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._log = folder.with_suffix(".log")
        self._command = [*gateway_command(), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_up(self) -> bool:
        """Return whether the broker was started and not ended."""
        return self._process is not None

    def start(self) -> None:
        """Start, and wait for its ready line."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None, "it is a pipe"
        line = self._process.stdout.readline()
        assert line.startswith(b"ready"), f"it did not start; its log ends: {self._log.read_text()[-2000:]}"

    def end(self, how: signal.Signals) -> None:
        """Send a signal, and wait for the end."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.wait(60)
        assert process.stdout is not None, "it is a pipe"
        process.stdout.close()


@dataclass
class Broker:
    """A broker with two queues.

    :param store: what tells its store from another one; another one after it was emptied.
    :param ends: how many messages each queue has.
    :param down_at: when it was seen last without its topic, by ``time.monotonic``.
    """

    name: str
    folder: Path
    port: int
    process: Process
    store: str = ""
    ends: dict[int, int] = field(default_factory=dict)
    down_at: float = 0.0

    def call(self, code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
        """Ask it.

        :raises AssertionError: it refuses.
        """
        with closing(open_connection(f"127.0.0.1:{self.port}", timeout_s=TIMEOUT_S)) as connection:
            answer = connection.call(request(code, header, body), TIMEOUT_S)
        assert answer.code == ResponseCode.SUCCESS, f"{self.name} refuses {code}: {answer.remark}"
        return answer

    def start(self) -> None:
        """Start it, with its topic."""
        self.process.start()
        store = KVTable.parse(self.call(RequestCode.GET_BROKER_RUNTIME_INFO).body).table[STORE_ID]
        if store != self.store:
            self.store, self.ends = store, dict.fromkeys(range(QUEUES), 0)
            for topic in TOPICS:
                header = CreateTopicRequest(
                    topic=topic, default_topic="TBW102", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6,
                    topic_filter_type="SINGLE_TAG",
                )  # fmt: skip
                self.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        self.down_at = time.monotonic()


class World:
    """The brokers, and what happens to them.

    :param folder: for all that is written.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.written: dict[Message, bytes] = {}
        self.events: list[str] = []
        port = free_ports()[0]
        self.nameserver = f"127.0.0.1:{port}"
        self._begun = time.monotonic()
        names = folder / "names"
        self._names = Process(names, "nameserver", "--data", str(names), "--port", str(port))
        self.brokers = [self._broker(folder, name) for name in ("broker-a", "broker-b")]

    def _broker(self, folder: Path, name: str) -> Broker:
        port, data = free_ports()[0], folder / name
        settings = {"brokerName": name, "flushDiskType": "ASYNC_FLUSH", "mappedFileSizeCommitLog": "16777216"}
        settings |= {"flushIntervalCommitLog": "20", "flushCommitLogLeastPages": "0", "autoCreateTopicEnable": "false"}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        arguments = ("broker", "-n", self.nameserver, "--data", str(data), "--port", str(port), *sets)
        return Broker(name, data, port, Process(data, *arguments))

    @contextmanager
    def running(self) -> Iterator[None]:
        """All processes, until the end."""
        try:
            self._names.start()
            for broker in self.brokers:
                broker.start()
                for queue_id in range(QUEUES):
                    self._write(broker, queue_id)
            yield
        finally:
            for process in (self._names, *(broker.process for broker in self.brokers)):
                process.end(signal.SIGKILL)

    def act(self) -> None:
        """Something happens to one of the brokers."""
        broker, chance = self.chance.choice(self.brokers), self.chance.random()
        if not broker.process.is_up:
            if chance < 0.35:
                self.empty(broker)
            else:
                self.start(broker)
        elif chance < 0.5:
            self._write(broker, self.chance.randrange(QUEUES))
        else:
            self._end(broker, signal.SIGTERM if chance < 0.7 else signal.SIGKILL)

    def start(self, broker: Broker) -> None:
        """Bring it back, now and then with a message at once."""
        broker.start()
        self.note(f"{broker.name} starts")
        if self.chance.random() < 0.3:
            self._write(broker, 0)

    def empty(self, broker: Broker) -> None:
        """Take away its store while it is down."""
        shutil.rmtree(broker.folder, ignore_errors=True)
        if broker.store:
            self.note(f"{broker.name} is emptied")
        broker.store = ""

    def holds(self, message: Message) -> bool:
        """Return whether a message is still there."""
        store, queue, _ = message
        return any(broker.store == store for broker in self.brokers if broker.name == queue.broker_name)

    def is_away(self, within_s: float) -> bool:
        """Return whether a broker is down, or was down a short time ago."""
        now = time.monotonic()
        return any(not broker.process.is_up or now - broker.down_at < within_s for broker in self.brokers)

    def note(self, event: str) -> None:
        """Keep what happened."""
        self.events.append(f"{time.monotonic() - self._begun:.1f} {event}")

    def ends(self, topic: str) -> dict[MessageQueue, int]:
        """Return the ends of the queues of a topic."""
        return {
            MessageQueue(topic, broker.name, number): end
            for broker in self.brokers
            for number, end in broker.ends.items()
        }

    def _end(self, broker: Broker, how: signal.Signals) -> None:
        broker.process.end(how)
        self.note(f"{broker.name} {'is killed' if how == signal.SIGKILL else 'stops'}")

    def _write(self, broker: Broker, queue_id: int) -> None:
        count = self.chance.randint(1, 8)
        for offset in range(broker.ends[queue_id], broker.ends[queue_id] + count):
            for topic in TOPICS:
                self._write_one(broker, MessageQueue(topic, broker.name, queue_id), offset)
        broker.ends[queue_id] += count
        self.note(f"{broker.name}/{queue_id} has {broker.ends[queue_id]}")

    def _write_one(self, broker: Broker, queue: MessageQueue, offset: int) -> None:
        body = f"{broker.store}/{queue.topic}/{queue.queue_id}/{offset}".encode()
        header = SendMessageRequest(
            producer_group="world", topic=queue.topic, default_topic="TBW102", default_topic_queue_nums=QUEUES,
            queue_id=queue.queue_id, sys_flag=0, born_timestamp=0, flag=0,
        )  # fmt: skip
        answer = broker.call(RequestCode.SEND_MESSAGE, header, body)
        said = parse_header(SendMessageResponse, answer.ext_fields)
        assert said.queue_offset == offset, f"{queue}: {said.queue_offset} and not {offset}"
        self.written[broker.store, queue, offset] = body
