from gateway.client.connect.routes import topic_route
from gateway.client.message import MessageQueue
from wire.bodies.route import BrokerData, QueueData, TopicRouteData

MASTER = BrokerData("c", "a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})


def names(queues: tuple[MessageQueue, ...]) -> list[tuple[str, int]]:
    return [(queue.broker_name, queue.queue_id) for queue in queues]


def test_queues_are_in_the_order_of_their_brokers() -> None:
    data = TopicRouteData(
        (QueueData("b", 1, 2, 6), QueueData("a", 3, 1, 6)), (BrokerData("c", "b", {0: "x:1"}), MASTER)
    )
    route = topic_route("t", data)
    assert names(route.publish_queues) == [("a", 0), ("b", 0), ("b", 1)]
    assert names(route.subscribe_queues) == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    assert route.address("a") == "10.0.0.1:10911"
    assert route.address("a", 1) == "10.0.0.2:10911"
    assert route.address("a", 2) is None
    assert route.address("z") is None
    assert route.clusters == {"a": "c", "b": "c"}


def test_nobody_writes_to_a_broker_without_a_master() -> None:
    data = TopicRouteData((QueueData("a", 1, 1, 6),), (BrokerData("c", "a", {1: "x:1"}),))
    route = topic_route("t", data)
    assert route.publish_queues == ()
    assert names(route.subscribe_queues) == [("a", 0)]


def test_permissions_count() -> None:
    data = TopicRouteData(
        (QueueData("a", 1, 1, 4), QueueData("b", 1, 1, 2)), (MASTER, BrokerData("c", "b", {0: "x:1"}))
    )
    route = topic_route("t", data)
    assert names(route.publish_queues) == [("b", 0)]
    assert names(route.subscribe_queues) == [("a", 0)]


def test_a_template_gives_as_many_queues_as_the_producer_wants() -> None:
    data = TopicRouteData((QueueData("a", 8, 8, 7),), (MASTER,))
    assert names(topic_route("t", data, most_queues=4).publish_queues) == [("a", index) for index in range(4)]
    assert len(topic_route("t", data, most_queues=16).publish_queues) == 8


def test_an_ordered_topic_has_the_queues_it_was_given() -> None:
    data = TopicRouteData((QueueData("a", 8, 8, 6),), (MASTER,), order_topic_conf="a:2;b:1;odd;c:x")
    route = topic_route("t", data)
    assert names(route.publish_queues) == [("a", 0), ("a", 1), ("b", 0)]
    assert route.ordered
