"""One message on its way: from ``Sender.start`` until its future has a result."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeAlias

import msgspec

from gateway.client.connect.connection import BrokerConnection
from gateway.client.errors import ProtocolError, RocketMQError, broker_error
from gateway.client.formats.send_form import SendFrames
from gateway.client.message import Message
from gateway.client.message_queue import MessageQueue
from gateway.client.results import SEND_STATUS_BY_CODE, SendResult, SendStatus
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.errors import FieldError
from wire.headers.declare import read_header
from wire.headers.send import SendMessageResponse

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""A function that chooses the queue of a message."""

SendFuture: TypeAlias = "asyncio.Future[SendResult] | concurrent.futures.Future[SendResult]"
"""The future of a send: of a task, or of a thread that waits."""

NOBODY: Final[SendFuture] = concurrent.futures.Future()
"""A future that is done, in the place of a future where none is needed."""
NOBODY.set_exception(ProtocolError("nobody", "nobody asks here"))
NO_PROPERTIES: Final[Mapping[str, str]] = {}
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_STORED: Final = int(SendStatus.SEND_OK)


class SendOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options for sending one message.

    :param timeout: seconds for all tries.
    :param retries: the number of further tries after a failure; with a queue, a selector or a sharding key there are no
        further tries, as in Java.
    :param queue: the target; None: the next queue in turn, or the queue of the message's sharding key.
    :param selector: chooses the queue instead.
    :param accept: statuses other than SEND_OK (their codes) that count as success.
    :param more_properties: properties that replace the message's own properties; reserved names are allowed here.
    :param sys_flag: bits of the system flag, such as the bits of a transaction.
    :param code: SEND_MESSAGE_V2 or SEND_REPLY_MESSAGE_V2.
    """

    timeout: float
    retries: int
    queue: MessageQueue | None = None
    selector: Selector | None = None
    accept: Collection[int] = ()
    more_properties: Mapping[str, str] = NO_PROPERTIES
    sys_flag: int = 0
    code: int = _SEND

    is_plain: bool = False
    """True if the message may go to any queue and nothing is added to the message; computed here."""

    def __post_init__(self) -> None:
        elsewhere = self.queue is not None or self.selector is not None or self.code != _SEND
        is_plain = not (elsewhere or self.more_properties or self.sys_flag)
        msgspec.structs.force_setattr(self, "is_plain", is_plain)


class SendTarget:
    """One queue to send to, with the objects that a send needs. A plain class for speed: every message uses one."""

    __slots__ = ("address", "connection", "forms", "plain_form", "public_queue", "queue")

    def __init__(self, queue: MessageQueue, public_queue: MessageQueue, address: str) -> None:
        self.queue = queue
        self.public_queue = public_queue
        """The queue without the namespace, as applications know the queue."""
        self.address = address
        self.connection: BrokerConnection | None = None
        self.forms: dict[int, SendFrames] = {}
        """The forms of frames by request code."""
        self.plain_form: SendFrames | None = None
        """The form of single messages, for quick access."""


class SendingObserver(Protocol):
    """The sender's methods that a ``Sending`` calls."""

    def stored(self, sending: Sending, result: SendResult, header: SendMessageResponse) -> None:
        """Note that the broker has stored the message."""

    def failed_once(self, sending: Sending, error: RocketMQError) -> None:
        """Handle a failed try: send again, or settle the send with the error."""


# A msgspec struct, since one is made for each message: it is made in a third of the time of a class with slots.
class Sending(msgspec.Struct, eq=False, gc=False):
    """A ``Waiting`` for the answer to one message or batch.

    The garbage collector does not see this object; the sender breaks the object's references when the send is settled.

    :param sender: gets the result.
    :param msg_id: the id of the message; for a batch all ids, joined by commas.
    :param properties: the properties as JSON, for the header; empty for a plain message, whose frame does not need
        them.
    :param started_at: loop time of the start; ``ends_at`` is the loop time at which all tries have to end.
    :param timeout: seconds of the present try.
    :param target: the target of the latest try.
    :param tries: the number of started tries.
    :param maybe_stored: whether a failed try may have stored the message.
    :param problem: the error of the latest try.
    """

    sender: SendingObserver
    message: Message
    options: SendOptions
    future: SendFuture
    msg_id: str
    properties: bytes
    body: bytes
    sys_flag: int
    born_at_ms: int
    started_at: float
    ends_at: float
    code: int
    timeout: float
    span: Span | None = None
    deadline: float = 0.0
    target: SendTarget | None = None
    tries: int = 0
    maybe_stored: bool = False
    problem: RocketMQError | None = None

    takes_stored: ClassVar[bool] = True

    def answered(self, command: RemotingCommand) -> None:
        """Implement ``Waiting.answered``."""
        target = self.target
        assert target is not None, "it was written to a target"
        if command.code not in SEND_STATUS_BY_CODE:
            self.sender.failed_once(self, broker_error(command.code, command.remark, target.address))
            return
        try:
            header = read_header(SendMessageResponse, command)
        except FieldError as error:
            self.sender.failed_once(self, ProtocolError(target.address, f"its answer to a send: {error}"))
            return
        self.stored(command.code, header)

    def stored(self, code: int, header: SendMessageResponse) -> None:
        """Implement ``Waiting.stored``."""
        target = self.target
        assert target is not None, "it was written to a target"
        status = SEND_STATUS_BY_CODE.get(code)
        if status is None:
            self.sender.failed_once(self, broker_error(code, None, target.address))
        else:
            self.sender.stored(self, self._result(status, target, header), header)

    def plain_result(self, command: RemotingCommand) -> SendResult | None:
        """Return the result if an answer reports plain success; None if the sender has more to do with the answer."""
        target = self.target
        if command.code != _STORED or target is None:
            return None
        try:
            return self._result(SendStatus.SEND_OK, target, read_header(SendMessageResponse, command))
        except FieldError:
            return None

    def _result(self, status: SendStatus, target: SendTarget, header: SendMessageResponse) -> SendResult:
        queue = target.public_queue
        if header.queue_id != queue.queue_id:
            queue = queue._replace(queue_id=header.queue_id)
        return SendResult(
            status,
            self.msg_id,
            header.msg_id,
            queue,
            header.queue_offset,
            header.transaction_id,
            header.recall_handle,
        )

    def failed(self, error: RocketMQError) -> None:
        """Implement ``Waiting.failed``."""
        self.sender.failed_once(self, error)
