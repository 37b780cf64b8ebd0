"""Tests of pulling one queue: what is asked, what each answer leads to, and when it pauses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.process_queue import ProcessQueue
from gateway.client.consume.pull_loop import LoopOwner, PullLoop, PullTerms
from gateway.client.consume.subscriptions import Sql, subscription_of
from gateway.client.message import ReceivedMessage
from gateway.client.tests.consuming_broker import ConsumingBroker, until
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.pull import PullMessageRequest, PullMessageResponse
from wire.message.flags import PullFlag


class Scene:
    """A loop over queue 0 of topic t."""

    def __init__(self, broker: ConsumingBroker, wanted: str | Sql = "*", **terms: Any) -> None:
        given: dict[str, Any] = {
            "code": RequestCode.PULL_MESSAGE,
            "flags": PullFlag.SUSPEND,
            "batch_size": 4,
            "hold": 5.0,
        }
        given |= {"timeout": 10.0, "pause_after_failure": 0.01, **terms}
        self.broker = broker
        self.instance = ClientInstance(ClientSettings(namesrv=broker.address))
        self.state = ProcessQueue(broker.queue("t"), 0, now=0.0)
        self.got: list[bytes] = []
        self.moves: list[int] = []
        self.reason: str | None = None
        self.committed: int | None = None
        self.subscription = subscription_of("t", wanted, version_ms=7)
        self.loop = PullLoop(
            self.instance,
            "g",
            self.state,
            self.subscription,
            PullTerms(**given),
            LoopOwner(lambda _: self.reason, lambda _: self.committed, self._take, self._moved),
        )

    async def begin(self) -> Scene:
        await self.instance.route("t")
        self.loop.start()
        return self

    def _take(self, state: ProcessQueue, messages: list[ReceivedMessage], sizes: list[int]) -> None:
        assert len(messages) == len(sizes)
        assert state is self.state
        self.got += [message.body for message in messages]

    def _moved(self, state: ProcessQueue, offset: int) -> None:
        self.moves.append(offset)
        state.next_offset = offset

    def pulls(self) -> list[PullMessageRequest]:
        return [
            parse_header(PullMessageRequest, each.ext_fields) for each in self.broker.asked(RequestCode.PULL_MESSAGE)
        ]

    async def end(self) -> None:
        self.loop.stop()
        await self.instance.close()


def test_a_queue_is_pulled_in_portions_and_then_waited_at() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", *[b"%d" % n for n in range(6)])
            scene = await Scene(broker).begin()
            await until(lambda: len(scene.got) == 6)
            scene.committed = 3
            broker.put("t", b"6")
            await until(lambda: len(scene.got) == 7)
            await until(lambda: len(scene.pulls()) == 4)
            first, *_, last = scene.pulls()
            assert (first.queue_offset, first.max_msg_nums, first.suspend_timeout_millis) == (0, 4, 5000)
            assert (first.sys_flag, first.commit_offset, first.subscription) == (PullFlag.SUSPEND, 0, None)
            assert (last.queue_offset, last.commit_offset) == (7, 3)
            assert last.sys_flag == PullFlag.SUSPEND | PullFlag.COMMIT_OFFSET
            assert scene.state.next_offset == 7
            await scene.end()

    run(scenario())


def test_tags_are_compared_here_and_sql_is_not() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            for number, tag in enumerate(("Aa", "BB", "")):
                broker.put("t", b"%d" % number, tags=tag)
            tags = await Scene(broker, "Aa").begin()
            sql = await Scene(broker, Sql("a > 1"), flags=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION).begin()
            await until(lambda: len(sql.got) == 3)
            await until(lambda: tags.state.next_offset == 3)
            assert tags.got == [b"0"]
            (pull,) = [each for each in sql.pulls() if each.subscription is not None and each.queue_offset == 0]
            assert (pull.subscription, pull.expression_type, pull.sub_version) == ("a > 1", "SQL92", 7)
            tags.loop.subscription = subscription_of("t", "BB", version_ms=8)
            tags.state.next_offset = 0
            tags.loop.restart()
            await until(lambda: tags.got == [b"0", b"1"])
            await tags.end()
            await sql.end()

    run(scenario())


def test_nothing_is_pulled_while_there_is_a_reason() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", b"0")
            scene = Scene(broker)
            scene.reason = "too much is cached"
            await scene.begin()
            await broker.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC)
            assert scene.pulls() == []
            scene.reason = None
            scene.loop.wake()
            await until(lambda: scene.got == [b"0"])
            await scene.end()

    run(scenario())


def test_an_offset_that_does_not_exist_is_told() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.first_offsets["t", 0] = 9
            broker.put("t", b"9")
            scene = await Scene(broker).begin()
            await until(lambda: scene.got == [b"9"])
            assert scene.moves == [9]
            await scene.end()

    run(scenario())


def test_a_suggested_broker_is_asked_if_it_is_known() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", b"0")
            suggestion = build_header(
                PullMessageResponse(suggest_which_broker_id=1, next_begin_offset=0, min_offset=0, max_offset=1)
            )
            pull = broker._scripts[RequestCode.PULL_MESSAGE]
            broker.on(
                RequestCode.PULL_MESSAGE,
                lambda request: (
                    pull(request)
                    if len(broker.asked(RequestCode.PULL_MESSAGE)) > 1
                    else request.response(ResponseCode.PULL_RETRY_IMMEDIATELY, ext_fields=dict(suggestion))
                ),
            )
            scene = await Scene(broker, interval=0.001).begin()
            await until(lambda: scene.got == [b"0"])
            await scene.end()

    run(scenario())


def test_a_broker_without_route_is_looked_for() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.put("t", b"0")
            scene = Scene(broker)
            scene.loop.start()
            await until(lambda: scene.got == [b"0"])
            await scene.end()

    run(scenario())


def test_what_an_answer_has_too_much_is_pulled_again_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    class Generous(ConsumingBroker):
        def _read(self, request: RemotingCommand, header: PullMessageRequest) -> RemotingCommand:
            return super()._read(request, replace(header, max_msg_nums=32))

    async def scenario() -> None:
        async with Generous() as broker:
            broker.put("t", *[b"%d" % n for n in range(30)])
            scene = await Scene(broker).begin()
            await until(lambda: len(scene.got) == 30)
            assert scene.got == [b"%d" % n for n in range(30)]
            assert [pull.queue_offset for pull in scene.pulls()][:4] == [0, 8, 16, 24]
            await scene.end()

    run(scenario())
    (told,) = [line for line in caplog.messages if "more than the limit" in line]
    assert "8 records or 32771 messages where 4 were asked for" in told
    assert "broker-a" in told
