"""Frames of answers that differ in only a few fields, written from the bytes that all of them share.

The form is derived from the bytes that ``build_frame`` writes for a sample, so a header has only one declaration. The
caller writes the values itself, and between them the gaps of the form. In compiled code a number then stays a machine
number until it becomes digits, which takes a third of the time of filling in a text with blanks. Every sent message has
an answer.

    writer = form.begin()
    writer.write(b"4711")  # the first field
    writer.write(form.gaps[0])
    write_decimal(writer, 3)  # the second field
    frame = form.end(writer, request.opaque)
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from wire.command import RESPONSE_FLAG, RemotingCommand
from wire.errors import LocalError
from wire.frame import FRAME_HEAD, build_frame_head
from wire.message.digits import write_decimal

_HEAD_BYTES: Final = FRAME_HEAD.size
_OPAQUE: Final = 1_234_567_890
_VALUE: Final = "?"
_OCTETS: Final = bytes(range(256))
MAX_HEADER_BYTES: Final = 0xFFFF
"""The limit of a header in bytes, so that only two bytes of each length have to be filled in.

Only an answer to a batch of thousands has a longer header.
"""


class AnswerForm:
    """A form of JSON frames without a body and with one response code, for answers to requests with a JSON header.

    ``gaps[n]`` is the text between the values of fields n and n + 1.

    :param constant: fields that are equal in every answer; they come first.
    :param fields: names of the fields whose values are written. A value has only ASCII letters, digits and commas,
        which JSON writes unchanged.
    """

    def __init__(self, code: int, constant: Mapping[str, str], fields: Sequence[str] = ()) -> None:
        ext_fields = {**constant, **dict.fromkeys(fields, _VALUE)}
        sample = RemotingCommand(code, opaque=_OPAQUE, flag=RESPONSE_FLAG, ext_fields=ext_fields)
        before, _, self._after_opaque = build_frame_head(sample, 0).rpartition(str(_OPAQUE).encode())
        gaps: list[bytes] = []
        for name in reversed(fields):
            before, found, gap = before.rpartition(f'"{name}":"{_VALUE}'.encode())
            assert found, "the header of a sample names its fields"
            before += found.removesuffix(_VALUE.encode())
            gaps.insert(0, gap)
        self._start = before
        self._before_opaque = gaps.pop() if gaps else b""
        self.gaps = tuple(gaps)

    def begin(self) -> BytesWriter:
        """Return a writer with the start of the answer, up to the value of the first field."""
        writer = BytesWriter()
        writer.write(self._start)
        return writer

    def end(self, writer: BytesWriter, opaque: i64) -> bytes:
        """Return the frame after the caller has written the value of the last field.

        :param opaque: the opaque of the request.
        :raises LocalError: the header is too long for MAX_HEADER_BYTES.
        """
        writer.write(self._before_opaque)
        write_decimal(writer, opaque)
        writer.write(self._after_opaque)
        header_bytes: i64 = len(writer) - _HEAD_BYTES
        if header_bytes > MAX_HEADER_BYTES - 4:
            raise LocalError(f"a header of {header_bytes} bytes is too long for a form")
        frame_bytes = header_bytes + 4
        writer[2] = _OCTETS[frame_bytes >> 8]
        writer[3] = _OCTETS[frame_bytes & 0xFF]
        writer[6] = _OCTETS[header_bytes >> 8]
        writer[7] = _OCTETS[header_bytes & 0xFF]
        return writer.getvalue()
