import pytest

from gateway.client.errors import MessageRefused
from gateway.client.formats.replies import pushed_reply, reply_properties, reply_topic, request_properties
from gateway.client.tests.test_message import received
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.errors import FieldError


def test_a_reply_answers_the_properties_of_its_request() -> None:
    sent = request_properties("C", "10.0.0.1@1#1", 3000)
    request = received(CLUSTER="DefaultCluster", **sent)
    assert reply_topic(request) == "DefaultCluster_REPLY_TOPIC"
    assert reply_properties(request) == {**sent, "MSG_TYPE": "reply"}


def test_a_message_that_asks_for_no_reply_gets_none() -> None:
    with pytest.raises(MessageRefused, match="request"):
        reply_properties(received())
    with pytest.raises(MessageRefused, match="CLUSTER"):
        reply_topic(received())


FIELDS = {
    "producerGroup": "g",
    "topic": "DefaultCluster_REPLY_TOPIC",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "1",
    "sysFlag": "0",
    "bornTimestamp": "5",
    "flag": "0",
    "properties": "CORRELATION_ID\x01C\x02TAGS\x01T\x02",
    "bornHost": "/10.0.0.9:4000",
    "storeHost": "10.0.0.1:10911",
    "storeTimestamp": "6",
}


def test_a_pushed_reply_becomes_a_message() -> None:
    command = RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext_fields=dict(FIELDS), body=b"pong")
    correlation_id, reply = pushed_reply(command)
    assert correlation_id == "C"
    assert (reply.body, reply.tags, reply.born_host, reply.store_host) == (
        b"pong",
        "T",
        "10.0.0.9:4000",
        "10.0.0.1:10911",
    )


@pytest.mark.parametrize("host", ["", "nowhere", "/1.2.3.4:x", "/1.2.3.4:99999"])
def test_a_host_that_is_none_does_not_matter(host: str) -> None:
    command = RemotingCommand(326, ext_fields={**FIELDS, "bornHost": host}, body=b"pong")
    assert pushed_reply(command)[1].born_host == "0.0.0.0:0"


def test_a_reply_without_a_header_is_refused() -> None:
    with pytest.raises(FieldError):
        pushed_reply(RemotingCommand(326, body=b"pong"))
