"""Consume queue units as readers get them: with tags codes, even if the queue keeps the codes in its extension.

A unit whose extension is missing or damaged keeps its address. Every filter by tags code lets the unit through, so that
no message is passed over because of it. Apache RocketMQ also leaves the decision to the consumer
(``DefaultMessageStore.getMessage``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from gateway.store.queues.queue_extension import QueueExtension
from wire.disk.consume_queue import UNIT
from wire.disk.queue_extension import HEAD, LAST_ADDRESS, ExtensionUnit, position_of
from wire.errors import LayoutError

AcceptsCode = Callable[[int], bool]
AcceptsExtension = Callable[[int, bytes], bool]
"""Returns, for store time in ms and bitmap, whether the message has to be examined."""

REFUSED = 2**63 - 1
"""A code in place of the tags code of a message that its bitmap excludes; neither a hash nor a time of delivery."""
WINDOW_BYTES = 64 * 1024
"""The number of bytes of an extension read at once: its units lie in the order of the queue's units."""

_CODE_AT = UNIT.offset("tags_code")
_CODE = struct.Struct(">q")
_NO_ADDRESS = b"\x00\xff"
"""The first bytes of hashes and times; addresses of less than 2^56 bytes start with 0x80."""


class NotInMemory(Exception):  # noqa: N818 (no failure: the disk has to be asked)
    """A read that must not wait would have to wait."""


def has_addresses(units: bytes) -> bool:
    """Return whether some units may keep their tags codes in the extension."""
    return bool(units[_CODE_AT :: UNIT.size].translate(None, _NO_ADDRESS))


def with_codes(
    extension: QueueExtension, units: bytes, accepts_extension: AcceptsExtension | None = None, *, now: bool = False
) -> bytes:
    """Return units with tags codes in place of addresses, and ``REFUSED`` where the bitmap excludes the message.

    :param accepts_extension: examines the other data in the extension; None takes all messages.
    :param now: True to raise an error instead of waiting for the disk.
    :raises NotInMemory: with ``now``, if the disk would have to be read.
    """
    found = bytearray(units)
    last = max((position_of(code) for _, _, code in UNIT.iter_unpack(units) if code <= LAST_ADDRESS), default=0)
    window = _Window(extension, last + HEAD.size, now=now)
    for number, (_, _, code) in enumerate(UNIT.iter_unpack(units)):
        if code > LAST_ADDRESS:
            continue
        unit = window.unit(position_of(code))
        if unit is not None:
            taken = accepts_extension is None or accepts_extension(unit.stored_at_ms, unit.bitmap)
            _CODE.pack_into(found, number * UNIT.size + _CODE_AT, unit.tags_code if taken else REFUSED)
    return bytes(found)


def lenient(accepts: AcceptsCode | None) -> AcceptsCode:
    """Return a filter of tags codes for the units of ``with_codes``."""
    if accepts is None:
        return lambda code: code != REFUSED
    return lambda code: code <= LAST_ADDRESS or (code != REFUSED and accepts(code))


class _Window:
    """A part of an extension that was read; it moves on when a later unit is needed."""

    __slots__ = ("_data", "_extension", "_last", "_now", "_start")

    def __init__(self, extension: QueueExtension, last: int, *, now: bool) -> None:
        self._extension = extension
        self._last = last
        self._now = now
        self._start = 0
        self._data = b""

    def unit(self, position: int) -> ExtensionUnit | None:
        """Return the unit at a place; None if it is missing or damaged."""
        if not self._start <= position <= self._start + len(self._data) - HEAD.size:
            self._move(position, max(min(self._last - position, WINDOW_BYTES), HEAD.size))
        at = position - self._start
        if len(self._data) < HEAD.size:
            return None
        bitmap_bytes = HEAD.unpack_from(self._data, at)[3]
        if at + HEAD.size + bitmap_bytes > len(self._data):
            self._move(position, HEAD.size + bitmap_bytes)
            at = 0
        try:
            return ExtensionUnit.parse(self._data, at)
        except LayoutError:
            return None

    def _move(self, position: int, count: int) -> None:
        data = self._extension.read_now(position, count) if self._now else self._extension.read(position, count)
        if data is None:
            raise NotInMemory
        self._start, self._data = position, data
