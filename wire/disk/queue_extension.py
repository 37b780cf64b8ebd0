"""Consume queue extensions: facts for which a unit of 20 bytes has no room, in files of their own.

The setting is ``enableConsumeQueueExt``.

    size int16 · tags code int64 · store time int64 · bitmap bytes int16 · bitmap

The unit of the consume queue holds an *address* in place of the tags code: the byte of the extension plus the smallest
int64. No tags code and no time of delivery comes near this range. Files are named after their first byte, as all files
of the store. A unit never spans two files: if four bytes would not be left after the unit, ``END_MARK`` ends the file.
(Upstream: ``ConsumeQueueExt``.)
"""

from __future__ import annotations

import struct

import msgspec

from wire.errors import LayoutError
from wire.fixed_layout import FixedLayout, Int16sb, Int64sb, Readable

HEAD = FixedLayout(
    "consume queue extension unit", size=Int16sb, tags_code=Int64sb, stored_at_ms=Int64sb, bitmap_bytes=Int16sb
)
# On disk: never change.
LAST_ADDRESS = -(2**31) - 1
"""The largest address: tags codes up to this number are addresses (upstream ``ConsumeQueueExt.MAX_ADDR``)."""
FIRST_ADDRESS = -(2**63)
END_MARK = struct.pack(">hh", -1, 0)
"""The bytes after the last unit of a full file."""
END_BYTES = len(END_MARK)
FILE_BYTES = 48 * 1024 * 1024
"""The size of a file in bytes (upstream ``mappedFileSizeConsumeQueueExt``)."""
MAX_BITMAP_BYTES = 32_767 - HEAD.size


class ExtensionUnit(msgspec.Struct, frozen=True):
    """The facts kept for one message.

    The bitmap says which groups' expressions accept the message; b"" if no group had an expression.
    """

    tags_code: int
    stored_at_ms: int
    bitmap: bytes = b""

    @property
    def size(self) -> int:
        """The size of the unit in bytes."""
        return HEAD.size + len(self.bitmap)

    @classmethod
    def parse(cls, buffer: Readable, position: int = 0) -> ExtensionUnit:
        """Read the unit at a position of a file.

        :raises LayoutError: there is no unit, or the unit is cut off or damaged.
        """
        try:
            size, tags_code, stored_at_ms, bitmap_bytes = HEAD.unpack_from(buffer, position)
        except struct.error as error:
            raise LayoutError(f"a consume queue extension unit takes at least {HEAD.size} bytes") from error
        if bitmap_bytes < 0 or size != HEAD.size + bitmap_bytes:
            raise LayoutError(f"a consume queue extension unit of {size} bytes has a bitmap of {bitmap_bytes}")
        if tags_code <= LAST_ADDRESS or stored_at_ms <= 0:
            raise LayoutError(f"no message has tags code {tags_code} and was stored at {stored_at_ms}")
        bitmap = bytes(buffer[position + HEAD.size : position + size])
        if len(bitmap) != bitmap_bytes:
            raise LayoutError(f"{len(bitmap)} of {bitmap_bytes} bytes of a bitmap are there")
        return cls(tags_code, stored_at_ms, bitmap)

    def build(self) -> bytes:
        """Return the bytes of the unit.

        :raises LayoutError: the bitmap is too long.
        """
        if len(self.bitmap) > MAX_BITMAP_BYTES:
            raise LayoutError(f"a bitmap of {len(self.bitmap)} bytes, {MAX_BITMAP_BYTES} are possible")
        return HEAD.pack(self.size, self.tags_code, self.stored_at_ms, len(self.bitmap)) + self.bitmap


def bits_text(bitmap: bytes) -> str:
    """Return a bitmap as text for tools: highest bit first, eight bytes a line (upstream ``BitsArray.toString``)."""
    places = range(len(bitmap) - 1, -1, -1)
    return "".join(f"{bitmap[place]:08b}" + "\n" * (place % 8 == 0) for place in places)


def is_address(tags_code: int) -> bool:
    """Return whether a consume queue unit's tags code is the address of an extension unit."""
    return tags_code <= LAST_ADDRESS


def address_of(position: int) -> int:
    """Return the address by which a consume queue unit refers to the extension unit at a byte of the extension."""
    return position + FIRST_ADDRESS


def position_of(address: int) -> int:
    """Return the byte of the extension to which an address leads."""
    return address - FIRST_ADDRESS
