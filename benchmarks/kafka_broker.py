"""An Apache Kafka broker of one process (KRaft), as it comes but for its ports: the anchor of the Spark benchmark."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.java_tools import CACHE, REPOSITORY, BenchmarkError, listed_jars, tool
from gateway.client.testing.server import free_port

VERSION = "4.1.0"
START_TIMEOUT_S = 60.0
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_FLAGS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Its start script's, all but the log files."""
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@dataclass(frozen=True, slots=True)
class KafkaBroker:
    """A running one: where clients reach it, and its process."""

    address: str
    pid: int


@contextmanager
def kafka_broker(partitions: int) -> Iterator[KafkaBroker]:
    """Start a broker on an empty directory, and stop it; topics are made when they are written to.

    :raises BenchmarkError: it did not start.
    """
    classes = f"{jars()}/*"
    home = Path(tempfile.mkdtemp(prefix="kafka-"))
    port = free_port()
    config = home / "server.properties"
    config.write_text(_PROPERTIES.format(port=port, controller=free_port(), data=home / "data", partitions=partitions))
    java = [tool("java", "openjdk-17-jre-headless"), *_FLAGS, "-cp", classes]
    try:
        with (home / "broker.log").open("wb") as log:
            formatted = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)]
            subprocess.run(formatted, stdout=log, stderr=log, check=True)
            process = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=log, stderr=log)
        try:
            _wait(port, process, home / "broker.log")
            yield KafkaBroker(f"127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def jars() -> Path:
    """The broker's jars, fetched once."""
    return listed_jars(REPOSITORY / "benchmarks" / "java" / "kafka" / "pom.xml", CACHE / f"kafka-{VERSION}")


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    pause = threading.Event()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise BenchmarkError(f"Kafka did not start:\n{log.read_text(errors='replace')[-3000:]}") from None
            pause.wait(0.2)
        else:
            return
