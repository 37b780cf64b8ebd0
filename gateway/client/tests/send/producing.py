"""Producers at a scripted broker, and what the broker got from them."""

from collections.abc import Callable

from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.message import Message
from gateway.client.send.producer import Producer
from gateway.client.tests.scripted_broker import ScriptedBroker, stored_at
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.headers.declare import parse_header
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest

SEND = RequestCode.SEND_MESSAGE_V2
MESSAGE = Message("t", b"hello")


def settings(broker: ScriptedBroker, **changes: object) -> ProducerSettings:
    quick: dict[str, object] = {"reconnect_backoff_min": 0.01, "reconnect_backoff_max": 0.02, **changes}
    return ProducerSettings(namesrv=broker.address, **quick)  # type: ignore[arg-type]


def producer_at(broker: ScriptedBroker, **changes: object) -> Producer:
    return Producer("g", settings(broker, **changes))


def sent(broker: ScriptedBroker, code: int = SEND) -> list[SendMessageRequest]:
    return [parse_header(ShortSendMessageRequest, request.ext_fields) for request in broker.asked(code)]


def in_turn(*codes: int) -> Callable[[RemotingCommand], RemotingCommand]:
    """Answers with these codes one after the other, and then stores."""
    left = list(codes)

    def answer(request: RemotingCommand) -> RemotingCommand:
        if left:
            return request.response(left.pop(0), "scripted")
        return request.response(0, ext_fields=stored_at(int(request.ext_fields["e"]), 0))

    return answer
