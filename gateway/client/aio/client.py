"""What all clients for asyncio have in common: one client instance, from ``start`` to ``close``."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import ClassVar, Self

from gateway.client.aio.instance import ClientInstance
from gateway.client.errors import ClientClosed
from gateway.client.lifetime import Lifetime


class Client(Lifetime, abc.ABC):
    """See the module; ``async with`` starts and closes it."""

    CLOSE_TIMEOUT: ClassVar[float]
    """Seconds ``close`` takes, or waits for others, unless it is told otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._instance: ClientInstance | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """``ip@instance``, as brokers and tools list this client.

        :raises ClientClosed: it does not run.
        """
        return self._running_instance().client_id

    @abc.abstractmethod
    async def start(self) -> None:
        """Make it ready; idempotent."""

    @abc.abstractmethod
    async def close(self) -> None:
        """End it; idempotent."""

    @property
    def _holds_something(self) -> bool:
        return self._instance is not None

    def _running_instance(self) -> ClientInstance:
        self._check_process()
        if self._instance is None or self._is_closed:
            raise ClientClosed(self.name)
        return self._instance
