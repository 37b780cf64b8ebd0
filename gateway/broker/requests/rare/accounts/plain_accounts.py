"""Changes of the accounts of ACL 1.0 by tools: requests 50 to 53 of `mqadmin` 4.x, and 54, which is refused.

Upstream 4.9.8: ``AdminBrokerProcessor``, where every account may send these requests. Here they need an admin. A
request from an address of a white list needs an admin's signature as well, so that no address alone can make an admin.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.access.audit import Told
from gateway.access.guard import fields_of
from gateway.access.private_disk import NameNotOnDiskError
from gateway.broker.awaiting import not_on_disk
from gateway.broker.desk import DeskRequests
from gateway.broker.requests.listed import listed
from gateway.errors import RequestRefused
from gateway.reactor.thread_result import thread_result
from gateway.remoting.declared import ADMIN, SERVED
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from gateway.telemetry.logs import EventLog
from wire.bodies.topics import DataVersion
from wire.codes import RequestCode, ResponseCode
from wire.headers.access import (
    AccountsVersionResponse,
    DeleteAccountRequest,
    UpdateAccountRequest,
    UpdateWhiteListRequest,
)
from wire.signature import SigningKey
from wire.signed_fields import ACCESS_KEY

if TYPE_CHECKING:  # the files need a YAML library, which is imported only if they are in use
    from gateway.access.plain.changes import Change
    from gateway.access.plain.plain_access import PlainAccess

log = EventLog("access")

OFF = "aclEnable=false: this broker has no accounts of ACL 1.0"
NO_SECRETS = "secret keys are not shown, as since Apache RocketMQ 4.9.8; look into the broker's plain_acl.yml"

MAX_WHITE_LIST: Final = 262_144
"""The most characters of a white list in a request."""


class PlainAccountRequests(DeskRequests):
    """Requests about accounts and white lists of ACL 1.0; a change is on disk before it is answered."""

    @answers(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, UpdateAccountRequest, ADMIN, slave=SERVED)
    async def update(self, request: Request, header: UpdateAccountRequest) -> Answer:
        """Create an account, or change the fields that are given. Only the white list can be set to empty."""
        failed = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        access = self._plain(failed)
        from gateway.access.plain.changes import AccountChange

        change = AccountChange(
            name=header.access_key,
            secret=header.secret_key or None,
            white=header.white_remote_address,
            is_admin=header.admin,
            default_topic=header.default_topic_perm or None,
            default_group=header.default_group_perm or None,
            topics=_entries(header.topic_perms, "topicPerms"),
            groups=_entries(header.group_perms, "groupPerms"),
        )
        return await self._change(request, access, change, failed)

    @answers(RequestCode.DELETE_ACL_CONFIG, DeleteAccountRequest, ADMIN, slave=SERVED)
    async def delete(self, request: Request, header: DeleteAccountRequest) -> Answer:
        """Delete an account."""
        access = self._plain(ResponseCode.DELETE_ACL_CONFIG_FAILED)
        from gateway.access.plain.changes import AccountRemoval

        change = AccountRemoval(header.access_key)
        return await self._change(request, access, change, ResponseCode.DELETE_ACL_CONFIG_FAILED, "Delete")

    @answers(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, UpdateWhiteListRequest, ADMIN, slave=SERVED)
    async def update_white_list(self, request: Request, header: UpdateWhiteListRequest) -> Answer:
        """Set the white list of all accounts in one file."""
        failed = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        access = self._plain(failed)
        from gateway.access.plain.changes import WhiteListChange, patterns_in

        if len(header.global_white_addrs) > MAX_WHITE_LIST:
            raise RequestRefused(failed, f"globalWhiteAddrs has more than {MAX_WHITE_LIST} characters, the limit")
        patterns = patterns_in(header.global_white_addrs)
        if not patterns:
            raise RequestRefused(failed, "no address is given")
        return await self._change(request, access, WhiteListChange(patterns, header.acl_file_full_path), failed)

    @answers(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, None, ADMIN, slave=SERVED)
    def versions(self, request: Request, _header: None) -> Answer:
        """Answer with the versions of all files of accounts."""
        access = self._plain(ResponseCode.SYSTEM_ERROR)
        settings, reached_at = self._desk.settings, request.channel.local
        found = {
            str(path): DataVersion(counter=version.counter, timestamp=version.timestamp).build()
            for path, version in access.versions().items()
        }
        main = found.get(str(access.main)) or DataVersion().build()
        host, port = settings.advertised.host or reached_at[0], settings.advertised.port or reached_at[1]
        all_versions = msgspec.json.encode({path: msgspec.Raw(version) for path, version in found.items()})
        return Answer(
            header=AccountsVersionResponse(
                version=main.decode(),
                all_acl_file_version=all_versions.decode(),
                broker_name=settings.broker_name,
                broker_addr=f"{host}:{port}",
                cluster_name=settings.broker_cluster_name,
            )
        )

    @answers(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, None, ADMIN, slave=SERVED)
    def accounts(self, _request: Request, _header: None) -> Answer:
        """Refuse to show accounts: the answer of earlier versions had their secret keys."""
        raise RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, NO_SECRETS)

    def _plain(self, code: ResponseCode) -> PlainAccess:
        access = self._desk.access
        if access is None or access.plain is None:
            raise RequestRefused(code, OFF)
        return access.plain

    async def _change(
        self, request: Request, access: PlainAccess, change: Change, code: ResponseCode, action: str = "Update"
    ) -> Answer:
        by, channel = _admin(request, access, code), request.channel
        client = self._desk.heartbeats.clients.id_of(channel)
        unsafe: NameNotOnDiskError | None = None
        try:
            await thread_result(self._desk.in_thread, partial(access.change, change))
        except NameNotOnDiskError as error:
            unsafe = error
        except (ValueError, OSError) as error:
            raise RequestRefused(code, str(error)) from None
        log.info("accounts changed by request", change=change, account=by, remote=channel.remote_text)
        if self._desk.access is not None:
            told = Told(by, channel.remote[0], request.command.code, change.resource, action, "admin: true", client)
            self._desk.access.audit.changed(told)
        if unsafe is not None:
            log.error("accounts changed, and the name of their file is not on disk", reason=unsafe)
            raise not_on_disk(f"change of {change.resource}", unsafe)
        return Answer()


def _entries(text: str | None, field: str) -> tuple[str, ...] | None:
    """Return the entries of a list that is separated by commas; None if there are none."""
    return tuple(part.strip() for part in listed(text, ",", field) if part.strip()) or None


def _admin(request: Request, access: PlainAccess, code: ResponseCode) -> str:
    """Return the name of the admin that sent a request. Check the signature if a white list let the request pass.

    :raises RequestRefused: the request has no admin's signature.
    """
    fields = fields_of(request.command)
    name = fields.get(ACCESS_KEY, "")
    if request.caller is None or not request.caller.name:
        account = access.find(name)
        signed = account is not None and SigningKey(account.secret).has_signed(fields, request.command.body)
        if account is None or not account.is_admin or not signed:
            raise RequestRefused(
                code, "an address of a white list alone changes no accounts: sign the request with the keys of an admin"
            )
    return name
