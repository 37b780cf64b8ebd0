"""Groups with a controller of Apache RocketMQ 5.5.0 whose members are gateways or brokers of Apache RocketMQ 5.5.0.

    python -m compat_tests.mixed_groups gateway apache          the gateway is the first master, and comes back
    python -m compat_tests.mixed_groups apache gateway          the broker of Apache RocketMQ is
    python -m compat_tests.mixed_groups gateway apache idle     nothing was stored in the first epoch
    python -m compat_tests.mixed_groups apache apache idle      the same with 5.5.0 alone, which fails
    python -m compat_tests.mixed_groups gateway apache 20       twenty switches instead of two

The first master is sent messages that its slave gets, is told to send its slave nothing, is sent one more, and is
killed. The other member is sent messages. The first one comes back, and what nobody else had has to be cut off. Both
logs have to be equal, with every message that was answered SEND_OK once. Then the other member loses its place in the
same way. With ``idle`` nothing is stored before the message that nobody else gets, so that the epochs of both logs of
5.5.0 are equal and their records are not. A broker of 5.5.0 that was the first master then stays away: `apache gateway
idle` waits for it in vain.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compat_tests import frames
from compat_tests.environment import bridge_gateway, remove_leftovers, start_engine, wait_until
from compat_tests.failovers import MEMBER, REPLICA_INFO, TOPIC, controller, logs_if_it_fails, sending
from compat_tests.peers import ApacheBroker
from compat_tests.test_replication import log_in, wait_for_equal_logs
from compat_tests.test_slave import Broker, NameServer
from wire.bodies.fastjson import parse_json

UPDATE_CONFIG = 25
LACKED = "nobody else has this"
MAX_S = 240
APACHE_MEMBER = {
    "allAckInSyncStateSet": "true",
    "flushDiskType": "SYNC_FLUSH",
    "brokerRole": "SLAVE",
    "brokerId": "-1",
}


class MixedGroup:
    """A name server, two members, and a controller that is given."""

    def __init__(self, root: Path, controllers: tuple[str, int], kinds: list[str], name: str) -> None:
        self.controllers = controllers
        self.name = name
        host, port = controllers
        settings = {**MEMBER, "brokerName": name, "controllerAddr": f"{host}:{port}", "haFlowControlEnable": "true"}
        self.names = NameServer(root)
        self.members: list[Any] = []
        for number, kind in enumerate(kinds, 1):
            data = root / f"{kind}-{number}"
            if kind == "gateway":
                self.members.append(Broker(self.names, data, {**settings, "gateway.advertise": bridge_gateway()}))
            else:
                known = {key: value for key, value in settings.items() if not key.startswith("gateway.")}
                self.members.append(ApacheBroker(self.names.nameserver_port, data, {**known, **APACHE_MEMBER}, MAX_S))
        self.acknowledged: dict[bytes, int] = {}
        self.sent = 0
        self.without_master_s: list[float] = []

    def ask(self, address: tuple[str, int], request: frames.Frame) -> frames.Frame | None:
        """Return the answer of a server; None if it gives none in time."""
        try:
            return frames.ask(address, request)
        except OSError:
            return None

    def sync_state_set(self) -> list[int]:
        answer = self.ask(self.controllers, frames.request(REPLICA_INFO, {"brokerName": self.name}))
        return sorted(parse_json(answer.body)["syncStateSet"]) if answer is not None and answer.body else []

    def wait_for_set(self) -> None:
        wait_until(lambda: self.sync_state_set() == [1, 2], "both members in the sync state set", timeout_s=MAX_S)

    def send(self, member: Any, name: str) -> int | None:
        """Send a message that nothing else is like; return the code of the answer."""
        self.sent += 1
        body = f"<{name} {self.sent}>".encode()
        answer = self.ask(member.address, sending("mixed", TOPIC, body))
        if answer is not None and answer.code == 0:
            self.acknowledged[body] = int(answer.fields["queueOffset"])
        return None if answer is None else answer.code

    def send_all(self, member: Any, name: str, count: int) -> None:
        for _ in range(count):
            wait_until(lambda: self.send(member, name) == 0, f"{name} is taken", timeout_s=MAX_S)

    def start(self) -> None:
        """Start all; the first member is the master."""
        master, other = self.members
        self.names.start()
        master.start()
        wait_until(lambda: self.sync_state_set() == [1], "a master", timeout_s=MAX_S)
        other.start()
        self.wait_for_set()

    def lose_place(self, master: Any, other: Any, name: str) -> None:
        """Let a master lose its place with a message that nobody else has, and come back as a slave without it."""
        self._let_through(master, 0)
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun > 1.5, "the second is over in which the slave was sent more")
        code = self.send(master, LACKED)
        assert code != 0, "acknowledged without the other member"
        killed = time.monotonic()
        master.kill()
        wait_until(lambda: self.send(other, name) == 0, "the other member takes messages", timeout_s=MAX_S)
        self.without_master_s.append(time.monotonic() - killed)
        master.start()
        self.wait_for_set()
        self._let_through(master, 100 * 1024 * 1024)
        self.send_all(other, f"{name} by both", 20)
        self.wait_for_equal()

    def _let_through(self, master: Any, size: int) -> None:
        limit = frames.request(UPDATE_CONFIG, {}, b"maxHaTransferByteInSecond=%d" % size)
        wait_until(lambda: self.ask(master.address, limit) is not None, "what slaves are sent in a second is set")

    def judge(self) -> str:
        """Compare what is stored with what was answered; return the account."""
        log = log_in(self.members[0].data)
        lost = [body for body in self.acknowledged if log.count(body) == 0]
        doubled = [body for body in self.acknowledged if log.count(body) > 1]
        assert not lost, f"acknowledged and lost: {lost}"
        assert not doubled, f"acknowledged and stored twice: {doubled}"
        places = list(self.acknowledged.values())
        assert len(set(places)) == len(places), "two acknowledged messages have one place"
        assert log.count(f"<{LACKED}".encode()) == 0, "the end that nobody else had is still there"
        without = ", ".join(f"{seconds:.1f}" for seconds in self.without_master_s)
        return f"{len(places)} acknowledged, lost 0, doubled 0; seconds without a master: {without}; equal logs"

    def wait_for_equal(self) -> None:
        wait_for_equal_logs(*(member.data for member in self.members), timeout_s=60)

    def stop(self) -> None:
        for member in self.members:
            member.kill() if isinstance(member, Broker) else member.remove()
        self.names.kill()


@contextmanager
def mixed_group(root: Path, controllers: tuple[str, int], kinds: list[str]) -> Iterator[MixedGroup]:
    """A group; what its gateways logged is shown if something fails."""
    root.mkdir()
    group = MixedGroup(root, controllers, kinds, f"broker-{root.name}")
    try:
        with logs_if_it_fails(member for member in group.members if isinstance(member, Broker)):
            yield group
    finally:
        group.stop()


def main(first: str, second: str, *others: str) -> None:
    start_engine()
    try:
        with (
            tempfile.TemporaryDirectory() as root,
            controller() as address,
            mixed_group(Path(root) / "a", address, [first, second]) as group,
        ):
            group.start()
            one, other = group.members
            if "idle" not in others:
                group.send_all(one, "first", 20)
                group.wait_for_equal()
            for number in range(1, max(map(int, filter(str.isdigit, others)), default=2) + 1):
                group.lose_place(one, other, f"switch {number}")
                print(f"{first} {second}, switch {number}: {group.judge()}", flush=True)
                one, other = other, one
    finally:
        remove_leftovers()


if __name__ == "__main__":
    main(*sys.argv[1:])
