"""The base of all asyncio clients: one client instance, from ``start`` to ``close``."""

from __future__ import annotations

import abc
import asyncio
from typing import ClassVar, Self

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.lifetime import Lifetime
from gateway.client.errors import ClientClosed, UsedOnOtherLoop


class Client(Lifetime, abc.ABC):
    """A client with one ``ClientInstance``; ``async with`` starts and closes the client."""

    CLOSE_TIMEOUT: ClassVar[float]
    """Seconds that ``close`` takes, or waits for others, if the call names no timeout."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._instance: ClientInstance | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, _kind: object, *_: object) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """The client id ``ip@instance``, as brokers and tools list this client.

        :raises ClientClosed: the client does not run.
        """
        return self._known_instance().client_id

    @abc.abstractmethod
    async def start(self) -> None:
        """Make the client ready; idempotent."""

    @abc.abstractmethod
    async def close(self, timeout: float = 0.0) -> None:
        """End the client; idempotent."""

    def _closes_now(self) -> bool:
        """Mark the client as closed; return False if it was closed before.

        :raises UsedAfterFork, UsedOnOtherLoop: wrong process or loop.
        """
        self._check_process()
        if self._is_closed:
            return False
        self._check_loop()
        self._is_closed = True
        return True

    async def drop(self) -> None:
        """Close the connections without a word to any server; for a client that no caller has closed."""
        self.abandon()
        if self._instance is not None:
            await self._instance.drop()

    def _running_instance(self) -> ClientInstance:
        """Return the instance, for work on its loop.

        :raises ClientClosed: the client does not run; ``UsedAfterFork``, ``UsedOnOtherLoop``: wrong process or loop.
        """
        instance = self._known_instance()
        self._check_loop()
        return instance

    def _check_loop(self) -> None:
        """Raise ``UsedOnOtherLoop`` unless the call runs on the loop of the start; do nothing before the start."""
        instance = self._instance
        if instance is None or instance.loop is None:
            return
        try:
            is_here = asyncio.get_running_loop() is instance.loop
        except RuntimeError:  # a thread without a loop
            is_here = False
        if not is_here:
            raise UsedOnOtherLoop(self.name)

    def _known_instance(self) -> ClientInstance:
        self._check_process()
        if self._instance is None or self._is_closed:
            raise ClientClosed(self.name)
        return self._instance
