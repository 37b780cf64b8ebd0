import asyncio
from collections.abc import Callable

import pytest

from gateway.client.connect.connection import MAX_OPAQUE, BrokerConnection, FutureWaiting
from gateway.client.errors import ClientClosed, ConnectionLost, ProtocolError, RequestTimeout, TooManyRequests
from gateway.client.tests.jumping_time import run_jumping
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.frame import build_frame
from wire.headers.send import SendMessageResponse


class MemoryTransport(asyncio.Transport):
    """Keeps what is written; ends its protocol on the loop's next turn, as real ones do."""

    def __init__(self, protocol: BrokerConnection) -> None:
        super().__init__()
        self._protocol = protocol
        self.writes: list[bytes] = []
        self.closing = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.end(None)

    def abort(self) -> None:
        self.end(None)

    def end(self, error: Exception | None) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("10.0.0.9", 4000) if name == "sockname" else default


class Wired:
    """A connection on a memory transport, and what it told."""

    def __init__(self, *, max_in_flight: int = 100) -> None:
        self.asked: list[RemotingCommand] = []
        self.lost = 0
        self.connection = BrokerConnection(
            "b:10911",
            asked=lambda _, command: self.asked.append(command),
            lost=self._count,
            max_frame_bytes=100_000,
            max_in_flight=max_in_flight,
        )
        self.transport = MemoryTransport(self.connection)
        self.connection.connection_made(self.transport)

    def _count(self, _: BrokerConnection) -> None:
        self.lost += 1

    def call(self, timeout: float = 5.0) -> tuple[int, asyncio.Future[RemotingCommand]]:
        future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        opaque = self.connection.take_opaque()
        frame = build_frame(RemotingCommand(RequestCode.HEART_BEAT, opaque=opaque))
        self.connection.start_call(opaque, frame, FutureWaiting(RequestCode.HEART_BEAT, timeout, future))
        return opaque, future

    def answer(self, *opaques: int) -> None:
        self.connection.data_received(b"".join(build_frame(RemotingCommand(0, opaque=o, flag=1)) for o in opaques))


async def turn() -> None:
    await asyncio.sleep(0)


def in_loop(test: Callable[[], object]) -> Callable[[], None]:
    """Run an ``async def`` test on a loop of its own, whose time jumps."""

    def runs() -> None:
        run_jumping(test())  # type: ignore[arg-type]

    runs.__name__ = test.__name__
    return runs


@in_loop
async def test_answers_find_who_waits_in_any_order() -> None:
    wired = Wired()
    (first, one), (second, other) = wired.call(), wired.call()
    wired.answer(second, first)
    assert (await one).opaque == first
    assert (await other).opaque == second
    assert wired.connection.in_flight == 0


@in_loop
async def test_what_is_written_in_one_turn_leaves_together() -> None:
    wired = Wired()
    wired.call()
    assert len(wired.transport.writes) == 1, "the first one need not wait for others"
    wired.call()
    wired.call()
    assert len(wired.transport.writes) == 1
    await turn()
    assert len(wired.transport.writes) == 2
    assert len(wired.transport.writes[1]) > 1.9 * len(wired.transport.writes[0])
    wired.connection.abort(ConnectionLost("b:10911", "enough"))


@in_loop
async def test_an_answer_that_comes_too_late_is_dropped() -> None:
    wired = Wired()
    opaque, future = wired.call(timeout=3)
    wired.connection.data_received(b"")
    with pytest.raises(RequestTimeout) as caught:
        await future
    assert caught.value.outcome_unknown
    assert caught.value.what == "HEART_BEAT"
    wired.answer(opaque)


@in_loop
async def test_a_connection_that_is_silent_beyond_a_timeout_is_given_up() -> None:
    wired = Wired()
    await asyncio.sleep(1)  # the connection is older than the requests; no time is spent on it, see ``run_jumping``
    _, quick = wired.call(timeout=3)
    _, slow = wired.call(timeout=60)
    with pytest.raises(RequestTimeout):
        await quick
    with pytest.raises(ConnectionLost, match="silent"):
        await slow
    await wired.connection.closed
    assert wired.lost == 1


@in_loop
async def test_a_broker_that_is_only_slow_keeps_its_connection() -> None:
    wired = Wired()
    _, quick = wired.call(timeout=3)
    opaque, other = wired.call(timeout=60)
    await asyncio.sleep(1)
    wired.answer(opaque)
    await other
    with pytest.raises(RequestTimeout):
        await quick
    assert wired.connection.is_open
    wired.connection.close()


@in_loop
async def test_a_later_timeout_does_not_hide_an_earlier_one() -> None:
    wired = Wired()
    _, slow = wired.call(timeout=60)
    _, quick = wired.call(timeout=3)
    with pytest.raises(RequestTimeout):
        await quick
    wired.connection.abort(ClientClosed("client"))
    with pytest.raises((ClientClosed, ConnectionLost)):
        await slow


