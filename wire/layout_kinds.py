"""The kinds of members in fixed layouts, named and written as in construct.

    Struct("frame_bytes" / Int32ub, "host" / Bytes(8))

construct itself interprets a declaration only if somebody asks for this (``FixedLayout.declaration``), mostly in tests.
Loading construct takes longer than everything else that a client needs of ``wire``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import construct


class Kind:
    """A big-endian integer.

    :param name: the name in construct.
    :param fmtstr: the format of ``struct``.
    """

    __slots__ = ("fmtstr", "name")

    def __init__(self, name: str, fmtstr: str) -> None:
        self.name = name
        self.fmtstr = fmtstr

    def __rtruediv__(self, name: str) -> LayoutMember:
        return LayoutMember(name, self)


class Bytes:
    """A fixed run of bytes."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length

    def __rtruediv__(self, name: str) -> LayoutMember:
        return LayoutMember(name, self)


class LayoutMember:
    """A named member of a layout."""

    __slots__ = ("name", "subcon")

    def __init__(self, name: str, subcon: Kind | Bytes) -> None:
        self.name = name
        self.subcon = subcon


class Struct:
    """The members of a layout, one after the other."""

    __slots__ = ("subcons",)

    def __init__(self, *subcons: LayoutMember) -> None:
        self.subcons = subcons

    def interpreted(self) -> construct.Struct:
        """Return the layout as a ``Struct`` of construct."""
        import construct

        return construct.Struct(
            *(
                member.name
                / (
                    construct.Bytes(member.subcon.length)
                    if isinstance(member.subcon, Bytes)
                    else getattr(construct, member.subcon.name)
                )
                for member in self.subcons
            )
        )


Int8sb: Final = Kind("Int8sb", ">b")
Int8ub: Final = Kind("Int8ub", ">B")
Int16sb: Final = Kind("Int16sb", ">h")
Int16ub: Final = Kind("Int16ub", ">H")
Int32sb: Final = Kind("Int32sb", ">l")
Int32ub: Final = Kind("Int32ub", ">L")
Int64sb: Final = Kind("Int64sb", ">q")
