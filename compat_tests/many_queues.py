"""`python -m compat_tests.many_queues`: a server with few open files and many queues, asked from many connections.

Writers send to all queues, readers pull old messages, others ask for statistics and offsets of times and look up keys.
Every message says which queue it is of; whatever a pull answers is compared with what was asked for. At the end the
server is stopped, and `store verify` looks at its directory.

0: nothing is wrong; 1: a foreign message, an error, or a finding; 2: the gateway is not compiled although `--compiled`
asks for that.
"""

from __future__ import annotations

import argparse
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from compat_tests import frames
from compat_tests.frames import Frame
from compat_tests.peers import GatewayProcess, gateway_command
from wire.message.record import parse_records

TOPICS = 30
PULL, SEARCH_OFFSET, MAX_OFFSET, MIN_OFFSET, EARLIEST, QUERY, TOPIC_STATS = 11, 29, 30, 31, 32, 12, 202
SUCCESS = 0
EXPECTED = {PULL: {0, 19, 20, 21}, QUERY: {0, 22}}
"""Codes that are no error: not found at once, moved, offset illegal; no message of a key."""
MAX_TOLD = 20


class Load:
    """The state that the connections share."""

    def __init__(self, port: int, queues: int) -> None:
        self.address = ("127.0.0.1", port)
        self.per_topic = queues // TOPICS
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.is_over = threading.Event()
        self.sent: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def complain(self, text: str) -> None:
        with self._lock:
            self.counts["wrong"] += 1
            if len(self.wrong) < MAX_TOLD:
                self.wrong.append(text)

    def repeat(self, work: Callable[[Client, random.Random], None], seed: int) -> None:
        """Do one kind of work on a connection of its own until the end."""
        dice = random.Random(seed)
        try:
            with closing(Client(self)) as client:
                while not self.is_over.is_set():
                    work(client, dice)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self.complain(f"{work.__name__}: {error!r}")

    def queue(self, dice: random.Random) -> tuple[int, int]:
        """Numbers of a topic and a queue."""
        return dice.randrange(TOPICS), dice.randrange(self.per_topic)

    # -- works ------------------------------------------------------------------------------------------------------

    def write(self, client: Client, dice: random.Random) -> None:
        topic, queue = self.queue(dice)
        number = len(self.sent)
        fields = {"a": "p", "b": f"many{topic}", "c": "TBW102", "d": "4", "e": str(queue), "f": "0"}
        fields |= {"g": "1700000000000", "h": "0", "j": "0", "k": "false", "m": "false"}
        fields["i"] = f"UNIQ_KEY\x01u{number}\x02KEYS\x01k{number % 500}\x02"
        body = b"%d %d " % (topic, queue) + b"." * dice.randrange(300)
        if client.ask(frames.SEND_V2, fields, body) is not None:
            self.sent.append((topic, queue))
            self.count("sent")

    def read(self, client: Client, dice: random.Random) -> None:
        topic, queue = dice.choice(self.sent or [(0, 0)])
        end = client.offset(MAX_OFFSET, topic, queue)
        offset = dice.randrange(max(end, 1))
        fields = {"consumerGroup": "c", "topic": f"many{topic}", "queueId": str(queue), "queueOffset": str(offset)}
        fields |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
        fields |= {"subscription": "*", "subVersion": "1"}
        answer = client.ask(PULL, fields)
        if answer is None or answer.code != SUCCESS:
            if offset < end:
                self.complain(f"many{topic}/{queue} has no message at {offset} of {end}: {answer and answer.header}")
            return
        for expected, found in enumerate(parse_records(answer.body), offset):
            self.count("read")
            if (found.queue_id, found.queue_offset) != (queue, expected) or not found.body.startswith(
                b"%d %d " % (topic, queue)
            ):
                self.complain(f"many{topic}/{queue} at {expected}: {found.topic}/{found.queue_id} {found.body[:20]!r}")

    def search(self, client: Client, dice: random.Random) -> None:
        topic, queue = self.queue(dice)
        client.offset(MIN_OFFSET, topic, queue)
        earliest = client.offset(EARLIEST, topic, queue)
        client.offset(SEARCH_OFFSET, topic, queue, timestamp=str(max(earliest, 0) + dice.randrange(5000)))
        self.count("searched")

    def tell(self, client: Client, dice: random.Random) -> None:
        client.ask(TOPIC_STATS, {"topic": f"many{dice.randrange(TOPICS)}"})
        topic, _ = dice.choice(self.sent or [(0, 0)])
        fields = {"topic": f"many{topic}", "key": f"k{dice.randrange(500)}", "maxNum": "32"}
        client.ask(QUERY, fields | {"beginTimestamp": "0", "endTimestamp": str(1 << 60)})
        self.count("told")


