"""Headers of requests about accounts: those of ACL 1.0, and users and their policies of 5.3 and later."""

from __future__ import annotations

from wire.headers.declare import Header


class UpdateAccountRequest(Header):
    """Create an account of ACL 1.0, or change what is given of one (50); entries are separated by commas."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccountRequest(Header):
    """Delete an account of ACL 1.0 (51)."""

    access_key: str


class AccountsVersionResponse(Header):
    """The versions of the files of accounts (52): the main file's, and a JSON object of all by path."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateWhiteListRequest(Header):
    """Set the white list of all accounts in a file (53); patterns are separated by commas."""

    global_white_addrs: str
    acl_file_full_path: str = ""


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
