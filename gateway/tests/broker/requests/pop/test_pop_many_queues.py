"""Pops, looks and notifications of a topic with very many queues: others have their turn, and nothing is missed.

Turns of the reactor are counted, not time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.requests.pop.pop_taking import LOOK_STEPS, LOOKS
from gateway.delivery.filters.turns import TURN_STEPS
from gateway.delivery.pop.pops import OPEN_STEPS
from gateway.metadata.unread_queues import UnreadQueues
from gateway.remoting.turns import finish
from gateway.tests.broker.popping import POP, RETRY_TOPIC, ack, bodies, messages, pop, popping, reset
from gateway.tests.broker.whole_broker import WholeBroker, sending
from gateway.tests.remoting.conversation import Peer
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.frame import build_frame
from wire.headers.declare import build_header
from wire.headers.offsets import UpdateConsumerOffsetRequest
from wire.headers.pop import NotificationRequest, PeekMessageRequest
from wire.headers.topics import DeleteTopicRequest
from wire.message.record import parse_records

QUEUES = 5 * TURN_STEPS // LOOK_STEPS // 2
"""So many that a first look takes several turns."""
TURNS = 8
"""More than a look at all queues takes."""
NOTIFICATION, PEEK = RequestCode.NOTIFICATION, RequestCode.PEEK_MESSAGE


class SlowBroker(WholeBroker):
    """A broker whose turns of looks are ended by the test: the reactor of tests does all that is due at once."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, pop_from_retry_probability=0)
        self._ends: list[Callable[[], None]] = []
        self.parts.filter_turns._soon = self._ends.append

    def end_turn(self) -> None:
        """End a turn."""
        ends, self._ends[:] = list(self._ends), []
        for end in ends:
            end()
        self.turn()


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlowBroker:
    monkeypatch.setattr("gateway.broker.parts.randbelow", lambda _: 50)
    made = SlowBroker(tmp_path / "store")
    made.parts.topics.put_all([TopicConfig("orders", QUEUES, QUEUES)])
    return made


def until_answered(broker: SlowBroker, peer: Peer, most: int = TURNS) -> tuple[RemotingCommand, int]:
    """The answer that comes, and after how many turns of the reactor."""
    for turn in range(most + 1):
        answers = peer.received()
        if answers:
            return answers[0], turn
        broker.end_turn()
    raise AssertionError(f"no answer after {most} turns")


def ask(peer: Peer, code: int, header: Any, count: int = 1) -> None:
    """Send requests in one read; answers are not waited for."""
    frame = build_frame(RemotingCommand(code, opaque=1, ext_fields=build_header(header)))
    peer.send_bytes(frame * count)


def settle(broker: SlowBroker, turns: int = TURNS) -> None:
    """Let turns pass."""
    for _ in range(turns):
        broker.end_turn()


def held_pop(broker: SlowBroker, **changed: Any) -> Peer:
    """A client whose pop has looked at all queues and waits."""
    client = broker.connect()
    ask(client, POP, popping(**{"poll_time": 60_000, **changed}))
    settle(broker)
    assert client.received() == []
    assert len(broker.parts.pops.held) > 0
    return client


def asking(**changed: Any) -> NotificationRequest:
    values: dict[str, Any] = {"consumer_group": "group", "topic": "orders", "queue_id": -1, "poll_time": 60_000}
    return NotificationRequest(**{**values, **changed})


FIRST_LOOKS: dict[str, Callable[[], tuple[int, Any]]] = {
    "pop": lambda: (POP, popping()),
    "notification": lambda: (NOTIFICATION, asking(poll_time=0)),
    "look": lambda: (PEEK, PeekMessageRequest(consumer_group="group", topic="orders", queue_id=-1, max_msg_nums=1)),
}


@pytest.mark.parametrize("name", FIRST_LOOKS)
def test_others_are_answered_while_a_first_look_takes_turns_and_later_ones_take_none(
    broker: SlowBroker, name: str
) -> None:
    looking, other = broker.connect(), broker.connect()
    code, header = FIRST_LOOKS[name]()
    ask(looking, code, header)
    assert other.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    _, turns = until_answered(broker, looking)
    assert turns > 1
    ask(looking, code, header)
    _, turns = until_answered(broker, looking)
    assert turns <= 1