@in_loop
async def test_who_waits_is_told_when_the_connection_breaks() -> None:
    wired = Wired()
    _, future = wired.call()
    wired.transport.end(ConnectionResetError("reset by peer"))
    with pytest.raises(ConnectionLost, match="reset by peer") as caught:
        await future
    assert caught.value.outcome_unknown
    _, late = wired.call()
    with pytest.raises(ConnectionLost):
        await late


@in_loop
async def test_garbage_closes_the_connection_and_is_named() -> None:
    wired = Wired()
    _, future = wired.call()
    wired.connection.data_received(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ProtocolError, match="does not speak RocketMQ"):
        await future
    assert not wired.connection.is_open


@in_loop
async def test_answers_before_garbage_still_count() -> None:
    wired = Wired()
    opaque, future = wired.call()
    good = build_frame(RemotingCommand(0, opaque=opaque, flag=1))
    wired.connection.data_received(good + b"\xff" * 8)
    assert (await future).code == 0
    assert not wired.connection.is_open


@in_loop
async def test_a_frame_over_the_limit_is_refused_before_it_is_buffered() -> None:
    wired = Wired()
    _, future = wired.call()
    wired.connection.data_received(b"\x7f\xff\xff\xff\x00\x00\x00\x10")
    with pytest.raises(ProtocolError):
        await future


@in_loop
async def test_too_many_requests_are_refused_without_being_sent() -> None:
    wired = Wired(max_in_flight=1)
    wired.call()
    _, second = wired.call()
    with pytest.raises(TooManyRequests):
        await second
    wired.connection.close()


@in_loop
async def test_requests_of_the_broker_are_handed_on() -> None:
    wired = Wired()
    wired.connection.data_received(build_frame(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=5)))
    assert [command.code for command in wired.asked] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]


@in_loop
async def test_writers_wait_while_too_much_is_unsent() -> None:
    wired = Wired()
    await wired.connection.drained()
    wired.connection.pause_writing()
    assert wired.connection.is_paused
    waiting = asyncio.ensure_future(wired.connection.drained())
    await turn()
    assert not waiting.done()
    wired.connection.resume_writing()
    await waiting


@in_loop
async def test_writers_that_wait_are_told_of_the_end() -> None:
    wired = Wired()
    wired.connection.pause_writing()
    waiting = asyncio.ensure_future(wired.connection.drained())
    await turn()
    wired.transport.end(None)
    with pytest.raises(ConnectionLost):
        await waiting


@in_loop
async def test_a_retired_connection_finishes_what_it_began() -> None:
    wired = Wired()
    opaque, future = wired.call()
    wired.connection.retire()
    _, refused = wired.call()
    with pytest.raises(ConnectionLost):
        await refused
    await turn()
    assert wired.transport.writes, "what was written before is sent"
    wired.answer(opaque)
    await future
    await wired.connection.closed


@in_loop
async def test_numbers_of_requests_begin_again() -> None:
    wired = Wired()
    wired.connection._next_opaque = MAX_OPAQUE
    assert [wired.connection.take_opaque() for _ in range(2)] == [MAX_OPAQUE, 0]
    assert wired.connection.local_address == "10.0.0.9"


class StoredWaiting(FutureWaiting):
    """Takes answers to sends as they are read in one step."""

    takes_stored = True

    def stored(self, code: int, header: SendMessageResponse) -> None:
        self.future.set_result(RemotingCommand(code, remark=f"in one step at {header.queue_offset}"))


async def stored_or_answered(expects: bool, frame: bytes, kind: type[FutureWaiting] = StoredWaiting) -> RemotingCommand:
    wired = Wired()
    if expects:
        wired.connection.expect_stored()
    future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
    wired.connection.start_call(0, b"request", kind(RequestCode.SEND_MESSAGE_V2, 1.0, future))
    wired.connection.data_received(frame[:20])
    wired.connection.data_received(frame[20:])
    wired.connection.close()
    return await future


def stored_frame(code: int = 0, remark: str | None = None, offset: str = "7") -> bytes:
    fields = {"msgId": "id", "queueId": "1", "queueOffset": offset, "TRACE_ON": "TRUE"}
    return build_frame(RemotingCommand(code, flag=1, remark=remark, ext_fields=fields))


def test_answers_to_sends_are_read_in_one_step_where_they_are_expected() -> None:
    async def test() -> None:
        assert (await stored_or_answered(True, stored_frame())).remark == "in one step at 7"
        assert (await stored_or_answered(True, stored_frame(10))).remark == "in one step at 7"
        assert (await stored_or_answered(False, stored_frame())).remark is None
        assert (await stored_or_answered(True, stored_frame(), FutureWaiting)).remark is None

    run_jumping(test())


def test_what_is_no_plain_answer_to_a_send_is_read_as_any_other() -> None:
    async def test() -> None:
        assert (await stored_or_answered(True, stored_frame(1, "no"))).remark == "no"
        assert (await stored_or_answered(True, stored_frame(offset="many"))).ext_fields["queueOffset"] == "many"
        refused = build_frame(RemotingCommand(2, flag=1))
        assert (await stored_or_answered(True, refused)).code == 2

    run_jumping(test())
