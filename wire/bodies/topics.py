"""Topics: their configuration, the table of all topics, and lists of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from wire.bodies.declare import Body, JsonObject, ListRequestBody, Ordinals, Rest, SmallRequestBody, field, nothing
from wire.message.flags import Permission

DEFAULT_QUEUE_NUMS = 16
"""The default number of queues of a topic (upstream ``TopicConfig``)."""
MAX_QUEUES = 65_536
"""The most queues of one topic on one broker, counted separately to read and to write.

Upstream has no limit, and its tools offer up to a few thousand. Every receiver of a topic or a route makes an object
for each queue.
"""
SINGLE_TAG = "SINGLE_TAG"


def queues_fault(name: str, count: int) -> str | None:
    """Return the fault of a number of queues, or None; a negative number means no queue and is valid."""
    return f"{name} is {count}, the limit is {MAX_QUEUES}" if count > MAX_QUEUES else None


class DataVersion(SmallRequestBody):
    """The version of a table: two tables are the same if all three numbers are equal.

    ``timestamp`` is in milliseconds; 4.9 has no ``state_version``.
    """

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0


class TopicConfig(Body):
    """The queues, permissions and kind of a topic; ``extra`` keeps members of other versions."""

    topic_name: str
    read_queue_nums: int = DEFAULT_QUEUE_NUMS
    write_queue_nums: int = DEFAULT_QUEUE_NUMS
    perm: int = Permission.READ_WRITE
    topic_filter_type: Annotated[str, Ordinals((SINGLE_TAG, "MULTI_TAG"))] = SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=nothing)
    extra: Rest = field(default_factory=nothing)

    @property
    def queues_fault(self) -> str | None:
        """The fault of the numbers of queues, or None; a negative number means no queue and is valid."""
        return queues_fault("readQueueNums", self.read_queue_nums) or queues_fault(
            "writeQueueNums", self.write_queue_nums
        )


class TopicConfigTable(Body):
    """All topics of a broker (upstream ``TopicConfigSerializeWrapper``)."""

    configs: Mapping[str, TopicConfig] = field(default_factory=dict, name="topicConfigTable")
    data_version: DataVersion = field(default_factory=DataVersion)


class CreateTopicList(ListRequestBody):
    """The topics that one request creates (upstream ``CreateTopicListRequestBody``)."""

    configs: Sequence[TopicConfig] = field(name="topicConfigList")


class TopicList(Body):
    """Names of topics; only the answer about system topics has ``broker_addr``."""

    topic_list: Sequence[str] = ()
    broker_addr: str | None = None


class TopicQueueMapping(JsonObject):
    """The broker that serves a part of a static topic (upstream ``TopicQueueMappingInfo``)."""

    topic: str
    bname: str = ""
    scope: str | None = None
    total_queues: int = 0
    epoch: int = 0
    dirty: bool = False
    curr_id_map: Mapping[int, int] = field(default_factory=dict)