@pytest.mark.parametrize("name", ["pop", "notification"])
def test_a_hundred_first_looks_of_one_group_take_as_many_turns_as_one(broker: SlowBroker, name: str) -> None:
    client = broker.connect()
    code, header = FIRST_LOOKS[name]()
    ask(client, code, header, 100)
    settle(broker)
    assert len(client.received()) == 100


def test_a_message_is_given_at_once_to_one_who_waits_for_any_queue(broker: SlowBroker) -> None:
    waiting = [held_pop(broker) for _ in range(3)]
    broker.send(broker.connect(), body=b"a", queue_id=QUEUES - 1)
    answers = [answer for peer in waiting for answer in peer.received()]
    assert [bodies(messages(answer)) for answer in answers] == [[b"a"]]
    assert len(broker.parts.pops.held) == 2


def test_all_who_wait_for_news_are_told_at_once(broker: SlowBroker) -> None:
    waiting = [broker.connect() for _ in range(3)]
    for peer in waiting:
        ask(peer, NOTIFICATION, asking())
    settle(broker)
    broker.send(broker.connect(), body=b"a", queue_id=QUEUES - 1)
    assert [until_answered(broker, peer, 1)[0].ext_fields["hasMsg"] for peer in waiting] == ["true"] * 3


@pytest.mark.parametrize("queue_id", [49, 51])
@pytest.mark.parametrize("code", [POP, NOTIFICATION])
def test_a_message_that_comes_behind_a_look_is_not_missed(broker: SlowBroker, code: int, queue_id: int) -> None:
    looking = broker.connect()
    ask(looking, code, popping(poll_time=60_000) if code == POP else asking())
    broker.send(broker.connect(), body=b"a", queue_id=queue_id)
    answer, _ = until_answered(broker, looking, 2 * TURNS)
    assert answer.ext_fields.get("hasMsg") == "true" if code == NOTIFICATION else bodies(messages(answer)) == [b"a"]


def test_a_look_finds_what_there_is_and_takes_nothing(broker: SlowBroker) -> None:
    client = broker.connect()
    for number, body in ((3, b"a"), (QUEUES - 1, b"b")):
        broker.send(client, body=body, queue_id=number)
    header = PeekMessageRequest(consumer_group="group", topic="orders", queue_id=-1, max_msg_nums=32)
    for _ in range(2):
        ask(client, PEEK, header)
        answer, _ = until_answered(broker, client)
        assert {message.body for message in parse_records(answer.body)} <= {b"a", b"b"}
        assert answer.code == ResponseCode.SUCCESS
    ask(client, PEEK, PeekMessageRequest(consumer_group="group", topic="orders", queue_id=3, max_msg_nums=32))
    assert [message.body for message in parse_records(until_answered(broker, client)[0].body)] == [b"a"]


def test_queues_have_their_turn_from_a_random_one_on(broker: SlowBroker) -> None:
    held_pop(broker, poll_time=1_000)
    broker.wait(2)
    client = broker.connect()
    for number in (0, 49, 50, QUEUES - 1):
        broker.send(client, body=str(number).encode(), queue_id=number)
    (first,) = pop(broker, client, max_msg_nums=1)
    assert first.record.queue_id == 50
    answer = broker.ask(client, POP, popping())
    assert [message.record.queue_id for message in messages(answer)] == [QUEUES - 1, 0, 49]
    assert answer.ext_fields["restNum"] == "0"


def _all_found_empty(broker: SlowBroker) -> Peer:
    client = broker.connect()
    broker.send(client, body=b"a", queue_id=5)
    found = bodies(messages(until_answered(broker, *_asked(client))[0]))
    assert found == [b"a"]
    until_answered(broker, *_asked(client))
    return client


def _asked(client: Peer) -> tuple[Peer]:
    ask(client, POP, popping())
    return (client,)


def _set_back_by_a_client(broker: SlowBroker, client: Peer) -> None:
    header = UpdateConsumerOffsetRequest(consumer_group="group", topic="orders", queue_id=5, commit_offset=0)
    assert broker.ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, header).code == ResponseCode.SUCCESS


def _set_back_by_a_tool(broker: SlowBroker, client: Peer) -> None:
    header = reset(0)
    header = type(header)(topic="orders", group="group", queue_id=5, timestamp=-1, is_force=True, offset=0)
    assert broker.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header).code == ResponseCode.SUCCESS


