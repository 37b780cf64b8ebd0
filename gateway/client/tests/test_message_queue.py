from gateway.client.message_queue import MessageQueue


def test_queues_are_ordered_as_java_orders_them() -> None:
    queues = [
        MessageQueue("b", "x", 0),
        MessageQueue("a", "y", 1),
        MessageQueue("a", "x", 10),
        MessageQueue("a", "x", 2),
    ]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]


def test_equal_queues_are_one_key() -> None:
    assert len({MessageQueue("t", "b", 0), MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)}) == 2
