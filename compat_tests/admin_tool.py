"""Stock `mqadmin` in a container, one JVM for many commands, and what is comparable of what it prints."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests.environment import LABEL, owner
from compat_tests.images import image

_PORT = 7100
_TIMEOUT_S = 60
_VARYING = (
    (r"[0-9A-F]{32,40}", "<id>"),
    (r"@[0-9a-f]{5,8}\b", "@<hash>"),
    (r"(\d{1,3}\.){3}\d{1,3}(:\d+)?(@\S+)?", "<address>"),
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([:,.]\d+)?", "<time>"),
    (r"-?\d+(\.\d+)?(E-?\d+)?", "<n>"),
)


class AdminTool:
    """Runs commands against one name server. Several commands keep a client of their own: one tool for one peer."""

    def __init__(self, address: tuple[str, int], nameserver: str, write: Callable[[str, str], None]) -> None:
        self._address = address
        self._write = write
        self._nameserver = nameserver

    def run(self, command: str) -> list[str]:
        """The lines that a command prints, without stack frames and empty lines."""
        return self._run([*command.split(), "-n", self._nameserver])

    def at(self, nameserver: str) -> AdminTool:
        """The same tool for another peer; not for commands that keep a client of their own."""
        return AdminTool(self._address, nameserver, self._write)

    def sign(self, access_key: str, secret_key: str) -> None:
        """Sign what follows; tools.yml is read for each command."""
        self._write("/app/home/conf/tools.yml", f"accessKey: {access_key}\nsecretKey: {secret_key}\n")

    def commands(self) -> list[str]:
        """The names of all commands."""
        lines = self._run([])
        return [line.split()[0] for line in lines if re.match(r"\s{1,4}[a-zA-Z]+\s{2,}", line)]

    def _run(self, words: list[str]) -> list[str]:
        text = b""
        with socket.create_connection(self._address, timeout=_TIMEOUT_S) as control:
            control.sendall(" ".join(quote(word, safe="") for word in words).encode() + b"\n")
            with control.makefile("rb") as printed:
                text = printed.read()
        lines = (line.rstrip() for line in text.decode().splitlines())
        return [line for line in lines if line and not line.startswith(("\tat ", "\t..."))]


def failure(lines: list[str]) -> str | None:
    """The code of the failure that a command tells of, or the failure itself; None when it tells of none."""
    text = "\n".join(line for line in lines if re.match(r"(Caused by: )?\S+(Exception|Error): ", line))
    if not text:
        return None
    code = re.search(r"CODE: (\d+)", text)
    return text if code is None else f"CODE {code.group(1)}"


def shape(lines: list[str]) -> list[str]:
    """Lines with what differs between two runs taken out, each once, in the order of their first occurrence."""
    return list(dict.fromkeys(map(_shape, lines)))


def _shape(line: str) -> str:
    for pattern, name in _VARYING:
        line = re.sub(pattern, name, line)
    return " ".join(line.split())


@contextmanager
def admin_tool(nameserver: str, version: str = "5.5.0", environment: Mapping[str, str] = {}) -> Iterator[AdminTool]:
    """A running tool of the newest Apache RocketMQ, or of another."""

    def write(path: str, text: str) -> None:
        done = container.exec(["sh", "-c", f"cat >{path} <<'END'\n{text}END\n"])
        assert done.exit_code == 0, done.output.decode()

    container = (
        DockerContainer(image("rocketmq", version))
        .with_env("ROLE", "admin")
        .with_env("ADMIN_PORT", str(_PORT))
        .with_exposed_ports(_PORT)
        .with_kwargs(labels={LABEL: owner()})
        .waiting_for(LogMessageWaitStrategy("ready").with_startup_timeout(60))
    )
    for name, value in environment.items():
        container.with_env(name, value)
    with container:
        address = container.get_container_host_ip(), int(container.get_exposed_port(_PORT))
        yield AdminTool(address, nameserver, write)
