"""Popping in order: a queue is closed until all that was given of it is acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.delivery.pop import revive_log
from gateway.tests.broker.popping import POP, RETRY_TOPIC, ack, bodies, filled, infos, messages, pop, popping, reset
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode
from wire.compiled import IS_COMPILED
from wire.disk.config_json import ConsumerOffsetsFile, ConsumerOrderInfoFile
from wire.headers.topics import DeleteTopicRequest


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", pop_from_retry_probability=0)


def test_ordered_pops_close_the_queue_until_all_is_acknowledged(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c")
    answer = broker.ask(client, POP, popping(order=True, max_msg_nums=2))
    first = messages(answer)
    assert [message.record.body for message in first] == [b"a", b"b"]
    assert answer.ext_fields["reviveQid"] == "999"
    assert infos(answer.ext_fields["orderCountInfo"]) == {("0", "0"): "0"}
    assert pop(broker, client, order=True) == []
    assert ack(broker, client, first[0]) == ResponseCode.SUCCESS
    assert pop(broker, client, order=True) == []
    assert ack(broker, client, first[1]) == ResponseCode.SUCCESS
    assert bodies(pop(broker, client, order=True)) == [b"c"]


def test_ordered_messages_come_again_in_place_and_are_counted(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    (first, _) = pop(broker, client, order=True)
    ack(broker, client, first)
    broker.wait(11)
    broker.send(client, body=b"c")
    answer = broker.ask(client, POP, popping(order=True))
    assert [message.record.body for message in messages(answer)] == [b"b", b"c"]
    assert infos(answer.ext_fields["orderCountInfo"]) == {("0", "qo0%1"): "1", ("0", "0"): "0"}
    assert broker.parts.topics.get(RETRY_TOPIC) is None


def test_the_same_attempt_gets_the_same_messages(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    assert bodies(pop(broker, client, order=True, attempt_id="one")) == [b"a", b"b"]
    assert pop(broker, client, order=True, attempt_id="two") == []
    assert bodies(pop(broker, client, order=True, attempt_id="one")) == [b"a", b"b"]


def test_who_waits_for_a_closed_queue_is_woken_when_it_opens(broker: WholeBroker) -> None:
    client, waiting = filled(broker, "a", "b"), broker.connect()
    (first,) = pop(broker, client, order=True, max_msg_nums=1)
    assert broker.ask_all(waiting, POP, popping(order=True, poll_time=60_000, max_msg_nums=1)) == []
    ack(broker, client, first)
    (answer,) = waiting.received()
    assert bodies(messages(answer)) == [b"b"]
    assert broker.ask_all(waiting, POP, popping(order=True, poll_time=60_000)) == []
    broker.wait(11)
    (answer,) = waiting.received()
    assert bodies(messages(answer)) == [b"b"]


def test_a_kill_keeps_queues_closed_and_what_is_acknowledged(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a", "b", "c")
    first, second = pop(broker, client, order=True, max_msg_nums=2)
    ack(broker, client, first)
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    assert pop(killed, client, order=True) == []
    assert ack(killed, client, second) == ResponseCode.SUCCESS
    assert bodies(pop(killed, client, order=True)) == [b"c"]


def test_ordered_pops_survive_a_stop_in_their_file(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    (first,) = pop(broker, client, order=True, max_msg_nums=1)
    again = broker.restart()
    client = again.connect()
    assert pop(again, client, order=True) == []
    assert ack(again, client, first) == ResponseCode.SUCCESS
    assert bodies(pop(again, client, order=True)) == [b"b"]


def test_a_reset_opens_a_closed_queue(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    (first,) = pop(broker, client, order=True, max_msg_nums=1)
    ack(broker, client, first)
    (_,) = pop(broker, client, order=True, max_msg_nums=1)
    broker.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(0))
    assert bodies(pop(broker, client, order=True)) == [b"a", b"b"]


def test_what_is_read_again_after_a_stop_does_not_overtake_what_was_saved(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", revive_queue_num=2)
    client = filled(broker, "a", "b", "c")
    pop(broker, client, consumer_group="others", invisible_time=100_000, max_msg_nums=1)  # its queue is read again
    for _ in range(2):
        (message,) = pop(broker, client, order=True, max_msg_nums=1, invisible_time=60_000)
        ack(broker, client, message)
    (third,) = pop(broker, client, order=True, max_msg_nums=1, invisible_time=60_000)
    again = broker.restart()
    client = again.connect()
    assert pop(again, client, order=True) == []
    assert ack(again, client, third) == ResponseCode.SUCCESS


# -- what the log keeps -----------------------------------------------------------------------------------------


@pytest.mark.skipif(IS_COMPILED, reason="a constant of a compiled module cannot be replaced")
def test_old_records_of_closed_queues_are_written_again_and_of_others_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revive_log, "MAX_REPLAY", 2)
    broker = WholeBroker(tmp_path / "store", revive_queue_num=1)
    client = filled(broker, "a", "b")
    filled(broker, "done", topic="others")
    pop(broker, client, order=True, max_msg_nums=1, invisible_time=600_000)
    for message in pop(broker, client, order=True, topic="others"):
        ack(broker, client, message, topic="others")
    log = broker.parts.pops.revive_log
    for _ in range(2):
        filled(broker, *"cdefghijkl", topic="more")
        broker.wait(11)
        for message in pop(broker, client, topic="more"):
            ack(broker, client, message, topic="more")
        broker.wait(2)
        assert len(log._states.oldest(0, 9)) == 1
        assert log._last[0] - log.needless()[0] <= 4
    killed = broker.crash_image(tmp_path / "killed")
    assert pop(killed, killed.connect(), order=True) == []


def as_apache_leaves_it(directory: Path, offset: int) -> None:
    """Write the tables as Apache RocketMQ does after a group consumed up to an offset."""
    orders, offsets = (directory / "config" / name for name in ("consumerOrderInfo.json", "consumerOffset.json"))
    orders.write_bytes(ConsumerOrderInfoFile({}).build())
    table = ConsumerOffsetsFile.parse(offsets.read_bytes()).offset_table
    offsets.write_bytes(ConsumerOffsetsFile({**table, "orders@group": {0: offset}}).build())


def test_ordered_pops_that_apache_rocketmq_settled_do_not_come_back_from_the_log(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = filled(broker, "a", "b", "c", "d")
    pop(broker, client, order=True, max_msg_nums=2, invisible_time=600_000)
    broker.stop()
    as_apache_leaves_it(broker.directory, 2)
    again = WholeBroker(broker.directory, broker.clock())
    (third,) = pop(again, again.connect(), order=True, max_msg_nums=1)
    killed = again.crash_image(tmp_path / "killed")
    client = killed.connect()
    assert pop(killed, client, order=True) == []
    assert ack(killed, client, third) == ResponseCode.SUCCESS
    assert bodies(pop(killed, client, order=True)) == [b"d"]


def test_a_deleted_topic_leaves_the_records_of_others_within_what_a_start_reads(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", revive_queue_num=1)
    client = filled(broker, "a")
    pop(broker, client, invisible_time=600_000)
    filled(broker, "b")
    filled(broker, "x", topic="gone")
    for topic in ("orders", "gone"):
        assert len(pop(broker, client, order=True, topic=topic, invisible_time=600_000)) == 1
    broker.wait(6)
    broker.ask_all(client, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="gone"))
    again = broker.restart()
    log, key = again.parts.pops.revive_log, ("orders", "group", 0)
    assert log._states.oldest(0, 9) == [(key, 1)]
