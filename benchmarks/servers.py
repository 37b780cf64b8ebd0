"""The two servers that are compared, as processes of this machine: fresh, with an empty store."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.java_tools import APACHE_VERSION, CACHE, BenchmarkError, jars
from gateway.client import AdminClient
from gateway.client.testing.server import free_port

Kind = Literal["apache", "gateway"]
Flush = Literal["ASYNC_FLUSH", "SYNC_FLUSH"]
KINDS: tuple[Kind, ...] = ("apache", "gateway")
START_TIMEOUT_S = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
_ACCESS: tuple[str, ...] = (
    *("--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED"),
    *("--add-opens", "java.base/jdk.internal.ref=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.util=ALL-UNNAMED"),
)
_BROKER_FLAGS = ("-Xms1536m", "-Xmx1536m", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC")
_NAMESERVER_FLAGS = ("-Xms256m", "-Xmx256m")
_BROKER_CONF = """brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
brokerRole=ASYNC_MASTER
autoCreateTopicEnable=true
waitTimeMillsInSendQueue=5000
osPageCacheBusyTimeOutMills=10000
diskMaxUsedSpaceRatio=95
"""


@dataclass(slots=True)
class Server:
    """A running name server and broker."""

    kind: Kind
    nameserver: str
    directory: Path
    launched_at_ms: int
    broker_port: int = 0
    flush: Flush = "ASYNC_FLUSH"
    settings: Mapping[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def broker_pid(self) -> int:
        """The process whose CPU time is counted."""
        return self.processes[-1].pid

    def peak_bytes(self) -> int:
        """The most resident memory that the broker had."""
        return int(Path(f"/proc/{self.broker_pid}/status").read_text().split("VmHWM:")[1].split()[0]) * 1024

    def memory_bytes(self) -> tuple[int, int]:
        """Resident and, of it, anonymous memory of all processes: the rest is mapped files."""
        total = anonymous = 0
        for process in self.processes:
            status = Path(f"/proc/{process.pid}/status").read_text()
            total += int(status.split("VmRSS:")[1].split()[0]) * 1024
            anonymous += int(status.split("RssAnon:")[1].split()[0]) * 1024
        return total, anonymous

    def cpu_seconds(self) -> float:
        """User and system time of all processes so far."""
        return sum(cpu_s(process.pid) for process in self.processes)


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def server_environment() -> dict[str, str]:
    """For a gateway that is started as ``-m``: it takes the code that PYTHONPATH names, not that of the working
    directory.
    """
    return {**os.environ, "PYTHONSAFEPATH": "1"}


@contextmanager
def launched(
    kind: Kind,
    flush: Flush,
    ports: tuple[int, int] | None = None,
    prepare: Callable[[Path], None] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A server from before it is ready to after it has ended; its store is removed.

    :param settings: of the broker, by the names that both servers have for them.
    :param prepare: told the directory before the launch; the store is ``store`` in it.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=CACHE))
    nameserver, broker = ports or (free_port(), free_port())
    server = Server(kind, f"127.0.0.1:{nameserver}", directory, 0, broker, flush, settings or {})
    try:
        if prepare is not None:
            prepare(directory)
        _launch(server)
        yield server
    finally:
        killed(server)  # nobody reads its store again, and Apache RocketMQ would take 14 s to stop
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def serving(
    kind: Kind,
    flush: Flush = "ASYNC_FLUSH",
    *,
    prepare: Callable[[Path], None] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A server that is ready for clients; parameters as of ``launched``."""
    with launched(kind, flush, prepare=prepare, settings=settings) as server:
        _wait_until_ready(server)
        yield server


def started_again(server: Server) -> None:
    """Launch a server that was killed or stopped, and wait until it is ready."""
    _launch(server)
    _wait_until_ready(server)


def _wait_for_ready_line(server: Server) -> None:
    log = server.directory / "broker.log"
    wanted = "boot success" if server.kind == "apache" else "ready "
    wait_for(lambda: wanted in log.read_text(errors="replace"), server)


def _wait_until_ready(server: Server) -> None:
    _wait_for_ready_line(server)
    if server.kind == "apache":  # one whose first registration failed says so as well, and repeats it 10 s later
        with AdminClient(namesrv=server.nameserver) as admin:
            wait_for(lambda: bool(admin.cluster.info().cluster_addr_table), server)


def wait_for(
    condition: Callable[[], bool], server: Server, what: str = "become ready", within_s: float = START_TIMEOUT_S
) -> None:
    """Poll until true; an error with the server's log when it ended or time is over."""
    end = time.monotonic() + within_s
    pause = threading.Event()
    while not condition():
        ended = any(process.poll() is not None for process in server.processes)
        if ended or time.monotonic() > end:
            why = "a process ended" if ended else f"limit {within_s:.0f} s"
            logs = [path.read_text(errors="replace")[-3000:] for path in server.directory.glob("*.log")]
            raise BenchmarkError(f"{server.kind} did not {what} ({why}):\n" + "\n".join(logs))
        pause.wait(0.05)


