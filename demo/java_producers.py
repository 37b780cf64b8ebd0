"""Producers of the stock Java client, in a container; its program is ``java/Shop.java``."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from demo.orders import Shop

FOLDER = Path(__file__).resolve().parent / "java"
BASE_IMAGE = FOLDER.parent.parent / "docker" / "base-image"
TAG = "rocketmq-gateway-demo"
ENGINE_TIMEOUT_S = 10.0
BUILD_TIMEOUT_S = 300.0
"""For downloading Debian, Java and Maven, the first time."""
START_TIMEOUT_S = 60.0
TRADE_TIMEOUT_S = 30.0
"""Longer than the trade itself."""
STOP_TIMEOUT_S = 10.0
KEPT_LINES = 20
"""Of what the program says besides, for the error when it ends too soon."""


class JavaProducersMissingError(RuntimeError):
    """Java's producers cannot run here; the text is the reason, in one line."""


def build_image() -> str:
    """The id of the image with the program; quick when nothing has changed.

    :raises JavaProducersMissingError: there is no Docker, or it cannot build.
    """
    if shutil.which("docker") is None:
        raise JavaProducersMissingError("there is no docker on this machine")
    _said(["docker", "version", "--format", "{{.Server.Version}}"], ENGINE_TIMEOUT_S, "no Docker engine answers")
    _said([str(BASE_IMAGE)], BUILD_TIMEOUT_S, "there is no image of Debian")
    built = _said(
        ["docker", "build", "--quiet", "--force-rm", str(FOLDER)], BUILD_TIMEOUT_S, "the image does not build"
    )
    return built.split()[-1]


@contextmanager
def java_producers(image: str, shop: Shop) -> Iterator[JavaProducers]:
    """A container with a producer for each group, ready; it is gone after the block.

    :raises JavaProducersMissingError: it did not start, or does not reach the name server.
    """
    producers = JavaProducers(image, shop)
    try:
        producers.wait_for("ready", START_TIMEOUT_S)
        yield producers
    finally:
        producers.close()


class JavaProducers:
    """Tells the program in the container what to do, and notes what it says of its orders.

    The program ends when its standard input does, so the container does not outlive this process either.
    """

    name = "Java"

    def __init__(self, image: str, shop: Shop) -> None:
        self._container = f"rocketmq-gateway-demo-{os.getpid()}"
        command = ["docker", "run", "--interactive", "--rm", "--network", "host", "--name", self._container, image]
        self._process = subprocess.Popen(
            [*command, shop.nameserver, shop.topic, *shop.groups],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # who is interrupted is this process, which then ends the container
        )
        self._orders = shop.orders
        self._states: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._besides: deque[str] = deque(maxlen=KEPT_LINES)
        assert self._process.stdout is not None, "it is a pipe"
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def trade(self, seconds: float) -> None:
        """Place orders for so long, at least one from each producer.

        :raises JavaProducersMissingError: the program has failed.
        """
        assert self._process.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError):  # it has ended, which is noticed below
            self._process.stdin.write(f"trade {seconds:g}\n")
            self._process.stdin.flush()
        self.wait_for("traded", seconds + TRADE_TIMEOUT_S)

    def wait_for(self, state: str, timeout_s: float) -> None:
        """Wait until the program says that it is so.

        :raises JavaProducersMissingError: it ended, or did not say it in time.
        """
        try:
            found = self._states.get(timeout=timeout_s)
        except queue.Empty:
            raise JavaProducersMissingError(f"the Java program was not {state} within {timeout_s:g} s") from None
        if found != state:
            raise JavaProducersMissingError(
                f"the Java program ended: {self._besides[-1] if self._besides else 'it said nothing'}"
            )

    def close(self) -> None:
        """End the program, at the latest after some seconds by force. Idempotent."""
        assert self._process.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with suppress(JavaProducersMissingError):
                _said(["docker", "rm", "--force", self._container], ENGINE_TIMEOUT_S, "the container stays")
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join(STOP_TIMEOUT_S)

    def _read(self, said: IO[str]) -> None:
        with said:
            for line in said:
                self._take(line.split())
        self._states.put("ended")

    def _take(self, words: list[str]) -> None:
        match words:
            case ["ready" | "traded" as state]:
                self._states.put(state)
            case ["committed" | "rolled_back" as outcome, msg_id]:
                self._orders.note(msg_id, is_committed=outcome == "committed")
            case ["forgotten", msg_id, outcome]:
                self._orders.forget(msg_id, is_committed=outcome == "committed")
            case ["checked", msg_id, _]:
                self._orders.asked(msg_id)
            case _:
                self._besides.append(" ".join(words))


def _said(command: Sequence[str], timeout_s: float, failure: str) -> str:
    """Return the output of a command. If it takes too long or is interrupted, it is ended with all its processes.

    :raises JavaProducersMissingError: it failed; the text is ``failure`` and its last line.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise JavaProducersMissingError(f"{failure}: not within {timeout_s:g} s") from None
    finally:
        _end(process)
    if process.returncode != 0:
        lines = (errors or output).strip().splitlines() or [f"exit status {process.returncode}"]
        raise JavaProducersMissingError(f"{failure}: {lines[-1]}")
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """Have a process and its group end, if they have not."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
