"""Copies that are none: a stray peer that acknowledges everything, and a slave that is ahead of its master.

    python -m compat_tests.false_copies gateway gateway     master and slave are gateways
    python -m compat_tests.false_copies gateway apache      the slave is a broker of Apache RocketMQ 5.5.0
    python -m compat_tests.false_copies apache gateway      the master is
    python -m compat_tests.false_copies apache apache       the control: 5.5.0 alone, which fails

The master is a SYNC_MASTER with ``inSyncReplicas=2``. First it has no slave, and a connection to its port for slaves
reports far more than there is: no message may be answered SEND_OK. Then a slave has three messages more than the
master, which comes back with an older disk and is sent three others: a message may be answered SEND_OK only if it is in
the logs of both, and both logs are equal up to there. Exits with 1 otherwise. A gateway as the slave of Apache
RocketMQ's master cannot keep that master from believing strangers; then only the second part is judged.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from compat_tests import frames
from compat_tests.environment import remove_leftovers, start_engine, wait_until
from compat_tests.failovers import sending
from compat_tests.peers import APACHE_ONLY, ApacheBroker
from compat_tests.test_replication import log_in
from compat_tests.test_slave import FILES, SYNC, Broker, NameServer, own_address
from wire.replication.classic import build_report

TOPIC = "copied"
MAX_S = 120
LOOKS_AGAIN_S = 30
"""The time in which a slave of either kind connects again after its master came back."""
FAR = 1_000_000_000
AHEAD = 3
SLAVE = {**FILES, "brokerName": "broker-a", "brokerRole": "SLAVE", "brokerId": "1"}


def broker(kind: str, names: NameServer, data: Path, settings: dict[str, str]) -> Any:
    """Return a broker of this kind, not yet started."""
    if kind == "apache":
        known = {key: value for key, value in settings.items() if "gateway." not in key}
        return ApacheBroker(names.nameserver_port, data, {**known, **APACHE_ONLY}, MAX_S)
    return Broker(names, data, {**settings, "gateway.advertise": own_address()})


def pass_time(seconds: float, what: str) -> None:
    """Wait for something that nobody tells."""
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() - begun > seconds, what, timeout_s=MAX_S)


class Pair:
    """A name server, a master, and a slave that is started later."""

    def __init__(self, root: Path, kinds: list[str]) -> None:
        self.names = NameServer(root)
        self.master = broker(kinds[0], self.names, root / "master", SYNC)
        self.slave = broker(kinds[1], self.names, root / "slave", SLAVE)
        self._older = root / "older"
        self._sent = 0
        self.wrong: list[str] = []

    def send(self) -> tuple[bytes, int | None]:
        """Send a message that nothing else is like; return its body and the code of the answer, None without one."""
        self._sent += 1
        body = b"<%d>" % self._sent
        try:
            answer = frames.ask(self.master.address, sending("senders", TOPIC, body))
        except OSError:
            answer = None
        return body, None if answer is None else answer.code

    def stray(self) -> None:
        """Let somebody acknowledge everything, and send two messages."""
        place = self.master.address[0], self.master.address[1] + 1
        with suppress(ConnectionError), socket.create_connection(place, timeout=10) as stranger:
            stranger.sendall(build_report(FAR))
            pass_time(1, "the report is read")
            codes = [self.send()[1] for _ in range(2)]
            print(f"a stray peer acknowledges everything: two sends are answered {codes}", flush=True)
            if 0 in codes:
                self.wrong.append("a send was answered SEND_OK, and no copy exists")

    def ahead(self) -> None:
        """Give the master an older disk than its slave has, and send three messages."""
        self.send()
        self.master.stop()
        shutil.copytree(self.master.data, self._older)
        self.master.start()
        self.slave.start()
        for _ in range(AHEAD):
            wait_until(lambda: self.send()[1] == 0, "a send is answered SEND_OK", timeout_s=MAX_S)
        wait_until(self._equal, "equal logs", timeout_s=MAX_S)
        self.master.stop()
        for path in self.master.data.iterdir():  # the directory itself is the container's
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self._older, self.master.data, dirs_exist_ok=True)
        self.master.start()
        pass_time(LOOKS_AGAIN_S, "the slave connects again")
        told = [self.send() for _ in range(3)]
        pass_time(3, "what is on its way to the slave arrives")
        master, slave = log_in(self.master.data), log_in(self.slave.data)
        print(f"a slave is ahead by {AHEAD} messages: three sends are answered {[code for _, code in told]}")
        print(
            f"the logs have {len(master)} and {len(slave)} bytes and are {'equal' if master == slave else 'NOT equal'}"
        )
        for body, code in told:
            end = master.find(body) + len(body)
            if code == 0 and (body not in slave or master[:end] != slave[:end]):
                self.wrong.append(f"{body.decode()} was answered SEND_OK, and the slave has another log")

    def _equal(self) -> bool:
        return log_in(self.master.data) == log_in(self.slave.data)


def main(kinds: list[str]) -> None:
    """Play both parts, and exit with 1 if a copy was claimed that is none."""
    start_engine()
    with tempfile.TemporaryDirectory(prefix="false-copies-") as directory:
        pair = Pair(Path(directory), kinds)
        try:
            pair.names.start()
            pair.master.start()
            pair.stray()
            if kinds[0] == "apache" and kinds[1] != "apache":
                pair.wrong.clear()
            pair.ahead()
        finally:
            for each in (pair.slave, pair.master):
                each.remove() if isinstance(each, ApacheBroker) else each.stop()
            pair.names.stop()
            remove_leftovers()
    for wrong in pair.wrong:
        print("WRONG:", wrong)
    print(f"{' + '.join(kinds)}: {'FAILS' if pair.wrong else 'holds'}")
    sys.exit(1 if pair.wrong else 0)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not set(sys.argv[1:]) <= {"apache", "gateway"}:
        sys.exit(__doc__)
    main(sys.argv[1:])
