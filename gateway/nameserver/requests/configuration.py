"""The key-value configuration, and the name server's own settings.

Upstream: ``DefaultRequestProcessor`` (name server). The settings can be read over the network but not changed: their
only source is on the machine of this process.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.nameserver.kv_config import KvConfig
from gateway.remoting.declared import ADMIN_UPDATE, CLUSTER_GET, CLUSTER_UPDATE, Size
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import table_text
from gateway.remoting.requests import Requests, answers
from gateway.remoting.turns import Turns, Work
from gateway.settings import NameServerSettings
from gateway.settings.declare import declarations
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode, ResponseCode
from wire.headers.name_server import (
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListByNamespaceRequest,
    PutKVConfigRequest,
)


class ConfigurationRequests(Requests):
    """Requests for key-value pairs and settings."""

    def __init__(self, *, kv_config: KvConfig, settings: NameServerSettings, turns: Turns) -> None:
        self._turns = turns
        self._kv_config = kv_config
        self._settings = settings

    @answers(RequestCode.PUT_KV_CONFIG, PutKVConfigRequest, CLUSTER_UPDATE)
    async def put(self, request: Request, header: PutKVConfigRequest) -> Answer:  # noqa: ARG002
        """Set a value; the answer comes when the value is on disk."""
        await self._kv_config.put(header.namespace, header.key, header.value)
        return Answer()

    @answers(RequestCode.GET_KV_CONFIG, GetKVConfigRequest, CLUSTER_GET, Size.LARGE)
    def get(self, request: Request, header: GetKVConfigRequest) -> Answer:  # noqa: ARG002
        """Answer with one value."""
        value = self._kv_config.get(header.namespace, header.key)
        if value is None:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return Answer(header=GetKVConfigResponse(value=value))

    @answers(RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequest, CLUSTER_UPDATE)
    async def delete(self, request: Request, header: DeleteKVConfigRequest) -> Answer:  # noqa: ARG002
        """Remove a value, if there is one; the answer comes when every change is on disk."""
        await self._kv_config.delete(header.namespace, header.key)
        return Answer()

    @answers(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequest, CLUSTER_GET, Size.LIST)
    def namespace(self, request: Request, header: GetKVListByNamespaceRequest) -> Deferred[Answer]:
        """Answer with all values of a namespace."""
        values = self._kv_config.namespace(header.namespace)
        if values is None:
            raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}")
        return self._turns.run(_table_of(header.namespace, sorted(values.items())), request.channel)

    @answers(RequestCode.UPDATE_NAMESRV_CONFIG, None, ADMIN_UPDATE)
    def update_settings(self, request: Request, header: None) -> Answer:  # noqa: ARG002
        """Refuse to change the settings."""
        raise RequestRefused(
            ResponseCode.NO_PERMISSION, "the settings of this name server are not changed over the network"
        )

    @answers(RequestCode.GET_NAMESRV_CONFIG, None, CLUSTER_GET)
    def settings(self, request: Request, header: None) -> Answer:  # noqa: ARG002
        """Answer with the effective settings as Java properties text, one ``key=value`` a line."""
        in_effect = {"kv_config_path": str(self._kv_config.path)}
        lines = [
            f"{key}={in_effect.get(name := declaration.attribute, declaration.shown(getattr(self._settings, name)))}"
            for key, declaration in declarations(NameServerSettings).items()
        ]
        return Answer(body="\n".join(lines).encode())


def _table_of(namespace: str, values: list[tuple[str, str]]) -> Work[Answer]:
    advice = f"they are {len(values)} values, ask for single keys"
    table: Any = yield from table_text(f"namespace {namespace[:64]}", values, advice=advice)
    return Answer(body=KVTable(table=table).build())
