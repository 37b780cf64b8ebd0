"""Every request that changes something kept on disk, on a disk that takes no file: refused, again and again, then kept.

The list of such requests is made from the rights that requests declare: a request that is added needs a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from twisted.internet.task import Clock

from gateway.access.control import AccessControl
from gateway.access.plain.files import PlainFiles
from gateway.access.plain.plain_access import PlainAccess
from gateway.access.policies.access_file import parse_users
from gateway.access.policies.kept_users import KeptUsers
from gateway.access.policies.policy import PolicyEntry, PolicyType
from gateway.access.policies.users import User, UserType
from gateway.broker.request_loader import load_requests
from gateway.in_thread import in_this_thread
from gateway.remoting.declared import Action, Right, Who
from gateway.remoting.dispatch import Caller, Dispatch, Request
from gateway.settings.transaction import OperatorAccess
from gateway.tests.broker.whole_broker import START_MS, WholeBroker
from gateway.tests.nameserver.running import RunningNameServer
from gateway.tests.remoting.conversation import Conversation
from wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from wire.bodies.pop import POP, MessageRequestMode
from wire.bodies.subscriptions import SubscriptionGroupConfig, SubscriptionGroupList
from wire.bodies.topics import CreateTopicList, TopicConfig
from wire.codes import RequestCode as Code
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.access import (
    AclRequest,
    DeleteAccountRequest,
    DeleteAclRequest,
    UpdateAccountRequest,
    UpdateWhiteListRequest,
    UserRequest,
)
from wire.headers.declare import build_header
from wire.headers.groups import DeleteSubscriptionGroupRequest, UpdateGroupForbiddenRequest
from wire.headers.name_server import DeleteKVConfigRequest, PutKVConfigRequest
from wire.headers.offsets import CloneGroupOffsetRequest, ResetOffsetRequest
from wire.headers.topics import CreateTopicRequest, DeleteTopicRequest
from wire.headers.transaction import SettleTransactionRequest
from wire.signature import RequestSigner

RETRY = "%RETRY%group_orders"
ACCOUNTS = """globalWhiteRemoteAddresses:
- 10.1.1.1
accounts:
- accessKey: operator
  secretKey: '12345678'
  admin: true
- accessKey: shopshop
  secretKey: '12345678'