def _forgotten(broker: SlowBroker, _client: Peer) -> None:
    finish(broker.parts.offsets.remove_group("group"))


def _made_anew(broker: SlowBroker, client: Peer) -> None:
    answer = broker.ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="orders"))
    assert answer.code == ResponseCode.SUCCESS
    broker.parts.topics.put_all([TopicConfig("orders", QUEUES, QUEUES)])
    broker.send(client, body=b"a", queue_id=5)


def _made_wider(broker: SlowBroker, client: Peer) -> None:
    broker.parts.topics.put_all([TopicConfig("orders", QUEUES + 1, QUEUES + 1)])
    broker.send(client, body=b"a", queue_id=QUEUES)


@pytest.mark.parametrize("change", [_set_back_by_a_client, _set_back_by_a_tool, _forgotten, _made_anew, _made_wider])
def test_what_is_there_again_is_found(broker: SlowBroker, change: Callable[[SlowBroker, Peer], None]) -> None:
    client = _all_found_empty(broker)
    change(broker, client)
    answer, _ = until_answered(broker, *_asked(client))
    assert bodies(messages(answer)) == [b"a"]


def test_a_pop_that_could_not_be_written_down_leaves_its_messages_to_others(broker: SlowBroker) -> None:
    positions = broker.parts.pops.positions
    client = _all_found_empty(broker)
    committed = positions.committed(("orders", "group", 5))
    step = positions.step(("orders", "group", 5), committed + 1)
    broker.send(client, body=b"b", queue_id=5)
    assert broker.ask(client, POP, popping()).code == ResponseCode.POLLING_TIMEOUT
    positions.failed(step)
    assert bodies(pop(broker, client)) == [b"b"]


def test_messages_come_again_from_a_retry_topic_with_very_many_queues(broker: SlowBroker) -> None:
    broker.parts.topics.put_all([TopicConfig("orders", 1, 1), TopicConfig(RETRY_TOPIC, QUEUES, QUEUES)])
    client = broker.connect()
    broker.send(client, body=b"a")
    assert bodies(pop(broker, client, invisible_time=1_000)) == [b"a"]
    waiting = held_pop(broker)
    broker.wait(2)
    answer, _ = until_answered(broker, waiting)
    (again,) = messages(answer)
    assert again.record.body == b"a"
    assert ack(broker, waiting, again) == ResponseCode.SUCCESS


def test_a_queue_that_opens_is_found_by_who_waits_for_any(broker: SlowBroker) -> None:
    client = broker.connect()
    for body in (b"a", b"b"):
        broker.send(client, body=body, queue_id=5)
    ask(client, POP, popping(order=True, max_msg_nums=1))
    (first,) = messages(until_answered(broker, client)[0])
    waiting = held_pop(broker, order=True)
    assert ack(broker, client, first) == ResponseCode.SUCCESS
    assert bodies(messages(until_answered(broker, waiting)[0])) == [b"b"]


def test_very_many_queues_that_open_at_once_take_turns(broker: SlowBroker) -> None:
    pops, opened, queues = broker.parts.pops, [0], TURN_STEPS // OPEN_STEPS + 1_000

    def count(_topic: str, _group: str, _queue_id: int) -> None:
        opened[0] += 1

    pops.when_opened(count)
    for number in range(queues):
        pops.orders.popped(("orders", "group", number), (0,), broker.clock(), 0, None)
    pops.tick()
    assert 0 < opened[0] < queues
    settle(broker)
    assert opened[0] == queues


def test_messages_in_very_many_queues_are_given_out_without_a_look_at_all(broker: SlowBroker) -> None:
    broker.parts.topics.put_all([TopicConfig("orders", LOOKS + 1, LOOKS + 1)])
    client = broker.connect()
    for number in range(LOOKS + 1):
        ask(client, RequestCode.SEND_MESSAGE, sending(queue_id=number))
    settle(broker)
    assert len(client.received()) == LOOKS + 1
    answer = broker.ask(client, POP, popping())
    assert len(messages(answer)) == 32
    assert answer.ext_fields["restNum"] == str(LOOKS - 32)  # of those it looked at
    assert len(pop(broker, client)) == 32


def test_marks_of_a_topic_of_few_queues_are_not_kept(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    broker.send(client)
    pop(broker, client)
    unread: UnreadQueues = broker.parts.offsets.unread
    assert len(unread) == 0
