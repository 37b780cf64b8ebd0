"""Fixed-width layouts: declared once, field by field, and executed by a ``struct.Struct`` made from the declaration.

    HEAD = FixedLayout("frame head", frame_bytes=Int32ub, header_mark=Int32ub)

Code asks for offsets by field name and never states numbers. Tests read and write the same bytes with construct.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

Readable: TypeAlias = bytes | bytearray | memoryview
Writable: TypeAlias = bytearray | memoryview

Int8sb: Final = "b"
Int8ub: Final = "B"
Int16sb: Final = "h"
Int16ub: Final = "H"
Int32sb: Final = "l"
Int32ub: Final = "L"
Int64sb: Final = "q"
"""The kinds of fields, as ``struct`` names them: signed (``sb``) and unsigned (``ub``) big-endian integers."""


def octets(count: int) -> str:
    """Return the kind of a fixed run of bytes."""
    return f"{count}s"


class FixedLayout:
    """A run of fixed-width big-endian fields.

    :param name: the layout's name in error messages.
    :param kinds: the kind of each field, in the order of the layout.
    """

    def __init__(self, name: str, /, **kinds: str) -> None:
        self.name = name
        self.names = tuple(kinds)
        self._kinds = kinds
        self._struct = struct.Struct(">" + "".join(kinds.values()))
        self._offsets: dict[str, int] = {}
        offset = 0
        for field in kinds:
            self._offsets[field] = offset
            offset += self.packer(field).size
        self.size = self._struct.size
        self.pack = self._struct.pack
        self.unpack_from = self._struct.unpack_from
        self.iter_unpack = self._struct.iter_unpack

    def offset(self, field: str) -> int:
        """Return the byte offset of a field from the start of the layout."""
        return self._offsets[field]

    def packer(self, field: str) -> struct.Struct:
        """Return a packer for one field alone, to patch the field in place."""
        return struct.Struct(">" + self._kinds[field])

    def repeated(self, count: int) -> struct.Struct:
        """Return a packer for ``count`` layouts one after the other, as one row of values."""
        return struct.Struct(">" + "".join(self._kinds.values()) * count)

    def picker(self, fields: Iterable[str]) -> struct.Struct:
        """Return a packer as long as the layout that reads only these fields, given in the order of the layout."""
        form, position = ">", 0
        for field in fields:
            form += f"{self.offset(field) - position}x{self._kinds[field]}"
            position = self.offset(field) + self.packer(field).size
        return struct.Struct(f"{form}{self.size - position}x")

    def pack_into(self, buffer: Writable, offset: int, *values: int | bytes) -> None:
        """Write all fields at ``offset`` of a writable buffer."""
        self._struct.pack_into(buffer, offset, *values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)
