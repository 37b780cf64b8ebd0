"""Groups that are set back: by the broker itself, or by telling their clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.rare import reset_offsets
from gateway.tests.broker.requests.rare.conftest import whole_broker
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, pulling
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.message_queue import MessageQueue
from wire.bodies.tools.statistics import QueueOffset, ResetOffsetBody, ResetOffsetBodyForC
from wire.codes import LanguageCode, RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.offsets import ResetOffsetRequest
from wire.headers.pull import PullMessageResponse
from wire.message.flags import PullFlag


def reset(broker: WholeBroker, **changed: Any) -> RemotingCommand:
    values: dict[str, Any] = {"group": "group", "topic": "orders", "timestamp": 0, **changed}
    return broker.ask(broker.connect(), RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffsetRequest(**values))


def consumed(broker: WholeBroker, peer: Peer) -> None:
    """The group is online and has consumed everything."""
    broker.subscribe(peer)
    for queue_id in range(2):
        broker.parts.offsets.commit("group", "orders", queue_id, 2)


def table(answer: RemotingCommand) -> dict[int, int]:
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    found = ResetOffsetBody.parse(answer.body).offset_table
    assert all((queue.topic, queue.broker_name) == ("orders", "broker-a") for queue in found)
    return {queue.queue_id: offset for queue, offset in found.items()}


def test_an_offline_group_is_set_to_a_time_in_every_queue(broker: WholeBroker) -> None:
    consumed(broker, peer := broker.connect())
    peer.leave()
    assert table(reset(broker)) == {0: 0, 1: 0}
    assert broker.parts.offsets.of_topic("group", "orders") == {0: 0, 1: 0}
    assert table(reset(broker, timestamp=START_MS + 1_500)) == {0: 1, 1: 1}
    assert table(reset(broker, timestamp=-1)) == {0: 2, 1: 2}
    assert table(reset(broker, timestamp=START_MS + 10**9)) == {0: 2, 1: 2}
    again = broker.restart()
    assert again.parts.offsets.of_topic("group", "orders") == {0: 2, 1: 2}
    again.stop()


def test_one_queue_is_set_to_an_offset_within_its_bounds(broker: WholeBroker) -> None:
    consumed(broker, broker.connect())
    assert table(reset(broker, queue_id=1, offset=1)) == {1: 1}
    assert broker.parts.offsets.of_topic("group", "orders") == {0: 2, 1: 1}
    assert table(reset(broker, queue_id=0, timestamp=0)) == {0: 0}
    for refused, code in (
        (reset(broker, queue_id=0, offset=4), ResponseCode.SYSTEM_ERROR),
        (reset(broker, queue_id=0, offset=-1), ResponseCode.SYSTEM_ERROR),
        (reset(broker, queue_id=2), ResponseCode.INVALID_PARAMETER),
    ):
        assert refused.code == code
    assert "[0-2]" in (reset(broker, queue_id=0, offset=4).remark or "")


def test_an_offset_just_behind_the_end_is_the_end(broker: WholeBroker) -> None:
    """Apache RocketMQ takes it as it is, and the group may miss the next message."""
    consumed(broker, broker.connect())
    assert table(reset(broker, queue_id=0, offset=3)) == {0: 2}


def test_the_next_pull_of_a_running_consumer_is_sent_to_the_new_offset_once(broker: WholeBroker) -> None:
    consumed(broker, peer := broker.connect())
    assert table(reset(broker)) == {0: 0, 1: 0}
    broker.parts.offsets.commit("group", "orders", 0, 2)  # the consumer does not know it yet
    assert broker.parts.offsets.query("group", "orders", 0) == 0
    moved = broker.ask(peer, RequestCode.PULL_MESSAGE, pulling(2, commit_offset=2, sys_flag=PullFlag.COMMIT_OFFSET | 4))
    assert (moved.code, moved.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    header = parse_header(PullMessageResponse, moved.ext_fields)
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (0, 0, 2)
    found = broker.ask(peer, RequestCode.PULL_MESSAGE, pulling(0))
    assert found.code == ResponseCode.SUCCESS
    broker.parts.offsets.commit("group", "orders", 0, 1)
    assert broker.parts.offsets.query("group", "orders", 0) == 1


def test_a_pull_that_is_already_where_the_group_was_set_to_goes_on(broker: WholeBroker) -> None:
    consumed(broker, peer := broker.connect())
    reset(broker)
    assert broker.ask(peer, RequestCode.PULL_MESSAGE, pulling(0)).code == ResponseCode.SUCCESS
    assert broker.ask(peer, RequestCode.PULL_MESSAGE, pulling(2)).code == ResponseCode.PULL_NOT_FOUND


def test_a_held_pull_hears_of_the_reset_at_once(broker: WholeBroker) -> None:
    consumed(broker, peer := broker.connect())
    held = pulling(2, sys_flag=PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)
    assert broker.ask_all(peer, RequestCode.PULL_MESSAGE, held) == []
    reset(broker)
    (answer,) = peer.received()
    assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")


def test_unknown_topics_and_groups_are_refused_and_deleting_forgets_the_reset(broker: WholeBroker) -> None:
    assert reset(broker, topic="none").code == ResponseCode.TOPIC_NOT_EXIST
    assert reset(broker, group="none").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    consumed(broker, broker.connect())
    reset(broker)
    assert len(broker.parts.offsets.resets) == 2
    broker.parts.offsets.remove("group", "orders")
    assert broker.parts.offsets.resets == {}


# -- by the clients -------------------------------------------------------------------------------------------------


def old_broker(tmp_path: Path) -> WholeBroker:
    return whole_broker(tmp_path / "store", use_server_side_reset_offset=False)


def heartbeat(broker: WholeBroker, client_id: str, language: int, version: int = 400) -> Peer:
    peer = broker.connect()
    wanted = subscription("orders")
    data = HeartbeatData(client_id, consumers=(ConsumerData("group", subscriptions=(wanted,)),))
    command = RemotingCommand(RequestCode.HEART_BEAT, opaque=1, language=language, version=version, body=data.build())
    peer.send(command)
    broker.turn()
    peer.received()
    return peer


def test_clients_are_told_their_offsets_in_the_form_they_can_read(tmp_path: Path) -> None:
    broker = old_broker(tmp_path)
    consumed(broker, broker.connect())
    java = heartbeat(broker, "java", LanguageCode.JAVA)
    cpp = heartbeat(broker, "cpp", LanguageCode.CPP)
    java.received()
    cpp.received()
    assert table(reset(broker)) == {0: 0, 1: 0}
    (told,) = java.received()
    assert (told.code, told.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
    assert parse_header(ResetOffsetRequest, told.ext_fields).group == "group"
    assert ResetOffsetBody.parse(told.body).offset_table[MessageQueue("orders", "broker-a", 1)] == 0
    (listed,) = cpp.received()
    assert ResetOffsetBodyForC.parse(listed.body).offset_table[0] == QueueOffset("orders", "broker-a", 0, 0)
    assert broker.parts.offsets.of_topic("group", "orders") == {0: 2, 1: 2}, "the clients commit, not the broker"
    broker.stop()


def test_without_force_a_group_is_only_set_back(tmp_path: Path) -> None:
    broker = old_broker(tmp_path)
    consumed(broker, broker.connect())
    broker.parts.offsets.commit("group", "orders", 0, 0)
    assert table(reset(broker, timestamp=-1)) == {0: 0, 1: 2}
    assert table(reset(broker, timestamp=-1, is_force=True)) == {0: 2, 1: 2}
    broker.stop()


def test_a_group_that_cannot_be_told_is_refused(tmp_path: Path) -> None:
    broker = old_broker(tmp_path)
    assert reset(broker).code == ResponseCode.SYSTEM_ERROR
    consumed(broker, peer := broker.connect())
    peer.leave()
    assert reset(broker).code == ResponseCode.CONSUMER_NOT_ONLINE
    heartbeat(broker, "ancient", LanguageCode.JAVA, version=10)
    assert "too low" in (reset(broker).remark or "")
    broker.stop()


def test_a_reset_that_would_send_too_much_to_the_clients_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reset_offsets, "MAX_TOLD_BYTES", 100)
    broker = old_broker(tmp_path)
    consumed(broker, broker.connect())
    clients = [heartbeat(broker, f"client-{number}", LanguageCode.JAVA) for number in range(2)]
    for client in clients:
        client.received()
    answer = reset(broker)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "3 clients of group group would be sent" in str(answer.remark)
    assert "useServerSideResetOffset=true" in str(answer.remark)
    assert [client.received() for client in clients] == [[], []]
