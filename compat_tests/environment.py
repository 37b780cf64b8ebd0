"""The Docker engine of a test run: settings that testcontainers reads when imported, start, and clearing up.

Import this module before anything of testcontainers.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = 30.0) -> None:
    """Poll until true; AssertionError naming `what` when the time is over."""
    end = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"waited {timeout_s:g} s in vain: {what}"
        pause.wait(0.02)
