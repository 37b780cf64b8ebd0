"""Users and their policies, as the tools of 5.3 and later send and read them."""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import JsonObject, RequestBody, SmallRequestBody


class UserInfo(SmallRequestBody):
    """A user; a request to change one leaves out what stays."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class PolicyEntryInfo(JsonObject):
    """One entry of a policy: a resource, actions, the addresses from which the entry holds, and Allow or Deny."""

    resource: str | None = None
    actions: Sequence[str] | None = None
    source_ips: Sequence[str] | None = None
    decision: str | None = None


class PolicyInfo(JsonObject):
    """A policy: its type is Custom if left out, or Default."""

    policy_type: str | None = None
    entries: Sequence[PolicyEntryInfo] = ()


class AclInfo(RequestBody):
    """The policies of a subject, ``User:NAME``."""

    subject: str | None = None
    policies: Sequence[PolicyInfo] = ()
