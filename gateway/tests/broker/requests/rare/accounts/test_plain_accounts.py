"""Requests that change the accounts of ACL 1.0: answers of `mqadmin` 4.x, and no change without an admin's keys."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from twisted.internet.task import Clock

from gateway.access.audit import Audit
from gateway.access.failures import Failures
from gateway.access.guard import Guard, Rules
from gateway.access.plain.files import PlainFiles
from gateway.access.plain.plain_access import PlainAccess
from gateway.access.private_disk import PrivateDisk
from gateway.access.refusals import PlainRefusals
from gateway.broker.requests.listed import MAX_LISTED
from gateway.broker.requests.rare.accounts.plain_accounts import MAX_WHITE_LIST, NO_SECRETS, OFF
from gateway.in_thread import in_this_thread
from gateway.tests.broker.whole_broker import START_MS, WholeBroker
from wire.bodies.heartbeat import HeartbeatData
from wire.codes import RequestCode as Code
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.access import (
    AccountsVersionResponse,
    DeleteAccountRequest,
    UpdateAccountRequest,
    UpdateWhiteListRequest,
)
from wire.headers.declare import build_header, parse_header
from wire.signature import RequestSigner

if TYPE_CHECKING:
    from gateway.access.control import AccessControl

FILE = """# keep me
globalWhiteRemoteAddresses: # and me
- 192.0.2.*
accounts:
- accessKey: operator
  secretKey: '12345678'
  admin: true
- accessKey: shopshop
  secretKey: '12345678'
  defaultTopicPerm: PUB
dataVersion:
- counter: 4
  timestamp: 5
"""
CHANGES: tuple[tuple[Code, Any, int], ...] = (
    (Code.UPDATE_AND_CREATE_ACL_CONFIG, UpdateAccountRequest(access_key="newcomer", secret_key="87654321"), 209),
    (Code.DELETE_ACL_CONFIG, DeleteAccountRequest(access_key="shopshop"), 210),
    (Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, UpdateWhiteListRequest(global_white_addrs="10.1.2.{1,2},10.0.0.1"), 211),
)


@pytest.fixture
def access(broker: WholeBroker, tmp_path: Path) -> PlainAccess:
    """The broker's accounts; a white list lets every request of this machine pass."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(FILE)
    access = PlainAccess(PlainFiles(path, lambda: START_MS), Clock(), in_this_thread)
    audit = Audit(tmp_path / "audit.jsonl", in_this_thread, max_bytes=1 << 20, files=10)
    broker.parts.access = cast("AccessControl", SimpleNamespace(plain=access, audit=audit))
    guard = Guard(access, Rules(refusals=PlainRefusals(), cluster="DefaultCluster"), Failures(100, lambda: 0))
    broker.conversation.dispatch._admit = guard.admit
    return access


def ask(
    broker: WholeBroker, code: Code, header: Any = None, by: str | None = "operator", secret: str = "12345678"
) -> RemotingCommand:
    command = RemotingCommand(code, ext_fields={} if header is None else build_header(header))
    if by is not None:
        RequestSigner(by, secret).sign(command)
    peer = broker.connect()
    peer.ask_all(Code.HEART_BEAT, body=HeartbeatData(client_id="tool@1").build())
    (answer,) = peer.ask_all(code, fields=command.ext_fields)
    return answer


