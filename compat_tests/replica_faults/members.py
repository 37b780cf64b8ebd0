"""The brokers of a pair and their name server, each a process on a machine of its own (a network namespace)."""

from __future__ import annotations

import functools
import io
import json
import os
import signal
import subprocess
import tarfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from compat_tests import frames
from compat_tests.environment import REPOSITORY, engine, wait_until
from compat_tests.images import image
from compat_tests.network_cut.switch import Machine
from compat_tests.peers import APACHE_ONLY, CLUSTER, QUICK, GatewayProcess, gateway_command
from compat_tests.soak.broker import REFUSED_BELOW_BYTES
from wire.bodies.fastjson import parse_json

BROKER_NAME = "broker-a"
BROKER_PORT, NAMESERVER_PORT = 10911, 9876
GroupPlace: TypeAlias = tuple[str, str, int]
"""Topic, group, queue."""
COMMIT_OFFSET, ALL_TOPICS, ALL_OFFSETS, CREATE_GROUP, MEMBERS, STATE = 15, 21, 43, 200, 901, 907
_BOOTS_S = 600.0
_ASKED_S = 60.0
"""A machine that runs much else lets processes wait."""
SETTINGS = {
    **QUICK,
    "brokerName": BROKER_NAME,
    "brokerClusterName": CLUSTER,
    "inSyncReplicas": "2",
    "slaveReadEnable": "true",
    "slaveTimeout": "1500",
    "haSendHeartbeatInterval": "1000",
    "haHousekeepingInterval": "5000",
    "registerNameServerPeriod": "10000",
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    "transactionCheckMax": "10000",
    "fileReservedTime": "720",
    "cleanResourceInterval": "1000",
    # A full disk must not delete what nobody has read.
    "diskMaxUsedSpaceRatio": "95",
    "diskSpaceCleanForciblyRatio": "100",
    "diskSpaceWarningLevelRatio": "90",
    "cleanFileForciblyEnable": "false",
}
GATEWAY_ONLY = {"gateway.diskMeasuredBytes": str(REFUSED_BELOW_BYTES * 10)}
_JVM = [
    "-Dtls.server.mode=disabled",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
]


class Kind(StrEnum):
    """The program of a broker."""

    OURS = "ours"
    JAVA = "java"


class Role(StrEnum):
    """The role of a broker in its pair."""

    MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class PairMember(GatewayProcess):
    """A broker of a pair. Its role may be another one at each start."""

    kind = Kind.OURS
    ready = "ready broker="

    def __init__(self, machine: Machine, data: Path, beside: Path, nameserver: str) -> None:
        super().__init__(data, bind=machine.address, ports=(BROKER_PORT, NAMESERVER_PORT), start_timeout_s=_BOOTS_S)
        self.machine = machine
        self.log = beside / f"{machine.namespace}.log"
        self.nameserver = nameserver
        self.role = Role.SLAVE
        self.starts = 0

    @property
    def address(self) -> tuple[str, int]:
        return self.machine.address, self.broker_port

    @property
    def broker_id(self) -> str:
        return "0" if self.role is Role.MASTER else "1"

    def start(self) -> None:
        settings = {**SETTINGS, **GATEWAY_ONLY, "brokerRole": self.role, "brokerId": self.broker_id}
        self.command = self.machine.command(*gateway_command(), "broker", "-n", self.nameserver)
        self.command += ["--data", str(self.data), "--bind", self.machine.address, "--port", str(self.broker_port)]
        for key, value in settings.items():
            self.command += ["--set", f"{key}={value}"]
        super().start()
        self.starts += 1

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        if self.alive():
            os.kill(self.pid, signal.SIGCONT)

    def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> frames.Frame:
        answer = frames.ask(self.address, frames.request(code, fields, body), timeout_s=_ASKED_S)
        assert answer is not None, f"no answer to {code}"
        return answer

    def offsets(self) -> Mapping[GroupPlace, int]:
        """The offsets of all groups."""
        table = parse_json(self.ask(ALL_OFFSETS).body)["offsetTable"]
        return {
            (*name.split("@", 1), int(queue)): offset
            for name, queues in table.items()
            for queue, offset in queues.items()
        }

    def topics(self) -> set[str]:
        """Return the topics that it knows."""
        return set(parse_json(self.ask(ALL_TOPICS).body)["topicConfigTable"])

    def commit(self, topic: str, group: str, queue: int, offset: int) -> None:
        place = {"consumerGroup": group, "topic": topic, "queueId": str(queue)}
        answer = self.ask(COMMIT_OFFSET, {**place, "commitOffset": str(offset)})
        assert answer.code == 0, answer.remark

    def make_group(self, group: str) -> None:
        answer = self.ask(CREATE_GROUP, body=json.dumps({"groupName": group}).encode())
        assert answer.code == 0, answer.remark

    def permit(self, permission: int) -> None:
        """Set the permission until the next start: 6 to read and write, 4 to read."""
        answer = self.ask(frames.UPDATE_BROKER_CONFIG, body=b"brokerPermission=%d\n" % permission)
        assert answer.code == 0, answer.remark

    def register(self) -> None:
        """Have it register now; a gateway does so by itself."""


