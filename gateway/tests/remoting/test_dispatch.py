"""From code to method, from exception to answer."""

from __future__ import annotations

import errno
import logging

import pytest
from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.remoting.declared import ADMIN, EVERYBODY, OPERATOR, PUB, SUB, Right, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Admit, Answer, Dispatch, Request, answer_failures
from gateway.tests.remoting.conversation import Conversation, Peer, request
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.errors import BodyError
from wire.frame import MAX_FRAME_BYTES, build_frame
from wire.headers.declare import Header, Int32

PUBLISH = needs(on_topic(PUB))
SUBSCRIBE = needs(on_topic(SUB))
CONSUME = needs(on_group(SUB))

CODE = RequestCode.GET_MIN_OFFSET


class QueueRequest(Header):
    topic: str
    queue_id: Int32


class OffsetResponse(Header):
    offset: Int32


def talking(dispatch: Dispatch) -> Peer:
    return Conversation(dispatch).connect()


def answering(method: object) -> Peer:
    dispatch = Dispatch()
    dispatch.answers(CODE, QueueRequest, method, EVERYBODY)  # type: ignore[call-overload]
    return talking(dispatch)


FIELDS = {"topic": "orders", "queueId": "3"}


def test_a_method_gets_its_parsed_header_and_returns_the_answer() -> None:
    def method(request: Request, header: QueueRequest) -> Answer:
        assert (header.topic, header.queue_id) == ("orders", 3)
        return Answer(header=OffsetResponse(offset=7), body=b"body", remark="fine")

    answer = answering(method).ask(CODE, fields=FIELDS)
    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext_fields, answer.body, answer.remark) == ({"offset": "7"}, b"body", "fine")


def test_a_method_may_answer_later_by_a_coroutine() -> None:
    ready: Deferred[bytes] = Deferred()

    async def method(request: Request, header: QueueRequest) -> Answer:
        return Answer(body=await ready)

    conversation = Conversation()
    conversation.dispatch.answers(CODE, QueueRequest, method, EVERYBODY)
    peer = conversation.connect()
    assert peer.ask_all(CODE, fields=FIELDS) == []
    ready.callback(b"late")
    conversation.reactor.advance(0)
    assert [answer.body for answer in peer.received()] == [b"late"]


def test_a_method_without_header_class_gets_none() -> None:
    dispatch = Dispatch()
    dispatch.answers(CODE, None, lambda request, header: Answer(remark=repr(header)), EVERYBODY)
    assert talking(dispatch).ask(CODE).remark == "None"


def test_a_direct_method_answers_when_it_likes_and_only_once() -> None:
    kept: list[Request] = []
    conversation = Conversation()
    conversation.dispatch.answers_directly(CODE, kept.append, EVERYBODY)
    peer = conversation.connect()
    assert peer.ask_all(CODE) == []
    (held,) = kept
    held.answer(ResponseCode.PULL_NOT_FOUND)
    held.answer(ResponseCode.SUCCESS)
    held.send(held.command.response(0))
    held.send_parts([build_frame(held.command.response(0))])
    conversation.server.flush_group.flush()
    assert [answer.code for answer in peer.received()] == [ResponseCode.PULL_NOT_FOUND]


def test_a_built_frame_is_an_answer_too() -> None:
    def method(request: Request) -> None:
        request.send_parts([build_frame(request.command.response(0, "parts"))])

    dispatch = Dispatch()
    dispatch.answers_directly(CODE, method, EVERYBODY)
    assert talking(dispatch).ask(CODE).remark == "parts"


def test_an_answer_goes_nowhere_when_the_peer_has_left() -> None:
    kept: list[Request] = []
    conversation = Conversation()
    conversation.dispatch.answers_directly(CODE, kept.append, EVERYBODY)
    peer = conversation.connect()
    peer.ask_all(CODE)
    peer.leave()
    kept[0].answer(ResponseCode.SUCCESS)
    conversation.server.flush_group.flush()
    assert peer.received() == []


@pytest.mark.parametrize("code", [CODE, 4711, RequestCode.PULL_MESSAGE])
def test_a_oneway_request_is_never_answered(code: int) -> None:
    def method(request: Request, header: None) -> Answer:
        raise RequestRefused(ResponseCode.NO_PERMISSION, "no")

    dispatch = Dispatch()
    dispatch.answers(CODE, None, method, EVERYBODY)
    assert talking(dispatch).ask_all(code, oneway=True) == []


def test_an_unknown_code_is_refused_in_upstreams_words() -> None:
    answer = talking(Dispatch()).ask(4711)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 4711 not supported"


def test_a_known_code_without_method_is_refused_by_name() -> None:
    answer = talking(Dispatch()).ask(RequestCode.POP_MESSAGE)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 200050 not supported: POP_MESSAGE"


