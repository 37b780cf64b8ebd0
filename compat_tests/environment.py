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


def remove_leftovers() -> int:
    """Remove containers of earlier runs; returns how many there were."""
    with engine() as client:
        found = client.containers.list(all=True, filters={"label": LABEL})
        for container in found:
            container.remove(force=True, v=True)
        return len(found)


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
