"""The Docker engine of a test run: settings that testcontainers reads when imported, start, and clearing up.

Import this module before anything of testcontainers.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from ipaddress import ip_network
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent

# Every container of these tests carries it, so that those of a killed run can be found and removed.
LABEL = "rocketmq-gateway.compat-test"

# Without a reachable image registry testcontainers cannot fetch its reaper image, and every test would fail.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
# Stops testcontainers from looking for an outer container's network where /.dockerenv happens to exist.
if Path("/var/run/docker.sock").exists():
    os.environ.setdefault("DOCKER_HOST", "unix:///var/run/docker.sock")
    os.environ.setdefault("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")


def start_engine() -> None:
    """Start the engine and make the base image, by the scripts in `docker/`; no-ops where both are there."""
    for script in ("start-engine", "base-image"):
        path = REPOSITORY / "docker" / script
        done = subprocess.run([str(path)], capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"docker/{script} failed:\n{done.stdout}{done.stderr}")
    os.environ.setdefault("DOCKER_HOST", "unix:///var/run/docker.sock")
    os.environ.setdefault("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")


def owner() -> str:
    """Return the label that this process gives its containers: process id and start time."""
    return f"{os.getpid()}-{_started(os.getpid())}"


def _started(process_id: int) -> str:
    """Return when a process started, in clock ticks since boot; "" if it is gone (or the system has no /proc)."""
    path = Path(f"/proc/{process_id}/stat")
    return path.read_text().rpartition(")")[2].split()[19] if path.exists() else ""


def _abandoned(label: str) -> bool:
    process_id, _, started = label.partition("-")
    return label == owner() or not process_id.isdigit() or _started(int(process_id)) != started


def remove_leftovers() -> None:
    """Remove this run's containers and those of runs that are no more; another run at the same time keeps its own."""
    with engine() as client:
        for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
            if _abandoned(container.labels[LABEL]):
                _remove(container)


def _remove(container: Any) -> None:
    from docker.errors import APIError

    try:
        container.remove(force=True, v=True)
    except APIError as error:
        # Another worker of this run found it too: it has removed it, or is just doing so.
        if error.status_code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise


def bridge_gateway() -> str:
    """The address of this machine as containers on the default network see it."""
    with engine() as client:
        config = client.networks.get("bridge").attrs["IPAM"]["Config"][0]
        return str(config.get("Gateway") or next(ip_network(config["Subnet"]).hosts()))


@contextmanager
def engine() -> Iterator[Any]:
    """A docker-py client of the engine; its sockets are closed afterwards."""
    # Not at the top: the variables above must be set before testcontainers is imported.
    from testcontainers.core.docker_client import DockerClient

    client = DockerClient(timeout=300).client
    try:
        yield client
    finally:
        client.close()


class Patience:
    """A time limit that leaves out the time in which something waited for a processor or for a disk.

    :param share: at most this share of the time is left out.
    """

    def __init__(self, limit_s: float, *, share: float = 0.75) -> None:
        self._limit_s = limit_s
        self._share = share
        self._begun = time.monotonic()
        self._stalled = stalled_s()

    @property
    def is_over(self) -> bool:
        return self.counted_s > self._limit_s

    @property
    def counted_s(self) -> float:
        """The time since the beginning without what is left out."""
        passed = time.monotonic() - self._begun
        return passed - min(stalled_s() - self._stalled, passed * self._share)


def stalled_s(pressures: Path = Path("/proc/pressure")) -> float:
    """Return for how long something has waited for a processor, or for a disk if that is longer, since the boot."""
    totals = [0.0]
    for name in ("cpu", "io"):
        with suppress(OSError):  # a system that does not count it
            some = pressures.joinpath(name).read_text().partition("\n")[0]
            totals.append(int(some.rpartition("total=")[2]) / 1_000_000)
    return max(totals)


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = 30.0, is_patient: bool = False) -> None:
    """Poll until true; AssertionError naming `what` when the time is over.

    :param is_patient: whether the time is only that in which the machine had time.
    """
    limit = Patience(timeout_s, share=0.75 if is_patient else 0.0)
    pause = threading.Event()
    while not condition():
        assert not limit.is_over, f"waited {timeout_s:g} s in vain: {what}"
        pause.wait(0.02)
