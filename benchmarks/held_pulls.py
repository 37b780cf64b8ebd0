"""The question: what pulls cost that wait for messages while none come, and whether a message wakes only its own.

    python -m benchmarks.held_pulls                     10,000 pulls of 100 connections for 60 s
    python -m benchmarks.held_pulls --pulls 1000 --seconds 20

Each connection pulls its own queues as a stock push consumer does: held 15 s, and asked for again when that is over.
The server's CPU time is read from the system. Then one message is sent to each of some queues; half of their pulls ask
for a tag that none of the messages has.
"""

from __future__ import annotations

import argparse
import selectors
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.pending_transactions import Row
from benchmarks.servers import cpu_s
from compat_tests.peers import gateway_command
from gateway.client.testing.server import free_port
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.headers.declare import build_header
from wire.headers.pull import PullMessageRequest
from wire.headers.send import SendMessageRequest
from wire.headers.topics import CreateTopicRequest
from wire.message.flags import PullFlag

TOPIC = "held"
CONNECTIONS = 100
WOKEN = 200
HOLD_MS = 15_000
START_S = 30.0
PATIENCE_S = 30.0


def now() -> float:
    """Seconds that pass."""
    return time.monotonic()


class Puller:
    """One connection and the queues it waits for."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self._connection = Connection()

    def pull(self, queue_id: int, offset: int) -> None:
        """Ask for a queue; the opaque tells the queue of the answer."""
        header = PullMessageRequest(
            consumer_group="waiting",
            topic=TOPIC,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=HOLD_MS,
            subscription="*" if queue_id % 2 == 0 else "never",
            sub_version=1,
        )
        self.send(RequestCode.PULL_MESSAGE, header, opaque=queue_id)

    def send(self, code: int, header: object, opaque: int, body: bytes = b"") -> None:
        """Send any request."""
        fields = build_header(header)  # type: ignore[arg-type]
        self.socket.sendall(build_frame(RemotingCommand(code, opaque=opaque, ext_fields=fields, body=body)))

    def answers(self) -> list[RemotingCommand]:
        """Return the answers that one read brings."""
        return self._connection.receive_data(self.socket.recv(1 << 18))


class Consumers:
    """All connections."""

    def __init__(self, port: int, pulls: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.pullers = [Puller(port) for _ in range(min(CONNECTIONS, pulls))]
        for puller in self.pullers:
            self._selector.register(puller.socket, selectors.EVENT_READ, puller)
        self.answered = 0
        self.found: list[int] = []
        self._next: dict[int, int] = {}
        for queue_id in range(pulls):
            self.puller(queue_id).pull(queue_id, 0)

    def puller(self, queue_id: int) -> Puller:
        """The connection of a queue."""
        return self.pullers[queue_id % len(self.pullers)]

    def run(self, seconds: float) -> None:
        """Ask again for every queue that was answered."""
        end = now() + seconds
        while (left := end - now()) > 0:
            for key, _ in self._selector.select(left):
                for answer in key.data.answers():
                    self.answered += 1
                    if answer.code == ResponseCode.SUCCESS:
                        self.found.append(answer.opaque)
                    elif answer.code not in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
                        raise SystemExit(f"a pull was answered {answer.code}: {answer.remark}")
                    self._next[answer.opaque] = int(answer.ext_fields["nextBeginOffset"])
                    key.data.pull(answer.opaque, self._next[answer.opaque])


def prepared(port: int, pulls: int) -> None:
    """Make the topic, with a queue for each pull; waits for the server."""
    end = now() + START_S
    while True:
        try:
            puller = Puller(port)
            break
        except ConnectionRefusedError:
            if now() > end:
                raise
            time.sleep(0.1)  # noqa: TID251 - the server starts
    header = CreateTopicRequest(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=pulls,
        write_queue_nums=pulls,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    puller.send(RequestCode.UPDATE_AND_CREATE_TOPIC, header, 1)
    if puller.answers()[0].code != ResponseCode.SUCCESS:
        raise SystemExit("the topic could not be made")


def send_some(port: int, pulls: int) -> list[int]:
    """A message for each of some queues; their numbers."""
    sender = Puller(port)
    queues = list(range(min(WOKEN, pulls)))
    for queue_id in queues:
        header = SendMessageRequest(
            producer_group="senders",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="TAGS\x01always\x02",
        )
        sender.send(RequestCode.SEND_MESSAGE, header, queue_id, b"x" * 100)
    answered = 0
    while answered < len(queues):
        answered += len(sender.answers())
    return queues


def measure(directory: Path, pulls: int, seconds: float) -> list[Row]:
    """Measure, and return the rows of the result."""
    port = free_port()
    command = [*gateway_command(), "serve", "--data", str(directory), "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--nameserver-port", str(free_port())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        prepared(port, pulls)
        consumers = Consumers(port, pulls)
        consumers.run(3)
        before, answered = cpu_s(server.pid), consumers.answered
        consumers.run(seconds)
        used = cpu_s(server.pid) - before
        idle_answers = consumers.answered - answered
        sent = send_some(port, pulls)
        expected = {queue_id for queue_id in sent if queue_id % 2 == 0}
        end = now() + PATIENCE_S
        while not expected <= set(consumers.found) and now() < end:
            consumers.run(0.5)
        consumers.run(1)
        if set(consumers.found) != expected or len(consumers.found) != len(expected):
            raise SystemExit(f"{len(consumers.found)} pulls were woken, {len(expected)} should have been")
    finally:
        server.terminate()
        server.wait(30)
    percent = 100 * used / seconds
    return [
        Row("pulls held", f"{pulls:,}", f"{len(consumers.pullers)} connections", True),
        Row("asked again while idle", f"{idle_answers / seconds:,.0f} a second", "held 15 s each", True),
        Row("CPU of the server while idle", f"{percent:.1f} %", "below 5 %", percent < 5),
        Row("messages sent, pulls woken", f"{len(sent)}, {len(consumers.found)}", "every second one", True),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pulls", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="held-pulls-"))
    try:
        for row in measure(directory, options.pulls, options.seconds):
            print(row)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
