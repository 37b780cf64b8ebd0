from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.client.connect.producer_settings import TransactionSettings
from gateway.client.errors import BrokerError, ConfigurationError, MessageRefused, RequestTimeout
from gateway.client.message import Message, ReceivedMessage
from gateway.client.tests.scripted_broker import ScriptedBroker, run, stored_at
from gateway.client.transact.transaction import AlreadyDecided, HalfNotSafe
from gateway.client.transact.transaction_producer import TransactionProducer
from gateway.client.transaction_state import TransactionState
from wire.codes import RequestCode, ResponseCode
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.headers.transaction import CheckTransactionStateRequest, EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.message_id import pack_host
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage, build_record

MESSAGE = Message("orders", b"order 7", keys="7")
HOST = pack_host("127.0.0.1", 1)


class Listener:
    """Says what it is told to, and keeps what it was asked."""

    def __init__(self, *verdicts: TransactionState) -> None:
        self.verdicts = list(verdicts)
        self.executed: list[tuple[Message, object]] = []
        self.checked: list[ReceivedMessage] = []

    def execute(self, message: Message, arg: object) -> TransactionState:
        self.executed.append((message, arg))
        return self.verdicts.pop(0)

    def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.append(message)
        return self.verdicts.pop(0)


class OnlyChecks:
    async def check(self, message: ReceivedMessage) -> TransactionState:
        await asyncio.sleep(0)
        return TransactionState.COMMIT


def producer(broker: ScriptedBroker, listener: Any = None, **settings: Any) -> TransactionProducer:
    chosen = TransactionSettings(namesrv=broker.address, reconnect_backoff_min=0.01, **settings)
    return TransactionProducer("pg", listener or Listener(), chosen)


async def outcomes(broker: ScriptedBroker, count: int = 1) -> list[EndTransactionRequest]:
    commands = await broker.wait_for(RequestCode.END_TRANSACTION, count)
    assert all(command.is_oneway for command in commands)
    return [parse_header(EndTransactionRequest, command.ext_fields) for command in commands]


async def noticed_loss(sender: TransactionProducer, broker: ScriptedBroker) -> None:
    """Wait until the producer knows that the broker is gone."""
    while sender._running_instance().remoting.open_connection(broker.address) is not None:
        await asyncio.sleep(0)


def half_sends(broker: ScriptedBroker) -> list[SendMessageRequest]:
    sends = broker.asked(RequestCode.SEND_MESSAGE_V2)
    return [parse_header(ShortSendMessageRequest, sent.ext_fields) for sent in sends]


def check(msg_id: str = "M1", *, group: str = "pg", place: int = 5) -> RemotingCommand:
    properties = build_properties({"UNIQ_KEY": msg_id, "PGROUP": group, "TRAN_MSG": "true", "KEYS": "7"})
    stored = OutgoingMessage("orders", 2, 0, 0, 1, HOST, HOST, 0, 0, b"order 7", properties)
    header = CheckTransactionStateRequest(
        tran_state_table_offset=place, commit_log_offset=place * 100, msg_id=msg_id, transaction_id=msg_id
    )
    return RemotingCommand(
        RequestCode.CHECK_TRANSACTION_STATE,
        flag=ONEWAY_FLAG,
        ext_fields=build_header(header),
        body=build_record(stored, place, place * 100, 1),
    )


def test_a_half_message_is_marked_as_the_java_client_marks_it() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker, Listener(TransactionState.COMMIT)) as sender:
            result = await sender.send_in_transaction(MESSAGE, "arg")
            (sent,) = half_sends(broker)
            assert sent.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_PREPARED
            properties = parse_properties(sent.properties or "")
            assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "pg")
            assert properties["UNIQ_KEY"] == result.msg_id

    run(scenario())


@pytest.mark.parametrize("state", TransactionState)
def test_the_broker_is_told_what_the_listener_returned(state: TransactionState) -> None:
    async def scenario() -> None:
        listener = Listener(state)
        async with ScriptedBroker() as broker, producer(broker, listener) as sender:
            result = await sender.send_in_transaction(MESSAGE, "arg")
            (told,) = await outcomes(broker)
            assert (result.state, result.error) == (state, None)
            assert listener.executed == [(MESSAGE, "arg")]
            assert told.commit_or_rollback == state.value
            assert (told.topic, told.producer_group, told.msg_id) == ("orders", "pg", result.msg_id)
            assert not told.from_transaction_check

    run(scenario())


