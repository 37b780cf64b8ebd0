"""Headers of topic administration and of who consumes what."""

from __future__ import annotations

from wire.headers.declare import Header, Int32


class CreateTopicRequest(Header):
    """Create a topic or change it (17; 513 for static topics)."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool = False


class DeleteTopicRequest(Header):
    """Delete a topic and its offsets (215)."""

    topic: str


class GetTopicConfigRequest(Header):
    """The configuration of one topic (351)."""

    topic: str


class GetAllTopicConfigRequest(Header):
    """All topics, or one page of them since 5.5 (21)."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponse(Header):
    """How many topics there are, when they were asked for in pages (21)."""

    total_topic_num: Int32 | None = None


class GetTopicStatsInfoRequest(Header):
    """Offsets and last store times of a topic's queues (202)."""

    topic: str


class GetConsumeStatsRequest(Header):
    """How far a group has consumed its topics (208). ``topic_list`` is separated by ``;``."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class QueryTopicConsumeByWhoRequest(Header):
    """The groups that consume a topic (300)."""

    topic: str


class QueryTopicsByConsumerRequest(Header):
    """The topics a group consumes (343)."""

    group: str


class QuerySubscriptionByConsumerRequest(Header):
    """What a group subscribes to in a topic (345)."""

    group: str
    topic: str | None = None


class QueryConsumeTimeSpanRequest(Header):
    """Between which store times a group has consumed (303)."""

    topic: str
    group: str
