"""Point 6 of "faults found in use": a group that read a topic begins at the start of one made again under its name."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.offsets import QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest
from wire.headers.pull import PullMessageResponse
from wire.headers.topics import DeleteTopicRequest
from wire.message.flags import PullFlag
from wire.message.record import parse_records

PULL = RequestCode.PULL_MESSAGE
READ = 3
"""Messages of the old topic, all of them consumed."""


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path)


def consumer(broker: WholeBroker, *, commits: bool = True) -> Peer:
    """A consumer that has read the topic to its end."""
    broker.parts.topics.ensure("orders", 2, 6)
    peer = broker.connect()
    broker.subscribe(peer)
    send(broker, "old", READ)
    if commits:
        commit(broker, peer, READ)
    return peer


def send(broker: WholeBroker, text: str, count: int) -> None:
    producer = broker.connect()
    for number in range(count):
        assert broker.send(producer, body=f"{text} {number}".encode()).code == ResponseCode.SUCCESS


def commit(broker: WholeBroker, peer: Peer, offset: int) -> RemotingCommand:
    header = UpdateConsumerOffsetRequest(consumer_group="group", topic="orders", queue_id=0, commit_offset=offset)
    return broker.ask(peer, RequestCode.UPDATE_CONSUMER_OFFSET, header)


def delete(broker: WholeBroker) -> None:
    header = DeleteTopicRequest(topic="orders")
    assert broker.ask(broker.connect(), RequestCode.DELETE_TOPIC_IN_BROKER, header).code == ResponseCode.SUCCESS


def offset_of_group(broker: WholeBroker, peer: Peer) -> int:
    header = QueryConsumerOffsetRequest(consumer_group="group", topic="orders", queue_id=0)
    answer = broker.ask(peer, RequestCode.QUERY_CONSUMER_OFFSET, header)
    assert answer.code == ResponseCode.SUCCESS
    return int(answer.ext_fields["offset"])


def next_offset(answer: RemotingCommand) -> int:
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED, answer.remark
    return parse_header(PullMessageResponse, answer.ext_fields).next_begin_offset


def bodies(answer: RemotingCommand) -> list[bytes]:
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return [message.body for message in parse_records(answer.body)]


@pytest.mark.parametrize("count", [1, READ, READ + 2], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("commits", [False, True], ids=["committed nothing", "committed"])
def test_point_6_an_attached_consumer_begins_at_the_start(
    broker: WholeBroker, caplog: pytest.LogCaptureFixture, count: int, *, commits: bool
) -> None:
    peer = consumer(broker, commits=commits)
    delete(broker)
    assert broker.ask(peer, PULL, pulling(READ)).code == ResponseCode.TOPIC_NOT_EXIST
    send(broker, "new", count)
    assert commit(broker, peer, READ).code == ResponseCode.SUCCESS  # of the earlier life, and so ignored
    with caplog.at_level(logging.INFO, "gateway"):
        assert next_offset(broker.ask(peer, PULL, pulling(READ))) == 0
    assert "or the topic was deleted and made again" in caplog.text
    assert bodies(broker.ask(peer, PULL, pulling(0))) == [b"new %d" % number for number in range(count)]
    commit(broker, peer, count)
    assert offset_of_group(broker, peer) == count
    assert broker.ask(peer, PULL, pulling(count)).code == ResponseCode.PULL_NOT_FOUND


def test_a_consumer_that_starts_again_meanwhile_begins_there_too(broker: WholeBroker) -> None:
    consumer(broker).leave()
    delete(broker)
    send(broker, "new", 2)
    peer = broker.connect()
    assert offset_of_group(broker, peer) == 0
    assert bodies(broker.ask(peer, PULL, pulling(0))) == [b"new 0", b"new 1"]


def test_a_held_pull_hears_of_the_deletion_at_once(broker: WholeBroker) -> None:
    peer = consumer(broker)
    held = pulling(READ, sys_flag=PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)
    assert broker.ask_all(peer, PULL, held) == []
    delete(broker)
    (answer,) = peer.received()
    assert next_offset(answer) == 0
    send(broker, "new", READ + 2)
    assert commit(broker, peer, READ).code == ResponseCode.SUCCESS  # of the earlier life: it acts on the answer later
    successor = broker.connect()
    assert offset_of_group(broker, successor) == 0
    assert len(bodies(broker.ask(successor, PULL, pulling(0)))) == READ + 2


def test_the_broker_remembers_it_over_a_restart(broker: WholeBroker) -> None:
    consumer(broker)
    delete(broker)
    broker = broker.restart()
    send(broker, "new", READ + 2)
    peer = broker.connect()
    assert next_offset(broker.ask(peer, PULL, pulling(READ))) == 0
    broker = broker.restart()
    assert offset_of_group(broker, broker.connect()) == 0
    assert ("group", "orders", 0) not in broker.parts.offsets.resets


def test_a_group_that_never_read_the_topic_begins_where_it_likes(broker: WholeBroker) -> None:
    consumer(broker)
    delete(broker)
    send(broker, "new", 3)
    peer = broker.connect()
    assert bodies(broker.ask(peer, PULL, pulling(2, consumer_group="another"))) == [b"new 2"]
