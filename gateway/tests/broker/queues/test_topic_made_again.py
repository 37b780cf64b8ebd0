"""Point 6 of "faults found in use": a group that read a topic begins at the start of one made again under its name."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData, MessageModel
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.offsets import (
    CloneGroupOffsetRequest,
    QueryConsumerOffsetRequest,
    ResetOffsetRequest,
    UpdateConsumerOffsetRequest,
)
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


def member(broker: WholeBroker, client_id: str) -> Peer:
    """A member of a broadcasting group: it keeps its offsets itself."""
    peer = broker.connect()
    data = ConsumerData("group", message_model=MessageModel.BROADCASTING, subscriptions=(subscription("orders"),))
    broker.ask_all(peer, RequestCode.HEART_BEAT, body=HeartbeatData(client_id, consumers=(data,)).build())
    return peer


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
    commit(broker, peer, READ)  # of the earlier life, and so ignored
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
    commit(broker, peer, READ)  # of the earlier life: it acts on the answer later
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


# -- broadcasting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client_ids", [("10.0.0.1@a", "10.0.0.2@b"), ("10.0.0.1@DEFAULT",) * 2], ids=["own", "shared"])
def test_point_1_each_member_of_a_broadcasting_group_begins_at_the_start(
    broker: WholeBroker, client_ids: tuple[str, ...]
) -> None:
    """Programs of one machine share a client id when they read by broadcast."""
    broker.parts.topics.ensure("orders", 2, 6)
    send(broker, "old", READ)
    peers = [member(broker, client_id) for client_id in client_ids]
    delete(broker)
    send(broker, "new", READ + 2)
    for peer in peers:
        assert next_offset(broker.ask(peer, PULL, pulling(READ))) == 0
        assert len(bodies(broker.ask(peer, PULL, pulling(0)))) == READ + 2
        assert broker.ask(peer, PULL, pulling(READ + 2)).code == ResponseCode.PULL_NOT_FOUND
    assert len(bodies(broker.ask(member(broker, "10.0.0.3@c"), PULL, pulling(READ)))) == 2


def test_a_member_that_connects_again_is_known_by_its_client_id(broker: WholeBroker) -> None:
    broker.parts.topics.ensure("orders", 2, 6)
    send(broker, "old", READ)
    member(broker, "10.0.0.1@a").leave()
    for client_id in ("10.0.0.2@b", "10.0.0.3@c"):
        member(broker, client_id)
    delete(broker)
    broker = broker.restart()
    send(broker, "new", READ + 2)
    for client_id in ("10.0.0.2@b", "10.0.0.3@c"):
        peer = member(broker, client_id)
        assert next_offset(broker.ask(peer, PULL, pulling(READ))) == 0
        assert len(bodies(broker.ask(peer, PULL, pulling(0)))) == READ + 2
        assert len(bodies(broker.ask(peer, PULL, pulling(READ)))) == 2
    assert len(bodies(broker.ask(member(broker, "10.0.0.1@a"), PULL, pulling(READ)))) == 2  # it was away: not known
    broker = broker.restart()
    assert len(bodies(broker.ask(member(broker, "10.0.0.2@b"), PULL, pulling(READ)))) == 2


def test_a_member_that_finds_its_old_offset_in_its_file_is_told_again_but_not_for_ever(broker: WholeBroker) -> None:
    broker.parts.topics.ensure("orders", 2, 6)
    send(broker, "old", READ)
    peer = member(broker, "10.0.0.1@a")
    delete(broker)
    send(broker, "new", READ + 2)
    assert [next_offset(broker.ask(peer, PULL, pulling(READ))) for _ in range(3)] == [0, 0, 0]
    assert len(bodies(broker.ask(peer, PULL, pulling(READ)))) == 2


def test_a_member_that_was_set_elsewhere_before_the_deletion_begins_at_the_start(broker: WholeBroker) -> None:
    broker.parts.topics.ensure("orders", 2, 6)
    send(broker, "old", READ)
    peer = member(broker, "10.0.0.1@a")
    broker.parts.offsets.reset("group", "orders", 0, 2, ["10.0.0.1@a"])
    peer.leave()
    delete(broker)
    send(broker, "new", READ + 2)
    assert next_offset(broker.ask(member(broker, "10.0.0.1@a"), PULL, pulling(READ))) == 0


def test_held_pulls_of_all_members_hear_of_the_deletion(broker: WholeBroker) -> None:
    broker.parts.topics.ensure("orders", 2, 6)
    send(broker, "old", READ)
    peers = [member(broker, client_id) for client_id in ("10.0.0.1@a", "10.0.0.2@b")]
    held = pulling(READ, sys_flag=PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)
    assert [broker.ask_all(peer, PULL, held) for peer in peers] == [[], []]
    delete(broker)
    assert [next_offset(answer) for peer in peers for answer in peer.received()] == [0, 0]


def test_a_reset_by_a_tool_is_told_to_each_member_too(broker: WholeBroker) -> None:
    broker.parts.topics.ensure("orders", 2, 6)
    send(broker, "old", READ)
    peers = [member(broker, client_id) for client_id in ("10.0.0.1@a", "10.0.0.2@b")]
    broker.parts.groups.find("group", "10.0.0.9")
    header = ResetOffsetRequest(group="group", topic="orders", queue_id=0, offset=1, is_force=True)
    answer = broker.ask(broker.connect(), RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert [next_offset(broker.ask(peer, PULL, pulling(READ))) for peer in peers] == [1, 1]


# -- tools ----------------------------------------------------------------------------------------------------------


def test_point_2_a_commit_to_a_queue_that_waits_for_its_reset_is_not_called_a_success(broker: WholeBroker) -> None:
    peer = consumer(broker)
    delete(broker)
    send(broker, "new", READ + 2)
    refused = commit(broker, broker.connect(), 2)
    assert refused.code == ResponseCode.PULL_OFFSET_MOVED
    assert "offset 2 of group group in queue 0 of topic orders is not kept" in str(refused.remark)
    assert "offset 0 first" in str(refused.remark)
    header = ResetOffsetRequest(group="group", topic="orders", queue_id=0, offset=2, is_force=True)
    assert broker.ask(broker.connect(), RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header).code == ResponseCode.SUCCESS
    commit(broker, peer, READ)
    assert next_offset(broker.ask(peer, PULL, pulling(READ))) == 2
    assert commit(broker, peer, READ).code == ResponseCode.SUCCESS


def test_point_2_copied_offsets_decide_where_a_queue_that_waits_for_its_reset_begins(broker: WholeBroker) -> None:
    peer = consumer(broker)
    delete(broker)
    send(broker, "new", READ + 2)
    broker.parts.offsets.commit("source", "orders", 0, 2)
    header = CloneGroupOffsetRequest(src_group="source", dest_group="group", topic="orders", offline=True)
    assert broker.ask(broker.connect(), RequestCode.CLONE_GROUP_OFFSET, header).code == ResponseCode.SUCCESS
    assert offset_of_group(broker, broker.connect()) == 2
    commit(broker, peer, READ)
    assert next_offset(broker.ask(peer, PULL, pulling(READ))) == 2
