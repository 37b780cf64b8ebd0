"""Timer messages with random delays while the broker is killed: none lost, and doubles counted.

    python -m compat_tests.timers_load                                   100,000 messages, 10 kill -9
    python -m compat_tests.timers_load --messages 20000 --kills 3 --peer rocketmq-5.5.0
    python -m compat_tests.timers_load --peer gateway-host --peer rocketmq-5.5.0      beside the control

At the end the log itself is read. Every message that a producer knows to be stored must be delivered; a message that
was stored once and delivered twice is doubled by the broker, one that its client sent again is not counted. The exit
code is 1 when the gateway lost one.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from compat_tests.environment import start_engine
from compat_tests.killed_load import KILLS, MESSAGES, PATIENCE_S, PEERS
from compat_tests.peers import ApacheContainer, GatewayProcess, Peer, free_ports
from gateway.client import AdminClient, Message, Producer, ProducerSettings, RocketMQError
from gateway.metadata.names import WHEEL_TIMER_TOPIC
from gateway.settings.store import StoreSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from wire.message.record import StoredMessage, parse_records

TOPIC = "timers"
THREADS = 16
LONGEST_S = 20.0
SETTLE_S = 15.0
"""When nothing is delivered for so long, what is missing is lost."""
SETTINGS = {
    "brokerName": "broker-a",
    "mappedFileSizeCommitLog": "104857600",
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
    "gateway.diskMeasuredBytes": "0",
}
STORE = StoreSettings(
    mapped_file_size_commit_log=104_857_600, max_hash_slot_num=100_000, max_index_num=400_000, disk_measured_bytes=0
)


@dataclass(slots=True)
class Account:
    """The fate of the messages."""

    peer: str
    kills: int
    acknowledged: int
    stored: int
    delivered: int
    lost: int
    doubled: int
    sent_again: int
    early: int
    late_p50_ms: int
    late_p99_ms: int

    def lines(self) -> list[str]:
        """Return the lines of the account, for people."""
        return [
            f"{self.peer}: {self.acknowledged:,} acknowledged, {self.stored:,} stored, {self.kills} kills",
            f"  lost {self.lost}, doubled by the broker {self.doubled}, early {self.early}",
            f"  sent again by their clients {self.sent_again}",
            f"  late: p50 {self.late_p50_ms} ms, p99 {self.late_p99_ms} ms (with the time the broker was away)",
        ]


def pause(seconds: float) -> None:
    """While the broker and the producers work."""
    time.sleep(seconds)  # noqa: TID251 - real processes


class Load:
    """Producers that go on until all messages are sent."""

    def __init__(self, nameserver: str, count: int, seed: int) -> None:
        self._nameserver = nameserver
        self._numbers = iter(range(count))
        self._lock = threading.Lock()
        self._seed = seed
        self.acknowledged: set[int] = set()
        self.threads = [threading.Thread(target=self._send, args=(number,)) for number in range(THREADS)]

    def _send(self, thread: int) -> None:
        random = Random(f"{self._seed} {thread}")
        settings = ProducerSettings(namesrv=self._nameserver, send_msg_timeout=3.0)
        with Producer(f"timers_{thread}", settings) as producer:
            while (number := self._next()) is not None:
                delay = random.uniform(0.2, LONGEST_S)
                message = Message(TOPIC, b"%d" % number, delay=delay)
                with suppress(RocketMQError, OSError):
                    producer.send(message)
                    self.acknowledged.add(number)

    def _next(self) -> int | None:
        with self._lock:
            return next(self._numbers, None)


def run(peer_name: str, directory: Path, count: int, kills: int, seed: int) -> Account:
    """One load on one peer."""
    peer = _peer(peer_name, directory)
    peer.start()
    random = Random(seed)
    try:
        load = Load(peer.nameserver, count, seed)
        for thread in load.threads:
            thread.start()
        done = 0
        while done < kills:
            pause(random.uniform(2.0, 6.0))
            peer.kill()
            done += 1
            peer.start()
        for thread in load.threads:
            thread.join()
        pause(LONGEST_S)
        settle(peer)
    finally:
        peer.stop()
    return account(peer_name, directory, load.acknowledged, done)


def settle(peer: Peer) -> None:
    """Wait until no more is delivered; a busy machine may be late with many at once."""
    before, now = -1, 0
    with AdminClient(namesrv=peer.nameserver) as admin:
        while now != before:
            pause(SETTLE_S)
            with suppress(RocketMQError):  # too busy to say so
                before, now = now, sum(queue.max_offset for queue in admin.topics.stats(TOPIC).values())


def _peer(name: str, directory: Path) -> Peer:
    ports = free_ports()
    if name == "gateway-host":
        return GatewayProcess(directory, SETTINGS, bind="127.0.0.1", ports=ports, start_timeout_s=PATIENCE_S)
    directory.mkdir(parents=True, exist_ok=True)
    start_engine()
    settings = {key: value for key, value in SETTINGS.items() if not key.startswith("gateway.")}
    return ApacheContainer(settings, store=directory, ports=ports, orderly=True)


def account(peer: str, directory: Path, acknowledged: set[int], kills: int) -> Account:
    """Read the log."""
    store = MessageStore(directory, STORE, StoreSurroundings(clock_ms=lambda: int(time.time() * 1000)))  # noqa: TID251 - a clock for a reader
    store.open()
    try:
        stored = Counter(
            int(m.body) for m in read(store, WHEEL_TIMER_TOPIC) if "TIMER_ROLL_TIMES" not in m.property_map
        )
        records = read(store, TOPIC)
    finally:
        store.close()
    delivered = Counter(int(m.body) for m in records)
    waited = [m for m in records if "TIMER_OUT_MS" in m.property_map]
    late = sorted(m.stored_at_ms - m.born_at_ms - int(m.property_map["TIMER_DELAY_MS"]) for m in waited) or [0]
    return Account(
        peer,
        kills,
        len(acknowledged),
        sum(stored.values()),
        sum(delivered.values()),
        lost=sum(number not in delivered for number in acknowledged),
        doubled=sum(max(0, times - max(stored[number], 1)) for number, times in delivered.items()),
        sent_again=sum(times - 1 for times in stored.values()),
        early=sum(each < 0 for each in late),
        late_p50_ms=late[len(late) // 2],
        late_p99_ms=late[len(late) * 99 // 100],
    )


def read(store: MessageStore, topic: str) -> list[StoredMessage]:
    """Every message of a topic."""
    found: list[StoredMessage] = []
    for name, queue_id in store.queues():
        offset = max(store.min_offset(name, queue_id), 0)
        while name == topic and offset < store.max_offset(topic, queue_id):
            result = store.get_messages(topic, queue_id, offset, 1_000, 1 << 24)
            found += parse_records(b"".join(result.parts))
            offset = result.next_begin_offset
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.timers_load", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", action="append", choices=PEERS)
    options = parser.parse_args(arguments)
    failed = False
    for peer in options.peer or ["gateway-host"]:
        directory = Path(tempfile.mkdtemp(prefix="timers-")) / "store"
        found = run(peer, directory, options.messages, options.kills, options.seed)
        print("\n".join(found.lines()), flush=True)
        if peer == "gateway-host" and (found.lost or found.doubled):
            failed = True
            print(f"  the store is kept: {directory}")
        else:
            shutil.rmtree(directory.parent, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
