"""Headers of accounts and permissions: the ACL of 4.x and the authentication of 5.3."""

from __future__ import annotations

from wire.headers.declare import Header


class CreateAccessConfigRequest(Header):
    """Of 4.x to 5.3.2: create an account or change it (50)."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccessConfigRequest(Header):
    """Of 4.x to 5.3.2: delete an account (51)."""

    access_key: str


class GetBrokerAclConfigResponse(Header):
    """Of 4.x to 5.3.2: versions of the account files (52)."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigRequest(Header):
    """Of 4.x to 5.3.2: addresses that need no account (53)."""

    global_white_addrs: str
    acl_file_full_path: str


class CreateUserRequest(Header):
    """Create a user; the rest is in the body (3001)."""

    username: str | None = None


class UpdateUserRequest(Header):
    """Change a user; the rest is in the body (3002)."""

    username: str | None = None


class DeleteUserRequest(Header):
    """Delete a user (3003)."""

    username: str | None = None


class GetUserRequest(Header):
    """One user (3004)."""

    username: str | None = None


class ListUsersRequest(Header):
    """The users whose names contain a text (3005)."""

    filter: str | None = None


class CreateAclRequest(Header):
    """Grant something; the rest is in the body (3006)."""

    subject: str | None = None


class UpdateAclRequest(Header):
    """Change a grant; the rest is in the body (3007)."""

    subject: str | None = None


class DeleteAclRequest(Header):
    """Take a grant back (3008)."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class GetAclRequest(Header):
    """The grants of a subject (3009)."""

    subject: str | None = None


class ListAclsRequest(Header):
    """The grants whose subject or resource contain a text (3010)."""

    subject_filter: str | None = None
    resource_filter: str | None = None
