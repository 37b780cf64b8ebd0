"""Machines that are network namespaces on one switch; each can be cut off: packets vanish, and nobody is told."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import Self

from compat_tests.network_cut.cable import ip

_SUBNET = "10.232"


@dataclass(frozen=True, slots=True)
class Machine:
    """A namespace with an address, at a port of the switch."""

    namespace: str
    address: str
    switch: str
    port: str

    def command(self, *arguments: str) -> list[str]:
        """A command line as it is run there."""
        return ["ip", "netns", "exec", self.namespace, *arguments]

    def cut(self) -> None:
        """From now on nothing arrives on either side."""
        ip("-n", self.switch, "link", "set", self.port, "down")

    def mend(self) -> None:
        """Everything arrives again."""
        ip("-n", self.switch, "link", "set", self.port, "up")

    def hears_nothing_of(self, address: str) -> None:
        """From now on packets of an address are dropped; "0.0.0.0/0" stands for all others."""
        self._filter("-A", "INPUT", "!", "-i", "lo", "-s", address, "-j", "DROP")

    def says_nothing_to(self, address: str) -> None:
        """From now on packets to an address are dropped; "0.0.0.0/0" stands for all others."""
        self._filter("-A", "OUTPUT", "!", "-o", "lo", "-d", address, "-j", "DROP")

    def drops_nothing(self) -> None:
        """Hear and say everything again."""
        self._filter("-F")

    def _filter(self, *rule: str) -> None:
        command = self.command("iptables", "-w", *rule)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        assert done.returncode == 0, f"no packet is dropped (it takes iptables): {' '.join(command)}: {done.stderr}"


class Switch:
    """A bridge with this machine, as ``address``, and namespaces around it. Needs root and ``ip``.

    The bridge is in a namespace itself, since what containers need of a machine's firewall may stop its bridges.

    :raises AssertionError: it cannot be made; a test fails then, since without it nothing is proved.
    """

    def __init__(self) -> None:
        number = os.getpid() % 60_000
        self._name = f"rmqsw{number}"
        self._network = f"{_SUBNET}.{number % 250}"
        self._machines: list[Machine] = []
        self.address = f"{self._network}.1"

    def __enter__(self) -> Self:
        self._remove()
        ip("netns", "add", self._name)
        ip("-n", self._name, "link", "add", "bridge", "type", "bridge")
        ip("-n", self._name, "link", "set", "bridge", "up")
        ip("link", "add", self._name, "type", "veth", "peer", "name", "here", "netns", self._name)
        ip("addr", "add", f"{self.address}/24", "dev", self._name)
        ip("link", "set", self._name, "up")
        self._plug("here")
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def machine(self) -> Machine:
        """One machine more."""
        number = len(self._machines)
        machine = Machine(f"{self._name}-{number}", f"{self._network}.{number + 2}", self._name, f"port{number}")
        self._machines.append(machine)
        ip("netns", "add", machine.namespace)
        ip("-n", self._name, "link", "add", machine.port, "type", "veth", "peer", "far", "netns", machine.namespace)
        self._plug(machine.port)
        ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", "far")
        for device in ("far", "lo"):
            ip("-n", machine.namespace, "link", "set", device, "up")
        return machine

    def _plug(self, port: str) -> None:
        ip("-n", self._name, "link", "set", port, "master", "bridge", "up")

    def _remove(self) -> None:
        names = [*(machine.namespace for machine in self._machines), self._name]
        for command in [["link", "del", self._name], *(["netns", "del", name] for name in names)]:
            subprocess.run(["ip", *command], capture_output=True, check=False, timeout=10)