def test_a_listener_that_raises_makes_the_transaction_unknown_and_the_caller_gets_the_error() -> None:
    class Broken(Listener):
        def execute(self, message: Message, arg: object) -> TransactionState:
            raise OSError("no disk")

    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker, Broken()) as sender:
            result = await sender.send_in_transaction(MESSAGE)
            (told,) = await outcomes(broker)
            assert result.state is TransactionState.UNKNOWN
            assert isinstance(result.error, OSError)
            assert told.commit_or_rollback == 0
            assert (
                broker.asked(RequestCode.END_TRANSACTION)[0].remark == "the local transaction raised OSError: no disk"
            )

    run(scenario())


def test_a_listener_may_be_asynchronous() -> None:
    class Asynchronous:
        async def execute(self, message: Message, arg: object) -> TransactionState:
            await asyncio.sleep(0)
            return TransactionState.COMMIT

        async def check(self, message: ReceivedMessage) -> TransactionState:
            return TransactionState.COMMIT

    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker, Asynchronous()) as sender:
            assert (await sender.send_in_transaction(MESSAGE)).state is TransactionState.COMMIT

    run(scenario())


def test_a_checker_alone_cannot_run_transactions() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker, OnlyChecks()) as sender:
            with pytest.raises(ConfigurationError, match="execute"):
                await sender.send_in_transaction(MESSAGE)
            assert not half_sends(broker)

    run(scenario())


def test_a_listener_must_be_able_to_check() -> None:
    with pytest.raises(ConfigurationError, match="check"):
        TransactionProducer("pg", object(), TransactionSettings(namesrv="mq:9876"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("decide", "value"),
    [(lambda transaction: transaction.commit(), 8), (lambda transaction: transaction.rollback(), 12)],
    ids=["commit", "rollback"],
)
def test_a_block_decides_once(decide: Callable[[Any], Any], value: int) -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker) as sender:
            async with sender.begin(MESSAGE) as transaction:
                await decide(transaction)
                with pytest.raises(AlreadyDecided, match=transaction.msg_id):
                    await transaction.commit()
            (told,) = await outcomes(broker)
            assert told.commit_or_rollback == value
            await sender.send(MESSAGE)  # anything after which a second outcome would have arrived
            assert len(broker.asked(RequestCode.END_TRANSACTION)) == 1

    run(scenario())


def test_a_block_without_a_verdict_is_unknown_and_its_exception_goes_on() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker) as sender:
            async with sender.begin(MESSAGE) as silent:
                pass
            with pytest.raises(ZeroDivisionError):
                async with sender.begin(MESSAGE) as broken:
                    raise ZeroDivisionError("oh")
            assert [silent.state, broken.state] == [TransactionState.UNKNOWN] * 2
            assert [told.commit_or_rollback for told in await outcomes(broker, 2)] == [0, 0]
            assert "ZeroDivisionError" in (broker.asked(RequestCode.END_TRANSACTION)[1].remark or "")
            with pytest.raises(AlreadyDecided, match="UNKNOWN already"):
                await silent.commit()

    run(scenario())


def test_a_half_message_that_is_not_safe_is_rolled_back_and_nothing_is_run() -> None:
    async def scenario() -> None:
        listener = Listener(TransactionState.COMMIT)
        async with ScriptedBroker() as broker, producer(broker, listener) as sender:
            broker.on(
                RequestCode.SEND_MESSAGE_V2,
                lambda request: request.response(ResponseCode.FLUSH_DISK_TIMEOUT, ext_fields=stored_at(0, 3)),
            )
            with pytest.raises(HalfNotSafe, match="rolled back"):
                await sender.send_in_transaction(MESSAGE)
            (told,) = await outcomes(broker)
            assert told.commit_or_rollback == TransactionState.ROLLBACK.value
            assert not listener.executed

    run(scenario())


def test_a_refused_half_message_runs_nothing() -> None:
    async def scenario() -> None:
        listener = Listener()
        async with ScriptedBroker() as broker, producer(broker, listener) as sender:
            broker.answer(RequestCode.SEND_MESSAGE_V2, ResponseCode.MESSAGE_ILLEGAL, "too long")
            with pytest.raises(BrokerError, match="too long"):
                await sender.send_in_transaction(MESSAGE)
            assert not listener.executed
            assert not broker.asked(RequestCode.END_TRANSACTION)

    run(scenario())


def test_a_half_message_without_an_answer_is_not_sent_again_since_each_of_them_would_be_checked() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker, send_msg_timeout=0.2) as sender:
            broker.on(RequestCode.SEND_MESSAGE_V2, lambda request: None)
            with pytest.raises(RequestTimeout) as raised:
                await sender.prepare(MESSAGE)
            assert raised.value.outcome_unknown
            assert len(half_sends(broker)) == 1

    run(scenario())