def test_an_account_is_made_and_changed_and_the_rest_of_the_file_stays(
    broker: WholeBroker, access: PlainAccess
) -> None:
    header = UpdateAccountRequest(
        access_key="newcomer",
        secret_key="87654321",
        white_remote_address="10.1.*.*",
        admin=False,
        default_topic_perm="DENY",
        default_group_perm="SUB",
        topic_perms="a=PUB, b=PUB|SUB",
        group_perms="g=SUB",
    )
    assert ask(broker, Code.UPDATE_AND_CREATE_ACL_CONFIG, header).code == ResponseCode.SUCCESS
    account = access.find("newcomer")
    assert account is not None
    assert (account.secret, account.white.text, account.default_group) == (b"87654321", "10.1.*.*", "SUB")
    assert account.entries == {"a": "PUB", "b": "PUB|SUB", "%RETRY%g": "SUB"}
    changed = UpdateAccountRequest(access_key="newcomer", admin=True, topic_perms="", secret_key="")
    assert ask(broker, Code.UPDATE_AND_CREATE_ACL_CONFIG, changed).code == ResponseCode.SUCCESS
    account = access.find("newcomer")
    assert account is not None
    assert (account.is_admin, account.secret, len(account.entries)) == (True, b"87654321", 3)
    text = access.main.read_text()
    assert text.startswith(FILE[: FILE.index("dataVersion")])
    assert text.endswith(f"- counter: 6\n  timestamp: {START_MS}\n")


def test_an_account_is_deleted(broker: WholeBroker, access: PlainAccess) -> None:
    header = DeleteAccountRequest(access_key="shopshop")
    assert ask(broker, Code.DELETE_ACL_CONFIG, header).code == ResponseCode.SUCCESS
    assert access.find("shopshop") is None
    again = ask(broker, Code.DELETE_ACL_CONFIG, header)
    assert (again.code, again.remark) == (
        210,
        "The accesskey[shopshop] corresponding to accessConfig has been deleted failed. There is no such account",
    )


def test_a_white_list_is_set_in_the_file_that_is_named(broker: WholeBroker, access: PlainAccess) -> None:
    header = UpdateWhiteListRequest(global_white_addrs="10.1.2.{1,2},10.0.0.1", acl_file_full_path=str(access.main))
    assert ask(broker, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header).code == ResponseCode.SUCCESS
    assert [pattern.text for pattern in access.current.white] == ["10.1.2.{1,2}", "10.0.0.1"]
    for addresses, path, reason in (
        (" , ", "", "no address is given"),
        ("10.0.0.0/8", "", "no address"),
        ("10.0.0.1", "/etc/passwd", "none of the files of accounts"),
    ):
        wrong = UpdateWhiteListRequest(global_white_addrs=addresses, acl_file_full_path=path)
        answer = ask(broker, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, wrong)
        assert answer.code == 211
        assert reason in (answer.remark or "")