class Client:
    """One connection that asks one thing after the other."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._socket = socket.create_connection(load.address, timeout=30)

    def close(self) -> None:
        self._socket.close()

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Frame | None:
        """The answer; None, and a complaint, when it is an error."""
        self._socket.sendall(frames.request(code, fields, body).pack())
        answer = frames.read(self._socket)
        if answer is None:
            raise ConnectionError("closed")
        if answer.code not in EXPECTED.get(code, {SUCCESS}):
            self._load.complain(f"{code} {fields.get('topic', '')}: {answer.code} {answer.remark}")
            return None
        return answer

    def offset(self, code: int, topic: int, queue: int, **fields: str) -> int:
        answer = self.ask(code, {"topic": f"many{topic}", "queueId": str(queue), **fields})
        return 0 if answer is None else int(answer.fields.get("offset", answer.fields.get("timestamp", "0")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.many_queues", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--queues", type=int, default=3000)
    parser.add_argument("--open-files", type=int, default=16)
    parser.add_argument("--compiled", action="store_true", help="refuse to run unless the gateway is compiled")
    options = parser.parse_args(arguments)
    version = subprocess.run([*gateway_command(), "version"], capture_output=True, text=True, check=True).stdout.strip()
    print(version, flush=True)
    if options.compiled and "compiled" not in version:
        return 2
    root = Path(tempfile.mkdtemp(prefix="many-queues-"))
    settings = {"gateway.maxOpenConsumeQueueFiles": str(options.open_files), "mappedFileSizeConsumeQueue": "4000"}
    settings["gateway.maxConnections"] = "1000"  # more than the system allows would be a warning
    server = GatewayProcess(root / "data", settings, bind="127.0.0.1", advertise="127.0.0.1")
    server.start()
    load = Load(server.broker_port, options.queues)
    try:
        _run(load, options.minutes * 60)
        if not server.alive():
            load.complain(server.failure("ended"))
        server.stop()
    finally:
        server.kill()
    errors = [line for line in server.log.read_text().splitlines() if "level=error" in line or "level=warning" in line]
    verified = subprocess.run(
        [*gateway_command(), "store", "verify", str(root / "data")], capture_output=True, text=True
    )
    print(dict(load.counts), verified.stdout.strip()[-500:], *load.wrong, *errors[:MAX_TOLD], sep="\n", flush=True)
    if load.counts["wrong"] or verified.returncode or errors:
        print(f"the directory is kept: {root}", file=sys.stderr)
        return 1
    shutil.rmtree(root)
    return 0


def _run(load: Load, seconds: float) -> None:
    with closing(Client(load)) as maker:
        for topic in range(TOPICS):
            fields = {"topic": f"many{topic}", "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
            fields |= {"readQueueNums": str(load.per_topic), "writeQueueNums": str(load.per_topic)}
            maker.ask(17, fields | {"topicSysFlag": "0", "order": "false"})
    works = [load.write] * 3 + [load.read] * 3 + [load.search, load.tell]
    threads = [threading.Thread(target=load.repeat, args=(work, seed)) for seed, work in enumerate(works)]
    for thread in threads:
        thread.start()
    load.is_over.wait(seconds)
    load.is_over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
