"""Tests of the locks of orderly consumers."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.process_queue import ProcessQueue
from gateway.client.consume.sharing import queue_locks
from gateway.client.consume.sharing.queue_locks import ConsumerLocks
from gateway.client.tests.consuming_broker import ConsumingBroker, until
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode


def test_locks_are_granted_renewed_lost_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "RENEW_S", 0.01)

    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            instance = ClientInstance(ClientSettings(namesrv=broker.address))
            await instance.route("t")
            locks = ConsumerLocks(instance, "g")
            ours, theirs = broker.queue("t", 0), broker.queue("t", 1)
            broker.lock_owners["t", 1] = "another"
            assert await locks.lock([ours, theirs]) == {ours}
            state = ProcessQueue(ours, 0, now=0.0)
            assert await locks.renew(state)
            locked_at = state.locked_at
            assert locked_at is not None
            keeping = asyncio.create_task(locks.keep(lambda: [state]))
            await until(lambda: state.locked_at != locked_at)
            keeping.cancel()
            broker.lock_owners["t", 0] = "another"
            await locks.renew_all([state])
            assert state.locked_at is None, "its broker gave it to somebody else"
            assert not await locks.renew(state)
            assert state.locked_at is None
            broker.lock_owners["t", 0] = instance.client_id
            await locks.unlock([ours])
            assert ("t", 0) not in broker.lock_owners
            await instance.close()

    run(scenario())


def test_a_broker_that_does_not_answer_grants_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "_LOCK_TIMEOUT", 0.02)

    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.on(RequestCode.LOCK_BATCH_MQ, lambda _: None)
            broker.on(RequestCode.UNLOCK_BATCH_MQ, lambda _: None)
            instance = ClientInstance(ClientSettings(namesrv=broker.address))
            await instance.route("t")
            locks = ConsumerLocks(instance, "g")
            assert await locks.lock([broker.queue("t")]) == set()
            state = ProcessQueue(broker.queue("t"), 0, now=0.0)
            state.locked_at = 1.0
            await locks.renew_all([state])
            assert state.locked_at == 1.0, "it may still be trusted for a while"
            await locks.unlock([broker.queue("t")])
            await instance.close()

    run(scenario())
