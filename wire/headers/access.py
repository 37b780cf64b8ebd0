"""Headers of requests about users and their policies, of 5.3 and later."""

from __future__ import annotations

from wire.headers.declare import Header


class UserRequest(Header):
    """Name the user to make, change, delete or read (3001, 3002, 3003, 3004)."""

    username: str | None = None


class ListUsersRequest(Header):
    """Ask for all users whose names contain a text (3005)."""

    filter: str | None = None


class AclRequest(Header):
    """Name the subject whose policies are to be made, changed or read (3006, 3007, 3009)."""

    subject: str | None = None


class DeleteAclRequest(Header):
    """Delete one entry of a subject's policies, or all of them if no resource is named (3008)."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequest(Header):
    """Ask for all policies, of subjects and with resources that contain a text (3010)."""

    subject_filter: str | None = None
    resource_filter: str | None = None
