"""Requests that come for every message, recognised by the form of their header, not parsed.

All that a producer sends to a topic has headers of one form, in which a few values differ. A form is learned from a
header that was parsed, and believed after a second one, made of it with other values, was parsed too and said the same
but for those.
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
from wire.quick.header_form import HeaderForm, Spot

MAX_FORMS: Final = 8
"""Forms that were of use; another takes the place of the one that was used longest ago."""
MAX_FRESH: Final = 4
"""Forms that were of no use yet."""
LEARNED_OF: Final = 1024
"""Of so many headers that are of no known form some are learned from."""
MAX_LEARNED: Final = 32
"""So many; then those that were of no use are forgotten, until others have their turn."""

MAX_SAMPLE_BYTES: Final = 4096
"""Of longer headers, which may have 16 MiB, none is kept as a form."""

OPAQUE: Final = Spot(b'"opaque":', 9)
"""The last spot of every form."""
OTHER_NUMBER: Final = 7
OTHER_WORD: Final = "Other0Word"


class KnownForm:
    """What the requests of a form have in common."""

    __slots__ = ("code", "flag", "language", "shape", "version")

    def __init__(self, shape: HeaderForm, command: RemotingCommand) -> None:
        self.shape = shape
        self.code = command.code
        self.flag = command.flag
        self.language = command.language
        self.version = command.version

    def header_of(self, text: bytes, /) -> object:
        """The header object of the request whose header matched last."""
        raise NotImplementedError

    def with_others(self, fields: Any) -> Any:
        """Fields of the form with ``OTHER_NUMBER`` and ``OTHER_WORD`` in the spots."""
        raise NotImplementedError


class FormReader(WholeReader):
    """Reads headers of one request code; of a known form, ``RemotingCommand.header`` is what the form makes.

    :param spots: where headers differ, but for the opaque.
    :param learn: a form of a shape, the command that the sample was read as, and the sample; ValueError when its
        fields do not suit.
    :param learns: whether forms are learned at all: interpreted, parsing is quicker.
    """

    __slots__ = ("_forms", "_fresh", "_learn", "_learns", "_spots", "_unknown")

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
        self._learn = learn
        self._learns = learns
        self._forms: list[KnownForm] = []  # what was used last comes first
        self._fresh: list[KnownForm] = []
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
        """A header of no known form: learn its form, but not those of many that are all different."""
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
        try:
            shape = HeaderForm(header, self._spots)
            form = self._learn(shape, command, header)
            others = [b"%d" % OTHER_NUMBER if spot.digits else OTHER_WORD.encode() for spot in self._spots]
            other = self._decode(shape.filled(others))
        except (ValueError, MsgspecError):
            return None
        whole = self._decode(header)
        expected = replace(whole, extFields=form.with_others(whole.extFields), opaque=OTHER_NUMBER)
        return form if other == expected else None