def test_a_delayed_message_cannot_be_transactional() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker) as sender:
            with pytest.raises(MessageRefused, match="transaction"):
                await sender.prepare(Message("orders", b"x", delay_level=3))

    run(scenario())


def test_an_answer_that_does_not_say_where_the_half_message_is_leaves_it_to_the_check() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker, Listener(TransactionState.COMMIT)) as sender:
            broker.on(
                RequestCode.SEND_MESSAGE_V2,
                lambda request: request.response(
                    ResponseCode.SUCCESS, ext_fields={"msgId": "?", "queueId": "0", "queueOffset": "0"}
                ),
            )
            with pytest.raises(Exception, match="the check will decide"):
                await sender.send_in_transaction(MESSAGE)

    run(scenario())


def test_brokers_know_the_group_before_anything_is_sent_so_that_they_can_ask() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker):
            (beat,) = await broker.wait_for(RequestCode.HEART_BEAT)
            assert b'"pg"' in beat.body

    run(scenario())


def test_a_check_is_answered_to_the_broker_that_asked() -> None:
    async def scenario() -> None:
        listener = Listener(TransactionState.ROLLBACK)
        async with ScriptedBroker() as broker, producer(broker, listener):
            await broker.wait_for(RequestCode.HEART_BEAT)
            broker.push_oneway(check())
            (told,) = await outcomes(broker)
            assert told.from_transaction_check
            assert (told.msg_id, told.transaction_id, told.producer_group) == ("M1", "M1", "pg")
            assert (told.tran_state_table_offset, told.commit_log_offset, told.commit_or_rollback) == (5, 500, 12)
            (asked,) = listener.checked
            assert (asked.topic, asked.body, asked.keys, asked.queue.queue_id) == ("orders", b"order 7", ("7",), 2)
            assert asked.queue.broker_name == "broker-a"

    run(scenario())


def test_checks_of_one_transaction_are_one_call_and_the_newest_place_is_answered() -> None:
    async def scenario() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        calls = []

        class Slow:
            async def check(self, message: ReceivedMessage) -> TransactionState:
                calls.append(message.msg_id)
                begun.set()
                await go_on.wait()
                return TransactionState.COMMIT

        async with ScriptedBroker() as broker, producer(broker, Slow()):
            await broker.wait_for(RequestCode.HEART_BEAT)
            broker.push_oneway(check(place=5))
            await begun.wait()
            broker.push_oneway(check(place=6))
            # The client takes requests in their order: when it has answered this one, it has seen the check.
            await broker.push(RemotingCommand(4711))
            go_on.set()
            (told,) = await outcomes(broker)
            assert told.tran_state_table_offset == 6
            assert calls == ["M1"]

    run(scenario())


def test_more_checks_than_may_wait_are_left_to_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        class Slow:
            async def check(self, message: ReceivedMessage) -> TransactionState:
                await gate.wait()
                return TransactionState.COMMIT

        async with ScriptedBroker() as broker, producer(broker, Slow(), check_request_hold_max=2):
            await broker.wait_for(RequestCode.HEART_BEAT)
            for number in range(3):
                broker.push_oneway(check(f"M{number}"))
            await broker.push(RemotingCommand(4711))
            gate.set()
            assert {told.msg_id for told in await outcomes(broker, 2)} == {"M0", "M1"}

    run(scenario())
    assert "the check of transaction M2 is left to the broker's next try" in caplog.text


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (check(group="another"), "asks group pg about a transaction of group another"),
        (RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, flag=ONEWAY_FLAG), "cannot be read"),
        (
            RemotingCommand(
                RequestCode.CHECK_TRANSACTION_STATE, flag=ONEWAY_FLAG, ext_fields=check().ext_fields, body=b"garbage"
            ),
            "cannot be read",
        ),
    ],
    ids=["another group", "no header", "no record"],
)
def test_a_check_that_makes_no_sense_is_logged(
    command: RemotingCommand, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker, Listener()):
            await broker.wait_for(RequestCode.HEART_BEAT)
            broker.push_oneway(command)
            await broker.push(RemotingCommand(4711))
            assert not broker.asked(RequestCode.END_TRANSACTION)

    run(scenario())
    assert text in caplog.text


def test_an_outcome_waits_for_its_broker_to_come_back_and_closing_waits_for_it() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, producer(broker) as sender:
            transaction = await sender.prepare(MESSAGE)
            await broker.stop()
            await noticed_loss(sender, broker)
            await transaction.commit()
            assert transaction.state is TransactionState.COMMIT
            closing = asyncio.ensure_future(sender.close())
            await broker.start()
            await closing
            (told,) = await outcomes(broker)
            assert told.commit_or_rollback == 8

    run(scenario())