def test_a_refusal_is_answered_with_its_code_and_remark() -> None:
    def method(request: Request, header: QueueRequest) -> Answer:
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")

    answer = answering(method).ask(CODE, fields=FIELDS)
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[orders] not exist")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"topic": "orders"}, "field 'queueId' is missing"),
        ({"topic": "orders", "queueId": "three"}, "field 'queueId' is 'three', expected an integer"),
    ],
)
def test_a_bad_field_is_named_in_the_answer(fields: dict[str, str], said: str) -> None:
    answer = answering(lambda request, header: Answer()).ask(CODE, fields=fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert said in (answer.remark or "")


def test_a_bad_body_is_the_clients_error_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def method(request: Request, header: QueueRequest) -> Answer:
        raise BodyError("body ends in the middle")

    caplog.set_level(logging.ERROR)
    answer = answering(method).ask(CODE, fields=FIELDS)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "body ends in the middle")
    assert caplog.records == []


def test_a_bug_is_answered_and_its_traceback_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def method(request: Request) -> None:
        raise KeyError("bug")

    caplog.set_level(logging.ERROR)
    dispatch = Dispatch()
    dispatch.answers_directly(CODE, method, EVERYBODY)
    peer = talking(dispatch)
    for _ in range(2):
        answer = peer.ask(CODE)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "KeyError: 'bug'")
    first, second = caplog.records
    assert isinstance(first.failure, KeyError)  # type: ignore[attr-defined]
    assert second.failure is None  # type: ignore[attr-defined]


def test_one_failing_request_does_not_stop_the_others_of_its_read() -> None:
    def method(request: Request) -> None:
        if request.command.opaque == 1:
            raise RuntimeError("first")
        request.answer(ResponseCode.SUCCESS)

    dispatch = Dispatch()
    dispatch.answers_directly(CODE, method, EVERYBODY)
    peer = talking(dispatch)
    peer.send(request(CODE, opaque=1), request(CODE, opaque=2))
    assert [(answer.opaque, answer.code) for answer in peer.received()] == [(1, 1), (2, 0)]


def test_an_answer_too_large_for_a_frame_is_an_error_the_client_sees() -> None:
    answer = answering(lambda request, header: Answer(body=bytes(MAX_FRAME_BYTES))).ask(CODE, fields=FIELDS)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "exceeds 16777216 bytes" in (answer.remark or "")


def test_an_unasked_response_is_ignored() -> None:
    peer = talking(Dispatch())
    peer.send(RemotingCommand(0, opaque=5, flag=1))
    assert peer.received() == []
    assert not peer.channel.closed


def test_a_code_has_one_method() -> None:
    dispatch = Dispatch()
    dispatch.answers_directly(CODE, lambda request: None, EVERYBODY)
    with pytest.raises(ValueError, match="GET_MIN_OFFSET already has a method"):
        dispatch.answers(CODE, None, lambda request, header: None, EVERYBODY)


def refuse_everybody(request: Request, right: Right) -> None:
    raise RequestRefused(ResponseCode.NO_PERMISSION, f"{right} for {request.command.code}")


class RareRequests:
    """Answers a code whose module is loaded late."""

    def register(self, dispatch: Dispatch) -> None:
        """Take over the code."""
        dispatch.answers(RequestCode.GET_MAX_OFFSET, QueueRequest, answer_nothing, OPERATOR)


def answer_nothing(request: Request, header: QueueRequest) -> Answer:
    return Answer()


def declaring(admit: Admit) -> Dispatch:
    """Make a dispatch with a request of each kind."""
    dispatch = Dispatch(admit)
    dispatch.answers_directly(RequestCode.SEND_MESSAGE, lambda request: request.answer(0), PUBLISH)
    dispatch.answers_directly(RequestCode.POP_MESSAGE, lambda request: request.answer(0), CONSUME, Size.LARGE)
    dispatch.answers(CODE, QueueRequest, answer_nothing, SUBSCRIBE)
    dispatch.answers(RequestCode.QUERY_MESSAGE, QueueRequest, answer_nothing, SUBSCRIBE, Size.LARGE)
    dispatch.answers(RequestCode.GET_ALL_TOPIC_CONFIG, QueueRequest, answer_nothing, ADMIN, Size.LIST)
    dispatch.answers(RequestCode.CLONE_GROUP_OFFSET, QueueRequest, answer_nothing, EVERYBODY, Size.CHANGING_LIST)
    dispatch.loads_late([RareRequests])
    return dispatch


