"""The bytes between a master and a slave: reports of the slave's end, and stretches of the log from the master.

    slave → master    the offset after the slave's last byte, again and again; nothing else, no greeting
    master → slave    an offset, a size, and so many bytes of the log; size 0 is a heartbeat

The stretches may cut records anywhere. The caller judges whether an offset fits. Upstream: ``DefaultHAService``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wire.errors import FrameError
from wire.fixed_layout import FixedLayout, Int32sb, Int64sb

REPORT: Final = FixedLayout("replica report", end_offset=Int64sb)
STRETCH_HEAD: Final = FixedLayout("log stretch head", offset=Int64sb, body_bytes=Int32sb)

MAX_STRETCH_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of a stretch with its head: the buffer into which a slave of Apache RocketMQ reads."""
MAX_STRETCH_BODY_BYTES: Final = MAX_STRETCH_BYTES - STRETCH_HEAD.size
"""The most bytes of the log in one stretch."""


class Stretch(NamedTuple):
    """A part of the log as the master sends it."""

    offset: int
    """The offset of the first byte in the log."""
    body: bytes
    """The bytes; none for a heartbeat, whose offset is that of the byte that comes next."""


def build_report(end_offset: int) -> bytes:
    """Return the bytes with which a slave reports the offset after its last byte."""
    return REPORT.pack(end_offset)


def build_stretch_head(offset: int, body_bytes: int) -> bytes:
    """Return the bytes before a part of the log: apart from the part, so that it need not be copied."""
    return STRETCH_HEAD.pack(offset, body_bytes)


class ReportReader:
    """The master's receiving half of a connection."""

    __slots__ = ("_partial",)

    def __init__(self) -> None:
        self._partial = b""

    def receive_data(self, data: bytes) -> list[int]:
        """Take the bytes of one read; return the reported offsets that they complete, in order.

        :raises FrameError: a reported offset is negative.
        """
        data = self._partial + data
        whole = len(data) - len(data) % REPORT.size
        self._partial = data[whole:]
        reports = [end_offset for (end_offset,) in REPORT.iter_unpack(memoryview(data)[:whole])]
        if reports and min(reports) < 0:
            raise FrameError(f"a replica reports the offset {min(reports)}")
        return reports


class StretchReader:
    """The slave's receiving half of a connection: holds one incomplete stretch at most."""

    __slots__ = ("_needed_bytes", "_partial")

    def __init__(self) -> None:
        self._partial = bytearray()
        self._needed_bytes = STRETCH_HEAD.size

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes held of an incomplete stretch."""
        return len(self._partial)

    def receive_data(self, data: bytes) -> list[Stretch]:
        """Take the bytes of one read; return the stretches that they complete, in order.

        :raises FrameError: a head is none of a stretch; the next stretch cannot be found.
        """
        partial = self._partial
        partial += data
        if len(partial) < self._needed_bytes:
            return []
        stretches: list[Stretch] = []
        position, head_bytes = 0, STRETCH_HEAD.size
        self._needed_bytes = head_bytes
        with memoryview(partial) as view:
            while len(view) - position >= head_bytes:
                offset, body_bytes = STRETCH_HEAD.unpack_from(view, position)
                _check_head(offset, body_bytes)
                begin = position + head_bytes
                if len(view) - begin < body_bytes:
                    self._needed_bytes = head_bytes + body_bytes
                    break
                position = begin + body_bytes
                stretches.append(Stretch(offset, bytes(view[begin:position])))
        del partial[:position]
        return stretches


def _check_head(offset: int, body_bytes: int) -> None:
    if offset < 0 or not 0 <= body_bytes <= MAX_STRETCH_BODY_BYTES:
        most = MAX_STRETCH_BODY_BYTES
        raise FrameError(f"a master announces {body_bytes} bytes of its log at offset {offset}, the limit is {most}")
