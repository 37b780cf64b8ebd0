"""The units of a consume queue, as tools look at them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from gateway.delivery.filters.bloom import BloomShape, bit_map
from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.subscriptions import SubscriptionData
from wire.bodies.tools.statistics import QueueUnits
from wire.codes import RequestCode, ResponseCode
from wire.disk.queue_extension import FIRST_ADDRESS
from wire.headers.pull import QueryConsumeQueueRequest
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


def test_units_tell_what_the_extension_has_for_them(tmp_path: Path) -> None:
    """As Apache RocketMQ 5.5.0 tells it of the same units."""
    settings = {"enable_consume_queue_ext": True, "enable_calc_filter_bit_map": True}
    broker = WholeBroker(tmp_path / "store", **settings)
    client = broker.connect()
    broker.send(client, properties={"TAGS": "red", "n": "0"})
    wanted = SubscriptionData("orders", "n < 20", sub_version=1, expression_type="SQL92")
    data = HeartbeatData("client-1", consumers=(ConsumerData("group", subscriptions=(wanted,)),))
    broker.ask_all(client, RequestCode.HEART_BEAT, body=data.build())
    broker.wait(1)
    broker.send(client, properties={"TAGS": "red", "n": "5"})
    before, after = units(broker).units
    red = java_string_hash("red")
    assert (before.tags_code, before.bit_map) == (red, None)
    assert json.loads(before.extend_data_json or "") == {
        "msgStoreTime": broker.messages("orders")[0].stored_at_ms,
        "size": 20,
        "tagsCode": red,
    }
    more = json.loads(after.extend_data_json or "")
    assert (after.tags_code, more["size"], more["filterBitMap"]) == (
        red,
        34,
        [each - 256 if each > 127 else each for each in bit_map(BloomShape().positions("group", "orders"), 112)],
    )
    assert (after.bit_map or "").count("1") == 3
    broker.subscribe(client, group="by_tag", expression="red || blue")
    assert [unit.is_accepted for unit in units(broker, group="by_tag").units] == [True, True]


def test_a_unit_whose_extension_is_lost_shows_its_address_and_is_accepted(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", enable_consume_queue_ext=True)
    client = broker.connect()
    broker.send(client, properties={"TAGS": "red"})
    broker = broker.restart()
    client = broker.connect()
    shutil.rmtree(tmp_path / "store" / "consumequeue_ext")
    broker.subscribe(client, expression="blue")
    (unit,) = units(broker, group="group").units
    assert (unit.tags_code, unit.is_accepted, unit.extend_data_json) == (FIRST_ADDRESS, True, None)
