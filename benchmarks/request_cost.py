"""The question: what processor time does one request cost the broker, from the bytes of a read to those of the answer.

    python -m benchmarks.request_cost            sends, batches, transactions, pulls, by requests in one read; filtered
                                                 pulls, of which each looks into hundreds of messages for a few
    python -m benchmarks.request_cost --rows send,pull --reads 64

A whole broker with its store on disk, one connection, no socket, no reactor, no client: what is left is what the
program does for each request. Frames are written as the stock Java client writes them. "CPU µs" is processor time of
protocol, broker, store, dispatch, index and answers per message (batches have 16; a transaction: half message and
outcome), of the quickest of ``--runs`` rounds. PYTHONSAFEPATH=1 and PYTHONPATH=build/accelerated:. time the compiled
packages; without the first it is always the source in this directory. To see where it goes, run it under a profiler
with ``--rows`` and many ``--runs``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import ITransport
from twisted.internet.task import Clock

from benchmarks.scale import HOST
from gateway.access.failures import Failures
from gateway.access.guard import Guard, Rules
from gateway.access.policies.kept_users import KeptUsers
from gateway.access.policies.policy import PolicyEntry, PolicyType
from gateway.access.policies.users import User
from gateway.access.refusals import UserRefusals
from gateway.broker.parts import BrokerParts, Surroundings
from gateway.broker.request_loader import load_requests
from gateway.cli.serving.run import settle_memory
from gateway.cli.version import is_compiled
from gateway.clock import wall_clock_ms
from gateway.in_thread import in_this_thread
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.dispatch import Dispatch, admit_everybody
from gateway.remoting.protocol import RemotingProtocol
from gateway.remoting.server import RemotingServer
from gateway.settings import FlushDiskType, Settings
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.message.batch import BatchPart, build_batch
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage
from wire.signature import RequestSigner

BODY = b"abcdefghijklmnopqrstuvwxyz" * 5
BODY_BYTES = 128
QUEUES = 8
ROUND_MESSAGES = 6_000
PULLED = 32
BATCHED = 16
RARE_TOPIC = "Rare"
RARE = 100
"""One message in so many is wanted by a filtered pull."""
RARE_RUNS = 2_000
READS = (1, 16, 64, 131)
GROUP = "bench_p_pp9vpyqr8"
KEYS = ("shop-key", "shop-secret")

_SEND = (
    '{"code":%d,"extFields":{"a":"%s","b":"Bench","c":"TBW102","d":"4","e":"%d","f":"%d","g":"%d","h":"0",'
    '"i":"%s","j":"0","k":"false","m":"%s","n":"vm"},"flag":0,"language":"JAVA","opaque":%d,'
    '"serializeTypeCurrentRPC":"JSON","version":513}'
)
_PLAIN = "UNIQ_KEY\\u0001%s\\u0002WAIT\\u0001true\\u0002"
_HALF = "TRAN_MSG\\u0001true\\u0002UNIQ_KEY\\u0001%s\\u0002WAIT\\u0001true\\u0002PGROUP\\u0001" + GROUP + "\\u0002"
_END = (
    '{"code":37,"extFields":{"producerGroup":"%s","bname":"vm","commitLogOffset":"%d","topic":"Bench","msgId":"%s",'
    '"tranStateTableOffset":"%s","commitOrRollback":"8","transactionId":"%s","fromTransactionCheck":"false"},"flag":2,'
    '"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}'
)
_PULL = (
    '{"code":11,"extFields":{"bname":"vm","subVersion":"1795305740294","consumerGroup":"readers","topic":"%s",'
    '"queueId":"%d","queueOffset":"%d","maxMsgNums":"32","sysFlag":"6","commitOffset":"0",'
    '"suspendTimeoutMillis":"15000","subscription":"%s","expressionType":"%s","maxMsgBytes":"2147483647"},"flag":0,'
    '"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}'
)
_numbers = count()


class Sink:
    """A transport that keeps what is written until it is taken."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def getPeer(self) -> IPv4Address:  # noqa: N802 (Twisted's name)
        """Return the address of a client."""
        return IPv4Address("TCP", "127.0.0.1", 40000)

    def getHost(self) -> IPv4Address:  # noqa: N802 (Twisted's name)
        """The broker."""
        return IPv4Address("TCP", "127.0.0.1", 10911)

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing, because the producer's buffer is never full."""

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.written.append(data)