def test_every_request_passes_admission_before_its_header_is_read() -> None:
    dispatch = declaring(refuse_everybody)
    peer = talking(dispatch)
    for code, right in {
        RequestCode.SEND_MESSAGE: "Topic `topic` Pub",
        RequestCode.POP_MESSAGE: "Group `consumerGroup` Sub",
        CODE: "Topic `topic` Sub",
        RequestCode.QUERY_MESSAGE: "Topic `topic` Sub",
        RequestCode.GET_ALL_TOPIC_CONFIG: "admin",
        RequestCode.CLONE_GROUP_OFFSET: "everybody",
        RequestCode.GET_MAX_OFFSET: "operator",
    }.items():
        answer = peer.ask(code, fields={})
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, f"{right} for {int(code)}")


def test_an_admitted_request_is_answered_once() -> None:
    admitted: list[int] = []
    peer = talking(declaring(lambda request, right: admitted.append(request.command.code)))
    codes = [entry.code for entry in declaring(refuse_everybody).entries()]
    for code in codes:
        assert peer.ask(code, fields=FIELDS).code == ResponseCode.SUCCESS
    assert admitted == codes


def test_rare_requests_are_loaded_once_when_the_first_code_comes_that_nobody_answers() -> None:
    loads: list[str] = []

    def load() -> RareRequests:
        loads.append("loaded")
        return RareRequests()

    dispatch = Dispatch()
    dispatch.answers(CODE, QueueRequest, answer_nothing, EVERYBODY)
    dispatch.loads_late([load])
    peer = talking(dispatch)
    assert (peer.ask(CODE, fields=FIELDS).code, loads) == (ResponseCode.SUCCESS, [])
    assert peer.ask(RequestCode.GET_MAX_OFFSET, fields=FIELDS).code == ResponseCode.SUCCESS
    assert peer.ask(RequestCode.PULL_MESSAGE).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert loads == ["loaded"]


def test_what_cannot_be_loaded_now_is_loaded_for_a_later_request_and_the_rest_once_only() -> None:
    made: list[str] = []
    no_descriptor = [OSError(errno.EMFILE, "Too many open files")]

    class Others:
        def __init__(self) -> None:
            made.append("others")

        def register(self, dispatch: Dispatch) -> None:
            dispatch.answers(CODE, QueueRequest, answer_nothing, EVERYBODY)

    def rare() -> RareRequests:
        if no_descriptor:
            raise no_descriptor.pop()
        made.append("rare")
        return RareRequests()

    dispatch = Dispatch()
    dispatch.loads_late([Others, rare])
    peer = talking(dispatch)
    codes = [peer.ask(RequestCode.GET_MAX_OFFSET, fields=FIELDS).code for _ in range(2)]
    assert codes == [ResponseCode.SYSTEM_BUSY, ResponseCode.SUCCESS]
    assert made == ["others", "rare"]


def test_requests_that_cannot_be_loaded_keep_nobody_from_those_that_can() -> None:
    made: list[str] = []

    def damaged() -> RareRequests:
        made.append("damaged")
        raise ValueError("it is damaged")

    dispatch = Dispatch()
    dispatch.loads_late([damaged, RareRequests])
    peer = talking(dispatch)
    for _ in range(2):
        assert peer.ask(RequestCode.GET_MAX_OFFSET, fields=FIELDS).code == ResponseCode.SUCCESS
    assert made == ["damaged"]
    answer = peer.ask(CODE, fields=FIELDS)
    assert (answer.code, "it is damaged" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)


def test_the_entries_are_all_requests_that_are_answered() -> None:
    entries = declaring(refuse_everybody).entries()
    assert [entry.code for entry in entries] == sorted(entry.code for entry in entries)
    assert (RequestCode.GET_MAX_OFFSET, OPERATOR, Size.SMALL) in [
        (entry.code, entry.right, entry.size) for entry in entries
    ]


FAILURES: dict[str, tuple[Exception, int, str]] = {
    "a refusal": (RequestRefused(ResponseCode.NO_PERMISSION, "no"), ResponseCode.NO_PERMISSION, "no"),
    "a body": (BodyError("no body"), ResponseCode.SYSTEM_ERROR, "no body"),
    "the disk": (OSError(5, "Input/output error"), ResponseCode.SYSTEM_ERROR, "reading the store failed: [Errno 5]"),
    "no descriptor": (OSError(24, "Too many open files"), ResponseCode.SYSTEM_BUSY, "too many open files, try again"),
    "anything else": (KeyError("x"), ResponseCode.SYSTEM_ERROR, "KeyError: 'x'"),
}


@pytest.mark.parametrize(("error", "code", "remark"), FAILURES.values(), ids=FAILURES)
def test_what_stops_a_request_that_waited_is_its_answer(error: Exception, code: int, remark: str) -> None:
    def method(request: Request) -> None:
        def fail() -> None:
            raise error

        answer_failures(request, fail)

    dispatch = Dispatch()
    dispatch.answers_directly(CODE, method, EVERYBODY)
    answer = talking(dispatch).ask(CODE)
    assert (answer.code, (answer.remark or "")[: len(remark)]) == (code, remark)
