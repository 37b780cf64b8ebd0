"""A network namespace at the far end of a cable that can be cut: packets vanish, and nobody is told."""

from __future__ import annotations

import os
import subprocess
from typing import Self

_SUBNET = "10.231"


class Cable:
    """A pair of virtual devices, the far one in a namespace of its own. Needs root and ``ip``.

    :raises AssertionError: it cannot be made; a test fails then, since without it nothing is proved.
    """

    def __init__(self) -> None:
        number = os.getpid() % 60_000
        self.namespace = f"rocketmq-cut-{number}"
        network = f"{_SUBNET}.{number % 250}"
        step = number // 250 % 64 * 4
        self.near, self.far = f"{network}.{step + 1}", f"{network}.{step + 2}"
        self._device = f"rmqcut{number}"

    def __enter__(self) -> Self:
        self._remove()
        try:
            ip("netns", "add", self.namespace)
            ip("link", "add", self._device, "type", "veth", "peer", "name", "far", "netns", self.namespace)
            ip("addr", "add", f"{self.near}/30", "dev", self._device)
            ip("link", "set", self._device, "up")
            ip("-n", self.namespace, "addr", "add", f"{self.far}/30", "dev", "far")
            ip("-n", self.namespace, "link", "set", "far", "up")
            ip("-n", self.namespace, "link", "set", "lo", "up")
        except AssertionError:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def command(self, *arguments: str) -> list[str]:
        """A command line as it is run at the far end."""
        return ["ip", "netns", "exec", self.namespace, *arguments]

    def cut(self) -> None:
        """From now on nothing arrives on either side."""
        ip("link", "set", self._device, "down")

    def mend(self) -> None:
        """Everything arrives again."""
        ip("link", "set", self._device, "up")

    def _remove(self) -> None:
        for command in (["link", "del", self._device], ["netns", "del", self.namespace]):
            subprocess.run(["ip", *command], capture_output=True, check=False, timeout=10)


def ip(*arguments: str) -> None:
    """Run ``ip``; AssertionError when it fails."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 0, (
        f"no network namespace to cut (it takes root and iproute2): ip {' '.join(arguments)}: {done.stderr}"
    )
