"""A server of users and policies behind a socket that is none; it judges with the edits of a real one."""

from __future__ import annotations

from collections.abc import Callable

from gateway.access.policies.edits import (
    acl_info,
    acl_of,
    create_user,
    delete_acl,
    delete_user,
    merge_acl,
    update_user,
    user_info,
)
from gateway.access.policies.users import Users
from gateway.errors import RequestRefused
from wire.bodies.access import AclInfo, UserInfo
from wire.bodies.declare import Body, JsonObject
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.signature import SigningKey


class UsersServer:
    """Answers 3001 to 3010.

    :param secret: the key that must have signed each request; None: signatures are not looked at.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self.users = Users()
        self.secret = secret
        self.asked: list[RemotingCommand] = []
        self._connection = Connection()
        self._answers = b""

    def sendall(self, data: bytes) -> None:
        for command in self._connection.receive_data(data):
            self.asked.append(command)
            self._answers += build_frame(self._answer(command))

    def recv(self, count: int) -> bytes:
        sent, self._answers = self._answers, b""
        return sent

    def close(self) -> None:
        self._connection = Connection()

    def _answer(self, command: RemotingCommand) -> RemotingCommand:
        if self.secret is not None and not SigningKey(self.secret).has_signed(command.ext_fields, command.body):
            remark = "check signature failed." if command.ext_fields.get("AccessKey") else "username cannot be null."
            return command.response(ResponseCode.NO_PERMISSION, remark)
        try:
            return command.response(ResponseCode.SUCCESS, body=self._done(command))
        except RequestRefused as refused:
            return command.response(refused.code, refused.remark)

    def _done(self, command: RemotingCommand) -> bytes:
        fields = command.ext_fields
        name, subject = fields.get("username"), fields.get("subject")
        changes: dict[int, Callable[[], Users]] = {
            RequestCode.AUTH_CREATE_USER: lambda: create_user(
                self.users, name, UserInfo.parse(command.body), by_super=True
            ),
            RequestCode.AUTH_UPDATE_USER: lambda: update_user(
                self.users, name, UserInfo.parse(command.body), by_super=True
            ),
            RequestCode.AUTH_DELETE_USER: lambda: delete_user(self.users, name, by_super=True),
            RequestCode.AUTH_UPDATE_ACL: lambda: merge_acl(self.users, subject, AclInfo.parse(command.body)),
            RequestCode.AUTH_DELETE_ACL: lambda: delete_acl(
                self.users, subject, fields.get("policyType"), fields.get("resource")
            ),
        }
        if command.code in changes:
            self.users = changes[command.code]()
            return b""
        if command.code == RequestCode.AUTH_GET_USER:
            found = self.users.get(name or "")
            return b"" if found is None else _text(user_info(found, with_password=False))
        if command.code == RequestCode.AUTH_LIST_USER:
            part = fields.get("filter", "")
            return _list([user_info(user, with_password=False) for user in self.users.values() if part in user.name])
        if command.code == RequestCode.AUTH_GET_ACL:
            acl = acl_of(self.users, subject)
            return b"" if acl is None else _text(acl)
        part = fields.get("subjectFilter", "")
        found_acls = [
            acl_info(user, fields.get("resourceFilter")) for user in self.users.values() if part in f"User:{user.name}"
        ]
        return _list([acl for acl in found_acls if acl is not None])


def _text(body: Body) -> bytes:
    return body.build()


def _list(bodies: list[JsonObject]) -> bytes:
    from wire.bodies.fastjson import build_json

    return build_json([body.to_json() for body in bodies], java_form=True) if bodies else b""