"""
ENTRY = PolicyEntry.of("Topic:orders", ["Pub"], None, "Allow")
USERS = (
    User("root", "root-password", UserType.SUPER),
    User("anna", "anna-password").with_policies({PolicyType.CUSTOM: (ENTRY,)}),
)

CALLER = SimpleNamespace(name="root", is_admin=True, is_current=True, allows=lambda *_: True, require=lambda *_: "")

BLOCKED = (
    "gateway-deleted.new",
    "config/topics.json.tmp",
    "config/subscriptionGroup.json.tmp",
    "config/consumerOffset.json.tmp",
    "config/messageRequestMode.json.tmp",
    ".users.json.tmp",
    ".plain_acl.yml.tmp",
    "transaction/audit.jsonl",
    "kvConfig.json.tmp",
)
"""The names under which files are written: directories of these names keep every one of them from the disk."""

NOT_KEPT = {
    Code.UPDATE_CONSUMER_OFFSET: "kept every few seconds: test_unsaved_offsets",
    Code.UPDATE_BROKER_CONFIG: "until the next start",
    Code.UPDATE_NAMESRV_CONFIG: "until the next start",
    Code.GET_BROKER_CLUSTER_ACL_INFO: "changes nothing",
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: "changes nothing",
    Code.GATEWAY_LIST_TRANSACTIONS: "changes nothing",
    Code.GATEWAY_SHOW_TRANSACTION: "changes nothing",
    Code.GATEWAY_TRANSACTION_STATISTICS: "changes nothing",
    Code.GATEWAY_CHANGE_ROLE: "kept between stop and start, or the role stays: test_kept_role",
    Code.GATEWAY_ENTER_REPLICA: "a token counts for some seconds",
    Code.NOTIFY_BROKER_ROLE_CHANGED: "controllers keep it and tell it again and again",
    Code.GATEWAY_CHECK_TRANSACTION: "asks a producer",
    Code.GATEWAY_RESUME_TRANSACTION: "a message like one that is sent",
    Code.RESUME_CHECK_HALF_MESSAGE: "a message like one that is sent",
    Code.DELETE_EXPIRED_COMMITLOG: "the next rounds of retention",
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: "removes files of deleted messages, which the next start removes as well",
    Code.POP_ROLLBACK: "changes nothing",
    Code.TRIGGER_LITE_DISPATCH: "wakes consumers",
    Code.REGISTER_BROKER: "in memory: brokers register again and again",
    Code.UNREGISTER_BROKER: "in memory",
    Code.WIPE_WRITE_PERM_OF_BROKER: "in memory",
    Code.ADD_WRITE_PERM_OF_BROKER: "in memory",
    Code.DELETE_TOPIC_IN_NAMESRV: "in memory: brokers register their topics",
    Code.REGISTER_TOPIC_IN_NAMESRV: "in memory",
    Code.BROKER_HEARTBEAT: "in memory",
}


class Place:
    """A broker with two files of accounts, and a name server, in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        (directory / "plain_acl.yml").write_text(ACCOUNTS)
        self.users = KeptUsers(directory / "users.json", in_this_thread)
        self.users.load(USERS)
        plain = PlainAccess(PlainFiles(directory / "plain_acl.yml", lambda: START_MS), Clock(), in_this_thread)
        audit = SimpleNamespace(changed=lambda told: None)
        self.broker = WholeBroker(directory, operator_access=OperatorAccess.EVERYWHERE)
        access = SimpleNamespace(plain=plain, users=self.users, audit=audit)
        self.broker.parts.access = cast(AccessControl, access)
        dispatch = Dispatch(self._admit)
        load_requests(self.broker.parts, dispatch)
        self._conversation = Conversation(dispatch)
        self.name_server = RunningNameServer(directory)
        self.dispatches = (dispatch, self.name_server.service.dispatch)

    def _admit(self, request: Request, right: Right) -> None:
        request.caller = cast(Caller, CALLER)

    def fill(self) -> None:
        """Everything that the requests change, and nothing of it is left to write."""
        broker, peer = self.broker, self.broker.connect()
        for topic in ("orders", RETRY, "unused"):
            broker.parts.topics.ensure(topic, 4, 6)
            broker.send(peer, topic, queue_id=1)
        broker.parts.groups.delete("group_orders")  # the send to its retry topic made it
        for group in ("group", "other"):
            broker.parts.groups.put(SubscriptionGroupConfig(group))
        broker.parts.offsets.commit("group", "orders", 1, 1)
        half = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "k"}
        assert broker.send(peer, "halves", properties=half, producer_group="g").code == ResponseCode.SUCCESS
        broker.parts.topics.delete("unused")
        broker.parts.store.flush()
        broker.parts.offsets.persist()
        self.ask(Code.PUT_KV_CONFIG, PutKVConfigRequest(namespace="n", key="gone", value="1"))

    def ask(self, code: Code, header: Any = None, body: bytes = b"") -> RemotingCommand:
        """A request of an administrator of both files."""
        if code in (Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG):
            return self.name_server.connect().ask(code, header, body)
        peer = self._conversation.connect()
        command = RemotingCommand(code, ext_fields={} if header is None else build_header(header), body=body)
        RequestSigner("operator", "12345678").sign(command)
        answers = peer.ask_all(code, body=body, fields=command.ext_fields)
        self.broker.turn()
        self._conversation.reactor.advance(0)
        (answer,) = answers + peer.received()
        return answer

    def block(self, *, blocked: bool) -> None:
        """Let no file be written from now on, or let all files be written again."""
        for name in BLOCKED:
            path = self.directory / name
            path.parent.mkdir(exist_ok=True)
            if blocked:
                path.mkdir()
            else:
                path.rmdir()


