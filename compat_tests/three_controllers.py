"""Three controllers of Apache RocketMQ 5.5.0 and two gateways: the leading controller is killed, then the master.

    python -m compat_tests.three_controllers

The gateways have to follow the new leader, and it has to replace a master that dies afterwards. Then a second
controller is killed: nobody leads, and the master has to stop serving. When it is back, everything goes on.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests import frames
from compat_tests.environment import LABEL, bridge_gateway, owner, remove_leftovers, start_engine, wait_until
from compat_tests.failovers import running_pair
from compat_tests.images import image
from gateway.client.testing.server import free_port

LEADER = 1005
SERVED_S = 60.0
_NO_LEADER_S = 30.0


class Controllers:
    """Some controllers that elect their leader."""

    def __init__(self, count: int) -> None:
        self.addresses = [(bridge_gateway(), free_port()) for _ in range(count)]
        peers = ";".join(f"n{number}-{host}:{port}" for number, (host, port) in enumerate(self.addresses))
        self._containers = [
            DockerContainer(image("rocketmq", "5.5.0"))
            .with_kwargs(labels={LABEL: owner()}, network_mode="host")
            .with_env("ROLE", "controller")
            .with_env("CONTROLLER_ID", f"n{number}")
            .with_env("CONTROLLER_PEERS", peers)
            .waiting_for(LogMessageWaitStrategy("The Controller Server boot success").with_startup_timeout(120))
            for number in range(count)
        ]

    @property
    def told(self) -> str:
        """The setting ``controllerAddr`` of a member."""
        return ";".join(f"{host}:{port}" for host, port in self.addresses)

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as stack:
            for container in self._containers:
                stack.enter_context(container)
            yield

    def leader(self) -> tuple[str, int] | None:
        """Ask all; the one that says that it leads."""
        for address in self.addresses:
            try:
                answer = frames.ask(address, frames.request(LEADER))
            except OSError:
                continue
            if answer is not None and answer.fields.get("isLeader") == "true":
                return address
        return None

    def wait_for_leader(self, *others: tuple[str, int]) -> tuple[str, int]:
        wait_until(lambda: self.leader() not in (None, *others), "a leader", timeout_s=SERVED_S)
        leader = self.leader()
        assert leader is not None
        return leader

    def kill(self, address: tuple[str, int]) -> None:
        self._containers[self.addresses.index(address)].get_wrapped_container().kill()

    def start_again(self, address: tuple[str, int]) -> None:
        self._containers[self.addresses.index(address)].get_wrapped_container().start()


def play(root: Path, controllers: Controllers) -> None:
    """Kill the leader, then the master, then the next leader."""
    first = controllers.wait_for_leader()
    with running_pair(root, first, {"controllerAddr": controllers.told}) as pair:
        for _ in range(20):
            wait_until(lambda: pair.send(pair.brokers[0]), "a message is taken")
        controllers.kill(first)
        begun = time.monotonic()
        pair.controllers = second = controllers.wait_for_leader(first)
        print(f"another controller leads after {time.monotonic() - begun:.1f} s", flush=True)
        wait_until(lambda: pair.send(pair.brokers[0]), "the master serves under the new leader", timeout_s=SERVED_S)
        pair.wait_for_set()
        print(f"both members are in its set after {time.monotonic() - begun:.1f} s", flush=True)
        print(f"the master was killed, another one took messages after {pair.switch():.1f} s", flush=True)
        pair.brokers[1].start()
        pair.wait_for_set()
        controllers.kill(second)
        begun = time.monotonic()
        wait_until(lambda: not pair.send(pair.brokers[0]), "the master stops", timeout_s=_NO_LEADER_S)
        print(f"nobody led: the master stopped after {time.monotonic() - begun:.1f} s", flush=True)
        controllers.start_again(first)
        pair.controllers = controllers.wait_for_leader()
        wait_until(lambda: pair.send(pair.brokers[0]), "the master serves again", timeout_s=SERVED_S)
        print(f"it served again {time.monotonic() - begun:.1f} s after the kill", flush=True)
        pair.wait_for_set()
        assert pair.bodies(pair.brokers[0]) == pair.sent
        print(f"{pair.sent} acknowledged, lost 0", flush=True)


def main() -> None:
    start_engine()
    try:
        controllers = Controllers(3)
        with tempfile.TemporaryDirectory() as root, controllers.running():
            play(Path(root), controllers)
    finally:
        remove_leftovers()


if __name__ == "__main__":
    main()
