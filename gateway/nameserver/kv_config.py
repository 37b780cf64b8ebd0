"""The name server's key-value configuration: namespace → key → value, kept in ``kvConfig.json``.

Tools keep the order configuration of topics here (namespace ORDER_TOPIC_CONFIG). A change is answered when
it is on disk; when it cannot be written the answer says so, the value holds until the process ends, and the
next change tries again. Upstream: ``KVConfigManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.in_thread import InThread
from gateway.metadata.json_file import JsonFile
from gateway.metadata.write_behind import WriteBehind
from wire.codes import ResponseCode
from wire.disk.config_json import build_kv_config, parse_kv_config

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Never change: tools write the order configuration of topics under it (``NamesrvUtil``)."""
MAX_ENTRIES = 100_000
MAX_VALUE_CHARACTERS = 1_000_000


class KvConfig:
    """The table and its file.

    :param path: read now; created with the first change.
    :raises GatewayError: the file and its backup cannot be read.
    """

    def __init__(self, path: Path, in_thread: InThread) -> None:
        file = JsonFile(path)
        self._table: dict[str, dict[str, str]] = {
            namespace: dict(values) for namespace, values in (file.load(parse_kv_config) or {}).items()
        }
        self._entries = sum(len(values) for values in self._table.values())
        self._file = WriteBehind(file, lambda: build_kv_config(self._table), in_thread)

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """All values of a namespace, or None when it was never written to."""
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value and wait until it is on disk.

        :raises RequestRefused: a limit is reached, or the file cannot be written.
        """
        if max(len(namespace), len(key), len(value)) > MAX_VALUE_CHARACTERS:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"a name or value has more than {MAX_VALUE_CHARACTERS} characters"
            )
        values = self._table.get(namespace, {})
        if key not in values:
            if self._entries >= MAX_ENTRIES:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the limit of {MAX_ENTRIES} values is reached")
            self._entries += 1
        self._table.setdefault(namespace, {})[key] = value
        await self._saved()

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if there is one, and wait until that is on disk.

        :raises RequestRefused: the file cannot be written.
        """
        values = self._table.get(namespace, {})
        if values.pop(key, None) is not None:
            self._entries -= 1
            await self._saved()

    def _saved(self) -> Deferred[None]:
        saved: Deferred[None] = Deferred()
        self._file.touch()
        self._file.save(lambda failure: _report(saved, failure))
        return saved


def _report(saved: Deferred[None], failure: BaseException | None) -> None:
    if failure is None:
        saved.callback(None)
    else:
        saved.errback(RequestRefused(ResponseCode.SYSTEM_ERROR, f"the change is not on disk: {failure}"))
