"""Requests made beforehand and written to plain sockets: a load that costs its client next to nothing.

A stock client needs more processor time for a message than the broker does; on a machine that both share, what the
broker can do is then hard to see. Here the bytes of all requests exist before the first is sent, and of the answers
only the lengths are read and the codes counted. For `benchmarks.busy`, `benchmarks.brokers` and `benchmarks.growth`.
"""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice

from benchmarks.java_tools import BenchmarkError
from benchmarks.paced_load import Peer, make_topic
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.frame import build_frame
from wire.headers.declare import build_header
from wire.headers.pull import PullMessageRequest
from wire.headers.send import ShortSendMessageRequest
from wire.message.flags import PullFlag

BODY = b"x" * 128
PULLED = 32
GOOD = b'"code":0,'
PATIENCE_S = 20.0

now = time.monotonic


def sends(topics: Sequence[str], queues: int, count: int) -> list[bytes]:
    """Return frames of messages to all queues of all topics in turn, as the stock Java client writes them."""
    frames = []
    for number in range(count):
        header = ShortSendMessageRequest(
            producer_group="prepared",
            topic=topics[number % len(topics)],
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=number // len(topics) % queues,
            sys_flag=0,
            born_timestamp=1_750_000_000_000,
            flag=0,
            properties=f"UNIQ_KEY\x017F000001{number:024X}\x02WAIT\x01true\x02",
        )
        command = RemotingCommand(
            RequestCode.SEND_MESSAGE_V2, opaque=number, ext_fields=build_header(header), body=BODY
        )
        frames.append(build_frame(command))
    return frames


def pulls(topic: str, queues: int, count: int) -> list[bytes]:
    """Pulls of so many messages of each queue from its begin, in turn."""
    frames: list[bytes] = []
    for offset in range(0, count, PULLED):
        for queue_id in range(queues):
            header = PullMessageRequest(
                consumer_group="prepared",
                topic=topic,
                queue_id=queue_id,
                queue_offset=offset,
                max_msg_nums=PULLED,
                sys_flag=PullFlag.SUBSCRIPTION,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription="*",
                sub_version=1,
            )
            command = RemotingCommand(RequestCode.PULL_MESSAGE, opaque=len(frames), ext_fields=build_header(header))
            frames.append(build_frame(command))
    return frames


class Stream:
    """A connection that keeps some requests under way."""

    def __init__(self, port: int, frames: Sequence[bytes], first: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = islice(cycle(frames), first, None)
        self._rest = b""
        self.under_way = 0

    def send(self, count: int) -> None:
        """Send so many more."""
        self.under_way += count
        self.socket.sendall(b"".join([next(self._frames) for _ in range(count)]))

    def answered(self) -> int:
        """Return how many answers one read ends."""
        read = self.socket.recv(1 << 20)
        if not read:
            raise BenchmarkError("the server closed a connection")
        data = self._rest + read if self._rest else read
        at = count = 0
        while at + 4 <= len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                break
            at = end
            count += 1
        self._rest = data[at:]
        # A body could only hold the text by design: those sent here do not.
        if data.count(GOOD, 0, at) != count:
            raise BenchmarkError(f"a request failed: {data[:500]!r}")
        self.under_way -= count
        return count


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answers within the measured time, and the client's processor time for them."""

    answers: int
    seconds: float
    client_cpu_s: float

    @property
    def per_s(self) -> float:
        """The number of answers a second."""
        return self.answers / self.seconds


def run(
    ports: Sequence[int],
    frames: Sequence[bytes],
    *,
    connections: int,
    in_flight: int,
    seconds: float,
    least: int = 0,
) -> Outcome:
    """Keep ``in_flight`` requests under way on each of some connections, which take the ports in turn.

    :param frames: sent again and again; each connection begins with another one.
    :param least: go on until so many answers have come, though the time is over.
    """
    with selectors.DefaultSelector() as selector:
        streams = [Stream(ports[n % len(ports)], frames, n * len(frames) // connections) for n in range(connections)]
        for stream in streams:
            selector.register(stream.socket, selectors.EVENT_READ, stream)
        begin, cpu_s, answers = now(), _cpu_s(), 0
        end = begin + seconds
        for stream in streams:
            stream.send(in_flight)
        while now() < end or answers < least:
            for key, _ in selector.select(1):
                count = key.data.answered()
                answers += count
                if count:
                    key.data.send(count)
        outcome = Outcome(answers, now() - begin, _cpu_s() - cpu_s)
        end = now() + PATIENCE_S
        while any(stream.under_way for stream in streams) and now() < end:
            for key, _ in selector.select(1):
                key.data.answered()
        for stream in streams:
            with suppress(OSError):
                stream.socket.close()
        return outcome


def prepare(port: int, topics: Sequence[str]) -> None:
    """Make topics that are missing."""
    peer = Peer(port)
    for topic in topics:
        make_topic(peer, topic)
    peer.socket.close()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
