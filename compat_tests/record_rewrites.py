"""Record how Apache RocketMQ rewrites messages, into ``gateway/tests/broker/rewriting/rewrites.json``.

    python -m compat_tests.record_rewrites 4.9.7 5.3.3 5.5.0

Each version's broker runs on this machine, without a name server, with the jars that Maven fetches once. Takes a minute
a version.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compat_tests import frames
from compat_tests.environment import REPOSITORY, wait_until
from compat_tests.peers import free_ports
from gateway.tests.broker.rewriting.rewrites import RECORDED, SETTINGS, Answer, deliveries

CACHE = REPOSITORY / "var" / "benchmarks"
START_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 15.0
OPENED = ("java.nio", "jdk.internal.ref", "java.util", "sun.nio.ch")
EXPORTED = ("sun.nio.ch", "jdk.internal.ref")
CONF = """brokerClusterName=DefaultCluster
brokerName=broker-a
brokerIP1=127.0.0.1
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
flushDiskType=ASYNC_FLUSH
diskMaxUsedSpaceRatio=95
mappedFileSizeCommitLog=16777216
"""


class Connected:
    """A connection to a broker."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
        host, port = self._socket.getsockname()
        self.address = (str(host), int(port))
        self._opaque = 0
        self.pushed: list[tuple[int, Mapping[str, str]]] = []

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"", *, version: int = 479) -> Answer:
        """Send one request and return its answer."""
        self._opaque += 1
        asked = frames.request(code, fields, body, opaque=self._opaque)
        asked.header["version"] = version
        self._socket.sendall(asked.pack())
        while True:
            frame = frames.read(self._socket)
            assert frame is not None, "the broker closed the connection"
            if frame.header["flag"] & 1 and frame.header["opaque"] == self._opaque:
                return Answer(frame.code, frame.fields, frame.body, frame.remark)
            if not frame.header["flag"] & 1:
                self.pushed.append((frame.code, frame.fields))
                self._socket.sendall(frames.Frame({**frame.header, "code": 0, "flag": 1, "extFields": {}}).pack())

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)  # noqa: TID251 - it passes for another process

    def now_ms(self) -> int:
        """The time of this machine."""
        return time.time_ns() // 1_000_000

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def jars(version: str) -> Path:
    """The jars of a broker, fetched by Maven once."""
    target = CACHE / f"rocketmq-{version}"
    if not (target / "complete").exists():
        pom = REPOSITORY / "docker" / "rocketmq" / "pom.xml"
        command = ["mvn", "-B", "-ntp", "-q", "-f", str(pom), f"-Drocketmq.version={version}"]
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        subprocess.run(command, check=True)
        (target / "complete").touch()
    return target


@contextmanager
def running(version: str) -> Iterator[tuple[str, int]]:
    """A broker of Apache RocketMQ with an empty store; its address."""
    home = Path(tempfile.mkdtemp(prefix="rewrites-", dir=CACHE))
    port = free_ports()[0]
    settings = {**SETTINGS, "listenPort": str(port), "haListenPort": str(free_ports()[0])}
    settings |= {"storePathRootDir": f"{home}/store", "storePathCommitLog": f"{home}/store/commitlog"}
    (home / "conf").mkdir()
    (home / "conf" / "logback_broker.xml").write_text("<configuration/>")  # 4.x does not start without it
    (home / "broker.conf").write_text(CONF + "".join(f"{name}={value}\n" for name, value in settings.items()))
    command = ["java", "-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC"]
    command += ["-XX:TieredStopAtLevel=1", "-Dtls.server.mode=disabled"]
    command += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
    command += [f"--add-exports=java.base/{name}=ALL-UNNAMED" for name in EXPORTED]
    command += [f"-Drocketmq.home.dir={home}", f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
    command += ["-cp", f"{jars(version)}/*", "org.apache.rocketmq.broker.BrokerStartup", "-c", f"{home}/broker.conf"]
    with (home / "out.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(
            lambda: b"boot success" in (home / "out.log").read_bytes() or process.poll() is not None,
            "the broker is up",
            timeout_s=START_TIMEOUT_S,
        )
        assert process.poll() is None, (home / "out.log").read_text()[-3000:]
        yield "127.0.0.1", port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    """Record the versions that are named, and keep the others."""
    parser = argparse.ArgumentParser(description="Record how Apache RocketMQ rewrites messages.")
    parser.add_argument("versions", nargs="+")
    versions = parser.parse_args().versions
    CACHE.mkdir(parents=True, exist_ok=True)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for version in versions:
        with running(version) as address:
            connected = Connected(address)
            recorded[version] = deliveries(connected)
            connected.close()
    RECORDED.write_text(json.dumps(dict(sorted(recorded.items())), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