def test_lists_of_megabytes_are_refused_before_they_are_split(broker: WholeBroker, access: PlainAccess) -> None:
    many = ",".join(["a=PUB"] * (MAX_LISTED + 1))
    for header in (
        UpdateAccountRequest(access_key="shopshop", topic_perms=many),
        UpdateAccountRequest(access_key="shopshop", group_perms=many),
    ):
        answer = ask(broker, Code.UPDATE_AND_CREATE_ACL_CONFIG, header)
        assert (answer.code, "lists more than 10000 names" in (answer.remark or "")) == (
            ResponseCode.INVALID_PARAMETER,
            True,
        )
    white = UpdateWhiteListRequest(global_white_addrs="10.0.0.1," * (MAX_WHITE_LIST // 9 + 1))
    answer = ask(broker, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, white)
    assert (answer.code, answer.remark) == (211, "globalWhiteAddrs has more than 262144 characters, the limit")


def test_the_versions_of_all_files_are_shown(broker: WholeBroker, access: PlainAccess) -> None:
    answer = ask(broker, Code.GET_BROKER_CLUSTER_ACL_INFO)
    found = parse_header(AccountsVersionResponse, answer.ext_fields)
    version = {"counter": 4, "timestamp": 5, "stateVersion": 0}
    assert json.loads(found.version) == version
    assert json.loads(found.all_acl_file_version or "") == {str(access.main): version}
    assert (found.broker_name, found.cluster_name) == ("broker-a", "DefaultCluster")
    assert found.broker_addr.count(":") >= 1


def test_accounts_are_never_shown(broker: WholeBroker, access: PlainAccess) -> None:
    answer = ask(broker, Code.GET_BROKER_CLUSTER_ACL_CONFIG)
    assert (answer.code, answer.remark, answer.body) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, NO_SECRETS, b"")


@pytest.mark.parametrize(("code", "header", "failed"), CHANGES)
@pytest.mark.parametrize(
    ("by", "secret"), [(None, ""), ("nobody", "12345678"), ("shopshop", "12345678"), ("operator", "another key")]
)
def test_an_address_of_a_white_list_alone_changes_nothing(
    broker: WholeBroker, access: PlainAccess, code: Code, header: Any, failed: int, by: str | None, secret: str
) -> None:
    answer = ask(broker, code, header, by, secret)
    assert answer.code == failed
    assert "sign the request with the keys of an admin" in (answer.remark or "")
    assert access.main.read_text() == FILE


@pytest.mark.parametrize(("code", "header", "failed"), CHANGES)
def test_a_file_that_cannot_be_written_is_the_answer(
    broker: WholeBroker, access: PlainAccess, code: Code, header: Any, failed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        answer = ask(broker, code, header)
    assert (answer.code, answer.remark) == (failed, "[Errno 28] No space left on device")
    assert access.main.read_text() == FILE


@pytest.mark.parametrize(("code", "header", "failed"), CHANGES)
def test_a_change_that_a_power_failure_may_take_back_is_not_answered_as_done(
    broker: WholeBroker, access: PlainAccess, code: Code, header: Any, failed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(PrivateDisk, "fsync_directory", broken)
        answer = ask(broker, code, header)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert ": in force, but not written to disk ([Errno 5] Input/output error)" in (answer.remark or "")
    assert access.main.read_text() != FILE
    (line,) = (access.main.parent / "audit.changes.jsonl").read_text().splitlines()
    assert json.loads(line)["code"] == int(code)


@pytest.mark.parametrize(("code", "header", "failed"), CHANGES)
def test_a_change_is_in_the_audit_file(
    broker: WholeBroker, access: PlainAccess, code: Code, header: Any, failed: int
) -> None:
    assert ask(broker, code, header).code == ResponseCode.SUCCESS
    (line,) = (access.main.parent / "audit.changes.jsonl").read_text().splitlines()
    found = json.loads(line)
    told = {210: ("account shopshop", "Delete"), 209: ("account newcomer", "Update")}
    assert (found["host"], found["client"]) == ("192.0.2.7", "tool@1")
    assert (found["resource"], found["action"]) == told.get(failed, ("globalWhiteRemoteAddresses", "Update"))
    assert (found["event"], found["account"], found["code"]) == ("changed", "operator", int(code))
    assert "87654321" not in line


def test_no_answer_and_no_log_line_has_a_secret(
    broker: WholeBroker, access: PlainAccess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for secret, code in (("hidden", 209), ("hidden\x00hidden", 209), ("hidden hidden", 0)):
        header = UpdateAccountRequest(access_key="newcomer", secret_key=secret)
        answer = ask(broker, Code.UPDATE_AND_CREATE_ACL_CONFIG, header)
        assert (answer.code, "hidden" in (answer.remark or "")) == (code, False)
    assert "hidden" not in repr([vars(record) for record in caplog.records])
    assert "accounts changed by request" in caplog.text


@pytest.mark.parametrize(("code", "header", "failed"), CHANGES)
def test_without_access_control_there_are_no_accounts(
    broker: WholeBroker, code: Code, header: Any, failed: int
) -> None:
    answer = ask(broker, code, header, by=None)
    assert (answer.code, answer.remark) == (failed, OFF)
    assert ask(broker, Code.GET_BROKER_CLUSTER_ACL_INFO).remark == OFF


def test_no_yaml_is_imported_for_requests_without_access_control() -> None:
    program = (
        "import sys; from gateway.broker import request_loader; "
        "from gateway.broker.requests.rare.accounts import plain_accounts; "
        "sys.exit('yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
