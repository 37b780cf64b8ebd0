"""A gateway as a child process on free ports of this machine: start, addresses, stop.

The store is a temporary directory, which is removed at the stop, unless a directory is given. The gateway listens on
127.0.0.1 only.
"""

from __future__ import annotations

import errno
import os
import queue
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from gateway.client.blocking.waiting import start

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
MAX_LOG_CHARS = 4_000
"""The number of characters from the end of the log in the error of a failed start."""
READY = "ready "

SMALL_AND_QUICK: Mapping[str, str] = {
    "mappedFileSizeCommitLog": "16777216",
    "flushDiskType": "ASYNC_FLUSH",
}
"""The default settings: little disk space, and no wait for the disk.

``kill`` still loses no message, since the operating system has the data.
"""

CHOICE = range(12_000, 32_000)
"""The ports to choose from, below the ports that systems give to outgoing connections.

Linux gives them from 32,768 on, macOS and Windows from 49,152 on. Any connection of this machine may take such a port
while its server is down, and the server then cannot start again.
"""
TRIES = 1_000
_given: set[int] = set()
"""The ports of earlier calls in this process: a server may be about to listen on one that nothing uses yet."""


def free_port() -> int:
    """Return a port P that nothing uses now; P - 2, on which a broker listens as well (the VIP channel), is also free.

    Two calls in one process never return ports of which a broker would need both.

    :raises OSError: ``EADDRINUSE``, when 1,000 random ports were in use.
    """
    for port in random.choices(CHOICE, k=TRIES):  # noqa: S311 - not a secret
        if _given.isdisjoint((port - 2, port, port + 2)) and _is_free(port) and _is_free(port - 2):
            _given.add(port)
            return port
    raise OSError(errno.EADDRINUSE, f"none of {TRIES} ports between {CHOICE.start} and {CHOICE.stop} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


class ServerNotStarted(RuntimeError):
    """The process ended, or was not ready before the timeout; the text ends with the process's log."""


class GatewayServer:
    """One ``rocketmq-gateway serve``, started by a context manager.

        with GatewayServer() as server:
            producer = Producer("group", namesrv=server.nameserver)

    :param data: the directory of the store, which is kept; None for a temporary directory.
    :param settings: settings by Apache RocketMQ's names, which take precedence over ``SMALL_AND_QUICK``.
    :param port: the broker's port; 0 for a free port, which stays the same after restarts.
    :param nameserver_port: the name server's port, with the same meaning of 0.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        port: int = 0,
        nameserver_port: int = 0,
    ) -> None:
        self._temporary = None if data is not None else Path(tempfile.mkdtemp(prefix="rocketmq-gateway-"))
        self.data = data or self._directory() / "data"
        self.log = self.data.with_name(self.data.name + ".log")
        """The log file of the server, beside ``data``."""
        self._settings = {**SMALL_AND_QUICK, **(settings or {})}
        self._port = port or free_port()
        self._nameserver_port = nameserver_port or free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def nameserver(self) -> str:
        """The ``host:port`` of the name server, for the clients' ``namesrv``."""
        return f"127.0.0.1:{self._nameserver_port}"

    @property
    def broker(self) -> str:
        """The ``host:port`` of the broker."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The id of the running process.

        :raises RuntimeError: the process does not run.
        """
        if self._process is None:
            raise RuntimeError("the gateway does not run: call start() first, or use it in a with statement")
        return self._process.pid

    def start(self) -> None:
        """Start the gateway, and return when clients may connect.

        After ``kill`` the gateway starts with the same store and ports.

        :raises ServerNotStarted: the gateway is not ready within 30 s, or its process ended.
        """
        self.data.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command(), stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """Stop the gateway, after 30 s by force, and remove a temporary store. Idempotent."""
        self._end(force=os.name == "nt")  # terminating is killing there, and nothing else exists
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def kill(self) -> None:
        """End the process as a crash would; the store stays, and ``start`` starts the gateway again."""
        self._end(force=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _directory(self) -> Path:
        assert self._temporary is not None, "without a directory given one is made"
        return self._temporary

    def _command(self) -> list[str]:
        command = [sys.executable, "-P", "-m", "gateway.cli", "serve", "--bind", "127.0.0.1", "--data", str(self.data)]
        command += ["--port", str(self._port), "--nameserver-port", str(self._nameserver_port)]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        """Wait for the process's line with the addresses.

        A thread reads the line, since not every system can wait for a pipe with a timeout.
        """
        assert process.stdout is not None, "it is a pipe"
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        start(threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True))  # type: ignore[union-attr]
        try:
            line = lines.get(timeout=START_TIMEOUT_S)
        except queue.Empty:
            line = ""
        if not line.startswith(READY):
            self.kill()
            raise ServerNotStarted(
                f"rocketmq-gateway was not ready within {START_TIMEOUT_S:g} s, or ended (exit code "
                f"{process.returncode}); its log ends:\n{self._log_end()}"
            )

    def _log_end(self) -> str:
        return self.log.read_text(errors="replace")[-MAX_LOG_CHARS:] if self.log.exists() else ""

    def _end(self, *, force: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            if not force:
                process.terminate()
                process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass  # by force, below
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
