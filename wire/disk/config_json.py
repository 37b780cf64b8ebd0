"""The JSON files in a store's ``config`` directory and of a name server, as Apache brokers read and write them.

The files are written with tabs and bare integer keys, which is fastjson's pretty form and not JSON; both forms are
read. Members that this version does not know survive a rewrite, within topics and groups as well as beside the tables.
``gateway.metadata`` replaces files and keeps backups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from wire.bodies.declare import JsonObject, Readable, Rest, Undeclared, field
from wire.bodies.fastjson import build_pretty_json, parse_json
from wire.bodies.pop import MessageRequestMode
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import DataVersion, TopicConfig
from wire.errors import BodyError, LayoutError

MAX_FILE_BYTES = 1_073_741_824
"""The most bytes of a file; a larger file is refused. 1 GiB holds the offsets of a million queues many times."""


def parse_config(raw: Readable | str) -> Any:
    """Read a file's JSON text; only its size has a limit, because nothing waits while a file is read.

    :raises BodyError: as ``parse_json`` does.
    """
    return parse_json(
        raw,
        max_bytes=MAX_FILE_BYTES,
        max_containers=MAX_FILE_BYTES,
        max_lenient_bytes=MAX_FILE_BYTES,
        max_lenient_values=MAX_FILE_BYTES,
        max_referenced_chars=MAX_FILE_BYTES,
    )


class ConfigFile(JsonObject):
    """The base of the classes of files."""

    @classmethod
    def parse(cls, raw: Readable | str) -> Self:
        """Read the content of a file.

        :raises LayoutError: the file is unreadable, or a member has the wrong type.
        """
        try:
            return cls.from_json(parse_config(raw))
        except BodyError as error:
            raise LayoutError(str(error)) from error

    def build(self) -> bytes:
        """Return the bytes of the file."""
        return build_pretty_json(self.to_json())


class TopicsFile(ConfigFile):
    """``topics.json`` (upstream ``TopicConfigManager``)."""

    configs: Mapping[str, TopicConfig] = field(default_factory=dict, name="topicConfigTable")
    data_version: DataVersion = field(default_factory=DataVersion)
    extra: Rest = field(default_factory=dict)


class GroupsFile(ConfigFile):
    """``subscriptionGroup.json`` (upstream ``SubscriptionGroupManager``).

    ``forbidden_table`` is group → topic → bits for what the group may not do there (5.x).
    """

    configs: Mapping[str, SubscriptionGroupConfig] = field(default_factory=dict, name="subscriptionGroupTable")
    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    extra: Rest = field(default_factory=dict)


class ConsumerOffsetsFile(ConfigFile):
    """``consumerOffset.json``: ``topic@group`` → queue → next offset (upstream ``ConsumerOffsetManager``).

    ``groupTopicMap`` is dropped: 5.x derives it from the table for writing, and ignores it for reading.
    """

    offset_table: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    extra: Annotated[Mapping[str, Any], Undeclared(drop=("groupTopicMap",))] = field(default_factory=dict)


class DelayOffsetsFile(ConfigFile):
    """``delayOffset.json``: delay level → next offset in its queue (upstream ``ScheduleMessageService``)."""

    offset_table: Mapping[int, int] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    extra: Rest = field(default_factory=dict)


class KvConfigFile(ConfigFile):
    """``kvConfig.json`` of a name server: namespace → key → value (upstream ``KVConfigManager``)."""

    config_table: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def parse_kv_config(raw: Readable | str) -> dict[str, dict[str, str]]:
    """Read the namespaces of a ``kvConfig.json``.

    :raises LayoutError: as ``ConfigFile.parse``.
    """
    return {name: dict(values) for name, values in KvConfigFile.parse(raw).config_table.items()}


def build_kv_config(table: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return a ``kvConfig.json`` with these namespaces."""
    return KvConfigFile(table).build()


class MessageRequestModesFile(ConfigFile):
    """``messageRequestMode.json``: topic → group → mode of consumption (upstream ``MessageRequestModeManager``)."""

    modes: Mapping[str, Mapping[str, MessageRequestMode]] = field(default_factory=dict, name="messageRequestModeMap")
    extra: Rest = field(default_factory=dict)


class OrderInfoEntry(JsonObject):
    """The last messages that a group popped in order from a queue (upstream ``OrderInfo``).

    ``offsets`` has the first offset, then differences from it. ``visible_at_ms`` and ``counts`` concern single offsets.
    ``visible_at_ms`` is the time until which an offset is invisible, if that time differs from the time of the others.
    ``counts`` is how often an offset was popped before. ``committed`` has a bit for each acknowledged offset.
    """

    offsets: Sequence[int] = field(default=(), name="o")
    popped_at_ms: int = field(default=0, name="popTime")
    invisible_ms: int | None = field(default=None, name="i")
    visible_at_ms: Mapping[int, int] | None = field(default=None, name="ot")
    counts: Mapping[int, int] | None = field(default=None, name="oc")
    committed: int = field(default=0, name="cm")
    last_consumed_ms: int = field(default=0, name="l")
    attempt_id: str | None = field(default=None, name="a")


class ConsumerOrderInfoFile(ConfigFile):
    """``consumerOrderInfo.json``: ``topic@group`` → queue → the last ordered pop.

    Upstream: ``ConsumerOrderInfoManager``.
    """

    table: Mapping[str, Mapping[int, OrderInfoEntry]] = field(default_factory=dict)
    extra: Rest = field(default_factory=dict)


class GroupBits(JsonObject):
    """The bits that belong to a group in the bit maps of a topic, and the size of these maps.

    Upstream: ``BloomFilterData``.
    """

    positions: Sequence[int] = field(default=(), name="bitPos")
    bits: int = field(default=0, name="bitNum")


class GroupFilterEntry(JsonObject):
    """The expression of a group for a topic, for which bit maps are made (upstream ``ConsumerFilterData``).

    Messages stored after ``born_ms`` have the group's bits. ``dead_ms`` is the time since when nobody consumes, 0 while
    somebody does. ``is_dead`` follows from these two times.
    """

    group: str = field(default="", name="consumerGroup")
    topic: str = ""
    expression: str = ""
    expression_type: str = ""
    bits: GroupBits = field(default_factory=GroupBits, name="bloomFilterData")
    born_ms: int = field(default=0, name="bornTime")
    dead_ms: int = field(default=0, name="deadTime")
    is_dead: bool = field(default=False, name="dead")
    client_version: int = 0


class TopicFilters(JsonObject):
    """The expressions for one topic, by group."""

    groups: Mapping[str, GroupFilterEntry] = field(default_factory=dict, name="groupFilterData")
    topic: str = ""


class ConsumerFiltersFile(ConfigFile):
    """``consumerFilter.json``: topic → the expressions of its groups (upstream ``ConsumerFilterManager``)."""

    topics: Mapping[str, TopicFilters] = field(default_factory=dict, name="filterDataByTopic")
    extra: Rest = field(default_factory=dict)


class TopicCount(JsonObject):
    """The number of half messages of one real topic, and the time of the last change (ms)."""

    count: int = 0
    time_stamp: int = 0


class TransactionMetricsFile(ConfigFile):
    """``transactionMetrics``: topic → the number of half messages without an outcome (upstream ``TransactionMetrics``).

    Apache RocketMQ goes on counting from this file. The gateway counts from 0 at each start.
    """

    transaction_count: Mapping[str, TopicCount] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
