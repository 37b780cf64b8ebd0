"""Headers for the administration of groups: the table of groups, and their permission to read topics."""

from __future__ import annotations

from wire.headers.declare import Header, Int32


class GetAllSubscriptionGroupRequest(Header):
    """Ask for all groups, or since 5.5 for one page of them (201)."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponse(Header):
    """The number of all groups, if the request asked for a page (201)."""

    total_group_num: Int32 | None = None


class UpdateGroupForbiddenRequest(Header):
    """Forbid a group to read a topic, or ask whether the group may read the topic (353)."""

    group: str
    topic: str
    readable: bool | None = None
