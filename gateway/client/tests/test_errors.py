import pickle

import pytest

from gateway.access.model import Ruling
from gateway.access.refusals import PlainRefusals, Refusals, UserRefusals
from gateway.client import errors
from gateway.client.errors import (
    AclError,
    BrokerError,
    ConnectError,
    ConnectionLost,
    NotSent,
    PartlySent,
    RequestTimeout,
    RocketMQError,
    RouteNotFound,
    broker_error,
)
from gateway.client.message import MessageQueue
from gateway.client.results import SendResult, SendStatus
from gateway.remoting.declared import Action, Kind, Need
from wire.codes import ResponseCode


def _subclasses(kind: type[RocketMQError]) -> set[type[RocketMQError]]:
    return {kind}.union(*(_subclasses(below) for below in kind.__subclasses__()))


def test_the_tree_in_the_docstring_names_every_error_of_the_module() -> None:
    own = {kind.__name__ for kind in _subclasses(RocketMQError) if kind.__module__ == errors.__name__}
    assert errors.__doc__ is not None
    assert {name for name in own if name not in errors.__doc__} == set()


def test_an_address_from_a_route_is_explained() -> None:
    text = str(ConnectError("172.17.0.2:10911", "connection refused", advertised_by="broker-a"))
    assert "172.17.0.2:10911" in text
    assert "brokerIP1" in text
    assert "address_map" in text
    assert "--bind" in text
    assert "broker-a" in text


def test_an_address_from_the_settings_is_explained() -> None:
    text = str(ConnectError("mq:9876", "connection refused"))
    assert "namesrv" in text
    assert "brokerIP1" not in text


def test_a_missing_route_names_causes_and_fixes() -> None:
    text = str(RouteNotFound("orders", ["a:9876", "b:9876"], "they do not know it"))
    assert "'orders'" in text
    assert "a:9876, b:9876" in text
    assert "autoCreateTopicEnable" in text


@pytest.mark.parametrize(
    ("code", "retriable"),
    [(ResponseCode.SYSTEM_BUSY, True), (ResponseCode.MESSAGE_ILLEGAL, False), (4711, False)],
)
def test_broker_errors_are_retriable_as_java_retries(code: int, retriable: bool) -> None:
    assert BrokerError(code, "no", "b:10911").retriable is retriable


def test_an_unknown_code_is_shown_as_it_is() -> None:
    assert str(BrokerError(4711, None, "b:10911")) == "b:10911 answered 4711 UNKNOWN_4711"