def _launch(server: Server) -> None:
    launch = _launch_apache if server.kind == "apache" else _launch_gateway
    launch(server, int(server.nameserver.rpartition(":")[2]))


@contextmanager
def slave_of(master: Server) -> Iterator[Server]:
    """A slave of a running master with the same settings, from after its start to its end; its store is removed."""
    directory = Path(tempfile.mkdtemp(prefix=f"{master.kind}-slave-", dir=CACHE))
    settings = {name: value for name, value in master.settings.items() if name != "haListenPort"}
    settings |= {"brokerRole": "SLAVE", "brokerId": "1"}
    slave = Server(master.kind, master.nameserver, directory, 0, free_port(), master.flush, settings)
    try:
        if slave.kind == "apache":
            _start_apache_broker(slave)
        else:
            _start_gateway_broker(slave)
        _wait_for_ready_line(slave)
        yield slave
    finally:
        killed(slave)
        shutil.rmtree(directory, ignore_errors=True)


def _launch_apache(server: Server, nameserver: int) -> None:
    home = server.directory
    _start_java(server, "nameserver", _NAMESERVER_FLAGS, "namesrv.NamesrvStartup", f"listenPort={nameserver}\n")
    # A broker that is up first registers with the name server only at its next period, 10 s later.
    log = home / "nameserver.log"
    wait_for(lambda: "boot success" in log.read_text(errors="replace"), server)
    _start_apache_broker(server)


def _start_apache_broker(server: Server) -> None:
    store = server.directory / "store"
    conf = _BROKER_CONF + f"listenPort={server.broker_port}\nnamesrvAddr={server.nameserver}\n"
    conf += f"flushDiskType={server.flush}\nstorePathRootDir={store}\nstorePathCommitLog={store}/commitlog\n"
    conf += f"haListenPort={free_port()}\n"  # its own port 10912 may be another broker's
    conf += "".join(f"{name}={value}\n" for name, value in server.settings.items())
    _start_java(server, "broker", _BROKER_FLAGS, "broker.BrokerStartup", conf)


def _start_java(server: Server, name: str, flags: tuple[str, ...], main: str, conf: str) -> None:
    """Start a program of Apache RocketMQ with its own file of settings."""
    home = server.directory
    (home / "conf").mkdir(exist_ok=True)
    file = home / f"{name}.conf"
    file.write_text(conf)
    common = [f"-Drocketmq.home.dir={home}", f"-Duser.home={home}"]
    common += [f"-Djava.io.tmpdir={home}", "-cp", f"{jars('rocketmq')}/*"]  # it leaves libraries there
    _start(server, f"{name}.log", ["java", *_ACCESS, *flags, *common, f"org.apache.rocketmq.{main}", "-c", str(file)])


def _gateway() -> list[str]:
    """The installed command: unlike ``-m`` it does not prefer the working directory to what PYTHONPATH names."""
    script = Path(sys.executable).with_name("rocketmq-gateway")
    return [str(script)] if script.exists() else [sys.executable, "-m", "gateway.cli"]


def _launch_gateway(server: Server, nameserver: int) -> None:
    command = [*_gateway(), "serve", "--data", str(server.directory / "store"), "--port", str(server.broker_port)]
    command += ["--nameserver-port", str(nameserver), "--set", f"flushDiskType={server.flush}"]
    _start(server, "broker.log", [*command, *_options(server.settings)])


def _start_gateway_broker(server: Server) -> None:
    command = [*_gateway(), "broker", "-n", server.nameserver, "--data", str(server.directory / "store")]
    command += ["--port", str(server.broker_port), "--set", f"flushDiskType={server.flush}"]
    _start(server, "broker.log", [*command, *_options(server.settings)])


def _options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def _start(server: Server, log_name: str, command: list[str]) -> None:
    with (server.directory / log_name).open("wb") as log:
        server.launched_at_ms = time.time_ns() // 1_000_000
        server.processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))


def killed(server: Server) -> None:
    """End all processes of the server as ``kill -9`` does."""
    for process in server.processes:
        process.kill()
        process.wait()
    server.processes.clear()


def stopped(server: Server) -> None:
    """Ask its processes to end, the broker first, and wait for it."""
    for process in reversed(server.processes):
        process.send_signal(signal.SIGTERM)
    for process in reversed(server.processes):
        try:
            process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    server.processes.clear()


def version(kind: Kind) -> str:
    """Return the version that is compared, as the results name it."""
    if kind == "apache":
        return f"Apache RocketMQ {APACHE_VERSION}"
    command = [*_gateway(), "version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
