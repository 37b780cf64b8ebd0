"""Tests of what blocking clients have in common."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from typing import Any, ClassVar, cast

import pytest

from gateway.client import process
from gateway.client.blocking.face import GroupFace
from gateway.client.connect.settings import ClientSettings
from gateway.client.errors import ClientClosed, UsedAfterFork


class Core:
    """A consumer that notes what is done to it."""

    settings = ClientSettings()
    group = "g"
    client_id = "10.0.0.1@1"
    CLOSE_TIMEOUT: ClassVar[float] = 10.0

    def __init__(self, name: str = "test consumer g") -> None:
        self.name = name
        self.calls: list[str] = []
        self.threads: set[str] = set()
        self.refuses = False

    async def start(self) -> None:
        self.calls.append("start")
        self.threads.add(threading.current_thread().name)
        if self.refuses:
            raise ValueError("no")

    async def close(self, timeout: float) -> None:
        self.calls.append(f"close {timeout:g}")

    def abandon(self) -> None:
        self.calls.append("abandon")

    def unwatch(self) -> None:
        """Implement ``Lifetime``."""

    async def drop(self) -> None:
        self.calls.append("drop")


def test_it_starts_once_and_ends_once_on_a_thread_of_its_own() -> None:
    core = Core()
    face = GroupFace(cast("Any", core))
    with face:
        face.start()
        assert (face.group, face.client_id) == ("g", "10.0.0.1@1")
    face.close()
    assert core.calls == ["start", "close 10", "abandon"]
    assert core.threads == {"test consumer g"}
    with pytest.raises(ClientClosed):
        face.start()


def test_a_start_that_fails_leaves_no_thread() -> None:
    core = Core("failing consumer g")
    core.refuses = True
    face = GroupFace(cast("Any", core))
    with pytest.raises(ValueError, match="no"):
        face.start()
    assert "failing consumer g" not in {thread.name for thread in threading.enumerate()}
    face.close(1.0)
    assert core.calls == ["start", "abandon"]


def test_it_cannot_be_used_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    face = GroupFace(cast("Any", Core()))
    monkeypatch.setattr(process, "number", -1)
    for call in (face.start, face.close, lambda: face._run(Core().start())):
        with pytest.raises(UsedAfterFork):
            call()


def test_point_16_a_consumer_that_is_forgotten_warns_and_ends_its_thread() -> None:
    core = Core("lost consumer g")
    face = GroupFace(cast("Any", core))
    face.start()
    thread = face._thread._thread
    assert thread is not None
    with pytest.warns(ResourceWarning, match="lost consumer g was not closed"):
        del face
    thread.join(10)
    assert not thread.is_alive()
    assert core.calls == ["start", "drop"]


@pytest.mark.parametrize("interrupted", ["start", "close"])
def test_the_handler_of_a_signal_may_close_what_is_being_started_or_closed(interrupted: str) -> None:
    class Interrupted(Core):
        async def start(self) -> None:
            await super().start()
            if interrupted == "start":
                await self._interrupt()

        async def close(self, timeout: float) -> None:
            await super().close(timeout)
            if interrupted == "close":
                await self._interrupt()

        async def _interrupt(self) -> None:
            os.kill(os.getpid(), signal.SIGUSR1)  # the main thread waits for this coroutine
            while not handled:
                await asyncio.sleep(0.001)

    handled: list[int] = []

    def handler(number: int, _: object) -> None:
        handled.append(number)
        face.close()

    face = GroupFace(cast("Any", Interrupted()))
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with contextlib.suppress(ClientClosed):  # a start that is cut short
            face.start()
        face.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert handled == [signal.SIGUSR1]
    assert not face._thread.is_running