Holds = Callable[[WholeBroker], object]
"""Whether a broker that starts after a kill has what was asked for."""


class Case(NamedTuple):
    """A request, and what it changes."""

    code: Code
    holds: Holds
    header: Any = None
    body: bytes = b""


def _users(broker: WholeBroker) -> Any:
    return parse_users((broker.directory / "users.json").read_bytes())


def _accounts(broker: WholeBroker) -> str:
    return (broker.directory / "plain_acl.yml").read_text()


def _queues(broker: WholeBroker) -> set[str]:
    return {topic for topic, _ in broker.parts.store.queues()}


def _policies(broker: WholeBroker) -> str:
    return repr(_users(broker)["anna"].policies)


def _acl(resource: str) -> bytes:
    entries = (PolicyEntryInfo(resource, ("Sub",), None, "Allow"),)
    return AclInfo("User:anna", [PolicyInfo("Custom", entries)]).build()


_TOPIC = CreateTopicRequest(
    topic="new",
    default_topic="TBW102",
    read_queue_nums=3,
    write_queue_nums=3,
    perm=6,
    topic_filter_type="SINGLE_TAG",
)
_NEW_GROUP = SubscriptionGroupConfig("new", retry_max_times=3)
_CLEANED = DeleteSubscriptionGroupRequest(group_name="group", clean_offset=True)
_FORBIDDEN = UpdateGroupForbiddenRequest(group="group", topic="orders", readable=False)
_MODE = MessageRequestMode("orders", "group", POP, 2)
_RESET = ResetOffsetRequest(topic="orders", group="group", queue_id=1, offset=0, timestamp=0, is_force=True)
_CLONE = CloneGroupOffsetRequest(src_group="group", dest_group="other", topic="orders", offline=True)
_WHITE = UpdateWhiteListRequest(global_white_addrs="10.9.9.9")
_SETTLED = SettleTransactionRequest(id="k", outcome="commit", operator="alice")
_ANNA = AclRequest(subject="User:anna")

