"""The subscription groups of this broker: what consumers of a group may do, and how often they retry.

Upstream: ``SubscriptionGroupManager`` and its file ``subscriptionGroup.json``. Connected clients are in
``gateway.membership``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gateway.errors import RequestRefused
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.named_configs import CLIENTS, Makers, NamedConfigs
from gateway.metadata.names import SYSTEM_GROUP_PREFIX, TRANSACTION_GROUP, group_name_fault
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.telemetry.logs import EventLog
from wire.bodies.subscriptions import SubscriptionGroupConfig, SubscriptionGroupTable
from wire.codes import ResponseCode
from wire.disk.config_json import GroupsFile
from wire.message.light_queues import is_light_queue

if TYPE_CHECKING:
    from gateway.clock import Milliseconds
    from gateway.settings.broker import BrokerSettings

MAX_GROUPS = 100_000
"""The number of subscription groups of one broker."""

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
"""The groups that upstream creates at start."""

NOT_READABLE = 4
"""The bit that forbids a group to read a topic, upstream's permission to read. Never change: it is on disk."""

log = EventLog("groups")


class Groups(NamedConfigs[GroupsFile, SubscriptionGroupConfig]):
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
        makers = Makers(max_groups, "subscription groups")
        super().__init__(path, GroupsFile.parse, clock_ms, makers, in_thread, disk)
        self._settings = settings
        self._max_groups = max_groups
        self._forbidden: dict[str, dict[str, int]] = {}

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the group's configuration as it is kept, or None.

        A light queue is a group, too, if ``enableLmq`` is on.
        """
        config = self._table.get(group)
        if config is None and self._settings.enable_lmq and is_light_queue(group):
            return SubscriptionGroupConfig(group_name=group)
        return config

    def find(self, group: str, maker: str = CLIENTS) -> SubscriptionGroupConfig | None:
        """Return the group; create it with the defaults if that is allowed (autoCreateSubscriptionGroup).

        Return None for a group that may not be created, or if no group may have this name. A slave creates no group,
        and returns what its master would create.

        :param maker: the same as in ``put_all``.
        """
        config = self.get(group)
        if config is not None:
            return config
        if not (self._settings.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)):
            return None
        if group_name_fault(group) is not None:
            return None
        config = SubscriptionGroupConfig(group_name=group)
        if self._settings.is_slave:  # the table is the master's
            return config
        self.put_all([config], maker)
        log.info("subscription group created", group=group)
        return config

    def adopt(self, group: str) -> SubscriptionGroupConfig | None:
        """Make a group that has messages in the log and is not in ``subscriptionGroup.json``, and return it.

        The promotion of a slave that copied the table before leaves such a group. The group is made with the defaults,
        also beyond the limit, and if clients may make none. An existing group stays as it is. Return None, and log a
        line, if no group may have this name.
        """
        config = self.get(group)
        if config is not None:
            return config
        fault = group_name_fault(group)
        if fault is not None:
            log.warning("messages without a group left alone", group=group, reason=fault)
            return None
        log.warning("group restored from its messages", group=group)
        config = SubscriptionGroupConfig(group_name=group)
        self._make_missing([config])
        return config

    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Return group → topic → bits that are forbidden to the group; a view that changes with the table."""
        return MappingProxyType(self._forbidden)

    def may_read(self, group: str, topic: str) -> bool:
        """Return whether a group is not forbidden to read a topic."""
        topics = self._forbidden.get(group)
        return topics is None or not topics.get(topic, 0) & NOT_READABLE

    def set_readable(self, group: str, topic: str, readable: bool) -> None:
        """Forbid a group to read a topic, or allow it again.

        :raises RequestRefused: SYSTEM_BUSY, the limit is reached: all groups have as many forbidden topics as groups
            may exist.
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
        """Return whether no request may delete this group."""
        return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)

    def delete(self, group: str) -> bool:
        """Remove a group; return False if it does not exist.

        :raises RequestRefused: INVALID_PARAMETER, the group belongs to the system.
        """
        if self.is_system(group):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"The group[{group}] is a system group, it cannot be deleted"
            )
        if not self._remove(group):
            return False
        self._forbidden.pop(group, None)
        self._changed()
        log.info("subscription group deleted", group=group)
        return True

    def follow(self, master: SubscriptionGroupTable) -> list[str]:
        """Become the table of a master, with its version; return the groups that are gone.

        :raises RequestRefused: SYSTEM_BUSY, the master has more groups than ``MAX_FOLLOWED``; nothing is changed.
        """
        gone = self._follow(master.configs, master.data_version)
        forbidden = {group: dict(topics) for group, topics in master.forbidden_table.items()}
        if forbidden != self._forbidden:
            self._forbidden = forbidden
            self._changed(master.data_version)
        return gone

    def create_system_groups(self) -> None:
        """Make the missing system groups, also in a full table; existing ones stay as they are."""
        self._make_missing(SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS)

    def _restore(self, content: GroupsFile) -> None:
        self._take_over(content.configs, content.data_version, content.extra)
        self._forbidden = {group: dict(topics) for group, topics in content.forbidden_table.items()}

    @staticmethod
    def _name_of(config: SubscriptionGroupConfig) -> str:
        return config.group_name

    def _frozen(self) -> Callable[[], bytes]:
        forbidden = {group: dict(topics) for group, topics in self._forbidden.items()}
        return GroupsFile(dict(self._table), self._version, forbidden, self._extra).build
