"""The broker of a soak: `rocketmq-gateway serve` with files so small that they roll every few seconds.

Besides starting and killing it can be launched without waiting, paused, and told that its disk fails.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from compat_tests import frames
from compat_tests.peers import QUICK, GatewayProcess, gateway_command
from compat_tests.soak.failing_files import Fired, Order, fired_path
from wire.disk.config_json import ConsumerOffsetsFile

QUERY_CONSUMER_OFFSET = 14
REFUSED_START_S = 30.0
RETENTION_INTERVAL_MS = 100
_PORTS = range(20_000, 32_000, 4)
"""Below those that Linux gives to outgoing connections: nobody shall get ours while the broker is dead."""
REFUSED_BELOW_BYTES = 2 * 1024 * 1024
AGED_S = 2 * 3600
"""Older than ``fileReservedTime``."""

SETTINGS = {
    **QUICK,
    "mappedFileSizeCommitLog": str(1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 500),
    "maxHashSlotNum": "500",
    "maxIndexNum": "4000",
    "maxMessageSize": "65536",
    "fileReservedTime": "1",
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    "cleanResourceInterval": str(RETENTION_INTERVAL_MS),
    # Deletion is asked for file by file, see `age`; a small disk must not delete what nobody has read.
    "diskMaxUsedSpaceRatio": "100",
    "diskSpaceCleanForciblyRatio": "100",
    # Of a full disk both are wanted: refusals by the free space, and writes that find none.
    "gateway.diskMeasuredBytes": str(REFUSED_BELOW_BYTES * 10),
    "diskSpaceWarningLevelRatio": "90",
}


class SoakedBroker(GatewayProcess):
    """One store directory, served again and again.

    :param settings: others than those of every soak.
    :param failing: serve through a disk that fails on order; a little slower.
    :param beside: a directory for its log and the order.
    """

    def __init__(self, data: Path, settings: Mapping[str, str], *, failing: bool, beside: Path) -> None:
        super().__init__(data, {**SETTINGS, **settings}, ports=steady_ports())
        self.log = beside / "broker.log"
        self.order_path = beside / "order.json"
        self.saved_offsets: Mapping[str, Mapping[int, int]] = {}
        if failing:
            launcher = [sys.executable, "-m", "compat_tests.soak.failing_broker", str(self.order_path)]
            self.command = [*launcher, *self.command[len(gateway_command()) :]]
        self.start_times_s: list[float] = []
        self.kills = 0

    def start(self) -> None:
        """On a disk that is well again."""
        self._forget_order()
        self.saved_offsets = _saved_offsets(self.data / "config" / "consumerOffset.json")
        super().start()
        self.start_times_s.append(self.start_seconds)

    def kill(self) -> None:
        self.kills += self.alive()
        super().kill()

    def _forget_order(self) -> None:
        self.order_path.unlink(missing_ok=True)
        fired_path(self.order_path).unlink(missing_ok=True)

    def launch_and_kill(self, after_s: float) -> None:
        """Start, and kill before or after it is ready: whatever ``after_s`` hits."""
        self._forget_order()
        self.launch()
        time.sleep(after_s)  # noqa: TID251 - another process is under way
        self.kill()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def fail_disk(self, order: Order) -> None:
        order.write(self.order_path)

    def fired(self) -> Fired | None:
        return Fired.read(self.order_path)

    def refused_start(self) -> tuple[int, str]:
        """Start where that cannot work: the exit code and the last line of what it says."""
        done = subprocess.run(self.command, capture_output=True, text=True, timeout=REFUSED_START_S, check=False)
        said = [line for line in done.stderr.splitlines() if line.startswith("Error:")]
        return done.returncode, said[-1] if said else done.stderr[-500:]

    # -- its files --------------------------------------------------------------------------------------------

    def log_files(self) -> list[Path]:
        """The files of the commit log, oldest first."""
        return sorted((self.data / "commitlog").glob("[0-9]*"))

    def made_files(self) -> int:
        """Return how many files of log, queues and index there are; a roll makes one more."""
        return sum(len(names) for part in ("commitlog", "consumequeue", "index") for names in _names(self.data / part))

    def age(self, files: list[Path]) -> None:
        """Make log files so old that retention deletes them at its next look."""
        moment = time.time() - AGED_S  # noqa: TID251 - files carry the time of the wall
        for file in files:
            if file.exists():
                os.utime(file, (moment, moment))

    def committed(self, topic: str, group: str, queue: int) -> int:
        """Return the group's offset in a queue, as the broker says; −1 if the broker knows none."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue)}
        answer = frames.ask(("127.0.0.1", self.broker_port), frames.request(QUERY_CONSUMER_OFFSET, fields))
        return int(answer.fields["offset"]) if answer is not None and answer.code == 0 else -1


def steady_ports() -> tuple[int, int]:
    """A broker port P, with P - 2 free as well, and a name-server port."""
    return next((port, port + 1) for port in random.sample(_PORTS, len(_PORTS)) if _are_free(port - 2, port, port + 1))


def _are_free(*ports: int) -> bool:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                return False
    return True


def _saved_offsets(path: Path) -> Mapping[str, Mapping[int, int]]:
    """Return the offsets that a kill left in the file, which is whole, because it is replaced and never overwritten."""
    return ConsumerOffsetsFile.parse(path.read_bytes()).offset_table if path.exists() else {}


def _names(directory: Path) -> list[list[str]]:
    return [names for _, _, names in os.walk(directory)]
