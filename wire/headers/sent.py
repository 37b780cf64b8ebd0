"""Sends of producers that send many: their headers are recognised by their form, not parsed.

All that a producer sends to a topic has headers of one form, with a queue, a time, a unique key and an opaque of its
own. The form is learned from a header that was parsed, and believed after a second one, made of it with other values,
was parsed too and said the same but for those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import MsgspecError
from msgspec.structs import replace

from wire.command import RemotingCommand
from wire.frame import WholeReader
from wire.header_form import IS_COMPILED, HeaderForm, Spot
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.message.properties import PropertyName

MAX_FORMS: Final = 8
"""Forms that were of use; another takes the place of the one that was used longest ago."""
MAX_FRESH: Final = 4
"""Forms that were of no use yet."""
LEARNED_OF: Final = 1024
"""Of so many headers that are of no known form some are learned from."""
MAX_LEARNED: Final = 32
"""So many; then those that were of no use are forgotten, until others have their turn."""

_KEY_NAME: Final = f"{PropertyName.UNIQ_KEY}\x01"
_PAIR_END: Final = "\x02"
_QUEUE, _BORN, _KEY, _OPAQUE = range(4)
_SPOTS: Final = (
    Spot(b'"e":"', 9),  # queue_id
    Spot(b'"g":"', 18),  # born_timestamp
    Spot(_KEY_NAME.replace("\x01", "\\u0001").encode(), 0),
    Spot(b'"opaque":', 9),
)
_OTHER_KEY: Final = "Other0Key"
_OTHER_NUMBER: Final = 7


class SendForm:
    """What the sends of a form have in common.

    ``before`` and ``ending`` are what stands before the unique key in the property string, and behind the 0x02 that
    ends it.

    :raises ValueError: the key goes on behind what the form takes for it.
    """

    __slots__ = (
        "before",
        "code",
        "ending",
        "flag",
        "language",
        "message_flag",
        "raw_before",
        "raw_ending",
        "reconsume_times",
        "shape",
        "sys_flag",
        "topic",
        "version",
    )

    def __init__(self, shape: HeaderForm, command: RemotingCommand, header: SendMessageRequest, key: str) -> None:
        properties = header.properties or ""
        self.shape = shape
        self.code = command.code
        self.flag = command.flag
        self.language = command.language
        self.version = command.version
        self.topic = header.topic
        self.sys_flag = header.sys_flag
        self.message_flag = header.flag
        self.reconsume_times = header.reconsume_times or 0
        self.before, self.ending = properties.split(f"{key}{_PAIR_END}", 1)
        self.raw_before = self.before.encode()
        self.raw_ending = f"{_PAIR_END}{self.ending}".encode()


class SentHeader:
    """The header of a send that is of a known form; the form has what is not here."""

    __slots__ = ("born_timestamp", "form", "queue_id", "unique_key")

    def __init__(self, form: SendForm, queue_id: int, born_timestamp: int, unique_key: bytes) -> None:
        self.form = form
        self.queue_id = queue_id
        self.born_timestamp = born_timestamp
        self.unique_key = unique_key


class SendReader(WholeReader):
    """Reads headers of sends; ``RemotingCommand.header`` is a ``SentHeader`` where the form is known.

    :param learns: whether forms are learned at all: interpreted, parsing is quicker.
    """

    __slots__ = ("_forms", "_fresh", "_learns", "_unknown")

    def __init__(self, decode: Callable[[bytes], Any], *, learns: bool = IS_COMPILED) -> None:
        super().__init__(decode)
        self._learns = learns
        self._forms: list[SendForm] = []  # what was used last comes first
        self._fresh: list[SendForm] = []
        self._unknown = 0

    def read(self, header: bytes, body: bytes) -> RemotingCommand | None:
        """The command; None when it has to be read step by step."""
        form = self._form_of(header)
        if form is None:
            command = super().read(header, body)
            if command is not None and self._learns:
                self._meet(header, command)
            return command
        found = form.shape.found
        key = header[found[2 * _KEY] : found[2 * _KEY + 1]]
        return RemotingCommand(
            form.code,
            opaque=found[2 * _OPAQUE],
            flag=form.flag,
            language=form.language,
            version=form.version,
            body=body,
            header=SentHeader(form, found[2 * _QUEUE], found[2 * _BORN], key),
            header_json=header,
        )

    def _form_of(self, header: bytes) -> SendForm | None:
        forms = self._forms
        for form in forms:
            if form.shape.matches(header):
                if form is not forms[0]:
                    forms.remove(form)
                    forms.insert(0, form)
                return form
        for form in self._fresh:
            if form.shape.matches(header):
                self._fresh.remove(form)
                del forms[MAX_FORMS - 1 :]
                forms.insert(0, form)
                return form
        return None

    def _meet(self, header: bytes, command: RemotingCommand) -> None:
        """A header of no known form: learn its form, but not those of many that are all different."""
        self._unknown = (self._unknown + 1) % LEARNED_OF
        if self._unknown > MAX_LEARNED:
            self._fresh.clear()
            return
        form = self._learned(header, command)
        if form is not None:
            del self._fresh[: -MAX_FRESH + 1]
            self._fresh.append(form)

    def _learned(self, header: bytes, command: RemotingCommand) -> SendForm | None:
        fields = command.header
        if type(fields) is not ShortSendMessageRequest or fields.batch or command.remark is not None:
            return None
        try:
            shape = HeaderForm(header, _SPOTS)
            key = header[shape.found[2 * _KEY] : shape.found[2 * _KEY + 1]].decode()
            form = SendForm(shape, command, fields, key)
            other = self._decode(shape.filled((b"7", b"7", _OTHER_KEY.encode(), b"7")))
        except (ValueError, MsgspecError):
            return None
        expected = replace(
            self._decode(header),
            extFields=replace(
                fields,
                queue_id=_OTHER_NUMBER,
                born_timestamp=_OTHER_NUMBER,
                properties=f"{form.before}{_OTHER_KEY}{_PAIR_END}{form.ending}",
            ),
            opaque=_OTHER_NUMBER,
        )
        return form if other == expected else None
