"""The name server's key-value configuration: namespace → key → value, kept in ``kvConfig.json``.

Tools keep the order configuration of topics here (namespace ORDER_TOPIC_CONFIG). A change is answered when the change
is on disk. If the file cannot be written, the answer says so. The value then holds until the process ends, and the next
change tries again to write the file. Changes that come during a write share the next write. Upstream:
``KVConfigManager``.

Everybody may write here, so there are limits, in bytes of the JSON that the values become. A namespace is one answer,
and the order configuration is part of the answer to every registration. All namespaces are one file, which each write
replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.in_thread import InThread
from gateway.metadata.saved.json_file import JsonFile
from gateway.metadata.saved.write_behind import WriteBehind
from gateway.shares import Shares
from wire.codes import ResponseCode
from wire.disk.config_json import build_kv_config, parse_kv_config

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""The namespace in which tools keep the order configuration of topics (``NamesrvUtil``). Never change this name."""
MAX_ENTRIES = 100_000
"""The largest number of values in all namespaces."""
MAX_NAMESPACES = 1_000
"""The largest number of namespaces that have a value."""
MAX_NAME_BYTES = 1_024
"""The most JSON bytes of a namespace's name, and of a key."""
MAX_VALUE_BYTES = 65_536
"""The most JSON bytes of a value: the order configuration of a topic on 1,000 brokers takes 30,000."""
MAX_NAMESPACE_BYTES = 4 << 20
"""The most JSON bytes of a namespace: the order configuration of 10,000 topics on ten brokers takes 2.5 MB."""
MAX_TOTAL_BYTES = 16 << 20
"""The most JSON bytes of all namespaces, of which each namespace gets a share."""
_ENTRY_SIGNS = len('"":"",')


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLimits:
    """The limits of what is kept; sizes in bytes of JSON."""

    entries: int = MAX_ENTRIES
    namespaces: int = MAX_NAMESPACES
    name_bytes: int = MAX_NAME_BYTES
    value_bytes: int = MAX_VALUE_BYTES
    namespace_bytes: int = MAX_NAMESPACE_BYTES
    total_bytes: int = MAX_TOTAL_BYTES


class KvConfig:
    """The table of values and its file.

    :param path: the file, which is read now and created with the first change. Content beyond the limits stays, and
        cannot grow.
    :raises GatewayError: neither the file nor its backup can be read.
    """

    def __init__(self, path: Path, in_thread: InThread, limits: KvLimits | None = None) -> None:
        self._limits = limits or KvLimits()
        self.path = path
        file = JsonFile(path)
        self._table: dict[str, dict[str, str]] = {
            namespace: dict(values) for namespace, values in (file.load(parse_kv_config) or {}).items() if values
        }
        self._entries = sum(len(values) for values in self._table.values())
        self._bytes: Shares[str] = Shares(self._limits.total_bytes)
        for namespace, values in self._table.items():
            self._bytes.add(namespace, sum(_entry_bytes(key, value) for key, value in values.items()))
        self._file = WriteBehind(file, self._frozen, in_thread)

    def get(self, namespace: str, key: str) -> str | None:
        """Return one value, or None."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """Return all values of a namespace, or None if the namespace has no value.

        :raises RequestRefused: the namespace came from a file and is larger than an answer may be.
        """
        held = self._bytes.held(namespace)
        if held > self._limits.namespace_bytes:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"namespace {namespace[:64]} has {held} bytes, an answer may have {self._limits.namespace_bytes}",
            )
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value and wait until the value is on disk.

        :raises RequestRefused: a limit is reached, or the file cannot be written.
        """
        self._check_texts(namespace, key, value)
        former = self.get(namespace, key)
        more = _entry_bytes(key, value) - (0 if former is None else _entry_bytes(key, former))
        self._check_room(namespace, is_new=former is None, more=more)
        if former is None:
            self._entries += 1
        self._bytes.add(namespace, more)
        self._table.setdefault(namespace, {})[key] = value
        self._file.touch()
        await self._saved()

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if there is one, and wait until every change is on disk.

        :raises RequestRefused: the file cannot be written.
        """
        values = self._table.get(namespace, {})
        value = values.pop(key, None)
        if value is not None:
            if not values:
                del self._table[namespace]
            self._entries -= 1
            self._bytes.give_back(namespace, _entry_bytes(key, value))
            self._file.touch()
        await self._saved()  # also an earlier deletion that did not reach the disk

    def _check_texts(self, namespace: str, key: str, value: str) -> None:
        limits = self._limits
        for name, text, most in (
            ("the namespace", namespace, limits.name_bytes),
            ("the key", key, limits.name_bytes),
            ("the value", value, limits.value_bytes),
        ):
            try:
                size = _json_bytes(text)
            except UnicodeEncodeError as error:
                raise _refused(f"{name} is no Unicode text") from error
            if size > most:
                raise _refused(f"{name} takes {size} bytes, the limit is {most}")

    def _check_room(self, namespace: str, *, is_new: bool, more: int) -> None:
        limits, held = self._limits, self._bytes
        if is_new and self._entries >= limits.entries:
            raise _refused(f"the limit of {limits.entries} values is reached")
        if namespace not in self._table and len(self._table) >= limits.namespaces:
            raise _refused(f"the limit of {limits.namespaces} namespaces is reached")
        if more > 0 and held.held(namespace) + more > limits.namespace_bytes:
            raise _refused(f"a namespace may have {limits.namespace_bytes} bytes, {held.held(namespace)} are there")
        if more > 0 and not held.has_room(namespace, more):
            raise _refused(held.refusal(namespace, f"bytes of namespace {namespace[:64]}"))

    def _frozen(self) -> Callable[[], bytes]:
        table = {namespace: values.copy() for namespace, values in self._table.items()}
        return lambda: build_kv_config(table)

    def _saved(self) -> Deferred[None]:
        saved: Deferred[None] = Deferred()
        self._file.save(lambda failure: _report(saved, failure))
        return saved


def _json_bytes(text: str) -> int:
    """Return the length of a text in JSON without its quotes: a control character takes six bytes there."""
    return len(msgspec.json.encode(text)) - 2


def _entry_bytes(key: str, value: str) -> int:
    return _json_bytes(key) + _json_bytes(value) + _ENTRY_SIGNS


def _refused(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, remark)


def _report(saved: Deferred[None], failure: BaseException | None) -> None:
    if failure is None:
        saved.callback(None)
    else:
        saved.errback(RequestRefused(ResponseCode.SYSTEM_ERROR, f"the change is not on disk: {failure}"))
