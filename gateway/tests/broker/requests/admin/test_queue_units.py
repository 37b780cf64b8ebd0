"""The units of a consume queue, as tools look at them."""

from __future__ import annotations

from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.queue_units import QueueUnits
from wire.codes import RequestCode, ResponseCode
from wire.headers.query import QueryConsumeQueueRequest
from wire.message.java_hash import java_string_hash


def units(broker: WholeBroker, index: int = 0, count: int = 10, group: str | None = None) -> QueueUnits:
    header = QueryConsumeQueueRequest(topic="orders", queue_id=0, index=index, count=count, consumer_group=group)
    answer = broker.ask(broker.connect(), RequestCode.QUERY_CONSUME_QUEUE, header)
    assert answer.code == ResponseCode.SUCCESS
    return QueueUnits.parse(answer.body)


def test_units_say_where_their_messages_lie(broker: WholeBroker) -> None:
    found = units(broker)
    assert (found.min_queue_index, found.max_queue_index, len(found.units)) == (0, 2, 2)
    assert [(unit.physic_offset, unit.tags_code) for unit in found.units] == [
        (message.commit_log_offset, java_string_hash("red")) for message in broker.messages("orders")
    ]
    assert [unit.physic_offset for unit in units(broker, index=1, count=1).units] == [found.units[1].physic_offset]
    assert units(broker, index=9).units == units(broker, count=-1).units == ()


def test_a_group_shows_whether_its_filter_lets_them_through(broker: WholeBroker) -> None:
    offline = units(broker, group="group")
    assert (offline.filter_data, offline.units[0].is_accepted) == ("group@orders is not online!", False)
    peer = broker.connect()
    for expression, accepted in (("red", True), ("blue", False), ("*", True)):
        broker.subscribe(peer, expression=expression)
        peer.leave()
        peer = broker.connect()
        broker.subscribe(peer, expression=expression)
        found = units(broker, group="group")
        assert found.subscription is not None
        assert found.subscription.sub_string == expression
        assert found.units[0].is_accepted is accepted


def test_a_queue_that_is_none_is_refused(broker: WholeBroker) -> None:
    for topic, queue_id in (("none", 0), ("orders", 99), ("orders", -1)):
        header = QueryConsumeQueueRequest(topic=topic, queue_id=queue_id, count=1)
        answer = broker.ask(broker.connect(), RequestCode.QUERY_CONSUME_QUEUE, header)
        assert answer.code == ResponseCode.SYSTEM_ERROR