class Broker:
    """A whole broker with one connection. ``cpu_s`` is what all turns of its reactor took."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._clock = clock = Clock()
        self._turn: list[Callable[[], None]] = []
        self._flush_group = FlushGroup(clock)
        self.dispatch = dispatch = Dispatch()
        settings = replace(
            Settings(),
            store_path_root_dir=directory,
            flush_disk_type=FlushDiskType.ASYNC_FLUSH,
            max_transfer_count_on_message_in_memory=PULLED,
        )
        self.parts = BrokerParts(
            settings,
            Surroundings(
                reactor=clock,
                clock=wall_clock_ms,
                soon=self._turn.append,
                in_log_thread=in_this_thread,
                in_thread=in_this_thread,
                listen_port=lambda: 10911,
            ),
        )
        self.parts.open()
        load_requests(self.parts, dispatch)
        server = RemotingServer(cast(Any, clock), dispatch, [], settings, self._flush_group)
        protocol = server.new_protocol(None)
        assert protocol is not None, "there is room for one"
        self._protocol: RemotingProtocol = protocol
        self._sink = Sink()
        protocol.makeConnection(cast(ITransport, self._sink))  # type: ignore[no-untyped-call]
        self._answers = Connection()
        self.cpu_s = 0.0
        self.parts.topics.ensure("Bench", QUEUES, 6)
        self.parts.groups.get("readers")

    def feed(self, reads: list[bytes]) -> None:
        """Reads of the connection, each with all that follows from it: a turn of the reactor."""
        received, turn, flush = self._protocol.dataReceived, self._turn, self._flush_group.flush
        clock, calls = self._clock, self._clock.calls
        begin = time.process_time()  # once: it is a system call
        for data in reads:
            received(data)
            while turn or (calls and calls[0].getTime() <= 0):  # requests for large answers may wait for the next turn
                functions, turn[:] = turn[:], []
                for function in functions:
                    function()
                flush()
                clock.advance(0)
        self.cpu_s += time.process_time() - begin

    def answers(self) -> list[RemotingCommand]:
        """Return the answers since the last call."""
        written = b"".join(self._sink.written)
        self._sink.written.clear()
        return self._answers.receive_data(written)

    def close(self) -> None:
        """Give back its files."""
        self.parts.store.close()


def frame(header: str, body: bytes = b"") -> bytes:
    """A frame with a JSON header."""
    text = header.encode()
    return (4 + len(text) + len(body)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def sends(properties: str, sys_flag: int) -> Iterator[bytes]:
    """Frames of messages, to eight queues in turn."""
    body = BODY[:BODY_BYTES]
    for number in _numbers:
        yield frame(_send_header(310, number, sys_flag, properties % _unique_key(number), "false"), body)


def batches() -> Iterator[bytes]:
    """Frames of batches, to eight queues in turn."""
    for number in _numbers:
        keys = [_unique_key(next(_numbers)) for _ in range(BATCHED)]
        parts = [
            BatchPart(0, BODY[:BODY_BYTES], build_properties({PropertyName.UNIQ_KEY: key, PropertyName.WAIT: "true"}))
            for key in keys
        ]
        properties = _PLAIN % ",".join(keys)
        yield frame(_send_header(320, number, 0, properties, "true"), build_batch(parts))


def _unique_key(number: int) -> str:
    return f"FD0000000000000000000000000000022EEB30946E096C{number:010X}"


def _send_header(code: int, number: int, sys_flag: int, properties: str, batch: str) -> str:
    return _SEND % (
        *(code, GROUP, number % QUEUES, sys_flag, wall_clock_ms()),
        *(properties, batch, number & 0xFFFFFF),
    )


def expect(answers: list[RemotingCommand], number: int) -> None:
    """A figure counts only when everything was done."""
    if len(answers) != number or any(answer.code for answer in answers):
        raise RuntimeError(f"{len(answers)} answers to {number} requests: {answers[:1]}")


def send(broker: Broker, at_once: int) -> int:
    """Messages in reads of some frames each; how many."""
    return _feed(broker, sends(_PLAIN, 0), at_once, ROUND_MESSAGES)


def signed(broker: Broker, at_once: int) -> int:
    """Messages that are signed, from a user who may send to their topic and to nothing else; how many."""
    users = KeptUsers(broker.directory / "access.json", in_this_thread)
    entry = PolicyEntry.of("Topic:Bench", ["Pub"], [], "Allow")
    users.load([User(*KEYS).with_policies({PolicyType.CUSTOM: (entry,)})])
    rules = Rules(refusals=UserRefusals(), cluster="c")
    broker.dispatch._admit = Guard(users, rules, Failures(1, wall_clock_ms)).admit
    try:
        return _feed(broker, signed_sends(), at_once, ROUND_MESSAGES)
    finally:
        broker.dispatch._admit = admit_everybody


def signed_sends() -> Iterator[bytes]:
    """Frames of messages as a Java client signs them."""
    signer, body = RequestSigner(*KEYS), BODY[:BODY_BYTES]
    for number in _numbers:
        text = _send_header(310, number, 0, _PLAIN % _unique_key(number), "false")
        members = json.loads(text)
        command = RemotingCommand(310, ext_fields=members["extFields"], body=body)
        signer.sign(command)
        keys = {name: command.ext_fields[name] for name in ("Signature", "AccessKey")}
        yield frame(
            text.replace('"extFields":{', '"extFields":' + json.dumps(keys, separators=(",", ":"))[:-1] + ","), body
        )


def batch(broker: Broker, at_once: int) -> int:
    """Batches in reads of some frames each; how many messages."""
    return BATCHED * _feed(broker, batches(), at_once, ROUND_MESSAGES // BATCHED)


def _feed(broker: Broker, frames: Iterator[bytes], at_once: int, least: int) -> int:
    reads = [b"".join(next(frames) for _ in range(at_once)) for _ in range(-(-least // at_once))]
    broker.feed(reads)
    requests = at_once * len(reads)
    expect(broker.answers(), requests)
    return requests


def transaction(broker: Broker, at_once: int) -> int:
    """Half messages, then their outcomes; how many pairs."""
    frames = sends(_HALF, 4)
    rounds = -(-ROUND_MESSAGES // at_once)
    broker.feed([b"".join(next(frames) for _ in range(at_once)) for _ in range(rounds)])
    answers = broker.answers()
    expect(answers, rounds * at_once)
    outcomes = []
    for answer in answers:
        ext = answer.ext_fields
        place, key = int(ext["msgId"][-16:], 16), ext["transactionId"]
        header = _END % (GROUP, place, key, ext["queueOffset"], key, next(_numbers) & 0xFFFFFF)
        outcomes.append(frame(header))
    broker.feed([b"".join(outcomes[first : first + at_once]) for first in range(0, len(outcomes), at_once)])
    if broker.parts.transactions.pending.count:
        raise RuntimeError(f"{broker.parts.transactions.pending.count} transactions are open")
    return rounds * at_once


def pull(broker: Broker, at_once: int) -> int:
    """A backlog of eight queues by pulls of 32, some of them in one read; how many messages."""
    length = min(broker.parts.store.max_offset("Bench", queue_id) for queue_id in range(QUEUES))
    begin = max(length - ROUND_MESSAGES * 4 // QUEUES, 0)
    requests = [
        _pull("Bench", queue_id, offset, "*", "TAG")
        for offset in range(begin, length - PULLED, PULLED)
        for queue_id in range(QUEUES)
    ]
    broker.feed([b"".join(requests[first : first + at_once]) for first in range(0, len(requests), at_once)])
    expect(broker.answers(), len(requests))
    return len(requests) * PULLED


def _pull(topic: str, queue_id: int, offset: int, subscription: str, kind: str) -> bytes:
    return frame(_PULL % (topic, queue_id, offset, subscription, kind, next(_numbers) & 0xFFFFFF))


def by_sql92(broker: Broker, at_once: int) -> int:
    """Pull one message in a hundred by SQL92, out of eight queues; return how many messages were looked into."""
    return _filtered(broker, at_once, "kind=1", "SQL92")


def by_tag(broker: Broker, at_once: int) -> int:
    """Pull one message in a hundred by tag; return how many messages were looked into."""
    return _filtered(broker, at_once, "rare", "TAG")


def _filtered(broker: Broker, at_once: int, subscription: str, kind: str) -> int:
    store = broker.parts.store
    if not store.max_offset(RARE_TOPIC, 0):
        _store_rare(broker)
    waiting = [(queue_id, 0) for queue_id in range(QUEUES)]
    while waiting:
        asked, waiting = waiting[:at_once], waiting[at_once:]
        broker.feed([b"".join(_pull(RARE_TOPIC, queue_id, offset, subscription, kind) for queue_id, offset in asked)])
        for (queue_id, _), answer in zip(asked, broker.answers(), strict=True):
            offset = int(answer.ext_fields["nextBeginOffset"])
            if offset < store.max_offset(RARE_TOPIC, queue_id):
                waiting.append((queue_id, offset))
    return sum(store.max_offset(RARE_TOPIC, queue_id) for queue_id in range(QUEUES))


def _store_rare(broker: Broker) -> None:
    """A backlog as batches of 32 leave it, of which one message in a hundred is wanted."""
    broker.parts.topics.ensure(RARE_TOPIC, QUEUES, 6)
    for run in range(RARE_RUNS):
        for _ in range(PULLED):
            number = next(_numbers)
            tag, kind = ("rare", "1") if number % RARE == 0 else ("often", "0")
            properties = {"UNIQ_KEY": _unique_key(number), "WAIT": "true", "TAGS": tag, "kind": kind}
            message = OutgoingMessage(
                *(RARE_TOPIC, run % QUEUES, 0, 0, 1, HOST, HOST, 0, 0),
                *(BODY[:BODY_BYTES], build_properties(properties)),
            )
            broker.parts.store.append(message, lambda _: None)


ROWS: dict[str, Callable[[Broker, int], int]] = {
    "send": send,
    "signed": signed,
    "batch": batch,
    "transaction": transaction,
    "pull": pull,
    "by-sql92": by_sql92,
    "by-tag": by_tag,
}


def measure(broker: Broker, row: Callable[[Broker, int], int], at_once: int, runs: int) -> float:
    """Processor µs a message, of the quickest round."""
    best = float("inf")
    for _ in range(runs):
        before = broker.cpu_s
        messages = row(broker, at_once)
        best = min(best, (broker.cpu_s - before) / messages * 1e6)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.request_cost", description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="only these, comma-separated")
    parser.add_argument("--reads", help=f"requests in one read, comma-separated ({READS})")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--directory", help="where to make the store")
    options = parser.parse_args()
    reads = READS if options.reads is None else [int(each) for each in options.reads.split(",")]
    directory = Path(tempfile.mkdtemp(prefix="request-cost-", dir=options.directory))
    try:
        broker = Broker(directory)
        settle_memory()
        send(broker, 131)
        print(f"{'row':<14}{'a read':>7}{'CPU µs':>9}{'  compiled' if is_compiled() else ''}")
        for row in options.rows.split(","):
            for at_once in reads:
                print(f"{row:<14}{at_once:>7}{measure(broker, ROWS[row], at_once, options.runs):>9.2f}", flush=True)
        broker.close()
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
