"""Users and their policies, as mqadmin of Apache RocketMQ 5.5.0 asks for them."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.access.audit import Told
from gateway.access.failures import Failures
from gateway.access.guard import Guard, Rules
from gateway.access.policies.access_file import parse_users
from gateway.access.policies.kept_users import KeptUsers
from gateway.access.policies.policy import PolicyEntry, PolicyType
from gateway.access.policies.users import User, UserType
from gateway.access.private_disk import PrivateDisk
from gateway.access.refusals import UserRefusals
from gateway.broker.requests.rare.accounts.access_lists import AccessListRequests
from gateway.broker.requests.rare.accounts.users import UserRequests
from gateway.in_thread import InThread, in_this_thread
from gateway.remoting.dispatch import Dispatch, Request
from gateway.remoting.turns import Turns
from gateway.settings import Settings
from gateway.tests.desks import desk_of
from gateway.tests.remoting.conversation import Conversation
from wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.access import AclRequest, DeleteAclRequest, ListAclsRequest, ListUsersRequest, UserRequest
from wire.headers.declare import Header, build_header
from wire.signature import RequestSigner

ROOT = User("root", "root-password", UserType.SUPER)
PROXY = User("proxy", "proxy-password").with_policies(
    {PolicyType.DEFAULT: (PolicyEntry.of("Cluster:*", ["Get"], None, "Allow"),)}
)
ADMIN = User("admin", "admin-password").with_policies(
    {PolicyType.CUSTOM: (PolicyEntry.of("Cluster:*", ["All"], None, "Allow"),)}
)
PASSWORD = UserInfo(password="p")
CHANGES = frozenset(range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_DELETE_USER + 1))


class Server:
    """A server with these users; ``open_codes`` are those of ``authenticationWhitelist``."""

    def __init__(
        self, path: Path, in_thread: InThread = in_this_thread, open_codes: frozenset[int] = frozenset()
    ) -> None:
        self.path = path
        self.kept = KeptUsers(path, in_thread)
        self.kept.load([ROOT, PROXY, ADMIN])
        rules = Rules(refusals=UserRefusals(), cluster="DefaultCluster", open_codes=open_codes)
        guard = Guard(self.kept, rules, Failures(100, lambda: 0))
        self.conversation = Conversation(Dispatch(guard.admit))
        settings, turns = Settings(password_readers="reader, proxy"), Turns(self.conversation.reactor)
        self.audited: list[Told] = []
        access = SimpleNamespace(users=self.kept, audit=SimpleNamespace(changed=self.audited.append), guard=guard)
        heartbeats = SimpleNamespace(clients=SimpleNamespace(id_of=lambda channel: f"{channel.remote[0]}@1"))
        self.desk = desk_of(settings=settings, turns=turns, access=access, heartbeats=heartbeats)
        for requests in (UserRequests(self.desk), AccessListRequests(self.desk)):
            requests.register(self.conversation.dispatch)

    def ask(
        self, code: RequestCode, header: Header, body: UserInfo | AclInfo | bytes = b"", *, by: str = "admin"
    ) -> RemotingCommand:
        """One request of a user, and its answer."""
        peer = self.conversation.connect()
        text = body if isinstance(body, bytes) else body.build()
        command = RemotingCommand(code, ext_fields=build_header(header), body=text)
        user = self.kept.users.get(by)
        if user is not None:
            RequestSigner(by, user.password).sign(command)
        answers = peer.ask_all(code, body=text, fields=command.ext_fields)
        while not answers:
            self.conversation.reactor.advance(0)
            answers = peer.received()
        (answer,) = answers
        return answer

    def told(self, code: RequestCode, header: Header, by: str = "admin") -> Any:
        """The JSON value of an answer; None without a body."""
        answer = self.ask(code, header, by=by)
        assert answer.code == ResponseCode.SUCCESS
        return json.loads(bytes(answer.body)) if answer.body else None


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """A server with a Super user, a proxy, and a user who may do everything with the cluster."""
    return Server(tmp_path / "access.json")


def entry(resource: str, *actions: str, decision: str = "Allow") -> PolicyEntryInfo:
    """One entry as mqadmin sends it."""
    return PolicyEntryInfo(resource, actions, None, decision)


def create(server: Server, name: str = "anna") -> None:
    """Make a user."""
    answer = server.ask(RequestCode.AUTH_CREATE_USER, UserRequest(username=name), UserInfo(password=f"{name}-password"))
    assert answer.code == ResponseCode.SUCCESS


def test_a_user_is_made_changed_and_deleted_on_disk(server: Server) -> None:
    create(server)
    assert parse_users(server.path.read_bytes())["anna"] == User("anna", "anna-password")

    changes = UserInfo(password="another", user_status="disable")
    assert server.ask(RequestCode.AUTH_UPDATE_USER, UserRequest(username="anna"), changes).code == 0
    changed = parse_users(server.path.read_bytes())["anna"]
    assert (changed.password, changed.is_enabled) == ("another", False)

    assert server.ask(RequestCode.AUTH_DELETE_USER, UserRequest(username="anna")).code == 0
    assert "anna" not in parse_users(server.path.read_bytes())
    assert server.ask(RequestCode.AUTH_DELETE_USER, UserRequest(username="anna")).code == 0


def test_a_change_that_a_power_failure_may_take_back_is_not_answered_as_done(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    create(server)
    del server.audited[:]
    anna = UserRequest(username="anna")
    with monkeypatch.context() as patched:
        patched.setattr(PrivateDisk, "fsync_directory", broken)
        for _ in range(2):  # the second one finds nothing to change, and still does not promise anything
            answer = server.ask(RequestCode.AUTH_DELETE_USER, anna)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "User:anna: in force, but not written to disk" in (answer.remark or "")
    assert "anna" not in parse_users(server.path.read_bytes())
    assert [(told.resource, told.action) for told in server.audited] == [("User:anna", "Delete")] * 2
    assert server.ask(RequestCode.AUTH_DELETE_USER, anna).code == ResponseCode.SUCCESS


def test_a_user_is_told_without_its_password(server: Server) -> None:
    create(server)

    assert server.told(RequestCode.AUTH_GET_USER, UserRequest(username="anna")) == {
        "username": "anna",
        "password": "******",
        "userType": "Normal",
        "userStatus": "enable",
    }
    assert server.told(RequestCode.AUTH_GET_USER, UserRequest(username="bert")) is None


def test_users_are_told_in_the_order_of_their_names(server: Server) -> None:
    told = server.told(RequestCode.AUTH_LIST_USER, ListUsersRequest())
    assert [(info["username"], info["userType"]) for info in told] == [
        ("admin", "Normal"),
        ("proxy", "Normal"),
        ("root", "Super"),
    ]
    assert [info["username"] for info in server.told(RequestCode.AUTH_LIST_USER, ListUsersRequest(filter="o"))] == [
        "proxy",
        "root",
    ]
    assert server.told(RequestCode.AUTH_LIST_USER, ListUsersRequest(filter="zzz")) is None


@pytest.mark.parametrize(
    ("code", "change"),
    [
        (RequestCode.AUTH_UPDATE_USER, UserInfo(user_status="disable")),
        (RequestCode.AUTH_UPDATE_USER, UserInfo(user_type="Normal")),
        (RequestCode.AUTH_DELETE_USER, b""),
    ],
)
def test_the_last_enabled_super_user_stays(server: Server, code: RequestCode, change: UserInfo | bytes) -> None:
    second = UserInfo(password="p", user_type="Super")
    assert server.ask(RequestCode.AUTH_CREATE_USER, UserRequest(username="second"), second, by="root").code == 0
    assert server.ask(code, UserRequest(username="second"), change, by="root").code == 0
    answer = server.ask(code, UserRequest(username="root"), change, by="root")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert (answer.remark or "").startswith("User:root is the only enabled user of type Super")
    assert server.ask(RequestCode.AUTH_UPDATE_USER, UserRequest(username="root"), PASSWORD, by="root").code == 0
    assert parse_users(server.path.read_bytes())["root"] == User("root", "p", UserType.SUPER)


@pytest.mark.parametrize("by", ["proxy", "root", "admin", ""])
def test_passwords_are_told_to_password_readers_only(tmp_path: Path, by: str) -> None:
    open_codes = frozenset({RequestCode.AUTH_GET_USER, RequestCode.AUTH_LIST_USER})
    for number, codes in enumerate([open_codes, frozenset[int]()] if by else [open_codes]):
        _see_passwords(Server(tmp_path / str(number), open_codes=codes), by)


def _see_passwords(server: Server, by: str) -> None:
    found = server.told(RequestCode.AUTH_GET_USER, UserRequest(username="root"), by=by)
    listed = server.told(RequestCode.AUTH_LIST_USER, ListUsersRequest(), by=by)

    assert found["password"] == ("root-password" if by == "proxy" else "******")
    assert [info["password"] for info in listed] == (
        ["admin-password", "proxy-password", "root-password"] if by == "proxy" else ["******"] * 3
    )


@pytest.mark.parametrize("open_codes", [frozenset(), CHANGES], ids=["no white list", "authenticationWhitelist"])
@pytest.mark.parametrize("by", ["root", "admin", "nobody", ""])
def test_only_a_super_user_makes_changes_and_deletes_super_users(
    tmp_path: Path, by: str, open_codes: frozenset[int]
) -> None:
    server = Server(tmp_path / "open.json", open_codes=open_codes)
    server.kept.load([User("nobody", "nobody-password")])
    wanted = UserInfo(password="p", user_type="Super")
    made = server.ask(RequestCode.AUTH_CREATE_USER, UserRequest(username="second"), wanted, by=by)
    raised = server.ask(RequestCode.AUTH_UPDATE_USER, UserRequest(username="admin"), UserInfo(user_type="Super"), by=by)
    changed = server.ask(RequestCode.AUTH_UPDATE_USER, UserRequest(username="root"), PASSWORD, by=by)
    deleted = server.ask(RequestCode.AUTH_DELETE_USER, UserRequest(username="root"), by=by)

    if by == "root":
        assert [answer.code for answer in (made, raised, changed, deleted)] == [0, 0, 0, 0]
        return
    if by in ("", "nobody"):
        text = "User:nobody has no permission to access Cluster:DefaultCluster" if by else "username cannot be null."
        for answer in (made, raised, changed, deleted):
            assert (answer.code, (answer.remark or "")[: len(text)]) == (ResponseCode.NO_PERMISSION, text)
        assert server.kept.users["root"] == ROOT
        return
    assert [(answer.code, answer.remark) for answer in (made, raised, changed, deleted)] == [
        (1, "The super user can only be create by super user"),
        (1, "The super user can only be update by super user"),
        (16, "The super user can only be update by super user"),
        (16, "The super user can only be update by super user"),
    ]
    assert server.kept.users["root"] == ROOT


def test_who_reads_passwords_is_changed_by_a_super_user_only(server: Server) -> None:
    """Otherwise who may change users would give the proxy a password and read that of the Super user."""
    for code in (RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER):
        for name in ("proxy", "reader"):
            refused = server.ask(code, UserRequest(username=name), PASSWORD)
            assert refused.code == ResponseCode.NO_PERMISSION
    assert server.kept.users["proxy"] == PROXY

    assert server.ask(RequestCode.AUTH_CREATE_USER, UserRequest(username="reader"), PASSWORD, by="root").code == 0
    assert server.ask(RequestCode.AUTH_UPDATE_USER, UserRequest(username="proxy"), PASSWORD, by="root").code == 0


def test_every_change_is_audited_without_a_password(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    create(server)
    anna = UserRequest(username="anna")
    for wanted in (
        UserInfo(password="anna-password"),
        UserInfo(password=" ", user_status="disable"),
        UserInfo(password="anna-password", user_type="Normal", user_status="enable"),
        UserInfo(),
    ):
        server.ask(RequestCode.AUTH_UPDATE_USER, anna, wanted)
    policies = AclInfo("User:anna", [PolicyInfo(None, [entry("Topic:a", "Pub"), entry("*", "All", decision="Deny")])])
    server.ask(RequestCode.AUTH_CREATE_ACL, AclRequest(subject="User:anna"), policies)
    server.ask(RequestCode.AUTH_DELETE_ACL, DeleteAclRequest(subject="User:anna", resource="Topic:a"))
    server.ask(RequestCode.AUTH_DELETE_ACL, DeleteAclRequest(subject="User:anna"))
    server.ask(RequestCode.AUTH_DELETE_USER, anna)
    server.ask(RequestCode.AUTH_DELETE_USER, UserRequest(username="root"))

    assert {told.client for told in server.audited} == {"192.0.2.7@1"}
    assert {told.rule for told in server.audited} == {"Custom Cluster:* Allow All"}
    assert [told[:5] for told in server.audited] == [
        ("admin", "192.0.2.7", 3001, "User:anna", "Create"),
        ("admin", "192.0.2.7", 3002, "User:anna", "Update password"),
        ("admin", "192.0.2.7", 3002, "User:anna", "Update status"),
        ("admin", "192.0.2.7", 3002, "User:anna", "Update password, type, status"),
        ("admin", "192.0.2.7", 3002, "User:anna", "Update nothing"),
        ("admin", "192.0.2.7", 3006, "User:anna", "Update Topic:a Allow;* Deny"),
        ("admin", "192.0.2.7", 3008, "User:anna", "Delete Topic:a"),
        ("admin", "192.0.2.7", 3008, "User:anna", "Delete all entries"),
        ("admin", "192.0.2.7", 3003, "User:anna", "Delete"),
    ]
    told = [record.facts for record in caplog.records if record.message == "users changed"]  # type: ignore[attr-defined]
    assert len(told) == 9
    assert "anna-password" not in str(told)


@pytest.mark.parametrize("code", [RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL])
def test_policies_are_merged_told_and_deleted(server: Server, code: RequestCode) -> None:
    create(server)
    anna = AclRequest(subject="User:anna")
    assert server.told(RequestCode.AUTH_GET_ACL, anna) is None

    wanted = AclInfo("User:anna", [PolicyInfo(None, [entry("Topic:a", "Pub"), entry("Group:*", "Sub")])])
    assert server.ask(code, anna, wanted).code == 0
    wanted = AclInfo("User:anna", [PolicyInfo("Custom", [entry("Topic:a", "Sub", "Get", decision="Deny")])])
    assert server.ask(code, anna, wanted).code == 0
    assert server.told(RequestCode.AUTH_GET_ACL, anna) == {
        "subject": "User:anna",
        "policies": [
            {
                "policyType": "Custom",
                "entries": [
                    {"resource": "Topic:a", "actions": ["Sub", "Get"], "decision": "Deny"},
                    {"resource": "Group:*", "actions": ["Sub"], "decision": "Allow"},
                ],
            }
        ],
    }

    delete = DeleteAclRequest(subject="User:anna", resource="Topic:a")
    assert server.ask(RequestCode.AUTH_DELETE_ACL, delete).code == 0
    assert [str(found) for found in parse_users(server.path.read_bytes())["anna"].policies["Custom"]] == [  # type: ignore[index]
        "Group:* Allow Sub"
    ]
    assert server.ask(RequestCode.AUTH_DELETE_ACL, DeleteAclRequest(subject="User:anna")).code == 0
    assert server.told(RequestCode.AUTH_GET_ACL, anna) is None


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (ListAclsRequest(), {"User:admin": 1, "User:anna": 3, "User:proxy": 1}),
        (ListAclsRequest(subject_filter="ann"), {"User:anna": 3}),
        (ListAclsRequest(subject_filter="User:"), {"User:admin": 1, "User:anna": 3, "User:proxy": 1}),
        (ListAclsRequest(resource_filter="Topic"), {"User:anna": 2}),
        (ListAclsRequest(subject_filter="zzz"), None),
        (ListAclsRequest(resource_filter="zzz"), None),
    ],
)
def test_policies_of_all_users_are_told(server: Server, header: ListAclsRequest, found: dict[str, int] | None) -> None:
    create(server)
    entries = [entry("Topic:a", "Pub"), entry("Topic:b", "Pub"), entry("Group:*", "Sub")]
    server.ask(
        RequestCode.AUTH_CREATE_ACL,
        AclRequest(subject="User:anna"),
        AclInfo(None, [PolicyInfo(None, entries[:1]), PolicyInfo("Default", entries[1:])]),
    )

    told = server.told(RequestCode.AUTH_LIST_ACL, header)
    counts = told and {acl["subject"]: sum(len(policy["entries"]) for policy in acl["policies"]) for acl in told}
    assert counts == found


@pytest.mark.parametrize(
    ("code", "header", "body", "answer"),
    [
        (RequestCode.AUTH_CREATE_USER, UserRequest(), b'{"password":"p"}', (29, "The username is blank")),
        (RequestCode.AUTH_CREATE_USER, UserRequest(username="root"), b'{"password":"p"}', (16, "The user is existed")),
        (RequestCode.AUTH_CREATE_USER, UserRequest(username="b"), b"{}", (16, "password can not be blank")),
        (RequestCode.AUTH_CREATE_USER, UserRequest(username="b"), b"", (1, "")),
        (RequestCode.AUTH_UPDATE_USER, UserRequest(username="b"), b"{}", (16, "The user is not exist")),
        (RequestCode.AUTH_GET_USER, UserRequest(username=" "), b"", (29, "The username is blank")),
        (RequestCode.AUTH_CREATE_ACL, AclRequest(subject="User:b"), b"{}", (16, "The body of acl is null")),
        (
            RequestCode.AUTH_CREATE_ACL,
            AclRequest(subject="User:b"),
            b'{"policies":[{"entries":[{"resource":"*","actions":["All"],"decision":"Allow"}]}]}',
            (16, "The subject of User:b is not exist."),
        ),
        (RequestCode.AUTH_GET_ACL, AclRequest(subject="User:b"), b"", (16, "The subject is not exist.")),
        (RequestCode.AUTH_DELETE_ACL, DeleteAclRequest(subject="User:root"), b"", (16, "The acl is not exist.")),
    ],
)
def test_a_refusal_has_the_code_and_text_of_the_reference(
    server: Server, code: RequestCode, header: Header, body: bytes, answer: tuple[int, str]
) -> None:
    refused = server.ask(code, header, body)

    assert (refused.code, (refused.remark or "")[: len(answer[1])]) == answer
    assert set(server.kept.users) == {"root", "proxy", "admin"}


def test_a_change_that_cannot_be_written_is_refused(server: Server) -> None:
    server.path.unlink()
    server.path.mkdir()  # no file can take its place
    answer = server.ask(RequestCode.AUTH_CREATE_USER, UserRequest(username="b"), PASSWORD)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert re.match("nothing is changed", answer.remark or "")


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (RequestCode.AUTH_CREATE_USER, UserRequest(username="b")),
        (RequestCode.AUTH_GET_USER, UserRequest(username="b")),
        (RequestCode.AUTH_LIST_USER, ListUsersRequest()),
        (RequestCode.AUTH_DELETE_ACL, DeleteAclRequest(subject="User:b")),
        (RequestCode.AUTH_GET_ACL, AclRequest(subject="User:b")),
        (RequestCode.AUTH_LIST_ACL, ListAclsRequest()),
    ],
)
def test_a_server_without_users_says_how_to_have_some(server: Server, code: RequestCode, header: Header) -> None:
    server.desk.access = None
    answer = server.ask(code, header, PASSWORD)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("The authenticationMetadataProvider is not configured: this server keeps")
    assert (answer.remark or "").endswith("set authenticationEnabled=true")


def test_answers_about_many_come_in_pieces(server: Server) -> None:
    """Ten thousand users or entries take a tenth of a second in all; others are served between two pieces."""
    entries = tuple(PolicyEntry.of(f"Topic:{number}", ["Pub"], None, "Allow") for number in range(10_000))
    made = [User(str(number), "p", policies={PolicyType.CUSTOM: entries[:1]}) for number in range(10_000)]
    server.kept.load([*made, User("many", "p", policies={PolicyType.CUSTOM: entries})])
    users, policies = UserRequests(server.desk), AccessListRequests(server.desk)
    request = cast(Request, SimpleNamespace(caller=None))

    for work in (
        users.listed(request, ListUsersRequest()),
        policies.listed(request, ListAclsRequest()),
        policies.listed(request, ListAclsRequest(resource_filter="nothing")),
        policies.policies(request, AclRequest(subject="User:many")),
    ):
        assert sum(1 for _ in work) >= 10
