"""The admin client: questions and orders of operators, by subject.

    async with AdminClient(namesrv="localhost:9876") as admin:
        await admin.topics.create("orders", queues=8)
        print(await admin.offsets.lag("billing"))

It asks name servers and the masters of brokers, and is no member of any group. What a server does not do it refuses,
which is a ``BrokerError`` here. Names are as brokers know them: a namespace is not added.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from gateway.client.aio.admin_calls import AdminCalls
from gateway.client.aio.admin_cluster import AdminCluster
from gateway.client.aio.admin_groups import AdminGroups
from gateway.client.aio.admin_messages import AdminMessages
from gateway.client.aio.admin_offsets import AdminOffsets
from gateway.client.aio.admin_topics import AdminTopics
from gateway.client.aio.instance import ClientInstance
from gateway.client.errors import ClientClosed, UsedAfterFork
from gateway.client.settings import ClientSettings


class AdminClient:
    """Administration; ``topics``, ``groups``, ``offsets``, ``messages`` and ``cluster`` hold the methods.

    :param settings: None: ``ClientSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :raises ConfigurationError: a setting cannot work.
    """

    def __init__(self, settings: ClientSettings | None = None, *, namesrv: str | Sequence[str] | None = None) -> None:
        chosen = settings if settings is not None else ClientSettings.from_env()
        self.settings = chosen if namesrv is None else chosen.with_changes(namesrv=namesrv)
        self._pid = os.getpid()
        self._instance: ClientInstance | None = None
        calls = AdminCalls(self._running)
        self.topics = AdminTopics(calls)
        self.groups = AdminGroups(calls)
        self.offsets = AdminOffsets(calls)
        self.messages = AdminMessages(calls)
        self.cluster = AdminCluster(calls)

    async def start(self) -> None:
        """Make it ready; nothing is connected before it is needed. Idempotent.

        :raises ConfigurationError: there is no address of a name server.
        """
        if self._instance is None:
            instance = ClientInstance(self.settings)
            await instance.start()
            self._instance = instance

    async def close(self, timeout: float = 5.0) -> None:
        """Close the connections, within ``timeout`` seconds. Idempotent."""
        instance, self._instance = self._instance, None
        if instance is not None:
            async with asyncio.timeout(timeout):
                await instance.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_instance", None) is not None and self._pid == os.getpid():
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def _running(self) -> ClientInstance:
        if self._pid != os.getpid():
            raise UsedAfterFork("AdminClient")
        if self._instance is None:
            raise ClientClosed("AdminClient")
        return self._instance
