"""The command: start a gateway and clients, cut, mend, and look at what became of the messages.

0: nothing acknowledged is lost, no call hung, and everybody went on afterwards; 1: it is not so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat_tests.environment import REPOSITORY, wait_until
from compat_tests.network_cut.cable import Cable
from compat_tests.peers import QUICK, GatewayProcess
from compat_tests.python_client_soak.clients import READERS
from gateway.client import AdminClient

MOST_CALL_S = 3.0 + 3.0 + 2.0
"""The time-out of a send; the one of connecting, for a commit after it; and what a busy machine adds."""
_AGAIN_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Findings:
    """The findings about a cut.

    :param told: the last line of the clients.
    :param back_s: how long after the cut was mended each stream was sent and received again.
    """

    told: dict[str, Any]
    cut_s: float
    back_s: float

    @property
    def wrong(self) -> list[str]:
        """Sentences; none when all is well."""
        found = []
        for topic, stream in self.told["streams"].items():
            found += [f"{topic}: {stream[kind]} {kind}" for kind in ("lost", "flipped") if stream[kind]]
        if self.told["slowest_s"] > MOST_CALL_S:
            found.append(f"a call took {self.told['slowest_s']:.1f} s")
        if not any(error.startswith(("RequestTimeout", "Connect")) for error in self.told["errors"]):
            found.append("nobody was told that anything is wrong")
        return found


class Clients:
    """The program at the far end."""

    def __init__(self, cable: Cable, nameserver: str, per_second: float, log: Path) -> None:
        command = [sys.executable, "-m", "compat_tests.network_cut.program", "--namesrv", nameserver]
        command += ["--per-second", str(per_second)]
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                cable.command(*command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=REPOSITORY,
            )
        self.told: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def has_sent_and_received(self, more_than: dict[str, Any] | None = None) -> bool:
        """Return whether every stream has sent and received since then."""
        assert self._process.poll() is None, self._log.read_text()[-4000:]
        streams = self.told.get("streams", {})
        before = more_than["streams"] if more_than else {}
        return len(streams) == len(READERS) and all(
            stream["sent"] > before.get(topic, {}).get("sent", 0)
            and sum(stream["received"].values()) > sum(before.get(topic, {}).get("received", {}).values())
            for topic, stream in streams.items()
        )

    def stop(self) -> dict[str, Any]:
        """Let it end; what it told last."""
        assert self._process.stdin is not None
        self._process.stdin.write("enough\n")
        self._process.stdin.flush()
        code = self._process.wait(150)
        self._thread.join(10)
        assert code == 0, self._log.read_text()[-4000:]
        return self.told

    def close(self) -> None:
        """End it, however it stands."""
        self._process.kill()
        self._process.wait()
        self._thread.join(10)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told = json.loads(line)


def run(seconds: float, directory: Path, *, per_second: float = 50.0) -> Findings:
    """Cut for so many seconds."""
    with Cable() as cable:
        # Checks come every second here, so a minute without answers must not be too many of them.
        settings = {**QUICK, "transactionCheckMax": "1000"}
        peer = GatewayProcess(directory / "data", settings, bind=cable.near, advertise=cable.near)
        peer.start()
        try:
            with AdminClient(namesrv=peer.nameserver) as admin:
                for topic in READERS:
                    admin.topics.create(topic, queues=4)
            clients = Clients(cable, peer.nameserver, per_second, directory / "clients.log")
            try:
                return _cut(cable, clients, seconds)
            finally:
                clients.close()
        finally:
            peer.stop()


def _cut(cable: Cable, clients: Clients, seconds: float) -> Findings:
    wait_until(clients.has_sent_and_received, "messages flow", timeout_s=_AGAIN_TIMEOUT_S)
    pause = threading.Event()
    cable.cut()
    pause.wait(seconds)
    before = clients.told
    cable.mend()
    begun = time.monotonic()
    wait_until(lambda: clients.has_sent_and_received(before), "messages flow again", timeout_s=_AGAIN_TIMEOUT_S)
    back_s = time.monotonic() - begun
    return Findings(clients.stop(), seconds, back_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.network_cut", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the network is cut (default: 60)")
    parser.add_argument("--per-second", type=float, default=50.0, help="messages of each producer (default: 50)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="network-cut-") as directory:
        findings = run(options.seconds, Path(directory), per_second=options.per_second)
    for topic, stream in findings.told["streams"].items():
        print(topic, stream)
    print(
        f"cut for {findings.cut_s:g} s; messages flowed again {findings.back_s:.1f} s after it was mended; "
        f"the longest call took {findings.told['slowest_s']:.1f} s; {len(findings.told['errors'])} errors, such as:"
    )
    kinds = {error.partition(":")[0]: error for error in findings.told["errors"]}
    print("\n".join([*kinds.values(), *findings.told["left_out"], *findings.wrong]))
    return 1 if findings.wrong else 0
