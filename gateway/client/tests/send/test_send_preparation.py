"""The preparation of messages before they are sent; the sending itself is tested with ``Producer``."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.errors import MessageRefused, RocketMQError
from gateway.client.formats.unique_ids import UniqueIds
from gateway.client.message import Message, MessageQueue
from gateway.client.results import SendResult
from gateway.client.send.send_preparation import SendPreparation
from gateway.client.send.sending import NOBODY, Sending, SendOptions, SendTarget
from gateway.client.tests.connect.test_instance import instance_at
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from wire.codes import RequestCode
from wire.frame import parse_frame
from wire.headers.send import SendMessageResponse
from wire.message.batch import parse_batch
from wire.message.properties import parse_properties

OPTIONS = SendOptions(timeout=3.0, retries=0)
QUEUE = MessageQueue("t", "b", 3)


class Nobody:
    """Is told nothing here."""

    def stored(self, sending: Sending, result: SendResult, header: SendMessageResponse) -> None: ...

    def failed_once(self, sending: Sending, error: RocketMQError) -> None: ...


def prepared(check: Callable[[SendPreparation], None], **changes: object) -> None:
    """Check something of a preparation with settings."""

    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            settings = ProducerSettings(namesrv=broker.address, **changes)  # type: ignore[arg-type]
            ids = UniqueIds("127.0.0.1", 1, clock=instance.clock, random=Random(1))
            check(SendPreparation(Nobody(), instance, "g", settings, ids, None))

    run(test())


def properties_of(frame: bytes) -> dict[str, str]:
    return parse_properties(parse_frame(frame, 4, len(frame)).ext_fields["i"])


def test_a_message_gets_an_id_and_its_frame_says_what_it_says() -> None:
    def check(preparation: SendPreparation) -> None:
        sending = preparation.message(Message("t", b"body", tags="T", keys="k"), OPTIONS, NOBODY, None)
        frame = preparation.frame(sending, SendTarget(QUEUE, QUEUE, "b:1"), 7, 0)
        command = parse_frame(frame, 4, len(frame))
        assert (command.code, command.opaque, command.body) == (RequestCode.SEND_MESSAGE_V2, 7, b"body")
        assert properties_of(frame) == {"TAGS": "T", "KEYS": "k", "WAIT": "true", "UNIQ_KEY": sending.msg_id}
        assert preparation.adds_nothing

    prepared(check)


def test_a_plain_message_that_is_tried_again_gets_its_properties_then() -> None:
    def check(preparation: SendPreparation) -> None:
        sending = preparation.message(Message("t", b"body"), OPTIONS, NOBODY, None)
        sending.properties = b""
        frame = preparation.frame(sending, SendTarget(QUEUE, QUEUE, "b:1"), 7, 0)
        assert properties_of(frame) == {"WAIT": "true", "UNIQ_KEY": sending.msg_id}

    prepared(check)


def test_a_namespace_is_told_with_every_message() -> None:
    def check(preparation: SendPreparation) -> None:
        sending = preparation.message(Message("t", b"body"), OPTIONS, NOBODY, None)
        frame = preparation.frame(sending, SendTarget(QUEUE, QUEUE, "b:1"), 7, 0)
        assert properties_of(frame)["INSTANCE_ID"] == "ns"
        assert not preparation.adds_nothing

    prepared(check, namespace="ns")


def test_large_bodies_are_compressed_and_too_large_ones_refused() -> None:
    def check(preparation: SendPreparation) -> None:
        sending = preparation.message(Message("t", b"x" * 100), OPTIONS, NOBODY, None)
        assert len(sending.body) < 100
        assert sending.sys_flag & 1
        with pytest.raises(MessageRefused):
            preparation.message(Message("t", b"x" * 201), OPTIONS, NOBODY, None)

    prepared(check, compress_msg_body_over=50, max_message_size=200)


def test_a_batch_is_cut_to_the_limit_and_each_piece_names_its_ids() -> None:
    def check(preparation: SendPreparation) -> None:
        messages = [Message("t", b"x" * 100) for _ in range(3)]
        batches = preparation.batches(messages, OPTIONS)
        sendings = [preparation.batch(messages[0], batch, OPTIONS, NOBODY) for batch in batches]
        counts = [len(parse_batch(sending.body)) for sending in sendings]
        assert sum(counts) == 3
        assert len(counts) > 1
        assert [len(sending.msg_id.split(",")) for sending in sendings] == counts
        assert {sending.code for sending in sendings} == {RequestCode.SEND_BATCH_MESSAGE}
        with pytest.raises(MessageRefused):
            preparation.batches([], OPTIONS)

    prepared(check, max_message_size=500)


def test_the_form_of_a_target_is_made_once() -> None:
    def check(preparation: SendPreparation) -> None:
        target = SendTarget(QUEUE, QUEUE, "b:1")
        sending = preparation.message(Message("t", b"x"), OPTIONS, NOBODY, None)
        preparation.frame(sending, target, 1, 0)
        form = target.plain_form
        preparation.frame(sending, target, 2, 0)
        assert form is not None
        assert target.plain_form is target.forms[int(RequestCode.SEND_MESSAGE_V2)] is form

    prepared(check)
