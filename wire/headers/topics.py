"""Headers for the administration of topics, and for questions about their consumers."""

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
    """Ask for the configuration of one topic (351)."""

    topic: str


class GetAllTopicConfigRequest(Header):
    """Ask for all topics, or since 5.5 for one page of them (21)."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponse(Header):
    """The number of all topics, if the request asked for a page (21)."""

    total_topic_num: Int32 | None = None


class GetTopicStatsInfoRequest(Header):
    """Ask for the offsets and last store times of a topic's queues (202)."""

    topic: str


class GetConsumeStatsRequest(Header):
    """Ask for a group's progress in its topics (208). The names in ``topic_list`` are separated by ``;``."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class QueryTopicConsumeByWhoRequest(Header):
    """Ask for the groups that consume a topic (300)."""

    topic: str


class QueryTopicsByConsumerRequest(Header):
    """Ask for the topics that a group consumes (343)."""

    group: str


class QuerySubscriptionByConsumerRequest(Header):
    """Ask for a group's subscription to a topic (345)."""

    group: str
    topic: str | None = None


class QueryConsumeTimeSpanRequest(Header):
    """Ask for the store times of a topic's messages, and up to which store time a group has consumed (303)."""

    topic: str
    group: str
