"""Tests of where offsets are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.offset_store import BrokerOffsets, LocalOffsets
from gateway.client.errors import BrokerError
from gateway.client.tests.consuming_broker import ConsumingBroker
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode


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
