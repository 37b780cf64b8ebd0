"""Tables of bytes as Arrow columns: what has the same length in every row is copied as a block, or is there already."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
"""The two digits of each byte."""
MOST_KEPT_BYTES: Final = 2 * 1024 * 1024
"""Of one column that is kept for batches to come."""
_SPACE: Final = 32
_DELETE: Final = 127
"""The two ends of visible ASCII."""


def bytes_column(table: NDArray[np.uint8]) -> pa.Array:
    """The rows of a table, each a value."""
    return _column(pa.binary(), table)


def texts_column(table: NDArray[np.uint8]) -> pa.Array:
    """The rows of a table of UTF-8, each a text."""
    return _column(pa.string(), table)


def hexadecimal(table: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The digits of the bytes of each row."""
    return _HEX[table].view(np.uint8)


def texts_of(data: bytes | NDArray[np.uint8], sizes: tuple[int, ...], count: int) -> pa.Array:
    """Texts one after the other: ``count`` times as many as there are sizes, which come again and again."""
    bounds = _bounds(sizes, count)
    return pa.Array.from_buffers(pa.string(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def repeated(texts: tuple[str, ...], count: int) -> pa.Array:
    """The same texts for each of ``count`` rows; batches of one size need the same again and again."""
    is_small = sum(map(len, texts)) * count <= MOST_KEPT_BYTES
    return _kept_texts(texts, count) if is_small else _repeated(texts, count)


def repeated_row(row: bytes, count: int) -> NDArray[np.uint8]:
    """A table of the same row, which may be changed."""
    is_small = len(row) * count <= MOST_KEPT_BYTES
    return (_kept_rows(row, count) if is_small else np.frombuffer(row * count, np.uint8)).reshape(count, -1).copy()


def _repeated(texts: tuple[str, ...], count: int) -> pa.Array:
    encoded = [text.encode() for text in texts]
    return texts_of(b"".join(encoded) * count, tuple(map(len, encoded)), count)


_kept_texts = lru_cache(maxsize=16)(_repeated)


@lru_cache(maxsize=8)
def _kept_rows(row: bytes, count: int) -> NDArray[np.uint8]:
    return np.frombuffer(row * count, np.uint8)


def is_visible_ascii(texts: pa.Array) -> bool:
    """Whether all characters of an array of texts without nulls are visible ASCII; no space is."""
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


@lru_cache(maxsize=16)
def _bounds(sizes: tuple[int, ...], count: int) -> NDArray[np.int32]:
    """Where values of these sizes begin, for each of ``count`` rows of them, and where the last one ends."""
    width = sum(sizes)
    assert count * width < 2**31, "a chunk is a few megabytes"
    bounds = np.empty(count * len(sizes) + 1, np.int32)
    within = np.cumsum((0, *sizes[:-1]), dtype=np.int32)
    np.add.outer(np.arange(count, dtype=np.int32) * width, within, out=bounds[:-1].reshape(count, len(sizes)))
    bounds[-1] = count * width
    return bounds
