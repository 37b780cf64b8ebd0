"""Methods declare the codes that they answer."""

from __future__ import annotations

from gateway.errors import RequestRefused
from gateway.remoting.declared import ADMIN, EVERYBODY, SUB, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import Requests, answers, answers_directly, answers_in_turns
from gateway.remoting.turns import Turns, Work
from gateway.tests.remoting.conversation import Conversation
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import Header

SUBSCRIBE = needs(on_topic(SUB))
CONSUME = needs(on_group(SUB))


class TopicRequest(Header):
    topic: str


class Declaring(Requests):
    """One method of each kind, and one that answers two codes."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    @answers(RequestCode.GET_TOPIC_CONFIG, TopicRequest, ADMIN)
    def parsed(self, request: Request, header: TopicRequest) -> Answer:
        """Answer with the topic."""
        return Answer(remark=header.topic)

    @answers_in_turns(RequestCode.GET_ALL_TOPIC_CONFIG, None, ADMIN, Size.LIST)
    def in_turns(self, request: Request, header: None) -> Work[Answer]:
        """Answer after two pieces."""
        yield
        return Answer(remark="made in pieces")

    @answers_in_turns(RequestCode.GET_ALL_CONSUMER_OFFSET, None, EVERYBODY)
    def refused(self, request: Request, header: None) -> Work[Answer]:
        """Refuse after a piece."""
        yield
        raise RequestRefused(ResponseCode.NO_PERMISSION, "no")

    @answers_directly(RequestCode.PULL_MESSAGE, SUBSCRIBE, Size.LARGE)
    @answers_directly(RequestCode.LITE_PULL_MESSAGE, CONSUME)
    def direct(self, request: Request) -> None:
        """Answer by the request."""
        request.answer(ResponseCode.SUCCESS, remark=str(request.command.code))


def test_each_method_is_registered_for_its_codes_as_it_declares_them() -> None:
    conversation = Conversation()
    Declaring(Turns(conversation.reactor)).register(conversation.dispatch)
    declared = {(entry.code, entry.right, entry.size) for entry in conversation.dispatch.entries()}
    assert declared == {
        (RequestCode.GET_TOPIC_CONFIG, ADMIN, Size.SMALL),
        (RequestCode.GET_ALL_TOPIC_CONFIG, ADMIN, Size.LIST),
        (RequestCode.GET_ALL_CONSUMER_OFFSET, EVERYBODY, Size.SMALL),
        (RequestCode.PULL_MESSAGE, SUBSCRIBE, Size.LARGE),
        (RequestCode.LITE_PULL_MESSAGE, CONSUME, Size.SMALL),
    }


def test_each_kind_of_method_answers() -> None:
    conversation = Conversation()
    Declaring(Turns(conversation.reactor)).register(conversation.dispatch)
    peer = conversation.connect()
    assert peer.ask(RequestCode.GET_TOPIC_CONFIG, fields={"topic": "orders"}).remark == "orders"
    assert peer.ask(RequestCode.LITE_PULL_MESSAGE).remark == str(int(RequestCode.LITE_PULL_MESSAGE))
    told = []
    for code in (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET):
        told += peer.ask_all(code)
        conversation.reactor.advance(0)
        told += peer.received()
    outcomes = [(answer.code, answer.remark) for answer in told]
    assert outcomes == [(ResponseCode.SUCCESS, "made in pieces"), (ResponseCode.NO_PERMISSION, "no")]
