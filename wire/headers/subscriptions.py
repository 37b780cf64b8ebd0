"""Headers of group administration that concern tables of groups and what they may read."""

from __future__ import annotations

from wire.headers.declare import Header, Int32


class GetAllSubscriptionGroupRequest(Header):
    """All groups, or one page of them since 5.5 (201)."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponse(Header):
    """How many groups there are, when they were asked for in pages (201)."""

    total_group_num: Int32 | None = None


class UpdateGroupForbiddenRequest(Header):
    """Forbid a group to read a topic, or ask whether it may (353)."""

    group: str
    topic: str
    readable: bool | None = None