@pytest.mark.parametrize(
    ("code", "remark", "kind"),
    [
        (ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: Check signature failed", AclError),
        (ResponseCode.NO_PERMISSION, "AuthenticationException: username cannot be null.", AclError),
        (ResponseCode.NO_PERMISSION, "User:shop is not found.", AclError),
        (ResponseCode.NO_PERMISSION, "User:shop not found.", AclError),
        (ResponseCode.NO_PERMISSION, "User:shop is disabled.", AclError),
        (ResponseCode.NO_PERMISSION, "the topic[orders] sending message is forbidden", BrokerError),
        (ResponseCode.SYSTEM_ERROR, "push reply message fail, channel of <c> not found.", BrokerError),
        (ResponseCode.NO_PERMISSION, "authenticationEnabled is read at start only: change it in the file", BrokerError),
        (ResponseCode.NO_PERMISSION, "The username 'a b' is too long", BrokerError),
        (ResponseCode.NO_PERMISSION, "Authorization failed. Please verify your access rights and try again.", AclError),
        (ResponseCode.SYSTEM_ERROR, "boom", BrokerError),
        (ResponseCode.SYSTEM_ERROR, None, BrokerError),
    ],
)
def test_refusals_of_access_are_told_from_others(code: int, remark: str | None, kind: type[BrokerError]) -> None:
    assert type(broker_error(code, remark, "b:10911")) is kind


_OF_4X = "org.apache.rocketmq.acl.common.AclException: {}, org.apache.rocketmq.acl.plain.Judge.validate(Judge.java:1)"
_OF_5X = "User:shop has no permission to access Topic:orders from 127.0.0.1, {}."


@pytest.mark.parametrize(
    ("code", "remark", "told", "advice"),
    [
        (16, _OF_5X.format("no matched policies"), ("shop", "Topic:orders", "no matched policies"), "createAcl"),
        (16, _OF_5X.format("the decision is deny"), ("shop", "Topic:orders", "the decision is deny"), "createAcl"),
        (16, "User:shop is not found.", ("shop", "", ""), "no user shop"),
        (16, "User:shop is disabled.", ("shop", "", ""), "enable shop"),
        (16, "check signature failed.", ("", "", ""), "'secret_key'"),
        (16, "username cannot be null.", ("", "", ""), "'credentials_file'"),
        (16, "parse authorization context error.", ("", "", ""), "'access_key'"),
        (1, _OF_4X.format("No acl config for shop"), ("shop", "", ""), "no account shop"),
        (1, _OF_4X.format("Check signature failed for accessKey=shop"), ("shop", "", ""), "'secret_key'"),
        (1, _OF_4X.format("No accessKey is configured"), ("", "", ""), "'access_key'"),
        (
            1,
            _OF_4X.format("No default permission for topic:orders"),
            ("", "Topic:orders", "No default permission"),
            "Topic:orders",
        ),
        (
            1,
            _OF_4X.format("No default permission for group:%RETRY%g"),
            ("", "Group:%RETRY%g", "No default permission"),
            "updateAclConfig",
        ),
        (
            1,
            _OF_4X.format("Need admin permission for request code=17, but accessKey=shop is not"),
            ("shop", "", "Need admin permission"),
            "admin: true",
        ),
    ],
)
def test_a_refusal_names_account_resource_and_rule_and_what_to_do(
    code: int, remark: str, told: tuple[str, str, str], advice: str
) -> None:
    error = broker_error(code, remark, "b:10911")
    assert isinstance(error, AclError)
    assert (error.account, error.resource, error.rule) == told
    assert remark in str(error)
    assert advice in str(error).replace(remark, "")
    assert not error.retriable


def test_an_account_with_braces_harms_no_text() -> None:
    assert "no user {0.__class__}:" in str(AclError(16, "User:{0.__class__} is not found.", "b:1"))


def test_a_timeout_says_whether_it_was_sent() -> None:
    assert "may have been carried out" in str(RequestTimeout("SEND", "b:10911", 3.0))
    assert "was not sent" in str(RequestTimeout("SEND", "b:10911", 3.0, outcome_unknown=False))
    assert isinstance(RequestTimeout("SEND", "b:10911", 3.0), TimeoutError)


def test_a_broken_connection_leaves_the_outcome_open() -> None:
    error = ConnectionLost("b:10911", "reset")
    assert error.outcome_unknown
    assert error.retriable
    assert "may have been carried out" in str(error)


def test_a_result_that_is_not_safe_enough_tells_what_to_do() -> None:
    result = SendResult(SendStatus.FLUSH_DISK_TIMEOUT, "A", "B", MessageQueue("t", "b", 0), 7)
    error = NotSent(result)
    assert error.status == "FLUSH_DISK_TIMEOUT"
    assert "accept={SendStatus.FLUSH_DISK_TIMEOUT}" in str(error)
    assert result.durable is False


def test_a_batch_that_broke_off_says_where_to_go_on() -> None:
    result = SendResult(SendStatus.SEND_OK, "A", "B", MessageQueue("t", "b", 0), 7)
    error = PartlySent([result, result], 5)
    error.__cause__ = RequestTimeout("SEND", "b:10911", 3.0)
    assert "2 of 5" in str(error)
    assert "from index 2 on" in str(error)
    assert error.retriable


@pytest.mark.parametrize(
    "error",
    [
        BrokerError(1, "no", "b:1"),
        ConnectError("b:1", "refused"),
        RequestTimeout("SEND", "b:1", 3.0),
        RouteNotFound("t", ("a:1",), "why"),
        errors.MessageTooLarge("body", 5, 4, "shorten it"),
        errors.ConfigurationError("key", 1, "2"),
        errors.ClientClosed("producer"),
        errors.UsedAfterFork("producer"),
        errors.UsedOnOtherLoop("producer"),
        errors.BrokerNotFound("b", 0),
        errors.TooManyRequests("b:1", 5),
        errors.ProtocolError("b:1", "garbage"),
    ],
)
def test_errors_survive_pickling_so_that_workers_can_report_them(error: RocketMQError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_a_request_that_a_server_does_not_know_may_have_come_to_the_wrong_kind_of_server() -> None:
    text = str(BrokerError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "34?", "mq:9876"))
    assert "too old" in text
    assert "a name server where a broker is meant" in text


@pytest.mark.parametrize("refusals", [PlainRefusals(), UserRefusals(), UserRefusals(hides_users=True)])
def test_every_refusal_of_the_gateway_is_understood(refusals: Refusals) -> None:
    denied = Ruling(False, "Custom Topic:ord* Deny All")
    need = Need(Kind.TOPIC, "orders", Action.PUB)
    for refused in (
        refusals.nobody(),
        refusals.unknown("shop"),
        refusals.disabled("shop"),
        refusals.unsigned("shop"),
        refusals.no_admin("shop", 25, "10.1.2.3", "DefaultCluster"),
        refusals.denied("shop", 310, "10.1.2.3", need, denied),
        refusals.denied("shop", 310, "10.1.2.3", need, Ruling(False, "no matched policies")),
    ):
        error = broker_error(refused.code, refused.remark, "b:10911")
        assert isinstance(error, AclError), refused.remark
        assert error.advice != AclError(16, "", "b:1").advice, refused.remark
    error = broker_error(refused.code, refused.remark, "b:10911")
    assert isinstance(error, AclError)
    assert (error.account, error.resource) == ("shop", "Topic:orders")
    assert error.rule.startswith("no matched policies")