CASES = (
    Case(Code.UPDATE_AND_CREATE_TOPIC, lambda b: b.parts.topics.table()["new"].read_queue_nums == 3, _TOPIC),
    Case(
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        lambda b: b.parts.topics.get("new"),
        body=CreateTopicList([TopicConfig("new")]).build(),
    ),
    Case(
        Code.DELETE_TOPIC_IN_BROKER,
        lambda b: not {"orders", RETRY} & ({*b.parts.topics.table()} | _queues(b)),
        DeleteTopicRequest(topic="orders"),
    ),
    Case(Code.CLEAN_UNUSED_TOPIC, lambda b: "unused" not in _queues(b) and b.parts.topics.get("unused") is None),
    Case(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        lambda b: b.parts.groups.table()["new"].retry_max_times == 3,
        body=_NEW_GROUP.build(),
    ),
    Case(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        lambda b: b.parts.groups.get("new"),
        body=SubscriptionGroupList([_NEW_GROUP]).build(),
    ),
    Case(
        Code.DELETE_SUBSCRIPTIONGROUP,
        lambda b: b.parts.groups.get("group") is None and b.parts.offsets.query("group", "orders", 1) < 0,
        _CLEANED,
    ),
    Case(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, lambda b: not b.parts.groups.may_read("group", "orders"), _FORBIDDEN),
    Case(Code.SET_MESSAGE_REQUEST_MODE, lambda b: b.parts.modes.get("orders", "group") == _MODE, body=_MODE.build()),
    Case(Code.INVOKE_BROKER_TO_RESET_OFFSET, lambda b: b.parts.offsets.query("group", "orders", 1) == 0, _RESET),
    Case(Code.CLONE_GROUP_OFFSET, lambda b: b.parts.offsets.query("other", "orders", 1) == 1, _CLONE),
    Case(Code.GATEWAY_SETTLE_TRANSACTION, lambda b: len(b.messages("halves")) == 1, _SETTLED),
    Case(
        Code.AUTH_CREATE_USER, lambda b: "b" in _users(b), UserRequest(username="b"), UserInfo(password="word").build()
    ),
    Case(
        Code.AUTH_UPDATE_USER,
        lambda b: _users(b)["anna"].password == "another",
        UserRequest(username="anna"),
        UserInfo(password="another").build(),
    ),
    Case(Code.AUTH_DELETE_USER, lambda b: "anna" not in _users(b), UserRequest(username="anna")),
    Case(Code.AUTH_CREATE_ACL, lambda b: "bills" in _policies(b), _ANNA, _acl("Topic:bills")),
    Case(Code.AUTH_UPDATE_ACL, lambda b: "Sub" in _policies(b).title(), _ANNA, _acl("Topic:orders")),
    Case(Code.AUTH_DELETE_ACL, lambda b: "orders" not in _policies(b), DeleteAclRequest(subject="User:anna")),
    Case(
        Code.UPDATE_AND_CREATE_ACL_CONFIG,
        lambda b: "newcomer" in _accounts(b),
        UpdateAccountRequest(access_key="newcomer", secret_key="87654321"),
    ),
    Case(Code.DELETE_ACL_CONFIG, lambda b: "shopshop" not in _accounts(b), DeleteAccountRequest(access_key="shopshop")),
    Case(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, lambda b: "10.9.9.9" in _accounts(b), _WHITE),
    Case(
        Code.PUT_KV_CONFIG,
        lambda b: b'"put"' in (b.directory / "kvConfig.json").read_bytes(),
        PutKVConfigRequest(namespace="n", key="put", value="2"),
    ),
    Case(
        Code.DELETE_KV_CONFIG,
        lambda b: b'"gone"' not in (b.directory / "kvConfig.json").read_bytes(),
        DeleteKVConfigRequest(namespace="n", key="gone"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code.name)
def test_point_8_what_cannot_be_kept_is_refused_each_time_and_kept_when_there_is_room(
    tmp_path: Path, case: Case
) -> None:
    place = Place(tmp_path / "store")
    place.fill()
    place.block(blocked=True)
    for _ in range(3):
        refused = place.ask(case.code, case.header, case.body)
        assert refused.code != ResponseCode.SUCCESS
        assert "Is a directory" in str(refused.remark)
    place.block(blocked=False)
    answer = place.ask(case.code, case.header, case.body)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    assert case.holds(place.broker.crash_image(tmp_path / "after the kill"))


@pytest.mark.parametrize("code", [Code.DELETE_TOPIC_IN_BROKER, Code.CLEAN_UNUSED_TOPIC])
def test_point_8_queues_that_cannot_be_moved_away_are_deleted_when_they_can(tmp_path: Path, code: Code) -> None:
    place = Place(tmp_path / "store")
    place.fill()
    deleted = place.directory / "deleted"
    deleted.rmdir()
    header = DeleteTopicRequest(topic="orders")
    for _ in range(2):
        refused = place.ask(Code.DELETE_TOPIC_IN_BROKER, header)
        assert (refused.code, "not deleted on disk" in str(refused.remark)) == (ResponseCode.SYSTEM_ERROR, True)
    deleted.mkdir()
    answer = place.ask(code, header if code == Code.DELETE_TOPIC_IN_BROKER else None)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    image = place.broker.crash_image(tmp_path / "after the kill")
    assert not {"orders", RETRY} & ({*image.parts.topics.table()} | _queues(image))


def _changes(right: Right) -> bool:
    change = Action.CREATE | Action.UPDATE | Action.DELETE
    if right.who in (Who.ADMIN, Who.OPERATOR) or any(named.actions & change for named in right.named):
        return True
    return any(word in right.in_body for word in ("Create", "Update", "Delete"))


def test_point_8_every_request_that_changes_something_is_tried_on_a_full_disk_or_keeps_nothing(tmp_path: Path) -> None:
    entries = [entry for dispatch in Place(tmp_path).dispatches for entry in dispatch.entries()]
    found = {entry.code for entry in entries if _changes(entry.right)}
    assert found == {case.code for case in CASES} | set(NOT_KEPT)
