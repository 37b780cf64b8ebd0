"""Tests of the queues a consumer has: where they begin, and what is known of their progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.client.connect.instance import ClientInstance
from gateway.client.consume.process_queue import ProcessQueue
from gateway.client.consume.pull_loop import PullTerms
from gateway.client.consume.settings.consumer_settings import ConsumeFrom, ConsumerSettings, MessageModel
from gateway.client.consume.sharing.assigned_queues import AssignedQueues, QueueTerms
from gateway.client.consume.subscriptions import tags_of
from gateway.client.message import ReceivedMessage
from gateway.client.tests.consuming_broker import ConsumingBroker, until
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode, ResponseCode
from wire.message.flags import PullFlag

EVERYTHING = tags_of("t", version_ms=1)


class Scene:
    """Queues whose messages are consumed when the test says so."""

    def __init__(self, broker: ConsumingBroker, *, tracks: bool = True, **settings: Any) -> None:
        chosen = ConsumerSettings(**{"namesrv": broker.address, "request_timeout": 0.5, **settings})
        self.instance = ClientInstance(chosen)
        self.taken: list[int] = []
        terms = PullTerms(
            code=RequestCode.PULL_MESSAGE,
            flags=PullFlag.SUSPEND,
            batch_size=2,
            hold=0.05,
            timeout=5.0,
            pause_after_failure=0.01,
        )
        self.queues = AssignedQueues(
            self.instance,
            "g",
            chosen,
            QueueTerms(terms, span=None, commits_with_pulls=False, tracks=tracks),
            blocked=lambda _: None,
            take=self._take,
        )

    def _take(self, state: ProcessQueue, messages: list[ReceivedMessage], sizes: list[int]) -> None:
        state.add(messages, sizes, 1)
        self.taken += [message.queue_offset for message in messages]

    def finish(self, state: ProcessQueue) -> None:
        while (turn := state.first_turn()) is not None:
            state.settle(turn)
        self.queues.settled(state)


def test_a_queue_begins_where_the_group_stands_or_by_the_setting() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", b"0", b"1", b"2")
            broker.offsets["g", "t", 1] = 0
            scene = Scene(broker, consume_from_where=ConsumeFrom.LAST_OFFSET)
            await scene.instance.route("t")
            assert await scene.queues.position(broker.queue("t")) == 3
            assert await scene.queues.position(broker.queue("t", 1)) == 0
            broker.answer(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR, "broken")
            assert await scene.queues.begin(broker.queue("t"), EVERYTHING) is None
            await scene.instance.close()

    run(scenario())


def test_where_a_new_group_began_is_stored_and_the_next_member_misses_nothing() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", b"0", b"1")
            first = Scene(broker, consume_from_where=ConsumeFrom.LAST_OFFSET)
            await first.instance.route("t")
            state = await first.queues.begin(broker.queue("t"), EVERYTHING)
            assert state is not None
            await first.queues.end([state])
            broker.put("t", b"2")
            assert await first.queues.position(broker.queue("t")) == 2
            by_hand = Scene(broker, consume_from_where=ConsumeFrom.LAST_OFFSET, tracks=False)
            broker.offsets.clear()
            await by_hand.instance.route("t")
            assert await by_hand.queues.position(broker.queue("t")) == 3
            assert by_hand.queues.table.get(broker.queue("t")) is None
            await first.instance.close()
            await by_hand.instance.close()

    run(scenario())


def test_limits_stop_pulling_until_messages_are_finished() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", *[b"%d" % n for n in range(9)])
            chosen: dict[str, Any] = {"consume_from_where": ConsumeFrom.FIRST_OFFSET, "pull_threshold_for_queue": 3}
            scene = Scene(broker, **chosen)
            await scene.instance.route("t")
            state = await scene.queues.begin(broker.queue("t"), EVERYTHING)
            assert state is not None
            await until(lambda: len(scene.taken) == 4)
            assert await scene.queues.persist() == []
            assert broker.offsets == {}
            scene.finish(state)
            await until(lambda: len(scene.taken) == 8)
            await scene.queues.persist(confirm=True)
            assert broker.offsets["g", "t", 0] == 4
            await scene.queues.end([state])
            assert scene.queues.states == {}
            assert scene.queues.table.get(broker.queue("t")) is None
            await scene.instance.close()

    run(scenario())


def test_what_was_passed_over_counts_as_consumed_when_nothing_is_cached() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", b"0", tags="other")
            scene = Scene(broker, consume_from_where=ConsumeFrom.FIRST_OFFSET)
            silent = Scene(broker, consume_from_where=ConsumeFrom.FIRST_OFFSET, tracks=False)
            for each in (scene, silent):
                await each.instance.route("t")
                await each.queues.begin(broker.queue("t"), tags_of("t", "a", version_ms=1))
            await until(lambda: scene.queues.table.get(broker.queue("t")) == 1)
            await until(lambda: silent.queues.states[broker.queue("t")].next_offset == 1)
            assert silent.queues.table.get(broker.queue("t")) is None
            assert scene.taken == silent.taken == []
            await scene.instance.close()
            await silent.instance.close()

    run(scenario())


def test_a_reset_reads_from_another_offset_and_tells_the_broker() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", b"0", b"1", b"2")
            scene = Scene(broker, consume_from_where=ConsumeFrom.FIRST_OFFSET)
            await scene.instance.route("t")
            state = await scene.queues.begin(broker.queue("t"), EVERYTHING)
            assert state is not None
            await until(lambda: len(scene.taken) == 3)
            scene.finish(state)
            await scene.queues.reset({broker.queue("t"): 1, broker.queue("u"): 5})
            assert broker.offsets == {("g", "t", 0): 1}
            await until(lambda: scene.taken == [0, 1, 2, 1, 2])
            await scene.instance.close()

    run(scenario())


def test_offsets_of_a_broadcasting_consumer_are_found_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", b"0")
            chosen: dict[str, Any] = {
                "consume_from_where": ConsumeFrom.FIRST_OFFSET,
                "message_model": MessageModel.BROADCASTING,
                "local_offset_dir": str(tmp_path),
                "client_ip": "10.0.0.1",
            }
            scene = Scene(broker, **chosen)
            await scene.instance.route("t")
            state = await scene.queues.begin(broker.queue("t"), EVERYTHING)
            assert state is not None
            await until(lambda: len(scene.taken) == 1)
            scene.finish(state)
            await scene.queues.end([state])
            assert (tmp_path / "10.0.0.1@DEFAULT" / "g" / "offsets.json").exists()
            assert await Scene(broker, **chosen).queues.position(broker.queue("t")) == 1
            await scene.instance.close()

    run(scenario())
