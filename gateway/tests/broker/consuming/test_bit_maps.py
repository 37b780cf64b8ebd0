"""SQL92 consumers of a broker that keeps bit maps (``enableConsumeQueueExt``, ``enableCalcFilterBitMap``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.delivery.filters.message_filter import MessageFilter
from gateway.delivery.filters.record_filter import Work
from gateway.store.reading.wanted import ChooseRecords
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from gateway.tests.remoting.conversation import Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.bodies.subscriptions import SubscriptionData
from wire.codes import RequestCode, ResponseCode
from wire.disk.consume_queue import UNIT
from wire.message.record import parse_records

SETTINGS = {
    "enable_consume_queue_ext": True,
    "enable_calc_filter_bit_map": True,
    "mapped_file_size_consume_queue_ext": 4096,
}
RED, BLUE = "colour = 'red'", "colour = 'blue'"


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the records that filters looked into."""
    found: list[int] = []
    make = MessageFilter.choose_within

    def counting(self: MessageFilter, work: Work) -> ChooseRecords | None:
        choose = make(self, work)

        def counted(data: bytes, start: int, units: bytes, least: int) -> tuple[list[int], int]:
            assert choose is not None
            found.extend(size for _, size, _ in UNIT.iter_unpack(units))
            return choose(data, start, units, least)

        return None if choose is None else counted

    monkeypatch.setattr(MessageFilter, "choose_within", counting)
    return found


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", **SETTINGS)


def subscribe(broker: WholeBroker, client: Peer, expression: str, version: int = 1, group: str = "group") -> None:
    wanted = SubscriptionData("orders", expression, sub_version=version, expression_type="SQL92")
    data = HeartbeatData(f"client-{group}", consumers=(ConsumerData(group, subscriptions=(wanted,)),))
    broker.ask_all(client, RequestCode.HEART_BEAT, body=data.build())
    broker.wait(0.25)  # messages of the same millisecond may have been stored before


def send(broker: WholeBroker, count: int) -> None:
    producer = broker.connect()
    for number in range(count):
        colour = "red" if number % 10 == 0 else "blue"
        broker.send(producer, properties={"colour": colour}, body=b"%d" % number)


def pulled(broker: WholeBroker, client: Peer, version: int = 1, group: str = "group") -> list[int]:
    """Numbers of the messages that a group's member gets from the begin."""
    found: list[int] = []
    offset = 0
    while offset < broker.parts.store.max_offset("orders", 0):
        header = pulling(offset, sys_flag=0, sub_version=version, consumer_group=group)
        answer = broker.ask(client, RequestCode.PULL_MESSAGE, header)
        if answer.code == ResponseCode.SUCCESS:
            found += [int(record.body) for record in parse_records(answer.body)]
        offset = int(answer.ext_fields["nextBeginOffset"])
    return found


def test_records_of_other_groups_messages_are_not_read(broker: WholeBroker, looked_at: list[int]) -> None:
    client = broker.connect()
    subscribe(broker, client, RED)
    send(broker, 50)
    assert pulled(broker, client) == [0, 10, 20, 30, 40]
    assert len(looked_at) == 5


def test_messages_from_before_the_group_came_are_decided_by_records(broker: WholeBroker, looked_at: list[int]) -> None:
    send(broker, 50)
    client = broker.connect()
    subscribe(broker, client, RED)
    assert pulled(broker, client) == [0, 10, 20, 30, 40]
    assert len(looked_at) == 50


def test_a_changed_expression_is_decided_by_records_of_messages_from_before(broker: WholeBroker) -> None:
    client = broker.connect()
    subscribe(broker, client, RED)
    send(broker, 20)
    subscribe(broker, client, BLUE, version=2)
    assert pulled(broker, client, version=2) == [number for number in range(20) if number % 10]
    subscribe(broker, client, RED, version=3)
    assert pulled(broker, client, version=3) == [0, 10]


def test_a_group_goes_on_with_its_bit_maps_after_a_restart(broker: WholeBroker, looked_at: list[int]) -> None:
    client = broker.connect()
    subscribe(broker, client, RED)
    send(broker, 50)
    again = broker.restart()
    client = again.connect()
    subscribe(again, client, RED)
    assert pulled(again, client) == [0, 10, 20, 30, 40]
    assert len(looked_at) == 5
    send(again, 50)
    assert pulled(again, client) == [0, 10, 20, 30, 40] * 2
    assert len(looked_at) == 15


def test_after_a_kill_nothing_is_passed_over(broker: WholeBroker, tmp_path: Path, looked_at: list[int]) -> None:
    client = broker.connect()
    subscribe(broker, client, RED)
    broker.parts.bit_maps.persist_now()  # type: ignore[union-attr]
    subscribe(broker, client, BLUE, version=2)  # not saved before the kill
    send(broker, 50)
    assert broker.parts.store.flush()
    again = broker.crash_image(tmp_path / "after")
    client = again.connect()
    subscribe(again, client, RED, version=3)
    assert pulled(again, client, version=3) == [0, 10, 20, 30, 40]
    assert len(looked_at) == 50


def test_a_clock_that_was_set_back_makes_nobody_miss_a_message(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", **SETTINGS)
    subscribe(broker, broker.connect(), BLUE, group="other")
    send(broker, 20)
    broker._start_ms -= 3_600_000
    client = broker.connect()
    subscribe(broker, client, RED)
    assert pulled(broker, client) == [0, 10]
    send(broker, 20)
    assert pulled(broker, client) == [0, 10] * 2


def test_many_groups_get_what_is_theirs(broker: WholeBroker) -> None:
    expressions = {f"g{number}": (RED if number % 2 else BLUE) for number in range(40)}
    clients = {group: broker.connect() for group in expressions}
    for group, expression in expressions.items():
        subscribe(broker, clients[group], expression, group=group)
    send(broker, 20)
    for group, expression in expressions.items():
        wanted = [number for number in range(20) if (number % 10 == 0) == (expression == RED)]
        assert pulled(broker, clients[group], group=group) == wanted


def test_who_is_consuming_is_saved_every_ten_seconds(broker: WholeBroker) -> None:
    client = broker.connect()
    subscribe(broker, client, RED)
    broker.wait(11)
    assert '"expression":"colour = \'red\'"' in (broker.directory / "config" / "consumerFilter.json").read_text()


def test_both_are_off_unless_switched_on(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    subscribe(broker, client, RED)
    send(broker, 20)
    assert pulled(broker, client) == [0, 10]
    broker.stop()
    assert not (broker.directory / "consumequeue_ext").exists()
    assert not (broker.directory / "config" / "consumerFilter.json").exists()


def test_bit_maps_alone_do_nothing(tmp_path: Path) -> None:
    assert WholeBroker(tmp_path / "store", enable_calc_filter_bit_map=True).parts.bit_maps is None
