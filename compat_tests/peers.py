"""The servers under test: our gateway as a host process or in a container, and Apache RocketMQ as control.

A peer has a data directory, a name-server address that client containers reach, and can be killed and started
again. Settings are written with Apache RocketMQ's names, which all peers understand.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import yaml
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests import frames
from compat_tests.environment import LABEL, REPOSITORY, bridge_gateway, owner, wait_until
from compat_tests.images import image
from gateway.client.testing.server import free_port

# Short waits, so that a retry, a dead letter and a check take seconds. Level 3 is the first retry's.
QUICK: dict[str, str] = {
    "messageDelayLevel": "1s 1s 1s 1s 1s 1s 1s 1s",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "flushConsumerOffsetInterval": "500",
}
# Apache RocketMQ 5.5.0 records decisions in batches. Until then it checks them, and applies them once more:
# both the first check and the interval of checks must be longer than that, or its consumers get duplicates.
APACHE_ONLY: dict[str, str] = {
    "transactionTimeOut": "3000",
    "transactionCheckInterval": "5000",
    "transactionOpBatchInterval": "500",
    # A thread goes round without a pause until this time after the start is over: ten seconds of a core otherwise.
    "transactionMetricFlushInterval": "500",
    # Each time the whole wheel of timers is looked through: a fifth of a core otherwise. A stop saves it, and so does
    # what is read again after a kill.
    "timerFlushIntervalMs": "10000",
}
START_TIMEOUT_S = 60.0
CLUSTER = "DefaultCluster"
PEERS = ("gateway-host", "gateway-container", "rocketmq-5.5.0")


class Peer(Protocol):
    """A name server and a broker."""

    name: str
    nameserver: str

    def start(self) -> None: ...

    def kill(self) -> None:
        """End the process as `kill -9` does."""

    def stop(self) -> None:
        """Orderly."""


def free_ports() -> tuple[int, int]:
    """A broker port and a name-server port, at which a server is found again after a crash."""
    return free_port(), free_port()


def gateway_command() -> list[str]:
    """The console script beside this Python; without an installation, the module it calls."""
    script = Path(sys.executable).with_name("rocketmq-gateway")
    return [str(script)] if script.exists() else [sys.executable, "-m", "gateway.cli"]


class GatewayProcess:
    """`rocketmq-gateway serve` on this machine; `nameserver` is the address that client containers use."""

    name = "gateway-host"
    ready = "ready nameserver="

    def __init__(
        self,
        data: Path,
        settings: dict[str, str] | None = None,
        *,
        bind: str = "0.0.0.0",
        advertise: str = "auto",
        ports: tuple[int, int] | None = None,
        arguments: tuple[str, ...] = (),
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.data = data
        self._start_timeout_s = start_timeout_s
        self.broker_port, self.nameserver_port = ports or free_ports()
        self.log = data.with_name(data.name + ".log")
        host = bridge_gateway() if bind == "0.0.0.0" else bind
        self.nameserver = f"{host}:{self.nameserver_port}"
        self.ready_line = ""
        self.start_seconds = 0.0
        self.command = [
            *gateway_command(),
            "serve",
            "--data",
            str(data),
            "--bind",
            bind,
            "--advertise",
            advertise,
        ]
        self.command += ["--port", str(self.broker_port), "--nameserver-port", str(self.nameserver_port)]
        for key, value in (settings or {}).items():
            self.command += ["--set", f"{key}={value}"]
        self.command += arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def launch(self) -> None:
        """Start, and do not wait."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log)

    def start(self) -> None:
        """Start and wait for the ready line."""
        begun = time.monotonic()
        self.launch()
        self.ready_line = self._read_line(begun + self._start_timeout_s)
        self.start_seconds = time.monotonic() - begun
        assert self.ready_line.startswith(self.ready), self.failure(f"said {self.ready_line!r}")

    def _read_line(self, end: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = b""
        reader = select.poll()  # select.select refuses descriptors from 1,024 on
        reader.register(self._process.stdout, select.POLLIN)
        while not line.endswith(b"\n"):
            assert reader.poll(max(0.0, end - time.monotonic()) * 1000), self.failure("was not ready in time")
            byte = os.read(self._process.stdout.fileno(), 1)
            assert byte, self.failure("ended without being ready")
            line += byte
        return line.decode().strip()

    def failure(self, what: str) -> str:
        """A sentence about this process with the end of its log."""
        log = self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""
        return f"the gateway {what}; its log ends:\n{log}"

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM; must exit 0."""
        code = self._end(signal.SIGTERM)
        assert code == 0, self.failure(f"exited with {code} on SIGTERM")

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            return process.wait(timeout=self._start_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            late = f"did not end within {self._start_timeout_s:g} s of {how.name}"
            raise AssertionError(self.failure(late)) from None
        finally:
            if process.stdout is not None:
                process.stdout.close()


def _compose_service() -> dict[str, Any]:
    """The gateway's container as docker/compose.yaml declares it."""
    found: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker" / "compose.yaml").read_text())["services"]["gateway"]
    return found


class GatewayContainer:
    """`rocketmq-gateway serve` in a container, on the network of containers, with the rights that compose leaves it."""

    name = "gateway-container"

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        arguments = ["serve", "--data", "/data", "--bind", "0.0.0.0", "--advertise", "auto"]
        for key, value in (settings or {}).items():
            arguments += ["--set", f"{key}={value}"]
        service = _compose_service()
        hardening = {key: service[key] for key in ("read_only", "cap_drop", "security_opt")}
        self._container = (
            DockerContainer(image("gateway"))
            .with_command([*arguments, "--port", "10911", "--nameserver-port", "9876"])
            .with_kwargs(labels={LABEL: owner()}, **hardening)
            .waiting_for(LogMessageWaitStrategy("ready nameserver=").with_startup_timeout(60))
        )
        for mount in service["tmpfs"]:
            self._container.with_tmpfs_mount(*mount.split(":", 1))
        self.nameserver = ""

    def start(self) -> None:
        self._container.start()
        self.nameserver = f"{container_address(self._container)}:9876"

    def kill(self) -> None:
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        self._container.stop()

    def logs(self) -> str:
        return bytes(self._container.get_wrapped_container().logs(tail=100)).decode(errors="replace")

    def shell(self, script: str) -> str:
        """What a script prints that runs beside the server."""
        return bytes(self._container.get_wrapped_container().exec_run(["sh", "-c", script]).output).decode()


class ApacheContainer:
    """Apache RocketMQ's name server and broker in a container; `store` is mounted when given.

    `orderly` is for those who read its store afterwards: ending itself takes it nine seconds.

    `plain_acl` is the text of conf/plain_acl.yml, and `operator` the keys of an account that may change settings.

    With `speaks_tls` it serves encrypted connections too.

    `ports`, broker's and name server's, are taken on this machine: clients of a `GatewayProcess` that had them go on.
    """

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        *,
        version: str = "5.5.0",
        store: Path | None = None,
        orderly: bool = False,
        ports: tuple[int, int] | None = None,
        plain_acl: str = "",
        operator: tuple[str, str] | None = None,
        speaks_tls: bool = False,
    ) -> None:
        self.name = f"rocketmq-{version}"
        self._operator = operator
        self._orderly = orderly
        self._port = ports[0] if ports is not None else 10911
        self._nameserver_port = 9876 if ports is None else ports[1]
        self._container = (
            DockerContainer(image("rocketmq", version))
            .with_env("BROKER_EXTRA", ";".join(f"{k}={v}" for k, v in {**(settings or {}), **APACHE_ONLY}.items()))
            .with_env("BROKER_PORT", str(self._port))
            .with_env("PLAIN_ACL", plain_acl)
            .with_env("TLS_MODE", "permissive" if speaks_tls else "disabled")
            .with_kwargs(labels={LABEL: owner()})
            .waiting_for(LogMessageWaitStrategy(r"The broker\[.*boot success").with_startup_timeout(120))
        )
        if ports is not None:
            self._container.with_env("NAMESERVER_PORT", str(ports[1]))
            for port in ports:
                self._container.with_bind_ports(port, port)
            self._container.with_env("BROKER_IP", bridge_gateway())
        if store is not None:
            self._container.with_volume_mapping(str(store), "/app/store", "rw")
        self.nameserver = ""

    @property
    def broker_address(self) -> tuple[str, int]:
        """Return the address on which the broker really listens."""
        return container_address(self._container), self._port

    def start(self) -> None:
        """The first time create it; after a kill start it again, at the same address."""
        if self.nameserver:
            container = self._container.get_wrapped_container()
            boots = container.logs().count(b"The broker[")
            container.start()
            wait_until(lambda: container.logs().count(b"The broker[") > boots, "a boot", timeout_s=120)
            assert self.nameserver == f"{container_address(self._container)}:{self._nameserver_port}"
        else:
            self._container.start()
            self.nameserver = f"{container_address(self._container)}:{self._nameserver_port}"
        wait_until(self._has_routes, "the routes of the topics that every broker has", timeout_s=60)
        wait_until(self._has_figures, "the figures of the first second", timeout_s=60)

    def _has_routes(self) -> bool:
        """Let it register once more if it has not.

        A broker registers while it begins to look whether its name servers are there: often in vain, and it repeats it
        10 s later, unless it is told its permission.
        """
        asked = frames.request(frames.GET_ROUTE, {"topic": f"{CLUSTER}_REPLY_TOPIC"})
        told = self._signed(frames.request(frames.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6\n"))
        with suppress(OSError):
            answer = frames.ask((container_address(self._container), self._nameserver_port), asked)
            if answer is not None and answer.code == 0:
                return True
            frames.ask(self.broker_address, told)
        return False

    def _has_figures(self) -> bool:
        """Return whether it can tell its figures: it fails at that until it has taken them for the first time."""
        answer = frames.ask(self.broker_address, self._signed(frames.request(frames.GET_FIGURES)))
        return answer is not None and "NoSuchElementException" not in answer.remark

    def _signed(self, frame: frames.Frame) -> frames.Frame:
        return frame if self._operator is None else frames.signed(frame, *self._operator)

    def kill(self) -> None:
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        """Remove it; if wanted, after a SIGTERM, upon which the broker writes its offsets and checkpoint."""
        if self._orderly:
            self._container.get_wrapped_container().stop(timeout=60)
        self._container.stop()


def container_address(container: DockerContainer) -> str:
    """The address of a container on the default network."""
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    settings = wrapped.attrs["NetworkSettings"]
    return str(settings.get("IPAddress") or settings["Networks"]["bridge"]["IPAddress"])


def broker_container(
    nameserver_port: int, data: Path, settings: dict[str, str], starts_within_s: int = 120
) -> DockerContainer:
    """Apache RocketMQ's broker alone, not yet started: its name server and its store are of this machine."""
    return (
        DockerContainer(image("rocketmq", "5.5.0"))
        .with_kwargs(labels={LABEL: owner()})
        .with_env("ROLE", "broker")
        .with_env("NAMESERVER_HOST", bridge_gateway())
        .with_env("NAMESERVER_PORT", str(nameserver_port))
        .with_env("BROKER_EXTRA", ";".join(f"{key}={value}" for key, value in settings.items()))
        .with_volume_mapping(str(data), "/app/store", "rw")
        .waiting_for(LogMessageWaitStrategy(r"The broker\[.*boot success").with_startup_timeout(starts_within_s))
    )


class ApacheBroker:
    """Apache RocketMQ's broker alone, which may end and start again; its store is of this machine."""

    def __init__(self, nameserver_port: int, data: Path, settings: dict[str, str], starts_within_s: int) -> None:
        data.mkdir(exist_ok=True)
        self.data = data
        self._made = broker_container(nameserver_port, data, settings, starts_within_s)
        self._is_made = False

    def start(self) -> None:
        if self._is_made:
            self._made.get_wrapped_container().start()
        else:
            self._made.start()
            self._is_made = True

    def kill(self) -> None:
        if self._is_made:
            self._made.get_wrapped_container().kill()

    def stop(self) -> None:
        if self._is_made:
            self._made.get_wrapped_container().stop()

    def remove(self) -> None:
        if self._is_made:
            self._made.stop()

    @property
    def address(self) -> tuple[str, int]:
        return container_address(self._made), 10911


def make_peer(name: str, data: Path, settings: dict[str, str]) -> Peer:
    """A peer by its name, not yet started."""
    if name == "gateway-host":
        return GatewayProcess(data, settings)
    if name == "gateway-plain":  # without any quick part: decision 0028
        return GatewayProcess(data, {**settings, "gateway.shortWays": "false"})
    if name == "gateway-container":
        return GatewayContainer(settings)
    return ApacheContainer(settings, version=name.removeprefix("rocketmq-"))
