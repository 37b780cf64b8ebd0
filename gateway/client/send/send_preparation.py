"""The preparation of a message before it is sent: its id, its properties, its body on the wire, its frame.

``Sender.start_plain`` has a shorter way for messages that need no preparation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from gateway.client.errors import RocketMQError
from gateway.client.formats.outgoing import (
    check_batch,
    compressed_body,
    full_properties,
    json_properties,
    plain_properties,
    split_batch,
)
from gateway.client.formats.send_form import SendFrames
from gateway.client.send.sending import NO_PROPERTIES, SendFuture, Sending, SendingObserver, SendOptions, SendTarget
from wire.codes import RequestCode
from wire.message.batch import BatchPart, build_batch
from wire.message.properties import PropertyName

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.connect.producer_settings import ProducerSettings
    from gateway.client.formats.unique_ids import UniqueIds
    from gateway.client.message import Message
    from gateway.client.send.spans import SendSpans

_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)

Batch: TypeAlias = tuple[str, "Sequence[BatchPart]"]
"""The ids of the messages, joined by commas, and the messages."""


class SendPreparation:
    """Prepares the messages and batches of one producer group.

    :param outcomes: gets the results of the prepared messages.
    :param group: the producer group, with the namespace.
    :param spans: starts a span with each message; None: no spans.
    """

    def __init__(
        self,
        outcomes: SendingObserver,
        instance: ClientInstance,
        group: str,
        settings: ProducerSettings,
        ids: UniqueIds,
        spans: SendSpans | None,
    ) -> None:
        self.adds_nothing = not (instance.remoting.sign or settings.namespace or spans is not None)
        """True if the client adds nothing to messages: no signature, no namespace and no span."""
        self.compress_from = min(settings.compress_msg_body_over, settings.max_message_size + 1)
        """The size in bytes from which a body is compressed, or is too large."""
        self._outcomes = outcomes
        self._group = group
        self._settings = settings
        self._spans = spans
        self._ids = ids
        self._remoting = instance.remoting
        self._clock = instance.clock
        self._loop = asyncio.get_running_loop()
        self._common = {PropertyName.INSTANCE_ID: settings.namespace} if settings.namespace else NO_PROPERTIES

    def message(
        self, message: Message, options: SendOptions, future: SendFuture, packed: tuple[bytes, int] | None
    ) -> Sending:
        """Return a message that is ready to be sent; callable on any thread.

        :param packed: the return value of ``compressed_body`` for this message, if the caller has called it already.
        :raises MessageRefused: the message cannot be sent as it is.
        """
        body = message.body
        sys_flag = options.sys_flag
        if packed is not None or len(body) >= self.compress_from:
            body, kind = packed or compressed_body(message, self._settings)
            sys_flag |= kind
        more = options.more_properties
        span = None
        if self._spans is not None:
            span, context = self._spans.begin(message, self._group)
            more = {**context, **more}
        born_at_ms = self._clock()
        try:
            msg_id, properties = self._properties(message, more, born_at_ms)
        except RocketMQError as error:
            if self._spans is not None and span is not None:
                self._spans.failed(span, error)
            raise
        now = self._loop.time()
        timeout = options.timeout
        return Sending(
            self._outcomes,
            message,
            options,
            future,
            msg_id,
            properties,
            body,
            sys_flag,
            born_at_ms,
            now,
            now + timeout,
            options.code,
            timeout,
            span,
        )

    def batches(self, messages: Sequence[Message], options: SendOptions) -> list[Batch]:
        """Return messages of one topic in as many batches as their size needs.

        :raises MessageRefused: the messages cannot travel in one batch.
        """
        check_batch(messages)
        msg_ids = [self._ids.create() for _ in messages]
        more = {**self._common, **options.more_properties}
        pieces = split_batch(messages, msg_ids, self._settings.max_message_size, more)
        return [(",".join(msg_ids[place]), parts) for place, parts in pieces]

    def batch(self, first: Message, batch: Batch, options: SendOptions, future: SendFuture) -> Sending:
        """Return one of ``batches``, ready to be sent.

        :param first: the first message of all batches.
        """
        msg_ids, parts = batch
        now = self._loop.time()
        sending = Sending(
            self._outcomes,
            first,
            options,
            future,
            msg_ids,
            json_properties({PropertyName.WAIT: "true" if first.wait_store_msg_ok else "false"}),
            build_batch(parts),
            0,
            self._clock(),
            now,
            now + options.timeout,
            _BATCH,
            options.timeout,
        )
        if self._spans is not None:
            sending.span, _ = self._spans.begin(first, self._group, len(parts))
        return sending

    def frame(self, sending: Sending, target: SendTarget, opaque: int, command_flag: int) -> bytes:
        """Return the request for a target; callable on any thread.

        :raises RocketMQError: the request cannot be signed.
        """
        code = sending.code
        form = target.forms.get(code)
        if form is None:
            form = target.forms[code] = SendFrames(
                code,
                self._group,
                target.queue,
                create_topic_key=self._settings.create_topic_key,
                topic_queues=self._settings.default_topic_queue_nums,
                batch=code == _BATCH,
            )
            if code == _SEND:
                target.plain_form = form
        # A plain message comes without them, and is here to be tried again.
        properties = sending.properties or plain_properties(sending.message, sending.msg_id)
        assert properties is not None, "others were prepared"
        blanks = sending.sys_flag, sending.born_at_ms, sending.message.flag, properties, command_flag, opaque
        frame = form.build(blanks, sending.body)
        return self._remoting.signed_frame(frame) if self._remoting.sign is not None else frame

    def _properties(self, message: Message, more: Mapping[str, str], born_at_ms: int) -> tuple[str, bytes]:
        """Return the id and the properties as JSON."""
        msg_id = self._ids.create_at(born_at_ms)
        if more or self._common:
            return msg_id, json_properties(full_properties(message, msg_id, {**self._common, **more}))
        return msg_id, plain_properties(message, msg_id) or json_properties(full_properties(message, msg_id))
