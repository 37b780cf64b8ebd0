"""Clusters and brokers: their names and addresses, their figures and settings."""

from __future__ import annotations

from typing import Any

from gateway.client.admin.admin_calls import AdminCalls, json_of
from gateway.client.connect.answers import body_of, settings_of
from gateway.client.errors import ProtocolError
from wire.bodies.route import ClusterInfo
from wire.bodies.tools.statistics import ConsumeStatsList, KVTable
from wire.codes import RequestCode
from wire.headers.admin import GetConsumeStatsInBrokerRequest


class AdminCluster:
    """Requests about brokers. The caller names a broker, and its master answers."""

    def __init__(self, calls: AdminCalls) -> None:
        self._calls = calls

    async def info(self) -> ClusterInfo:
        """Return all brokers that the name servers know: addresses by broker id by name, and names by cluster."""
        return await self._calls.cluster()

    async def runtime(self, broker_name: str) -> dict[str, str]:
        """Return the figures of a broker by name, as the broker writes them (upstream ``fetchBrokerRuntimeStats``)."""
        address = await self._calls.master(broker_name)
        return dict(
            body_of(KVTable, await self._calls.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO), address).table
        )

    async def config(self, broker_name: str) -> dict[str, str]:
        """Return the settings of a broker by Apache RocketMQ's names."""
        address = await self._calls.master(broker_name)
        answer = await self._calls.ask(address, RequestCode.GET_BROKER_CONFIG)
        try:
            text = answer.body.decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(address, "the settings are not UTF-8") from error
        return settings_of(text)

    async def set_config(self, broker_name: str, changes: dict[str, str]) -> None:
        """Change settings of a running broker.

        :raises BrokerError: a setting cannot be changed, or has an impossible value.
        """
        body = "".join(f"{name}={value}\n" for name, value in changes.items()).encode()
        await self._calls.ask(await self._calls.master(broker_name), RequestCode.UPDATE_BROKER_CONFIG, body=body)

    async def consume_stats(self, broker_name: str, *, ordered_only: bool = False) -> ConsumeStatsList:
        """Return the progress of all groups of a broker.

        :raises BrokerError: the broker does not answer this request.
        """
        address = await self._calls.master(broker_name)
        header = GetConsumeStatsInBrokerRequest(is_order=ordered_only)
        return body_of(
            ConsumeStatsList, await self._calls.ask(address, RequestCode.GET_BROKER_CONSUME_STATS, header), address
        )

    async def delay_offsets(self, broker_name: str) -> dict[str, Any]:
        """Return the progress of a broker in its delay levels, as a slave gets it.

        :raises BrokerError: the broker does not answer this request.
        """
        address = await self._calls.master(broker_name)
        return json_of(await self._calls.ask(address, RequestCode.GET_ALL_DELAY_OFFSET), address)
