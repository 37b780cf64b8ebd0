import pytest

from gateway.client.connect.routes import TopicRoute, topic_route
from gateway.client.errors import ConfigurationError, RouteNotFound
from gateway.client.message import Message, MessageQueue
from gateway.client.send.queue_choice import queue_by_key
from gateway.client.send.sending import SendOptions
from gateway.client.send.topic_targets import TopicTargets
from wire.bodies.route import BrokerData, QueueData, TopicRouteData

PLAIN = SendOptions(timeout=3.0, retries=0)
MESSAGE = Message("t", b"x")


def route(topic: str = "t") -> TopicRoute:
    data = TopicRouteData(
        tuple(QueueData(name, 2, 2, 6) for name in "ab"),
        tuple(BrokerData("c", name, {0: f"{name}:10911"}) for name in "ab"),
    )
    return topic_route(topic, data)


def targets(topic: str = "t") -> TopicTargets:
    return TopicTargets("t", route(topic), ("n:9876",), start=0, allowed=None)


def test_queues_take_turns() -> None:
    some = targets()
    chosen = [some.choose(MESSAGE, PLAIN, None) for _ in range(5)]
    assert [(one.queue.broker_name, one.queue.queue_id) for one in chosen] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
        ("a", 0),
    ]
    assert chosen[2].address == "b:10911"
    assert chosen[0] is chosen[4]


def test_a_failed_broker_is_avoided() -> None:
    assert targets().choose(MESSAGE, PLAIN, "a").queue.broker_name == "b"


def test_brokers_that_are_not_allowed_are_avoided() -> None:
    some = TopicTargets("t", route(), ("n:9876",), start=0, allowed=lambda name: name == "b")
    assert {some.choose(MESSAGE, PLAIN, None).queue.broker_name for _ in range(4)} == {"b"}


def test_a_key_chooses() -> None:
    message = Message("t", b"x", sharding_key="customer-7")
    some = targets()
    assert some.choose(message, PLAIN, None).queue == queue_by_key(some.public_queues, "customer-7")


def test_a_selector_chooses_by_names_without_the_namespace() -> None:
    some = targets("ns%t")
    options = SendOptions(timeout=3.0, retries=0, selector=lambda queues, message: queues[len(message.body)])
    target = some.choose(MESSAGE, options, None)
    assert target.public_queue == MessageQueue("t", "a", 1)
    assert target.queue == MessageQueue("ns%t", "a", 1)


@pytest.mark.parametrize("queue", [MessageQueue("t", "a", 2), MessageQueue("u", "a", 0), MessageQueue("t", "z", 0)])
def test_a_queue_that_is_none_of_the_topic_is_refused(queue: MessageQueue) -> None:
    with pytest.raises(ConfigurationError, match="publish_queues"):
        targets().choose(MESSAGE, SendOptions(timeout=3.0, retries=0, queue=queue), None)


def test_a_topic_nobody_may_write_is_refused() -> None:
    empty = topic_route("t", TopicRouteData((QueueData("a", 1, 1, 4),), (BrokerData("c", "a", {0: "a:1"}),)))
    with pytest.raises(RouteNotFound, match="writable"):
        TopicTargets("t", empty, ("n:9876",), start=0, allowed=None)
