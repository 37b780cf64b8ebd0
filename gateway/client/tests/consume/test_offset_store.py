"""Tests of where offsets are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.offset_store import (
    BrokerOffsets,
    LocalOffsets,
    OffsetTable,
    build_offsets,
    offsets_path,
    parse_offsets,
)
from gateway.client.errors import BrokerError
from gateway.client.message import MessageQueue
from gateway.client.tests.consuming_broker import ConsumingBroker
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode
from wire.errors import BodyError


def test_a_broker_keeps_offsets() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            instance = ClientInstance(ClientSettings(namesrv=broker.address, request_timeout=0.05))
            await instance.route("t")
            store = BrokerOffsets(instance, "g")
            queue = broker.queue("t")
            assert await store.fetch(queue) is None
            assert await store.store({queue: 5}, confirm=True) == []
            assert await store.fetch(queue) == 5
            assert await store.store({queue: 6}, confirm=False) == []
            await broker.wait_for(RequestCode.UPDATE_CONSUMER_OFFSET, 2)
            broker.answer(RequestCode.UPDATE_CONSUMER_OFFSET, 26, "no group")
            assert await store.store({queue: 7}, confirm=True) == [], "nothing can be kept for a group that is gone"
            broker.answer(RequestCode.UPDATE_CONSUMER_OFFSET, 21, "the queue was set elsewhere")
            assert await store.store({queue: 7}, confirm=True) == [], "the next pull is told where"
            broker.answer(RequestCode.UPDATE_CONSUMER_OFFSET, 1, "the disk is full")
            assert await store.store({queue: 7}, confirm=True) == [queue]
            broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, lambda _: None)
            assert await store.store({queue: 7}, confirm=True) == [queue]
            broker.answer(RequestCode.QUERY_CONSUMER_OFFSET, 1, "broken")
            with pytest.raises(BrokerError):
                await store.fetch(queue)
            await instance.close()

    run(scenario())


def test_a_file_keeps_offsets_and_its_last_but_one_is_a_backup(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "client" / "g" / "offsets.json"
        queue, other = ConsumingBroker().queue("t"), ConsumingBroker().queue("t", 1)
        store = LocalOffsets(path)
        assert await store.fetch(queue) is None
        assert await store.store({}, confirm=True) == []
        assert await store.store({queue: 5}, confirm=True) == []
        assert await store.store({other: 6}, confirm=True) == []
        assert await LocalOffsets(path).fetch(queue) == 5
        path.write_bytes(b"{damaged")
        assert await LocalOffsets(path).fetch(queue) == 5, "from the backup"
        assert await LocalOffsets(path).fetch(other) is None

    run(scenario())


def test_a_file_that_cannot_be_written_is_tried_again_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "file").write_bytes(b"")
        queue = ConsumingBroker().queue("t")
        store = LocalOffsets(tmp_path / "file" / "offsets.json")
        assert await store.store({queue: 5}, confirm=True) == [queue]

    run(scenario())


OFFSETS = {MessageQueue("orders", "broker-a", 3): 17, MessageQueue("orders", "broker-a", 4): 5}
# Written by OffsetSerializeWrapper.toJson(true) of rocketmq-client 4.9.8 (fastjson) and 5.5.0 (fastjson2).
JAVA_4_9_8 = (
    '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":4,\n\t\t\t"topic":"orders"\n\t\t}:5,{\n'
    '\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":3,\n\t\t\t"topic":"orders"\n\t\t}:17\n\t}\n}'
)
JAVA_5_5_0 = (
    '{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":4,\n\t\t\t"topic":"orders"\n\t\t}:5,\n'
    '\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":3,\n\t\t\t"topic":"orders"\n\t\t}:17\n\t}\n}'
)


@pytest.mark.parametrize("text", [JAVA_4_9_8, JAVA_5_5_0])
def test_a_java_file_is_read(text: str) -> None:
    assert parse_offsets(text.encode()) == OFFSETS


def test_what_is_written_is_read_and_has_objects_as_keys() -> None:
    text = build_offsets(OFFSETS)
    assert parse_offsets(text) == OFFSETS
    assert b'{"brokerName":"broker-a","queueId":3,"topic":"orders"}:17' in text


@pytest.mark.parametrize("text", [b"", b"[]", b'{"offsetTable":{"x":1}}', b'{"offsetTable":5}'])
def test_other_files_are_refused(text: bytes) -> None:
    with pytest.raises(BodyError):
        parse_offsets(text)


def test_the_path_is_that_of_the_java_client() -> None:
    assert offsets_path("/tmp/o", "10.0.0.1@DEFAULT", "g") == Path("/tmp/o/10.0.0.1@DEFAULT/g/offsets.json")
    assert "fe80__1@DEFAULT" in str(offsets_path("/tmp/o", "fe80::1@DEFAULT", "a|b"))
    assert offsets_path("~/o", "c", "g").is_absolute()


A, B = MessageQueue("a", "x", 0), MessageQueue("b", "x", 0)


def test_an_offset_advances_and_is_stored_once() -> None:
    table = OffsetTable()
    table.advance(A, 5)
    table.advance(A, 3)
    assert table.get(A) == 5
    assert table.take_changed() == {A: 5}
    assert table.take_changed() == {}


def test_an_offset_may_be_moved_back() -> None:
    table = OffsetTable()
    table.advance(A, 5)
    table.take_changed()
    table.move(A, 2)
    assert table.take_changed() == {A: 2}
    table.move(A, 2)
    assert table.take_changed() == {}


def test_what_could_not_be_stored_is_stored_later() -> None:
    table = OffsetTable()
    table.advance(A, 5)
    table.advance(B, 6)
    assert table.take_changed([A]) == {A: 5}
    table.put_back(A)
    assert table.take_changed() == {A: 5, B: 6}
    table.put_back(A)
    table.forget(B)
    table.put_back(B)
    assert table.take_changed() == {A: 5}


def test_what_the_store_says_need_not_be_told() -> None:
    table = OffsetTable()
    table.learn(A, 9)
    assert table.take_changed() == {}
    table.advance(B, 1)
    assert table.of_topic("a") == {A: 9}
    assert table.of_topic("") == {A: 9, B: 1}
    assert table.get(MessageQueue("c", "x", 0)) is None
