"""Requests that come for every message, recognised by the form of their header instead of parsed.

All headers that a producer sends to a topic have one form, in which a few values differ. A form is learned from a
parsed header. The reader then makes a second header from the form, with other values, and parses this one too. The form
is trusted if both headers differ only in these values.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import MsgspecError
from msgspec.structs import replace

from wire.command import RemotingCommand
from wire.compiled import IS_COMPILED
from wire.frame import WholeReader
from wire.quick.header_form import BASE64, HeaderForm, Spot

MAX_FORMS: Final = 8
"""The most forms that were of use; a new form replaces the form whose last use is the longest ago."""
MAX_FRESH: Final = 4
"""The most forms that were not of use yet."""
LEARNED_OF: Final = 1024
"""The length of a cycle, in headers of unknown form; only the first headers of a cycle are used to learn a form."""
MAX_LEARNED: Final = 32
"""The number of a cycle's headers that are used to learn a form.

Unused forms are then forgotten until the next cycle starts.
"""

MAX_SAMPLE_BYTES: Final = 4096
"""The most bytes of a header that is kept as a form; headers may have up to 16 MiB."""

OPAQUE: Final = Spot(b'"opaque":', 9)
"""The last spot of every form."""
SIGNED: Final = Spot(b'"Signature":"', BASE64)
"""The spot before ``OPAQUE`` in forms of signed requests."""
OTHER_NUMBER: Final = 7
OTHER_WORD: Final = "Other0Word"


class KnownForm:
    """The facts that all requests of a form share."""

    def __init__(self, shape: HeaderForm, command: RemotingCommand) -> None:
        self.shape = shape
        self.code = command.code
        self.flag = command.flag
        self.language = command.language
        self.version = command.version

    def header_of(self, text: bytes, /) -> object:
        """Return the header object of the request whose header matched last."""
        raise NotImplementedError

    def with_others(self, fields: Any) -> Any:
        """Return the fields of the form with ``OTHER_NUMBER`` and ``OTHER_WORD`` in the spots."""
        raise NotImplementedError


class FormReader(WholeReader):
    """A reader for headers of one request code; if the form is known, the form makes ``RemotingCommand.header``.

    :param spots: the places at which headers differ, without the opaque.
    :param learn: makes a form from a shape, the command read from the sample, and the sample; raises ValueError if the
        fields do not suit.
    :param learns: False if no forms are learned; interpreted code parses more quickly.
    """

    def __init__(
        self,
        decode: Callable[[bytes], Any],
        spots: Sequence[Spot],
        learn: Callable[[HeaderForm, RemotingCommand, bytes], KnownForm],
        *,
        learns: bool = IS_COMPILED,
    ) -> None:
        super().__init__(decode)
        self._spots = (*spots, OPAQUE)
        self._signed_spots = (*spots, SIGNED, OPAQUE)
        self._learn = learn
        self._learns = learns
        self._forms: list[KnownForm] = []  # what was used last comes first
        self._fresh: list[KnownForm] = []
        self._unknown = 0

    def read(self, header: bytes, body: bytes) -> RemotingCommand | None:
        """Return the command; None if the header has to be read step by step."""
        form = self._form_of(header)
        if form is None:
            command = super().read(header, body)
            if command is not None and self._learns:
                self._meet(header, command)
            return command
        found = form.shape.found
        return RemotingCommand(
            form.code,
            opaque=found[len(found) - 2],
            flag=form.flag,
            language=form.language,
            version=form.version,
            body=body,
            header=form.header_of(header),
            header_json=header,
        )

    def _form_of(self, header: bytes) -> KnownForm | None:
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
        """Learn the form of a header of unknown form, but only of some if many different headers come."""
        self._unknown = (self._unknown + 1) % LEARNED_OF
        if self._unknown > MAX_LEARNED:
            self._fresh.clear()
            return
        form = self._learned(header, command)
        if form is not None:
            del self._fresh[: -MAX_FRESH + 1]
            self._fresh.append(form)

    def _learned(self, header: bytes, command: RemotingCommand) -> KnownForm | None:
        if command.remark is not None or len(header) > MAX_SAMPLE_BYTES:
            return None
        spots = self._signed_spots if SIGNED.mark in header else self._spots
        try:
            shape = HeaderForm(header, spots)
            form = self._learn(shape, command, header)
            others = [b"%d" % OTHER_NUMBER if spot.digits > 0 else OTHER_WORD.encode() for spot in spots]
            other = self._decode(shape.filled(others))
        except (ValueError, MsgspecError):
            return None
        whole = self._decode(header)
        expected = replace(whole, extFields=form.with_others(whole.extFields), opaque=OTHER_NUMBER)
        return form if other == expected else None
