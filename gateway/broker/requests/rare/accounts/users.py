"""Users of 5.3 and later, as tools make, change, delete and read them.

Upstream: ``AdminBrokerProcessor``. Passwords are masked in answers, except for users in ``gateway.passwordReaders``:
a proxy that checks its clients itself needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.internet.defer import Deferred

from gateway.access.audit import MAX_BYTES, Told
from gateway.access.policies.edits import NOT_BY_SUPER, create_user, delete_user, update_user, user_info
from gateway.access.policies.kept_users import Edit, KeptUsers
from gateway.access.policies.users import Users
from gateway.access.private_disk import NameNotOnDiskError
from gateway.broker.awaiting import not_on_disk
from gateway.broker.desk import Desk, DeskRequests
from gateway.errors import RequestRefused
from gateway.reactor.thread_result import settle
from gateway.remoting.declared import CLUSTER_GET, CLUSTER_UPDATE, SERVED, UPDATE, Kind, Need, Size
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import list_text
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import Work
from gateway.settings.tls import names_in
from gateway.telemetry.logs import EventLog
from wire.bodies.access import UserInfo
from wire.codes import RequestCode, ResponseCode
from wire.headers.access import ListUsersRequest, UserRequest

log = EventLog("access")


class UserRequests(DeskRequests):
    """Requests about users."""

    @answers(RequestCode.AUTH_CREATE_USER, UserRequest, CLUSTER_UPDATE, slave=SERVED)
    async def create(self, request: Request, header: UserRequest) -> Answer:
        """Make a user; the answer comes when it is on disk."""
        wanted = UserInfo.parse(request.command.body)
        return await self._change(request, header, "Create", partial(create_user, wanted=wanted))

    @answers(RequestCode.AUTH_UPDATE_USER, UserRequest, CLUSTER_UPDATE, slave=SERVED)
    async def update(self, request: Request, header: UserRequest) -> Answer:
        """Change a user's password, type or status."""
        wanted = UserInfo.parse(request.command.body)
        members = {"password": wanted.password, "type": wanted.user_type, "status": wanted.user_status}
        named = ", ".join(name for name, text in members.items() if text and text.strip())
        return await self._change(request, header, f"Update {named or 'nothing'}", partial(update_user, wanted=wanted))

    @answers(RequestCode.AUTH_DELETE_USER, UserRequest, CLUSTER_UPDATE, slave=SERVED)
    async def delete(self, request: Request, header: UserRequest) -> Answer:
        """Delete a user and its policies; a user that is not there is no error."""
        return await self._change(request, header, "Delete", delete_user)

    @answers(RequestCode.AUTH_GET_USER, UserRequest, CLUSTER_GET, slave=SERVED)
    def user(self, request: Request, header: UserRequest) -> Answer:
        """Answer with a user, or without a body if there is none."""
        if not (header.username or "").strip():
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "The username is blank")
        user = kept_users(self._desk).find(header.username or "")
        if user is None:
            return Answer()
        return Answer(body=user_info(user, with_password=self._reads_passwords(request)).build())

    @answers_in_turns(RequestCode.AUTH_LIST_USER, ListUsersRequest, CLUSTER_GET, Size.LIST, slave=SERVED)
    def listed(self, request: Request, header: ListUsersRequest) -> Work[Answer]:
        """Answer with the users whose names contain a text, or without a body if there are none."""
        users, with_password = kept_users(self._desk).users, self._reads_passwords(request)
        names = sorted(name for name in users if (header.filter or "") in name)
        infos = (user_info(users[name], with_password=with_password).to_json() for name in names)
        text = yield from list_text("users", infos, advice="name a part of their names")
        return Answer(body=text.encode() if names else b"")

    async def _change(self, request: Request, header: UserRequest, action: str, edit: Callable[..., Users]) -> Answer:
        name, by_super = header.username, is_super(request)
        if name in self._password_readers() and not by_super:  # who logs in as such a user knows every password
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"{NOT_BY_SUPER}: {name} is in gateway.passwordReaders")
        whole = partial(edit, name=name, by_super=by_super)
        await changed(self._desk, request, f"User:{name}", action, whole)
        return Answer()

    def _reads_passwords(self, request: Request) -> bool:
        return request.caller is not None and request.caller.name in self._password_readers()

    def _password_readers(self) -> tuple[str, ...]:
        return names_in(self._desk.settings.password_readers)


def kept_users(desk: Desk) -> KeptUsers:
    """Return the users of the server.

    :raises RequestRefused: SYSTEM_ERROR, it has none.
    """
    if desk.access is None or desk.access.users is None:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            "The authenticationMetadataProvider is not configured: this server keeps no users; set "
            "authenticationEnabled=true",
        )
    return desk.access.users


async def changed(desk: Desk, request: Request, subject: str | None, action: str, edit: Edit) -> None:
    """Change the users, wait until they are on disk, and note who changed whom.

    :raises RequestRefused: nothing changed, or the change is in force and a power failure may take it back.
    """
    users, waiting = kept_users(desk), Deferred[Users]()
    caller = request.caller
    if caller is None or not caller.name:  # authenticationWhitelist has this code
        raise RequestRefused(
            ResponseCode.NO_PERMISSION, "username cannot be null. Only a user changes users: sign this"
        )
    rule = caller.require(request, Need(Kind.CLUSTER, desk.settings.broker_cluster_name, UPDATE))
    account, channel, resource = caller.name, request.channel, (subject or "")[:MAX_BYTES]
    client = desk.heartbeats.clients.id_of(channel)
    users.change(edit, partial(settle, waiting))
    unsafe: NameNotOnDiskError | None = None
    try:
        await waiting
    except NameNotOnDiskError as error:
        unsafe = error
    log.info("users changed", account=account, remote=channel.remote_text, subject=resource, action=action)
    if desk.access is not None:
        told = Told(account, channel.remote[0], request.command.code, resource, action, rule, client)
        desk.access.audit.changed(told)
    if unsafe is not None:
        raise not_on_disk(f"change of {resource}", unsafe)


def is_super(request: Request) -> bool:
    """Return whether a Super user sent a request and proved it."""
    return request.caller is not None and request.caller.is_admin and request.caller.name != ""
