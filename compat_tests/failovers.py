"""Two gateways and a controller of Apache RocketMQ 5.5.0: the master is killed again and again, and times are taken.

    python -m compat_tests.failovers [N]     kills the master N times (10), and prints each time without a master

A time begins with the kill and ends when a send is answered SEND_OK by the other gateway. Every message that was
answered SEND_OK has to be at its offset in the end.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests import frames
from compat_tests.environment import LABEL, owner, remove_leftovers, start_engine, wait_until
from compat_tests.images import image
from compat_tests.peers import QUICK, container_address
from compat_tests.test_slave import Broker, NameServer, own_address
from wire.bodies.fastjson import parse_json

PORT = 9878
TOPIC = "switched"
SEND, PULL, EPOCHS, REPLICA_INFO = 310, 11, 1007, 1004
MEMBER = {
    **QUICK,
    "brokerName": "broker-a",
    "enableControllerMode": "true",
    "minInSyncReplicas": "1",
    "mappedFileSizeCommitLog": str(10 * 1024 * 1024),
}


@contextmanager
def controller() -> Iterator[tuple[str, int]]:
    """Run one controller, and yield its address."""
    container = (
        DockerContainer(image("rocketmq", "5.5.0"))
        .with_kwargs(labels={LABEL: owner()})
        .with_env("ROLE", "controller")
        .waiting_for(LogMessageWaitStrategy("The Controller Server boot success").with_startup_timeout(120))
    )
    with container:
        yield container_address(container), PORT


def sending(group: str, topic: str, body: bytes, born_ms: int = 1_700_000_000_000) -> frames.Frame:
    """Return the request that sends a message to the first queue of a topic."""
    fields = {"a": group, "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "h": "0", "j": "0"}
    return frames.request(SEND, fields | {"g": str(born_ms), "i": "", "k": "false"}, body)


@contextmanager
def logs_if_it_fails(brokers: Iterable[Broker]) -> Iterator[None]:
    """Print the end of what each broker logged if the block fails."""
    try:
        yield
    except BaseException:
        for broker in brokers:
            if broker.log.exists():
                print(broker.log.read_text()[-8000:])
        raise


class Pair:
    """A name server and two members of one broker name."""

    def __init__(self, root: Path, controllers: tuple[str, int], settings: dict[str, str] | None = None) -> None:
        self.controllers = controllers
        host, port = controllers
        told = {**MEMBER, "controllerAddr": f"{host}:{port}", **(settings or {})}
        self.name = told["brokerName"]
        self.names = NameServer(root)
        own = {"gateway.advertise": own_address()}
        self.brokers = [Broker(self.names, root / f"b{number}", {**told, **own}) for number in (1, 2)]
        self.sent = 0

    def start(self) -> None:
        """Start all three, and return when both members have everything."""
        self.names.start()
        for broker in self.brokers:
            broker.start()
        self.wait_for_set()

    def stop(self) -> None:
        for server in (*self.brokers, self.names):
            server.kill()

    def wait_for_set(self) -> None:
        """Wait until both members are in the sync state set."""
        wait_until(lambda: self.sync_state_set() == [1, 2], "both members in the sync state set", timeout_s=60)

    def sync_state_set(self) -> list[int]:
        answer = frames.ask(self.controllers, frames.request(REPLICA_INFO, {"brokerName": self.name}))
        assert answer is not None
        return sorted(parse_json(answer.body)["syncStateSet"]) if answer.body else []

    def send(self, broker: Broker, timeout_s: float = 3.0) -> bool:
        """Send the next message; return whether it was answered SEND_OK, at the next offset."""
        request = sending("switcher", TOPIC, str(self.sent).encode(), born_ms=self.sent + 1)
        try:
            answer = frames.ask(broker.address, request, timeout_s=timeout_s)
        except OSError:
            return False
        if answer is None or answer.code != 0:
            return False
        assert int(answer.fields["queueOffset"]) == self.sent, "no acknowledged message is missing before it"
        self.sent += 1
        return True

    def bodies(self, broker: Broker) -> int:
        """Return how many messages the queue has."""
        answer = frames.ask(broker.address, frames.request(30, {"topic": TOPIC, "queueId": "0"}))
        assert answer is not None
        return int(answer.fields["offset"])

    def switch(self) -> float:
        """Kill the master; return the seconds until the other one takes a message."""
        dead, alive = self.brokers
        begun = time.monotonic()
        dead.kill()
        wait_until(lambda: self.send(alive), "the other member takes messages", timeout_s=30)
        passed = time.monotonic() - begun
        self.brokers.reverse()
        return passed


@contextmanager
def running_pair(root: Path, controllers: tuple[str, int], settings: dict[str, str] | None = None) -> Iterator[Pair]:
    """A pair whose members have everything, stopped in the end; what they logged is shown if the block fails."""
    pair = Pair(root, controllers, settings)
    try:
        with logs_if_it_fails(pair.brokers):
            pair.start()
            yield pair
    finally:
        pair.stop()


def main(times: int) -> None:
    start_engine()
    try:
        with tempfile.TemporaryDirectory() as root, controller() as address, running_pair(Path(root), address) as pair:
            taken = []
            for number in range(times):
                for _ in range(20):
                    wait_until(lambda: pair.send(pair.brokers[0]), "a message is taken")
                taken.append(pair.switch())
                print(f"switch {number + 1}: {taken[-1]:.2f} s", flush=True)
                pair.brokers[1].start()
                pair.wait_for_set()
            assert pair.bodies(pair.brokers[0]) == pair.sent
            print(f"median {statistics.median(taken):.2f} s, longest {max(taken):.2f} s, {pair.sent} messages")
    finally:
        remove_leftovers()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
