"""Configurations by name, for topics and groups: with a version, a limit, and a share of the limit for each host."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec.structs import replace

from gateway.errors import RequestRefused
from gateway.in_thread import InThread
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.saved_table import Content, SavedTable, next_version
from gateway.shares import Shares, counted_host
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import DataVersion, TopicConfig
from wire.codes import ResponseCode

NOBODY = ""
"""The maker of names that no client made automatically."""
CLIENTS = "clients"
"""The maker of names that clients of an unknown host made."""
MAX_FOLLOWED: Final = 200_000
"""The names of one table that a slave takes of its master.

A master makes some names beyond its own limit of 100,000: those of the system, and of messages that have no topic.
"""


class Makers:
    """A counter of names, which remembers the host that made each name since the start.

    A host that makes names automatically gets a share of the limit. Names that operators make, that a file brings back,
    or that the broker itself needs count for no host. These names are refused only at the limit.

    :param limit: the number of names in all.
    :param what: the kind of names, for refusals.
    """

    def __init__(self, limit: int, what: str) -> None:
        self.what = what
        self._shares: Shares[str] = Shares(limit)
        self._hosts: dict[str, str] = {}

    def check_room(self, host: str, new: int = 1) -> None:
        """Check that a host may make ``new`` more names.

        :raises RequestRefused: SYSTEM_BUSY, the limit or the share of the host is reached.
        """
        shares, holder = self._shares, counted_host(host)
        if host == NOBODY:
            if new and shares.used + new > shares.total:
                raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"the broker has {shares.total} {self.what}, the limit")
        elif not shares.has_room(holder, new):
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY, shares.refusal(holder, f"{self.what} made automatically for {host}")
            )

    def made(self, name: str, host: str = NOBODY) -> None:
        """Count a new name."""
        holder = counted_host(host)
        self._shares.add(holder)
        if holder != NOBODY:
            self._hosts[name] = holder

    def gone(self, name: str) -> None:
        """Stop counting a name that does not exist any more."""
        self._shares.give_back(self._hosts.pop(name, NOBODY))


if TYPE_CHECKING:
    from gateway.clock import Milliseconds

Config = TypeVar("Config", TopicConfig, SubscriptionGroupConfig)


class NamedConfigs(SavedTable[Content], Generic[Content, Config]):
    """A table of configurations.

    :param clock_ms: returns the time for versions, in milliseconds.
    :param makers: counts the names.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[bytes], Content],
        clock_ms: Milliseconds,
        makers: Makers,
        in_thread: InThread,
        disk: ConfigDisk | None,
    ) -> None:
        super().__init__(path, parse, in_thread, disk)
        self._clock_ms = clock_ms
        self._makers = makers
        self._table: dict[str, Config] = {}
        self._version = DataVersion(timestamp=clock_ms())
        self._extra: Mapping[str, Any] = {}

    def table(self) -> Mapping[str, Config]:
        """Return all configurations by name; a view that changes with the table."""
        return MappingProxyType(self._table)

    @property
    def data_version(self) -> DataVersion:
        """The version of the table, which rises with every change; name servers compare the version of topics."""
        return self._version

    def put(self, config: Config) -> bool:
        """Create or replace a configuration; return False if the table already has exactly this one.

        :raises RequestRefused: SYSTEM_BUSY, a limit is reached.
        """
        return bool(self.put_all([config]))

    def put_all(self, configs: list[Config], maker: str = NOBODY) -> list[str]:
        """Create or replace several configurations as one change; return the names of those that changed.

        :param maker: the host for whose client the names are made automatically.
        :raises RequestRefused: SYSTEM_BUSY, a limit or the share of the host is reached; nothing is changed.
        """
        fresh = [
            (name, config)
            for name, config in ((self._name_of(given), self._with_kept(given)) for given in configs)
            if self._table.get(name) != config
        ]
        new = sum(name not in self._table for name, _ in fresh)
        self._makers.check_room(maker, new)
        self._check_sizes([config for _, config in fresh])
        for name, config in fresh:
            if name not in self._table:
                self._makers.made(name, maker)
            self._place(name, config)
        if fresh:
            self._changed()
        return [name for name, _ in fresh]

    def _check_sizes(self, fresh: list[Config]) -> None:
        """Check that new and changed configurations are not too large together.

        :raises RequestRefused: SYSTEM_BUSY, they are.
        """

    def _place(self, name: str, config: Config) -> None:
        """Set a configuration without a check."""
        self._table[name] = config

    @staticmethod
    @abstractmethod
    def _name_of(config: Config) -> str:
        """Return the name of a topic or group."""

    def _remove(self, name: str) -> bool:
        """Take a name out of the table; return False if it is not there."""
        if name not in self._table:
            return False
        del self._table[name]
        self._makers.gone(name)
        return True

    def _take_over(self, configs: Mapping[str, Config], version: DataVersion, extra: Mapping[str, Any]) -> None:
        """Continue with the content of a file."""
        for name, config in configs.items():
            if name not in self._table:
                self._makers.made(name)
            self._place(name, config)
        self._version = version
        self._extra = extra

    def _make_missing(self, configs: Iterable[Config]) -> None:
        """Make those of these names that are missing, as one change, also beyond the limits."""
        missing = {self._name_of(config): config for config in configs if self._name_of(config) not in self._table}
        if missing:
            self._take_over(missing, self._version, self._extra)
            self._changed()

    def _follow(self, configs: Mapping[str, Config], version: DataVersion) -> list[str]:
        """Become the table of a master, with its version; return the names that are gone.

        :raises RequestRefused: SYSTEM_BUSY, the master has more names than ``MAX_FOLLOWED``; nothing is changed.
        """
        if len(configs) > MAX_FOLLOWED:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"the master has {len(configs)} {self._makers.what}, a slave takes {MAX_FOLLOWED} at most",
            )
        gone = [name for name in self._table if name not in configs]
        for name in gone:
            self._remove(name)
        self._take_over(configs, version, self._extra)
        self._changed(version)
        return gone

    def _with_kept(self, config: Config) -> Config:
        """Return a new configuration with the unknown members that the present one carries from other versions."""
        current = self._table.get(self._name_of(config))
        if current is None or not current.extra or config.extra:
            return config
        return replace(config, extra=current.extra)

    def _changed(self, version: DataVersion | None = None) -> None:
        """Note a change, which makes the next version, or the master's."""
        self._version = next_version(self._version, self._clock_ms()) if version is None else version
        self._writer.touch()
        self._writer.save()