class ApacheMember(PairMember):
    """Apache RocketMQ 5.5.0's broker, with the Java of this machine."""

    kind = Kind.JAVA

    def start(self) -> None:
        settings = {**SETTINGS, **APACHE_ONLY, "brokerRole": self.role, "brokerId": self.broker_id}
        settings |= {
            "namesrvAddr": self.nameserver,
            "listenPort": str(self.broker_port),
            "brokerIP1": self.machine.address,
            "brokerIP2": self.machine.address,
            "storePathRootDir": str(self.data),
            "storePathCommitLog": str(self.data / "commitlog"),
            "flushDiskType": "ASYNC_FLUSH",
            "autoCreateTopicEnable": "true",
            "waitTimeMillsInSendQueue": "5000",
            "osPageCacheBusyTimeOutMills": "10000",
        }
        self._boot("org.apache.rocketmq.broker.BrokerStartup", settings, "The broker[", "512m")
        self.starts += 1

    def _boot(self, main: str, settings: dict[str, str], ready: str, heap: str) -> None:
        home = self.log.with_suffix(".home")
        _write_home(home, settings)
        said = self.log.stat().st_size if self.log.exists() else 0
        self.command = self.machine.command(*_java(home, heap), main, "-c", str(home / "server.conf"))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log)

        def booted() -> bool:
            assert self.alive(), self.failure("ended without being ready")
            with self.log.open("rb") as log:
                log.seek(said)
                return any(ready in line and "boot success" in line for line in log.read().decode().splitlines())

        wait_until(booted, "a boot", timeout_s=_BOOTS_S)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def register(self) -> None:
        """A broker registers while it begins to look whether name servers are there, often in vain."""
        self.permit(6)


class SeparateNameServer(GatewayProcess):
    """`rocketmq-gateway nameserver` on a machine of its own."""

    def __init__(self, machine: Machine, beside: Path) -> None:
        super().__init__(
            beside / "names", bind=machine.address, ports=(BROKER_PORT, NAMESERVER_PORT), start_timeout_s=_BOOTS_S
        )
        self.machine = machine
        self.log = beside / "names.log"
        self.command = machine.command(*gateway_command(), "nameserver", "--bind", machine.address)
        self.command += ["--data", str(self.data), "--port", str(NAMESERVER_PORT)]

    def lists(self, member: PairMember) -> bool:
        """Return whether a broker is registered in its role."""
        asked = frames.request(MEMBERS, {"clusterName": CLUSTER, "brokerName": BROKER_NAME})
        try:
            answer = frames.ask((self.machine.address, NAMESERVER_PORT), asked)
        except OSError:  # not heard in time
            return False
        if answer is None or answer.code != 0:
            return False
        addresses = parse_json(answer.body)["brokerMemberGroup"]["brokerAddrs"]
        return bool(addresses.get(member.broker_id) == f"{member.machine.address}:{member.broker_port}")


class ApacheNameServer(SeparateNameServer):
    """Apache RocketMQ's."""

    def start(self) -> None:
        home = self.log.with_suffix(".home")
        _write_home(home, {"listenPort": str(NAMESERVER_PORT)})
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self.command = self.machine.command(*_java(home, "128m"), main, "-c", str(home / "server.conf"))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log)
        wait_until(self._answers, "the name server", timeout_s=_BOOTS_S)

    def _answers(self) -> bool:
        try:
            return frames.ask((self.machine.address, NAMESERVER_PORT), frames.request(MEMBERS)) is not None
        except OSError:
            return False

    def stop(self) -> None:
        self._end(signal.SIGTERM)


def _write_home(home: Path, settings: dict[str, str]) -> None:
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "server.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


def _java(home: Path, heap: str) -> list[str]:
    files = apache_files()
    places = [f"-Drocketmq.home.dir={home}", f"-Duser.home={home}"]
    places += [f"-Drmq.logback.configurationFile={files / 'logback.xml'}"]
    memory = [f"-Xms{heap}", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=256m"]
    return ["java", *_JVM, *memory, *places, "-cp", f"{files / 'own.jar'}:{files / 'lib'}/*"]


@functools.cache
def apache_files() -> Path:
    """Return a directory with the jars of Apache RocketMQ 5.5.0, taken out of the image of the tests."""
    name = image("rocketmq", "5.5.0")
    directory = REPOSITORY / "var" / "apache-files" / name.replace(":", "-").replace("/", "-")[-40:]
    if directory.exists():
        return directory
    part = directory.with_name(f"{directory.name}.{os.getpid()}")
    with engine() as client:
        container = client.containers.create(name)
        try:
            for path in ("/app/lib", "/app/own.jar", "/app/logback.xml"):
                pieces, _ = container.get_archive(path)
                with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
                    archive.extractall(part)
        finally:
            container.remove()
    part.rename(directory)
    return directory
