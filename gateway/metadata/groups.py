"""The subscription groups of this broker: what consumers of a group may do, and how often they retry.

Upstream: ``SubscriptionGroupManager`` and its file ``subscriptionGroup.json``. Who is connected is in
``gateway.membership``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gateway.errors import RequestRefused
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.makers import CLIENTS, NOBODY, Makers
from gateway.metadata.names import SYSTEM_GROUP_PREFIX, TRANSACTION_GROUP, group_name_fault
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.data_versions import next_version
from gateway.metadata.saved.saved_table import SavedTable
from gateway.telemetry.logs import EventLog
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import DataVersion
from wire.codes import ResponseCode
from wire.disk.config_json import GroupsFile
from wire.message.light_queues import is_light_queue

if TYPE_CHECKING:
    from gateway.clock import Milliseconds
    from gateway.settings.broker import BrokerSettings

MAX_GROUPS = 100_000
"""Subscription groups of one broker."""

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""What upstream creates at start."""

NOT_READABLE = 4
"""The bit of a forbidden group and topic, upstream's permission to read. Never change: it is on disk."""

log = EventLog("groups")


class Groups(SavedTable[GroupsFile]):
    """All subscription groups by name.

    :param path: ``config/subscriptionGroup.json`` of the data directory.
    :param in_thread: runs the writes; the default writes at once, for tools and tests.
    """

    def __init__(
        self,
        *,
        path: Path,
        settings: BrokerSettings,
        clock_ms: Milliseconds,
        in_thread: InThread = in_this_thread,
        max_groups: int = MAX_GROUPS,
        disk: ConfigDisk | None = None,
    ) -> None:
        super().__init__(path, GroupsFile.parse, in_thread, disk)
        self._settings = settings
        self._clock_ms = clock_ms
        self._max_groups = max_groups
        self._makers = Makers(max_groups, "subscription groups")
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self._version = DataVersion(timestamp=clock_ms())
        self._forbidden: dict[str, dict[str, int]] = {}
        self._extra: Mapping[str, Any] = {}

    def use(self, settings: BrokerSettings) -> None:
        """Go on with changed settings."""
        self._settings = settings

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The group's configuration as it is kept, or None. Light queues are groups, too, while there are such."""
        config = self._table.get(group)
        if config is None and self._settings.enable_lmq and is_light_queue(group):
            return SubscriptionGroupConfig(group_name=group)
        return config

    def find(self, group: str, maker: str = CLIENTS) -> SubscriptionGroupConfig | None:
        """The group, created with the defaults where that is allowed (autoCreateSubscriptionGroup).

        None for a group that may not be created, or whose name is none a group may have.

        :param maker: as for ``put_all``.
        """
        config = self.get(group)
        if config is not None:
            return config
        if not (self._settings.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)):
            return None
        if group_name_fault(group) is not None:
            return None
        config = SubscriptionGroupConfig(group_name=group)
        self.put_all([config], maker)
        log.info("subscription group created", group=group)
        return config

    def table(self) -> Mapping[str, SubscriptionGroupConfig]:
        """All groups; a view that changes with the table."""
        return MappingProxyType(self._table)

    @property
    def data_version(self) -> DataVersion:
        """Rises with every change."""
        return self._version

    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Group → topic → bits of what the group may not do there; a view that changes with the table."""
        return MappingProxyType(self._forbidden)

    def may_read(self, group: str, topic: str) -> bool:
        """Whether nobody forbade a group to read a topic."""
        topics = self._forbidden.get(group)
        return topics is None or not topics.get(topic, 0) & NOT_READABLE

    def set_readable(self, group: str, topic: str, readable: bool) -> None:
        """Forbid a group to read a topic, or allow it again.

        :raises RequestRefused: SYSTEM_BUSY, as many topics as groups may exist are forbidden to this group.
        """
        topics = self._forbidden.get(group, {})
        bits = topics.get(topic, 0)
        changed = bits & ~NOT_READABLE if readable else bits | NOT_READABLE
        if changed == bits:
            return
        if topic not in topics and sum(map(len, self._forbidden.values())) >= self._max_groups:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{self._max_groups} topics are forbidden, the limit")
        self._forbidden.setdefault(group, {})[topic] = changed
        if not changed:
            del self._forbidden[group][topic]
        if not self._forbidden[group]:
            del self._forbidden[group]
        self._changed()

    def is_system(self, group: str) -> bool:
        """Whether no request may delete this group."""
        return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)

    def put(self, config: SubscriptionGroupConfig) -> bool:
        """Create or replace a group; False when it is already exactly like this.

        :raises RequestRefused: SYSTEM_BUSY, the limit of groups is reached.
        """
        return bool(self.put_all([config]))

    def put_all(self, configs: list[SubscriptionGroupConfig], maker: str = NOBODY) -> list[str]:
        """Create or replace several groups as one change; the names of those that changed.

        :param maker: the host for whose client they are made by the way.
        :raises RequestRefused: SYSTEM_BUSY, the limit of groups is reached, or the share of the host.
        """
        fresh = [config for config in map(self._with_kept, configs) if self._table.get(config.group_name) != config]
        new = sum(config.group_name not in self._table for config in fresh)
        self._makers.check_room(maker, new)
        for config in fresh:
            if config.group_name not in self._table:
                self._makers.made(config.group_name, maker)
            self._table[config.group_name] = config
        if fresh:
            self._changed()
        return [config.group_name for config in fresh]

    def delete(self, group: str) -> bool:
        """Remove a group; False when there was none.

        :raises RequestRefused: INVALID_PARAMETER, it belongs to the system.
        """
        if self.is_system(group):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"The group[{group}] is a system group, it cannot be deleted"
            )
        if group not in self._table:
            return False
        del self._table[group]
        self._makers.gone(group)
        self._forbidden.pop(group, None)
        self._changed()
        log.info("subscription group deleted", group=group)
        return True

    def create_system_groups(self) -> None:
        """Make the system groups that are missing; those that exist stay as they are."""
        self.put_all([SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS if name not in self._table])

    def _restore(self, content: GroupsFile) -> None:
        for name in content.configs:
            if name not in self._table:
                self._makers.made(name)
        self._table.update(content.configs)
        self._version = content.data_version
        self._forbidden = {group: dict(topics) for group, topics in content.forbidden_table.items()}
        self._extra = content.extra

    def _frozen(self) -> Callable[[], bytes]:
        forbidden = {group: dict(topics) for group, topics in self._forbidden.items()}
        return GroupsFile(dict(self._table), self._version, forbidden, self._extra).build

    def _with_kept(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """A new configuration with the members of other versions that the present one carries."""
        current = self._table.get(config.group_name)
        if current is None or not current.extra or config.extra:
            return config
        return replace(config, extra=current.extra)

    def _changed(self) -> None:
        self._version = next_version(self._version, self._clock_ms())
        self._writer.touch()
        self._writer.save()
