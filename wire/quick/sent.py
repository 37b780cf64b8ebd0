"""Sends from producers that send many messages, recognised by the form of their headers (``known_forms``)."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace
from mypy_extensions import mypyc_attr

from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.compiled import IS_COMPILED
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.json_header import parse_ext_fields
from wire.message.properties import PropertyName
from wire.message.record import NO_PROPERTIES, OutgoingMessage
from wire.quick.header_form import HeaderForm, Spot
from wire.quick.known_forms import OTHER_NUMBER, OTHER_WORD, FormReader, KnownForm
from wire.signed_fields import ACCESS_KEY, SIGNATURE, UNSIGNED, signed_names

_PAIR_END: Final = "\x02"
_SPOTS: Final = (
    Spot(b'"e":"', 9),  # queue_id
    Spot(b'"g":"', 18),  # born_timestamp
    Spot(f"{PropertyName.UNIQ_KEY}\\u0001".encode(), 0),
)

_NUMBERS: Final = ("e", "g")
"""The fields of the numbers in ``_SPOTS``; the names stand in the order in which values are signed."""
_PROPERTIES: Final = "i"
_PIECES: Final = len(_SPOTS) + 1
_SIGNED_FOUND: Final = 2 * (len(_SPOTS) + 2)


class SendForm(KnownForm):
    """A form of sends.

    ``before`` is the part of the property string before the unique key. ``ending`` is the part after the 0x02 that ends
    the key.

    :raises ValueError: the key is longer than the form assumes.
    """

    def __init__(
        self, shape: HeaderForm, command: RemotingCommand, header: SendMessageRequest, key: str, sample: bytes
    ) -> None:
        super().__init__(shape, command)
        self.topic = header.topic
        self.sys_flag = header.sys_flag
        self.message_flag = header.flag
        self.reconsume_times = header.reconsume_times or 0
        self.before, self.ending = (header.properties or "").split(f"{key}{_PAIR_END}", 1)
        self.raw_before = self.before.encode()
        self.raw_ending = f"{_PAIR_END}{self.ending}".encode()
        self.access_key = ""
        """The account of a signed form, if what it signs is known."""
        self._signed_pieces: list[bytes] = []
        self._has_signature = len(shape.found) == _SIGNED_FOUND
        if self._has_signature:
            self._learn_signed(command, key, sample[shape.found[6] : shape.found[7]].decode())

    def _learn_signed(self, command: RemotingCommand, key: str, signature: str) -> None:
        """Keep the bytes that a signature covers, in pieces around queue, time and unique key."""
        fields = parse_ext_fields(command.fields_json() or b"{}")
        if ACCESS_KEY not in fields or fields.get(SIGNATURE) != signature:
            return
        for names in UNSIGNED:
            for name in names:
                if name in fields:
                    return
        pieces = [""]
        for name in signed_names(fields):
            if name in _NUMBERS:
                pieces.append("")
            elif name == _PROPERTIES:
                before, _, after = fields[name].partition(key)
                pieces[-1] += before
                pieces.append(after)
            else:
                pieces[-1] += fields[name]
        if len(pieces) == _PIECES:
            self._signed_pieces = [piece.encode() for piece in pieces]
            self.access_key = fields[ACCESS_KEY]

    def signed_values(self, queue_id: int, born_timestamp: int, unique_key: bytes) -> bytes:
        """Return the values that the sender has signed; ``access_key`` must not be empty."""
        first, second, third, last = self._signed_pieces
        return b"%b%d%b%d%b%b%b" % (first, queue_id, second, born_timestamp, third, unique_key, last)

    def header_of(self, text: bytes, /) -> object:
        """Return a ``SentHeader``."""
        found = self.shape.found
        signature = text[found[6] : found[7]] if self._has_signature else b""
        return SentHeader(self, found[0], found[2], text[found[4] : found[5]], signature)

    def with_others(self, fields: Any) -> Any:
        """Implement ``KnownForm.with_others``."""
        properties = f"{self.before}{OTHER_WORD}{_PAIR_END}{self.ending}"
        return replace(fields, queue_id=OTHER_NUMBER, born_timestamp=OTHER_NUMBER, properties=properties)


@mypyc_attr(acyclic=True)
class SentHeader:
    """The header of a send of a known form; the form has all other fields.

    A caller that needs more than ``outgoing`` and ``properties`` reads the whole header
    (``wire.headers.declare.read_header``).
    """

    __slots__ = ("born_timestamp", "form", "queue_id", "signature", "unique_key")

    def __init__(
        self, form: SendForm, queue_id: int, born_timestamp: int, unique_key: bytes, signature: bytes = b""
    ) -> None:
        self.form = form
        self.queue_id = queue_id
        self.born_timestamp = born_timestamp
        self.unique_key = unique_key
        self.signature = signature

    def signed_values(self) -> bytes:
        """Return the values that the sender has signed; the form must have an access key."""
        return self.form.signed_values(self.queue_id, self.born_timestamp, self.unique_key)

    def outgoing(self, body: bytes, born_host: bytes, store_host: bytes) -> OutgoingMessage:
        """Return the message to store, without its properties."""
        form = self.form
        return OutgoingMessage(
            form.topic,
            self.queue_id,
            form.message_flag,
            form.sys_flag,
            self.born_timestamp,
            born_host,
            store_host,
            form.reconsume_times,
            0,
            body,
            b"",
            NO_PROPERTIES,
        )

    @property
    def properties(self) -> str:
        """The property string."""
        form = self.form
        return f"{form.before}{self.unique_key.decode()}{_PAIR_END}{form.ending}"


def _send_form(shape: HeaderForm, command: RemotingCommand, sample: bytes) -> SendForm:
    header = command.header
    if command.code != RequestCode.SEND_MESSAGE_V2:  # a later member "code" counts, and other codes name other topics
        raise ValueError(f"the header begins like a send and is of code {command.code}")
    if type(header) is not ShortSendMessageRequest or header.batch:
        raise ValueError("batches have no unique key of their own")
    return SendForm(shape, command, header, sample[shape.found[4] : shape.found[5]].decode(), sample)


def send_reader(decode: Callable[[bytes], Any], *, learns: bool = IS_COMPILED) -> FormReader:
    """Return a reader for headers of SEND_MESSAGE_V2.

    If the form is known, ``RemotingCommand.header`` is a ``SentHeader``.
    """
    return FormReader(decode, _SPOTS, _send_form, learns=learns)
