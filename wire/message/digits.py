"""Numbers written as ASCII digits: compiled code makes no object for the number or for a digit.

In interpreted code, one call that formats is quicker than a loop over the digits.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from wire.compiled import IS_COMPILED

_HEX_DIGITS: Final = b"0123456789ABCDEF"


def write_decimal(writer: BytesWriter, value: i64) -> None:
    """Write a number as ``%d`` does."""
    if not IS_COMPILED or value < 0:
        writer.write(b"%d" % value)
        return
    if value >= 10:
        write_decimal(writer, value // 10)
    writer.append(u8(48 + value % 10))


def write_hex(writer: BytesWriter, value: i64) -> None:
    """Write a number as ``%016X`` does: in 16 digits, with zeros before it."""
    if not IS_COMPILED or value < 0:
        writer.write(b"%016X" % value)
        return
    shift: i64 = 60
    while shift >= 0:
        writer.append(_HEX_DIGITS[(value >> shift) & 15])
        shift -= 4


def decimal_digits(value: i64) -> int:
    """Return how many characters ``write_decimal`` writes."""
    if not IS_COMPILED or value < 0:
        return len(str(value))
    count: i64 = 1
    while value >= 10:
        value //= 10
        count += 1
    return count
