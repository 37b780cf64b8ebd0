"""Tables of bytes as Arrow columns: parts of the same length in every row are copied as a block, or exist already."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
"""The two hexadecimal digits of each byte."""
MOST_KEPT_BYTES: Final = 2 * 1024 * 1024
"""The most bytes of one column that are kept for later batches."""
ROUND_COUNT: Final = 16_384
"""Kept columns have a multiple of this number of rows; a smaller batch takes the first rows."""
_SPACE: Final = 32
_DELETE: Final = 127
"""The upper end of visible ASCII, excluded, as ``_SPACE`` is the lower end."""


def bytes_column(table: NDArray[np.uint8]) -> pa.Array:
    """Return the rows of a table as values of bytes."""
    return _column(pa.binary(), table)


def texts_column(table: NDArray[np.uint8]) -> pa.Array:
    """Return the rows of a table of UTF-8 as texts."""
    return _column(pa.string(), table)


def hexadecimal(table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the hexadecimal digits of each row's bytes."""
    return _HEX[table].view(np.uint8)


def hexadecimal_words(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the 16 hexadecimal digits of each number, as the bytes of two words."""
    unsigned = numbers.view(np.uint64)
    words = np.empty((len(numbers), 2), np.uint64)
    words[:, 0] = _digits(unsigned >> np.uint64(32))
    words[:, 1] = _digits(unsigned & np.uint64(0xFFFFFFFF))
    return words


def _digits(halves: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the 8 hexadecimal digits of each 32-bit number.

    The half bytes of a number are moved apart, and each becomes a digit.
    """
    if len(halves) > 1 and (halves == halves[0]).all():
        return np.broadcast_to(_digits(halves[:1]), len(halves))
    apart = (halves << 16 | halves) & 0x0000FFFF0000FFFF
    apart = (apart << 8 | apart) & 0x00FF00FF00FF00FF
    apart = (apart << 4 | apart) & 0x0F0F0F0F0F0F0F0F
    is_letter = (apart + 0x0606060606060606) >> 4 & 0x0101010101010101
    return (apart + 0x3030303030303030 + is_letter * (ord("A") - ord("9") - 1)).astype(">u8").view(np.uint64)


def is_one_row(table: NDArray[np.uint8]) -> bool:
    """Return whether all rows of a table are the same; the table has at least one row."""
    return not any(_varies(column) for _, column in word_columns(table))


def word_columns(table: NDArray[np.uint8]) -> Iterator[tuple[int, NDArray[np.unsignedinteger[Any]]]]:
    """Yield the bytes of a table as columns of words, each with the number of its first byte.

    The last two columns may overlap.
    """
    size = table.shape[1]
    width = next((width for width in (8, 4, 2) if width <= size), 1)
    for at in (*range(0, size - width, width), size - width) if size else ():
        yield at, table[:, at : at + width].view(f"u{width}")[:, 0]


def _varies(column: NDArray[Any]) -> bool:
    return bool(column[-1] != column[0] or (column != column[0]).any())


def texts_of(data: bytes | NDArray[np.uint8], sizes: tuple[int, ...], count: int) -> pa.Array:
    """Return consecutive texts whose sizes repeat ``count`` times."""
    bounds = _bounds(sizes, count)
    return pa.Array.from_buffers(pa.string(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def repeated(texts: tuple[str, ...], count: int) -> pa.Array:
    """Return the same texts for each of ``count`` rows."""
    most = _rounded(count)
    is_small = sum(map(len, texts)) * most <= MOST_KEPT_BYTES
    return _kept_texts(texts, most).slice(0, len(texts) * count) if is_small else _repeated(texts, count)


def repeated_row(row: bytes, count: int) -> NDArray[np.uint8]:
    """Return a table of ``count`` equal rows, which the caller may change."""
    most = _rounded(count)
    is_small = len(row) * most <= MOST_KEPT_BYTES
    data = _kept_rows(row, most)[: len(row) * count] if is_small else np.frombuffer(row * count, np.uint8)
    return data.reshape(count, -1).copy()


def _rounded(count: int) -> int:
    return -(-count // ROUND_COUNT) * ROUND_COUNT


def _repeated(texts: tuple[str, ...], count: int) -> pa.Array:
    encoded = [text.encode() for text in texts]
    return texts_of(b"".join(encoded) * count, tuple(map(len, encoded)), count)


_kept_texts = lru_cache(maxsize=16)(_repeated)


@lru_cache(maxsize=8)
def _kept_rows(row: bytes, count: int) -> NDArray[np.uint8]:
    return np.frombuffer(row * count, np.uint8)


def is_visible_ascii(texts: pa.Array) -> bool:
    """Return whether an array of texts without nulls has visible ASCII characters only; a space is not visible."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1] if len(texts) else (0, 0)
    if data is None or bounds[0] == bounds[-1]:
        return True
    letters = np.frombuffer(data, np.uint8)[int(bounds[0]) : int(bounds[-1])]
    return bool(letters.min() > _SPACE and letters.max() < _DELETE)


def _column(kind: pa.DataType, table: NDArray[np.uint8]) -> pa.Array:
    count, size = table.shape
    bounds = _bounds((size,), count)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(table))])


def _bounds(sizes: tuple[int, ...], count: int) -> NDArray[np.int32]:
    """Return where values of these sizes begin in each of ``count`` rows, and where the last value ends."""
    assert count * sum(sizes) < 2**31, "a chunk is a few megabytes"
    most = _rounded(count)
    is_small = most * sum(sizes) < 2**31 and 4 * most * len(sizes) <= MOST_KEPT_BYTES
    return _kept_bounds(sizes, most)[: count * len(sizes) + 1] if is_small else _made_bounds(sizes, count)


def _made_bounds(sizes: tuple[int, ...], count: int) -> NDArray[np.int32]:
    width = sum(sizes)
    bounds = np.empty(count * len(sizes) + 1, np.int32)
    within = np.cumsum((0, *sizes[:-1]), dtype=np.int32)
    np.add.outer(np.arange(count, dtype=np.int32) * width, within, out=bounds[:-1].reshape(count, len(sizes)))
    bounds[-1] = count * width
    return bounds


_kept_bounds = lru_cache(maxsize=16)(_made_bounds)
