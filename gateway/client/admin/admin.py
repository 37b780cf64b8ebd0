"""The admin client: requests of operators, by subject.

    async with AdminClient(namesrv="localhost:9876") as admin:
        await admin.topics.create("orders", queues=8)
        print(await admin.offsets.lag("billing"))

The client asks name servers and the masters of brokers, and is not a member of any group. A server refuses a request
that it does not support; the refusal is a ``BrokerError`` here. With a ``namespace`` in the settings, names of
applications are names within the namespace. Reports of brokers and clients (clusters, connections, running info,
tables) keep the names that brokers know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.client.admin.admin_calls import AdminCalls
from gateway.client.admin.admin_cluster import AdminCluster
from gateway.client.admin.admin_groups import AdminGroups
from gateway.client.admin.admin_messages import AdminMessages
from gateway.client.admin.admin_offsets import AdminOffsets
from gateway.client.admin.admin_topics import AdminTopics
from gateway.client.connect.client import Client
from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings


class AdminClient(Client):
    """Administration; ``topics``, ``groups``, ``offsets``, ``messages`` and ``cluster`` hold the methods.

    :param settings: None: ``ClientSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :raises ConfigurationError: a setting cannot work.
    """

    CLOSE_TIMEOUT = 5.0

    def __init__(self, settings: ClientSettings | None = None, *, namesrv: str | Sequence[str] | None = None) -> None:
        super().__init__("AdminClient")
        self.settings = ClientSettings.chosen(settings, namesrv)
        calls = AdminCalls(self._running_instance, self.settings.namespace)
        self.topics = AdminTopics(calls)
        self.groups = AdminGroups(calls)
        self.offsets = AdminOffsets(calls)
        self.messages = AdminMessages(calls)
        self.cluster = AdminCluster(calls)

    async def start(self) -> None:
        """Make the client ready; nothing is connected before it is needed. Idempotent.

        :raises ConfigurationError: the settings name no name server.
        :raises ClientClosed: the client was closed before: make a new client.
        """
        self._check_usable()
        if self._instance is None:
            self._instance = ClientInstance(self.settings)
            self._watch()
            await self._instance.start()

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Close the connections, within ``timeout`` seconds. Idempotent."""
        if self._closes_now() and self._instance is not None:
            async with asyncio.timeout(timeout):
                await self._instance.close()
