"""A program with a stock client in a container, under remote control.

The programs (`java_client`, `go_client`, …) know the same verbs, as far as their client can do what they say; the
Java sources describe the verbs and their options. A request is a line, its answer one JSON object.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests.environment import LABEL, owner

_CONTROL_PORT = 7000
# Beyond the verb's own bound, so that its answer (with what it has seen) comes first.
_GRACE_S = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """The report of a verb."""

    verb: str
    fields: dict[str, Any]

    def __getitem__(self, name: str) -> int:
        """A count."""
        value = self.fields[name]
        assert isinstance(value, int), f"{name} is {value!r}"
        return value

    def text(self, name: str) -> str:
        value = self.fields[name]
        assert isinstance(value, str), f"{name} is {value!r}"
        return value

    def json(self, name: str) -> Any:
        return self.fields[name]

    def numbers(self, name: str = "numbers") -> frozenset[int]:
        """A set of message numbers, sent as hex of little-endian bits."""
        bits = int.from_bytes(bytes.fromhex(self.text(name)), "little")
        return frozenset(i for i, bit in enumerate(reversed(bin(bits)[2:])) if bit == "1")

    def __str__(self) -> str:
        short = {k: v for k, v in self.fields.items() if not (isinstance(v, str) and len(v) > 300)}
        return f"{self.verb}: {short}"


class ClientProgram:
    """Runs verbs in the container; several at once when asked to `start` them."""

    def __init__(
        self,
        version: str,
        address: tuple[str, int],
        kill: Callable[[], None],
        read: Callable[[str], str] = lambda _: "",
    ) -> None:
        self.version = version
        self.read = read
        """The text of a file of the container; empty when there is none."""
        self.kill = kill
        """Ends the program as `kill -9`; what it was doing raises AssertionError."""
        self._address = address
        self._pool = ThreadPoolExecutor(max_workers=16)

    def run(self, verb: str, *, timeout_s: int = 60, **options: object) -> Answer:
        """Run a verb to its end; AssertionError with the program's own account when it failed."""
        line = " ".join([verb, f"timeout_s={timeout_s}", *(f"{k}={_encode(v)}" for k, v in options.items())])
        text = b""
        with socket.create_connection(self._address, timeout=timeout_s + _GRACE_S) as control:
            control.sendall(line.encode() + b"\n")
            with control.makefile("rb") as answers, suppress(ConnectionError):
                text = answers.readline()
        assert text, f"the client closed the connection during: {line}"
        fields = json.loads(text)
        assert fields["ok"], f"{line}\n{fields['error']}"
        return Answer(verb, fields)

    def start(self, verb: str, *, timeout_s: int = 60, **options: object) -> Future[Answer]:
        """Run a verb in the background."""
        return self._pool.submit(self.run, verb, timeout_s=timeout_s, **options)

    def stop(self, name: str) -> None:
        """End the verbs started with `until=name`."""
        self.run("stop", name=name)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _text(container: DockerContainer, path: str) -> str:
    code, said = container.exec(["cat", path])
    return bytes(said).decode(errors="replace") if code == 0 else ""


def _encode(value: object) -> str:
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe="")


@contextmanager
def client_program(image: str, version: str, environment: Mapping[str, str]) -> Iterator[ClientProgram]:
    """A running container of such a program."""
    container = (
        DockerContainer(image)
        .with_command(["listen", str(_CONTROL_PORT)])
        .with_exposed_ports(_CONTROL_PORT)
        .with_kwargs(labels={LABEL: owner()})
        .waiting_for(LogMessageWaitStrategy("ready").with_startup_timeout(60))
    )
    for name, value in environment.items():
        container.with_env(name, value)
    with container:
        address = (container.get_container_host_ip(), int(container.get_exposed_port(_CONTROL_PORT)))
        client = ClientProgram(version, address, container.get_wrapped_container().kill, partial(_text, container))
        try:
            yield client
        finally:
            client.close()
